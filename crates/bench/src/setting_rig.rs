//! A rig that applies a setting for a trial and restores the old values afterwards.
//!
//! ```text
//! open:  journal locked → what an earlier, killed run left in force is put back
//! run:   a guard yields its knobs → changes → journal fsynced → apply → read back
//!                 └ refused: everything as before, the trial fails
//!        ─▶ inner rig's trial ─▶ read back again → roll back
//! ```
//!
//! A trial's setting is what was read back while it was in force. An empty setting means the
//! setting in force: nothing is written for it.
//!
//! A trial may end with an error, a signal or a panic: the roll back follows. After SIGKILL the
//! journal remains. The next [`SettingRig`] rolls it back at once, and `floodwall rollback` at any
//! time. Any other change of settings does so once the trial's longest time is over. The journal
//! stays locked throughout, so that no other floodwall changes settings during a measurement. It is
//! let go only while a guard is asked for knobs that it holds.
//! Changes by other programs are noticed and fail the trial.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_knobs::cell::{Cell, State};
use floodwall_knobs::journal::{DiskStore, JournalError, Phase};
use floodwall_knobs::{
    ApplyError, Ask, Change, ChangeError, Clock, Device, Intention, KernelFiles, Plan, PlanError,
    Session, SystemClock, Target, Who, plan, session,
};
use floodwall_model::setting::VICTIMS_PRIORITY;
use floodwall_model::{Rig, RigError, Scenario, Setting, Trial, Watch};

use crate::HostRig;
use crate::groups::Groups;
use crate::rig::SAME_GROUP;

/// The reason in a trial's journal, by which a later run recognises it.
const WHY: &str = "a trial of floodwall, put back after it";
/// A trial that takes this many times what was planned, and [`PATIENCE_S`] more, has lost its
/// process.
const PATIENCE: f64 = 4.0;
/// For prefill, drains and slow devices.
const PATIENCE_S: f64 = 1_800.0;

/// How long another process that changes settings is waited for.
const LOCK: Duration = Duration::from_secs(1);
/// Between two attempts at the lock.
const NAP: Duration = Duration::from_millis(20);
/// How often a process is asked for knobs that it has taken again meanwhile.
const ATTEMPTS: u32 = 3;

/// A rig whose knobs can be changed from outside.
pub trait InForce: Rig {
    /// Reads the knob values in force again.
    fn reread(&mut self) -> Setting;

    /// The control groups of its victims and floods, which settings name `victim` and `flood`.
    ///
    /// # Errors
    /// The reason why the groups are missing, for people.
    fn groups(&self) -> Result<&Groups, &str> {
        Err("its victims and floods have none")
    }
}

impl InForce for HostRig {
    fn reread(&mut self) -> Setting {
        self.reread_setting();
        self.setting().clone()
    }

    fn groups(&self) -> Result<&Groups, &str> {
        HostRig::groups(self)
    }
}

/// A setting can't be tried, or not put back.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// A knob that there is not, or a value that it can't have.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A knob of the victims' or the floods' group, which the rig does not have.
    #[error(
        "{name} can't be set: the benchmark has no control group '{group}' here ({why}); leave {} \
         out",
        what_to_leave_out(why)
    )]
    NoGroup {
        /// The knob, as the setting names it.
        name: String,
        /// The group, as settings name it.
        group: String,
        /// The reason why it is missing.
        why: String,
    },
    /// The changes don't go together, or would do harm.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// They could not be made; everything is as before.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The journal can't be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A process that steers does not yield a knob.
    #[error("nothing was changed: {0}")]
    Held(String),
    /// Another program changed knobs while the trial ran.
    #[error("somebody else changed settings during the trial: {0}; what was measured says nothing")]
    ChangedMeanwhile(String),
    /// The machine is not as it was.
    #[error("the setting could not be put back: {0}; run floodwall rollback")]
    NotRestored(String),
    /// The kernel's files can't be opened.
    #[error("can't open the kernel's files: {0}")]
    Files(std::io::Error),
}

/// What keeps a setting from being tried for want of a group.
fn what_to_leave_out(why: &str) -> &'static str {
    if why == SAME_GROUP { "--same-group or the knob" } else { "the knob" }
}

