//! The facts that findings need besides the state of the write path: Floodwall's changes, other
//! managers of the same knobs, and the users of the disks.
//!
//! ```text
//! journal ─ knobs::journal::log ─▶ JournalFacts ┐
//! managers' configuration ─ host::managers ─────┼▶ host::findings
//! a probe's window, /proc/PID/cgroup ─ DiskUser ┘
//! ```
//!
//! Nothing here is an error: a journal that may not be read tells nothing, and everything else goes
//! on.

use floodwall_host::findings::{ChangeFacts, ChangeState, Facts, JournalFacts, KnobFacts, look};
use floodwall_host::workload::Workloads;
use floodwall_host::{SysRoot, managers};
use floodwall_knobs::journal::{
    Begin, DiskStore, JournalError, Phase, Transaction, boot_id, is_alive, is_at_it, log,
};
use floodwall_knobs::{Entry, KernelFiles, hold};
use floodwall_model::status::Status;
use floodwall_model::{Managers, Reading};
use floodwall_probe::Snapshot;

use crate::commands::probe::disk_users;
use crate::commands::settings::JOURNAL;

/// The journal's place, and the findings about other managers.
pub(in crate::commands) struct Surroundings {
    root: SysRoot,
    files: Option<KernelFiles>,
    managers: Managers,
}

impl Surroundings {
    /// Reads the managers' configuration, once: it changes seldom. The journal is read each time.
    pub(in crate::commands) fn read(root: &SysRoot) -> Self {
        Self {
            root: root.clone(),
            files: KernelFiles::new(root).ok(),
            managers: managers::read(root),
        }
    }

    /// Looks for everything that can be found, and adds it to the status. `seen` is the window of a
    /// probe.
    pub(in crate::commands) fn judge(
        &self,
        status: &mut Status,
        now_unix_s: u64,
        seen: Option<&Snapshot>,
        workloads: &mut Workloads,
    ) {
        let journal = match &self.files {
            Some(files) => self.journal(files, now_unix_s, status),
            None => JournalFacts::default(),
        };
        let users = seen.map(|seen| disk_users(&self.root, seen, workloads));
        let disk_users = users.unwrap_or_default();
        let (journal, managers) = (&journal, &self.managers);
        status.findings = look(Facts { status, journal, managers, disk_users: &disk_users });
    }

    fn journal(&self, files: &KernelFiles, now_unix_s: u64, status: &mut Status) -> JournalFacts {
        // The journal wants an absolute path without links.
        let root = self.root.path();
        let path = root.canonicalize().unwrap_or_else(|_| root.to_owned()).join(JOURNAL);
        let logged = match DiskStore::open_to_read(&path) {
            Ok(None) => return JournalFacts::default(),
            Ok(Some(store)) => log(&store).and_then(|logged| {
                let begins =
                    logged.iter().filter_map(|one| Some(&one.transaction.as_ref().ok()?.begin));
                let holds = begins.filter(|begin| begin.steers);
                let lives = |begin: &Begin| Ok(is_alive(files, &store, begin)?.then_some(begin.id));
                let living: Vec<Option<u64>> =
                    holds.map(lives).collect::<Result<_, JournalError>>()?;
                Ok((logged, living))
            }),
            Err(e) => Err(e),
        };
        match logged {
            Ok((logged, living)) => {
                let mut facts = JournalFacts::default();
                let boot = boot_id(files);
                let steers = |t: &&Transaction| {
                    let over = matches!(t.phase(), Phase::Closed(_)) || t.begin.boot_id != boot;
                    !over && living.contains(&Some(t.begin.id))
                };
                let steering: Vec<Transaction> = logged
                    .iter()
                    .filter_map(|one| one.transaction.as_ref().ok())
                    .filter(steers)
                    .cloned()
                    .collect();
                for one in logged {
                    match one.transaction {
                        Ok(transaction) if steers(&&transaction) => {}
                        Ok(transaction) => {
                            let change =
                                self.change(files, &transaction, &boot, now_unix_s, &steering);
                            facts.changes.extend(change);
                        }
                        Err(why) => facts.unbelievable.push((one.name, why)),
                    }
                }
                facts
            }
            Err(JournalError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                status.root_would_add.push("what floodwall has changed".to_owned());
                JournalFacts::default()
            }
            Err(error) => JournalFacts {
                unbelievable: vec![(path.display().to_string(), error.to_string())],
                ..JournalFacts::default()
            },
        }
    }

    /// A change that is not over; `None` if it is, or if its process is at it now.
    fn change(
        &self,
        files: &KernelFiles,
        transaction: &Transaction,
        boot: &str,
        now_unix_s: u64,
        steering: &[Transaction],
    ) -> Option<ChangeFacts> {
        let begin = &transaction.begin;
        let state = match transaction.phase() {
            Phase::Closed(_) => return None,
            _ if begin.boot_id != boot => ChangeState::EarlierBoot,
            Phase::Standing => ChangeState::Standing,
            Phase::Interrupted | Phase::Undoing if self.is_running(files, transaction) => {
                return None;
            }
            Phase::Interrupted | Phase::Undoing | Phase::Steering => ChangeState::Interrupted,
        };
        let knobs = transaction.entries.iter().enumerate();
        Some(ChangeFacts {
            id: begin.id,
            state,
            why: begin.why.clone(),
            steers: begin.steers,
            // The process that ends it at that moment gets its second.
            overdue_s: begin
                .expires_at_unix_s
                .and_then(|at| now_unix_s.checked_sub(at))
                .filter(|late| *late > 1)
                .map(|late| late as f64),
            for_a_time: begin.expires_at_unix_s.is_some(),
            knobs: knobs
                .filter_map(|(index, entry)| knob(files, transaction, index, entry, steering))
                .collect(),
        })
    }

    /// Whether the process that made a change, or another one with the lock, is at it now. In a
    /// captured tree none is.
    fn is_running(&self, files: &KernelFiles, transaction: &Transaction) -> bool {
        if !self.root.is_live() {
            return false;
        }
        let begin = &transaction.begin;
        is_at_it(files, begin)
    }
}

/// One knob that a change was to set.
fn knob(
    files: &KernelFiles,
    transaction: &Transaction,
    index: usize,
    entry: &Entry,
    steering: &[Transaction],
) -> Option<KnobFacts> {
    let new = entry.new.as_ref()?;
    let set = transaction.last_reading(index).unwrap_or(new);
    let found = match entry.target.check(files) {
        Err(why) => Reading::Absent(why),
        // A guard writes over a setting for a while. The setting below is meant.
        _ => entry.cell.read(files).map(|found| hold::beneath(steering, entry, &found).clone()),
    };
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    // Of a pair the name that was written counts: vm.dirty_bytes even if the knob asked for was
    // vm.dirty_ratio.
    let named = |path: &str| match entry.knob.name.rsplit_once('.') {
        Some((prefix, _)) if entry.target.device().is_none() => format!("{prefix}.{}", name(path)),
        _ => entry.knob.name.to_owned(),
    };
    Some(KnobFacts {
        label: entry.label(),
        knob: named(&set.path),
        device: entry.target.device().and_then(|device| device.number.parse().ok()),
        value: set.value.clone(),
        is_ours: found.as_ref().map(|found| transaction.owns(index, found)),
        found: found.map(|state| match state.path == set.path {
            true => state.value,
            false => format!("{}={}", name(&state.path), state.value),
        }),
    })
}
