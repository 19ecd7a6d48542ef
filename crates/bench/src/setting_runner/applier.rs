//! Puts a setting in force through the journal, and back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_knobs::journal::{DiskStore, JournalError, Phase};
use floodwall_knobs::{
    Ask, Change, Clock, Device, Intention, KernelFiles, Session, SystemClock, Target, Who, journal,
};
use floodwall_model::Setting;

use super::error::SettingError;
use crate::groups::Groups;

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

/// Sets knobs and puts them back, at the latest when it is dropped.
pub(super) struct Applier {
    pub(super) files: KernelFiles,
    journal: PathBuf,
    /// None only while another process is asked for knobs.
    store: Option<DiskStore>,
    pub(super) clock: StopClock,
    who: Who,
    ask: Ask,
    /// The device of knobs that name none.
    device: Option<Device>,
    /// The transaction in force.
    pub(super) open: Option<u64>,
}

impl Applier {
    /// Takes the journal's lock and puts back the setting of a killed run. Returns what had to be
    /// put back, for people.
    ///
    /// # Errors
    /// As of [`super::SettingRunner::open`].
    pub(super) fn open(
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
        let mut applier = Self { files, journal, store, clock, who, ask, device, open: None };
        let mut told = Vec::new();
        let session = applier.session(Intention::Rollback(u64::MAX))?;
        let recovery = session.recover()?;
        let mut undone: Vec<_> = recovery.undone.into_iter().chain(recovery.expired).collect();
        // This process has the lock, so the process of this trial is gone.
        let left_by_a_trial = |t: &floodwall_knobs::journal::Transaction| {
            t.phase() == Phase::Standing && t.begin.boot_id == session.boot_id && t.begin.why == WHY
        };
        let standing = journal::log(session.store)?
            .into_iter()
            .rev()
            .filter_map(|logged| logged.transaction.ok());
        let ids: Vec<u64> = standing.filter(left_by_a_trial).map(|t| t.begin.id).collect();
        for id in ids {
            undone.extend(applier.session(Intention::RollbackOne(id))?.rollback_one(id)?.1);
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
        Ok((applier, told))
    }

    /// The kernel changes of a setting, each with its name there. The victims' priority is left
    /// out: the inner runner sets it.
    pub(super) fn changes(
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
            boot_id: journal::boot_id(&self.files),
        })
    }

    /// Puts a setting in force; gives its changes.
    pub(super) fn put_in_force(
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
    pub(super) fn put_back(&mut self) -> Result<(), SettingError> {
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

impl Drop for Applier {
    /// For a panic in the middle of a trial.
    fn drop(&mut self) {
        // A drop can't report a failure; the journal keeps it.
        let _ = self.put_back();
    }
}

/// Stops waiting, and a change under way, on a request to stop.
pub(super) struct StopClock(pub(super) Arc<AtomicBool>);

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

fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("; ")
}