impl SettingError {
    /// Whether a privilege or a writable /proc or /sys is missing.
    #[must_use]
    pub fn lacks_privilege(&self) -> bool {
        match self {
            Self::Apply(error) => error.lacks_privilege(),
            Self::Journal(error) => error.lacks_privilege(),
            Self::Plan(error) => matches!(error, PlanError::Unreadable { .. }),
            _ => false,
        }
    }
}

/// Stops waiting, and a change under way, on a request to stop.
struct StopClock(Arc<AtomicBool>);

impl Clock for StopClock {
    fn now_unix_s(&self) -> u64 {
        SystemClock.now_unix_s()
    }

    fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration);
    }

    fn cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A rig with settings.
pub struct SettingRig<R: InForce> {
    inner: R,
    keeper: Keeper,
}

/// Sets knobs and puts them back, at the latest when it is dropped.
struct Keeper {
    files: KernelFiles,
    journal: PathBuf,
    /// None only while another process is asked for knobs.
    store: Option<DiskStore>,
    clock: StopClock,
    who: Who,
    ask: Ask,
    /// The device of knobs that name none.
    device: Option<Device>,
    /// The transaction in force.
    open: Option<u64>,
}

impl<R: InForce> SettingRig<R> {
    /// Takes the journal's lock and puts back the setting of a killed run. `device` is meant where
    /// a device's knob names none. `ask` has a process that steers yield knobs. Setting `stop` ends
    /// the run.
    ///
    /// Returns what had to be put back, for people.
    ///
    /// # Errors
    /// [`SettingError::Journal`] if another process holds the journal or it can't be used.
    /// [`SettingError::NotRestored`] if an earlier run's setting can't be put back.
    pub fn open(
        mut inner: R,
        root: &SysRoot,
        journal: &Path,
        device: Option<Device>,
        ask: Ask,
        stop: Arc<AtomicBool>,
    ) -> Result<(Self, Vec<String>), SettingError> {
        let files = KernelFiles::new(root).map_err(SettingError::Files)?;
        let who = Who::this_process(&files);
        let store = Some(lock(journal, &who)?);
        let (journal, clock) = (journal.to_owned(), StopClock(stop));
        let mut keeper = Keeper { files, journal, store, clock, who, ask, device, open: None };
        let mut told = Vec::new();
        let session = keeper.session(Intention::Rollback(u64::MAX))?;
        let recovery = session.recover()?;
        let mut undone: Vec<_> = recovery.undone.into_iter().chain(recovery.expired).collect();
        // This process has the lock, so the process of this trial is gone.
        let left_by_a_trial = |t: &floodwall_knobs::journal::Transaction| {
            t.phase() == Phase::Standing && t.begin.boot_id == session.boot_id && t.begin.why == WHY
        };
        let standing = session::log(session.store)?
            .into_iter()
            .rev()
            .filter_map(|logged| logged.transaction.ok());
        let ids: Vec<u64> = standing.filter(left_by_a_trial).map(|t| t.begin.id).collect();
        for id in ids {
            undone.extend(keeper.session(Intention::RollbackOne(id))?.rollback_one(id)?.1);
        }
        for undone in undone {
            if !undone.is_complete() {
                return Err(SettingError::NotRestored(one_line(&undone.to_string())));
            }
            told.push(format!(
                "change {} of a run that was killed was put back: {}",
                undone.id,
                one_line(&undone.to_string())
            ));
        }
        inner.reread();
        Ok((Self { inner, keeper }, told))
    }

    /// Lets limits be tried that could hang a userspace block server (`floodwall_host::servers`),
    /// or not.
    pub fn allow_userspace_servers(&mut self, allow: bool) {
        self.keeper.files.set_allow_userspace_servers(allow);
    }

    /// The rig below.
    #[must_use]
    pub fn inner(&self) -> &R {
        &self.inner
    }

    /// The rig below, to prepare it.
    #[must_use]
    pub fn inner_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// Gives the rig below back and lets the journal go. A knob that could not be put back is tried
    /// once more; its trial has reported it.
    ///
    /// # Errors
    /// [`SettingError::NotRestored`].
    pub fn close(mut self) -> (R, Result<(), SettingError>) {
        let restored = self.keeper.put_back();
        (self.inner, restored)
    }

