//! Everything that checks conclude from.
//!
//! The caller reads the journal, because this crate knows nothing of its format, and asks a probe
//! for the users of disks.

use floodwall_model::status::Status;
use floodwall_model::workload::Workload;
use floodwall_model::{DeviceId, Managers, Reading};

/// Everything that checks conclude from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The state of the write path.
    pub status: &'a Status,
    /// Floodwall's own changes here.
    pub journal: &'a JournalFacts,
    /// Other programs that set the same knobs.
    pub managers: &'a Managers,
    /// The processes that used disks during the window; empty without a probe.
    pub disk_users: &'a [DiskUser],
}

/// The parts of a journal that matter for findings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalFacts {
    /// Files that are not to be believed, each with the reason; `.bad` ones, set aside earlier,
    /// are not among them.
    pub unbelievable: Vec<(String, String)>,
    /// Changes that are not over and that no process is making right now, the oldest first.
    pub changes: Vec<ChangeFacts>,
}

/// How far a change got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeState {
    /// Its process is gone and left it half-done, or half put back.
    Interrupted,
    /// Made; it can be rolled back.
    Standing,
    /// The machine has been booted since: only the journal is open.
    EarlierBoot,
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeFacts {
    /// Its number.
    pub id: u64,
    /// How far it got.
    pub state: ChangeState,
    /// The reason, in words.
    pub why: String,
    /// A guard's changes: those of a process that steered.
    pub steers: bool,
    /// By how many seconds the moment has passed at which it was to be put back; `None` if it has
    /// none, or it lies ahead.
    pub overdue_s: Option<f64>,
    /// Whether it was meant to be put back by itself.
    pub for_a_time: bool,
    /// The knobs that it set.
    pub knobs: Vec<KnobFacts>,
}

/// One knob of a change.
#[derive(Clone, Debug, PartialEq)]
pub struct KnobFacts {
    /// With its place: `sda.scheduler`.
    pub label: String,
    /// Its name alone.
    pub knob: String,
    /// Its device; `None` for the machine's.
    pub device: Option<DeviceId>,
    /// The value that was set.
    pub value: String,
    /// Its present value.
    pub found: Reading<String>,
    /// Whether that is still the value that was set; absent or unreadable where that can't be
    /// told.
    pub is_ours: Reading<bool>,
}

/// One process that used a disk during the window, as a probe saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskUser {
    /// Its number.
    pub pid: u32,
    /// Its name (/proc/PID/comm).
    pub name: String,
    /// The whole disk.
    pub disk: DeviceId,
    /// How long its threads waited for commits and reads, in seconds, together.
    pub waited_s: f64,
    /// Of this, for commits.
    pub committing_s: f64,
    /// Commits that ended or were under way at the window's end.
    pub commits: u64,
    /// Whether its longest waits are those for commits: a typical one, or one under way. Else they
    /// are those for reads.
    pub waits_for_commits: bool,
    /// Median, by the time that was waited, of its commits that ended, or of its reads if it waits
    /// for these, in seconds; `None` if none ended.
    pub median_s: Option<f64>,
    /// How long the oldest commit (or read, if it waits for these) under way at the window's end
    /// has lasted, at least, in seconds; 0 without one.
    pub oldest_s: f64,
    /// Page cache that it dirtied, in bytes.
    pub dirtied_bytes: u64,
    /// The same since its start, if it has flooded all its life and waits in its first call now;
    /// else 0.
    pub earlier_bytes: u64,
    /// Its control group of version 2.
    pub group: Reading<String>,
    /// Its unit, container and pod. Both fields come from [`crate::workload::Workloads::of`].
    pub workload: Workload,
}

impl DiskUser {
    /// A typical wait, or the one under way if that is longer, in seconds; `None` if it did not
    /// wait.
    #[must_use]
    pub fn longest_s(&self) -> Option<f64> {
        let under_way = Some(self.oldest_s).filter(|seconds| *seconds > 0.0);
        self.median_s.into_iter().chain(under_way).reduce(f64::max)
    }
}
