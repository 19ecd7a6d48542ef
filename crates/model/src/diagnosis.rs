//! What a short look tells of a machine's disks: who waits, what for, and what can be done.
//!
//! ```text
//! Status + users of the disks → host::findings::diagnose → Diagnosis → report (text, JSON)
//! ```
//!
//! Times are seconds (`_s`), sizes bytes, rates bytes a second.

use serde::{Deserialize, Serialize};

use crate::reading::Reading;
use crate::status::{Drain, DrainSource};
use crate::units::DeviceId;
use crate::workload::Workload;

/// What a look tells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The worst of the disks' verdicts; unknown if waits were not seen and may exist.
    pub verdict: Verdict,
    /// How long the look lasted.
    pub window_s: f64,
    /// Where processes were seen: `bpf`, `perf` or `proc`.
    pub source: &'static str,
    /// What was asked for; absent for the whole machine.
    pub about: Option<String>,
    /// The disks on which a process waits long or floods, the worst first.
    pub disks: Vec<Disk>,
    /// What a flood could still do to the disk that was asked for, or to the one that would take
    /// longest; absent without a disk that can be written.
    pub outlook: Option<Outlook>,
    /// What the machine as a whole tells, without any privilege.
    pub machine: Whole,
    /// The things that can be done, the least harmful first.
    pub actions: Vec<Action>,
    /// Whether the commands need root and the reader is not.
    pub actions_need_root: bool,
    /// What could not be seen, each with its reason.
    pub unseen: Vec<String>,
    /// What root would add, as parts of a sentence.
    pub root_would_add: Vec<String>,
}

/// What a look tells of a disk, or of all. The worst is the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing waits long, and nothing floods.
    #[default]
    Quiet,
    /// A process floods, and nothing waits long.
    Flooding,
    /// It can't be told whether a process waits.
    Unknown,
    /// A process waits long.
    Stalling,
}

/// A backlog that takes this long to drain explains a wait, whoever wrote it, in seconds.
pub const LONG_BACKLOG_S: f64 = 1.0;

/// A smaller backlog has no authors that matter: it is written at once.
const LEAST_BACKLOG_BYTES: u64 = 4 << 20;

/// Whether a backlog is so large that its authors matter.
#[must_use]
pub fn has_authors(backlog_bytes: u64) -> bool {
    backlog_bytes >= LEAST_BACKLOG_BYTES
}

/// Whether a backlog may take long, and how long is not known: the disk's rate was not seen. The
/// kernel's estimate begins at 100 MB/s (mm/page-writeback.c `INIT_BW`). So it can't show that a
/// slower disk has no flood.
#[must_use]
pub fn takes_unknown_time(backlog_bytes: u64, rate_from: DrainSource) -> bool {
    !rate_from.is_seen() && has_authors(backlog_bytes)
}

/// One disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disk {
    /// This disk's verdict.
    pub verdict: Verdict,
    /// The kernel's name.
    pub name: String,
    /// Its number.
    pub id: DeviceId,
    /// Where its filesystems are mounted.
    pub mounts: Vec<String>,
    /// Dirty and under writeback for it.
    pub backlog_bytes: Reading<u64>,
    /// Whether that explains a wait, whoever wrote it.
    pub is_backlogged: bool,
    /// How fast it drains.
    pub drain: Drain,
    /// Processes that wait long, the worst first, the kernel's workers last.
    pub victims: Vec<Victim>,
    /// Processes that flood it, the heaviest first.
    pub floods: Vec<Flood>,
}

impl Disk {
    /// Whether floods or a backlog explain a wait: more is written than the disk drains, or has
    /// been. A disk whose drain rate is unknown counts as outrun by any flood. Beside a flood a
    /// backlog explains a wait that is at most twice as long as it takes to drain: some of it was
    /// written while the victim waited.
    #[must_use]
    pub fn is_outrun(&self) -> bool {
        let dirtied: f64 = self.floods.iter().map(|flood| flood.dirtied_bytes_per_s).sum();
        let drains = self.drain.rate_bytes_per_s.value().copied().unwrap_or(0.0);
        let drained_s = self.drain.now_s.value().copied().unwrap_or(0.0);
        let explains = |victim: &Victim| 2.0 * drained_s >= victim.longest_s();
        self.is_backlogged
            || !self.floods.is_empty() && (dirtied >= drains || self.victims.iter().any(explains))
    }

    /// Whether its backlog [takes an unknown time](takes_unknown_time).
    #[must_use]
    pub fn has_unknown_backlog(&self) -> bool {
        let bytes = self.backlog_bytes.value();
        bytes.is_some_and(|bytes| takes_unknown_time(*bytes, self.drain.from))
    }
}

/// A process by its number, name and place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name (/proc/PID/comm).
    pub name: String,
    /// What it runs in; in JSON `unit`, `container` and `pod` stand beside `pid`, those that are
    /// known.
    #[serde(flatten)]
    pub workload: Workload,
}

/// A process that waits long.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Victim {
    /// Which.
    #[serde(flatten)]
    pub process: Process,
    /// What it waits for.
    pub waits_for: Wait,
    /// Median, by the time that was waited, of the waits that ended in the look: half of the time
    /// went into waits no longer than this. Absent if none ended.
    pub median_s: Option<f64>,
    /// How long the oldest wait that has not ended has lasted: at least, as it may have begun
    /// before the look; 0 if there is none.
    pub oldest_s: f64,
}

impl Victim {
    /// A typical wait, or the one that has not ended if that is longer, in seconds.
    #[must_use]
    pub fn longest_s(&self) -> f64 {
        self.median_s.unwrap_or(0.0).max(self.oldest_s)
    }
}

/// What a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// fsync, fdatasync, synchronous writes.
    Commits,
    /// Reads that the disk has to answer.
    Reads,
}

/// A process that floods.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flood {
    /// Which.
    #[serde(flatten)]
    pub process: Process,
    /// Page cache that it dirtied, a second.
    pub dirtied_bytes_per_s: f64,
    /// Page cache that it has dirtied since its start, if it waits for that now; else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier_bytes: Option<u64>,
}

/// What a flood could do to a disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlook {
    /// The disk.
    pub name: String,
    /// How much may be dirty for it before writers are stopped.
    pub limit_bytes: u64,
    /// How fast it drains, and how long that makes this limit.
    pub drain: Drain,
    /// How long the disk takes for `limit_bytes`; absent or unreadable without a drain rate.
    pub limit_s: Reading<f64>,
}

/// What the machine as a whole tells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Whole {
    /// Page cache not yet written, under writeback included.
    pub backlog_bytes: Reading<u64>,
    /// Share of the look in which some task waited for I/O (PSI), in percent.
    pub waited_percent: Reading<f64>,
    /// The disks with a mounted filesystem that completed writes.
    pub written: Vec<Written>,
}

/// What a disk completed writing in the look.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Written {
    /// The disk.
    pub name: String,
    /// A second.
    pub bytes_per_s: f64,
}

/// Something that can be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    /// What it does, in a few words.
    pub what: String,
    /// The command; absent for doing nothing.
    pub command: Option<String>,
    /// The settings that the command applies for a time, as `floodwall apply` takes them; empty if
    /// it applies none.
    pub settings: Vec<String>,
    /// The expected gain; absent where nothing tells it.
    pub gain: Option<String>,
    /// What it costs.
    pub price: String,
}