    /// The effects of trying a setting, without trying it.
    ///
    /// # Errors
    /// [`SettingError::Change`], [`SettingError::NoGroup`] or [`SettingError::Plan`]: it can't be
    /// put in force here and now.
    pub fn check(&self, setting: &Setting) -> Result<Plan, SettingError> {
        let changes = self.keeper.changes(setting, self.inner.groups())?;
        let changes: Vec<Change> = changes.into_iter().map(|(_, change)| change).collect();
        Ok(plan(&changes, &self.keeper.files)?)
    }
}

impl Keeper {
    /// The kernel changes of a setting, each with its name there. The victims' priority is left
    /// out: the inner rig sets it.
    fn changes(
        &self,
        setting: &Setting,
        groups: Result<&Groups, &str>,
    ) -> Result<Vec<(String, Change)>, SettingError> {
        let mut changes = Change::from_setting(self.files.root(), self.device.as_ref(), setting)?;
        changes.retain(|(_, change)| change.target != Target::Victims);
        for (name, change) in &mut changes {
            let Target::Group { path, .. } = &mut change.target else { continue };
            if !Groups::has(path) {
                continue;
            }
            match groups {
                Ok(groups) => *path = groups.path_of(path),
                // A group of the machine's may have the same name: it is not the one that is meant.
                Err(why) => {
                    let (name, group) = (name.clone(), path.clone());
                    return Err(SettingError::NoGroup { name, group, why: why.to_owned() });
                }
            }
        }
        Ok(changes)
    }

    /// A session with the journal's lock, once no other process holds a knob in the way.
    fn session(&mut self, of: Intention<'_>) -> Result<Session<'_>, SettingError> {
        for _ in 0..ATTEMPTS {
            if self.store.is_none() {
                self.store = Some(lock(&self.journal, &self.who)?);
            }
            let Some(held) = self.locked()?.in_the_way(of)? else { break };
            self.store = None;
            (self.ask)(&held).map_err(SettingError::Held)?;
        }
        self.locked()
    }

    fn locked(&self) -> Result<Session<'_>, SettingError> {
        Ok(Session {
            files: &self.files,
            store: self.store.as_ref().ok_or(JournalError::ReadOnly)?,
            clock: &self.clock,
            who: self.who.clone(),
            boot_id: session::boot_id(&self.files),
        })
    }

    /// Puts a setting in force; gives its changes.
    fn put_in_force(
        &mut self,
        setting: &Setting,
        groups: Result<&Groups, &str>,
        seconds: f64,
    ) -> Result<Vec<(String, Change)>, SettingError> {
        let named = self.changes(setting, groups)?;
        if named.is_empty() {
            return Ok(named);
        }
        let changes: Vec<Change> = named.iter().map(|(_, change)| change.clone()).collect();
        let expires =
            self.clock.now_unix_s().saturating_add((seconds * PATIENCE + PATIENCE_S) as u64);
        let session = self.session(Intention::Apply(&changes))?;
        self.open = session.apply_until(&changes, WHY, Some(expires))?.id;
        Ok(named)
    }

    /// Puts back what was there before.
    fn put_back(&mut self) -> Result<(), SettingError> {
        let Some(id) = self.open.take() else { return Ok(()) };
        let session = self.session(Intention::RollbackOne(id));
        let undone = match session.and_then(|session| Ok(session.rollback_one(id)?)) {
            Ok((_, undone)) => undone,
            Err(error) => {
                self.open = Some(id);
                return Err(error);
            }
        };
        match undone {
            Some(undone) if !undone.is_complete() => {
                self.open = Some(id);
                Err(SettingError::NotRestored(one_line(&undone.to_string())))
            }
            _ => Ok(()),
        }
    }
}

/// The journal with its lock. A guard takes it for moments at a time.
fn lock(journal: &Path, who: &Who) -> Result<DiskStore, JournalError> {
    let end = Instant::now() + LOCK;
    loop {
        match DiskStore::open(journal, &who.describe()) {
            Err(JournalError::Held { .. }) if Instant::now() < end => std::thread::sleep(NAP),
            other => return other,
        }
    }
}

impl Drop for Keeper {
    /// For a panic in the middle of a trial.
    fn drop(&mut self) {
        // A drop can't report a failure; the journal keeps it.
        let _ = self.put_back();
    }
}

impl<R: InForce> SettingRig<R> {
    /// The values in force: those that the inner rig reads, and of the changed knobs the others
    /// (another device's, a group's, threads'). A knob whose cell is kept in another file and unit,
    /// such as `bdi.max_bytes`, has no other value.
    fn in_force(&mut self, changes: &[(String, Change)]) -> Setting {
        let mut found = self.inner.reread();
        let files = &self.keeper.files;
        for (name, change) in changes {
            if found.0.contains_key(name) {
                continue;
            }
            let state = Cell::of(change.knob, &change.target, files).read(files).into_value();
            let is_named =
                |state: &State| state.path.rsplit('/').next() == Some(change.knob.file_name());
            if let Some(state) = state.filter(is_named) {
                found.0.insert(name.clone(), state.value);
            }
        }
        found
    }

    /// Whether all knobs stayed the same during a trial. Threads come and go: of their priorities
    /// the common one counts.
    fn unchanged(&self, changes: &[(String, Change)], before: &Setting, after: &Setting) -> bool {
        let same = |name: &String| {
            let (Some(before), Some(after)) = (before.get(name), after.get(name)) else {
                return false;
            };
            let change = changes.iter().find(|(changed, _)| changed == name);
            before == after
                || change.is_some_and(|(_, Change { knob, target, .. })| {
                    let state =
                        |value: &str| State { path: target.path(knob), value: value.to_owned() };
                    Cell::of(knob, target, &self.keeper.files).same(&state(before), &state(after))
                })
        };
        before.0.keys().eq(after.0.keys()) && before.0.keys().all(same)
    }

    fn measure(
        &mut self,
        scenario: &Scenario,
        setting: &Setting,
        round: u32,
        watch: &mut dyn Watch,
    ) -> Result<Trial, RigError> {
        let seconds = scenario.planned_seconds() / f64::from(scenario.timing.rounds.max(1));
        let stopped = Arc::clone(&self.keeper.clock.0);
        let failed = |error: SettingError, partial| RigError {
            interrupted: stopped.load(Ordering::Relaxed),
            source: Box::new(error),
            partial,
        };
        let changes = self
            .keeper
            .put_in_force(setting, self.inner.groups(), seconds)
            .map_err(|e| failed(e, None))?;
        let of_victims = setting.0.iter().filter(|(knob, _)| *knob == VICTIMS_PRIORITY);
        let of_victims: Setting =
            of_victims.map(|(knob, value)| (knob.clone(), value.clone())).collect();
        let before = self.in_force(&changes);
        let measured = self.inner.run(scenario, &of_victims, round, watch);
        let after = self.in_force(&changes);
        let with_setting = |trial: Trial| {
            let mut setting = before.clone();
            setting.0.extend(of_victims.0.clone());
            Trial { setting, ..trial }
        };
        match measured {
            Ok(trial) if self.unchanged(&changes, &before, &after) => Ok(with_setting(trial)),
            Ok(trial) => {
                let partial = Some(Box::new(with_setting(trial)));
                Err(failed(SettingError::ChangedMeanwhile(difference(&before, &after)), partial))
            }
            Err(error) => Err(RigError {
                partial: error.partial.map(|p| Box::new(with_setting(*p))),
                ..error
            }),
        }
    }
}

impl<R: InForce> Rig for SettingRig<R> {
    fn run(
        &mut self,
        scenario: &Scenario,
        setting: &Setting,
        round: u32,
        watch: &mut dyn Watch,
    ) -> Result<Trial, RigError> {
        let measured = self.measure(scenario, setting, round, watch);
        let restored = self.keeper.put_back();
        self.inner.reread();
        match restored {
            Ok(()) => measured,
            Err(error) => Err(RigError {
                source: Box::new(error),
                partial: measured.map_or_else(|e| e.partial, |trial| Some(Box::new(trial))),
                interrupted: false,
            }),
        }
    }

    fn refusal(&self, _: &Scenario, setting: &Setting) -> Option<String> {
        self.check(setting).err().map(|why| why.to_string())
    }
}

/// The knobs that differ, each as `knob: before → after`.
fn difference(before: &Setting, after: &Setting) -> String {
    let knobs: std::collections::BTreeSet<&String> =
        before.0.keys().chain(after.0.keys()).collect();
    let shown = |value: Option<&str>| value.unwrap_or("not there").to_owned();
    let differing = knobs.into_iter().filter(|knob| before.get(knob) != after.get(knob));
    differing
        .map(|knob| format!("{knob}: {} → {}", shown(before.get(knob)), shown(after.get(knob))))
        .collect::<Vec<_>>()
        .join(", ")
}

fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
