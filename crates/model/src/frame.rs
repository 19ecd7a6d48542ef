//! One window of a machine: who waits for which disk, who floods it, and what its guard does.
//!
//! ```text
//! this machine | a simulated one ─▶ Frame ─┬▶ screen    watch
//! a recording ─────────────────────────────┼▶ record    record, dump
//!                                          ├▶ stall     stalls, the night's page
//!                                          └▶ metrics
//! ```
//!
//! Frames are stored, so their form is a contract: fields are added and never change their meaning.
//! A reader ignores fields that it does not know. Each number's name ends in its unit. A value that
//! was not seen is `None`, and `unseen` has the reason; zero was seen.

use serde::{Deserialize, Serialize};

use crate::diagnosis::Verdict;
use crate::finding::Severity;
use crate::status::DrainSource;
use crate::workload::Workload;

/// One window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// When it ended, by the wall clock, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// How long it was, in milliseconds.
    pub window_ms: u64,
    /// Where processes were seen: `bpf`, `perf`, `proc` or `sim`.
    pub source: String,
    /// Memory, limits and pressure.
    pub machine: Machine,
    /// Disks that hold a mounted filesystem or were used, in the order of their names.
    pub disks: Vec<Disk>,
    /// Processes that used a disk, a process once a disk, in the order of their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Process>,
    /// The guard; absent if none runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
    /// Faults of the machine's settings, the worst first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The unseen parts, each with its reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
    /// What root would add, as parts of a sentence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub root_would_add: Vec<String>,
    /// Events of the kernel that the probe had no room for.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost_events: u64,
}

/// Between two frames more time than so many windows is a hole: the machine slept, or nothing was
/// recorded. A window that is late by itself is longer, and leaves no hole.
pub const HOLE_WINDOWS: u64 = 3;

/// A hole is not shorter than so many windows of a second, however short the windows are.
const LEAST_WINDOW_MS: u64 = 1_000;

impl Frame {
    /// When its window began, in milliseconds since 1970.
    #[must_use]
    pub fn began_unix_ms(&self) -> u64 {
        self.at_unix_ms.saturating_sub(self.window_ms)
    }

    /// Whether there is a hole between a frame that ended then, with a window of that length, and
    /// this one.
    #[must_use]
    pub fn is_after_hole(&self, last_unix_ms: u64, last_window_ms: u64) -> bool {
        let window_ms = last_window_ms.max(self.window_ms).max(LEAST_WINDOW_MS);
        let between_ms = self.began_unix_ms().saturating_sub(last_unix_ms);
        between_ms > HOLE_WINDOWS.saturating_mul(window_ms)
    }
}

/// The machine as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Its host name.
    pub name: String,
    /// Usable RAM.
    pub ram_bytes: Option<u64>,
    /// Page cache not yet under writeback.
    pub dirty_bytes: Option<u64>,
    /// Page cache under writeback.
    pub writeback_bytes: Option<u64>,
    /// Above this every writer is stopped.
    pub hard_limit_bytes: Option<u64>,
    /// Above this the flusher starts.
    pub background_limit_bytes: Option<u64>,
    /// Share of the window in which some task waited for I/O (PSI), in percent.
    pub waited_percent: Option<f32>,
}

/// One disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// The kernel's name (`sda`).
    pub name: String,
    /// Its number (`8:0`).
    pub id: String,
    /// What the diagnosis says of it.
    pub verdict: Verdict,
    /// Vendor and model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Where its filesystems are mounted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// Dirty and under writeback for it.
    pub backlog_bytes: Option<u64>,
    /// How fast it drains.
    pub drain_bytes_per_s: Option<u64>,
    /// Where that rate comes from.
    pub drain_from: DrainSource,
    /// How long its backlog takes at that rate.
    pub drain_ms: Option<u64>,
    /// The largest backlog while the slowest victim's wait lasted; absent if that is the present
    /// one, and without a victim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_backlog_bytes: Option<u64>,
    /// How long the hard limit would take.
    pub hard_limit_ms: Option<u64>,
    /// Its present share of the hard limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// Bytes that it completed reading, a second (/proc/diskstats).
    pub read_bytes_per_s: Option<u64>,
    /// Bytes that it completed writing, a second.
    pub written_bytes_per_s: Option<u64>,
    /// Share of the window in which a request was under way, in percent (`io_ticks`).
    pub busy_percent: Option<f32>,
    /// Requests under way at the window's end.
    pub in_flight: Option<u64>,
    /// Requests that ended, by kind; absent where the source sees none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Requests>,
    /// Settings of its queue.
    #[serde(skip_serializing_if = "Queue::is_unknown")]
    pub queue: Queue,
}

/// A backlog that takes this long to drain explains a wait, whoever wrote it, in milliseconds.
const LONG_BACKLOG_MS: u64 = 1_000;

/// A smaller backlog has no authors that matter: it is written at once.
const LEAST_BACKLOG_BYTES: u64 = 4 << 20;

/// Whether a backlog is so large that its authors matter.
#[must_use]
pub fn has_authors(backlog_bytes: u64) -> bool {
    backlog_bytes >= LEAST_BACKLOG_BYTES
}

impl Disk {
    /// Whether its backlog takes a second or more, at a rate that was seen.
    #[must_use]
    pub fn is_backlogged(&self) -> bool {
        let is_long = self.drain_ms.is_some_and(|ms| ms >= LONG_BACKLOG_MS);
        is_long && self.drain_from == DrainSource::Seen
    }

    /// How long the largest backlog of the slowest victim's wait takes, in milliseconds; `None`
    /// where backlog or rate are not known.
    #[must_use]
    pub fn peak_drain_ms(&self) -> Option<u64> {
        let Some(bytes) = self.peak_backlog_bytes else { return self.drain_ms };
        let rate = self.drain_bytes_per_s.filter(|rate| *rate > 0)?;
        Some((bytes as f64 / rate as f64 * 1e3) as u64)
    }
}

/// Requests of one kind to one disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// `read`, `sync_write`, `async_write`, `flush` or `other`.
    pub class: String,
    /// How many ended.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Median time in the kernel's queue, in microseconds.
    pub queue_p50_us: Option<u64>,
    /// 99 % were shorter in the queue; only of 100 requests or more.
    pub queue_p99_us: Option<u64>,
    /// Median time in the device, in microseconds.
    pub device_p50_us: Option<u64>,
    /// 99 % were shorter in the device; only of 100 requests or more.
    pub device_p99_us: Option<u64>,
    /// The longest in the device.
    pub device_max_us: Option<u64>,
}

/// Settings of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// The elevator in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Requests that may be queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nr_requests: Option<u64>,
    /// Largest request, in KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sectors_kib: Option<u64>,
    /// Goal of writeback throttling, in microseconds; 0 is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wbt_lat_us: Option<u64>,
    /// Whether the device's own dirty limit is strict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_limit: Option<bool>,
}

impl Queue {
    /// Whether nothing is known of it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// What one process did to one disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Its number; 0 for all that were too many to be told apart.
    pub pid: u32,
    /// Its name (`comm`).
    pub name: String,
    /// Its unit, container and pod.
    #[serde(skip_serializing_if = "Workload::is_unknown")]
    pub workload: Workload,
    /// Its control group; of victims and floods alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    /// The disk, by the kernel's name; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// It waits longer than the disk alone explains, or than the guard's goal.
    #[serde(skip_serializing_if = "is_false")]
    pub is_victim: bool,
    /// It floods the disk.
    #[serde(skip_serializing_if = "is_false")]
    pub is_flood: bool,
    /// Waits that ended, by kind of call, the longest sum first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Waits>,
    /// Calls and reads under way at the window's end.
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting: u64,
    /// How long the oldest of them has been under way, in microseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub oldest_us: u64,
    /// What that is: the call, or `read`, as in [`Waits::call`]; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_call: Option<String>,
    /// Page cache that it dirtied, in bytes; absent where the kernel does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirtied_bytes: Option<u64>,
    /// Time asleep because too much was dirty, added up over its threads, in milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub throttled_ms: u64,
    /// Estimated share of the disk's backlog that it has dirtied, in percent. A process keeps its
    /// share after it has ended. Of a backlog that drained in the window, or while a victim waited,
    /// it is the last share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog_percent: Option<f32>,
}

/// A process that holds at least so much of a backlog, in percent, is an author of it, even if it
/// no longer writes or has ended.
const AUTHOR_PERCENT: f32 = 10.0;

impl Process {
    /// Whether it floods the disk, or holds at least a tenth of its backlog.
    #[must_use]
    pub fn is_author(&self) -> bool {
        self.is_flood || self.backlog_percent.is_some_and(|percent| percent >= AUTHOR_PERCENT)
    }

    /// Whether it is a worker of the kernel, which writes for others: that of a loop device dirties
    /// the file below.
    #[must_use]
    pub fn is_kernel_worker(&self) -> bool {
        is_kernel_worker(&self.name)
    }

    /// What it dirtied in the window, or its part of this backlog if that is more, in bytes.
    #[must_use]
    pub fn written_bytes(&self, backlog_bytes: Option<u64>) -> u64 {
        let share = f64::from(self.backlog_percent.unwrap_or(0.0)) / 100.0;
        let part = backlog_bytes.unwrap_or(0) as f64 * share;
        self.dirtied_bytes.unwrap_or(0).max(part as u64)
    }

    /// Its slowest wait of the window, or the oldest under way if that is longer, in microseconds.
    #[must_use]
    pub fn slowest_us(&self) -> u64 {
        self.waits.iter().map(|waits| waits.max_us).fold(self.oldest_us, u64::max)
    }

    /// The call of [`Self::slowest_us`], or `read`; `None` if it is not known.
    #[must_use]
    pub fn slowest_call(&self) -> Option<&str> {
        match self.waits.iter().max_by_key(|waits| waits.max_us) {
            Some(ended) if ended.max_us >= self.oldest_us => Some(&ended.call),
            _ => self.oldest_call.as_deref(),
        }
    }

    /// The time that its threads waited, added up, in microseconds.
    #[must_use]
    pub fn waited_us(&self) -> u64 {
        self.waits.iter().map(|waits| waits.sum_us).fold(self.oldest_us, u64::saturating_add)
    }

    /// Its name and number for display.
    #[must_use]
    pub fn who(&self) -> String {
        if self.pid == 0 { self.name.clone() } else { format!("{} ({})", self.name, self.pid) }
    }
}

/// Whether a process of this name is a worker of the kernel (kernel/workqueue.c names them).
#[must_use]
pub fn is_kernel_worker(name: &str) -> bool {
    name.starts_with("kworker/")
}

/// A control group, as far as it matters to a limit of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    /// Its path below the root of the hierarchy, without slashes at its ends.
    pub path: String,
    /// Memory that it uses besides page cache, in bytes; of floods alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Its writes or its memory are limited already.
    #[serde(skip_serializing_if = "is_false")]
    pub is_limited: bool,
}

/// Waits of one kind that ended in the window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waits {
    /// The call (`fsync`, `sync_write` …) or `read`.
    pub call: String,
    /// How many ended.
    pub count: u64,
    /// Half of them were shorter, in microseconds.
    pub p50_us: u64,
    /// 99 % of them were shorter; only of 100 or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<u64>,
    /// The longest.
    pub max_us: u64,
    /// All together.
    pub sum_us: u64,
    /// How many took how long: octave and count, ascending. Octave `n` holds waits of at least
    /// 2^n and less than 2^(n+1) microseconds; octave 0 those below 2 µs too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub octaves: Vec<(u8, u64)>,
}

/// A guard as it stood at the window's end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Guard {
    /// `protect` or `balance`.
    pub mode: String,
    /// It writes nothing.
    pub dry_run: bool,
    /// It is paused; it resumes after so many seconds, or 0: not by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_s: Option<u64>,
    /// Disks that it steers.
    pub disks: Vec<GuardedDisk>,
    /// Disks that it does not steer, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// A disk that a guard steers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuardedDisk {
    /// The kernel's name.
    pub name: String,
    /// `free`, `watch`, `pace`, `protect`, `probe` or `recover`.
    pub state: String,
    /// For how long it has been that.
    pub since_s: u64,
    /// How long victims may wait, in microseconds.
    pub goal_us: u64,
    /// What victims wait for as a share of the goal, in percent; absent while none is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure_percent: Option<f32>,
    /// How far the levers are pulled, in words; absent if they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levers: Option<String>,
    /// The guard's last decision for the disk, with its reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// Knobs that are not as the administrator has them: `nr_requests 8 (yours: 64)`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<String>,
}

/// A finding of `status`, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `FW001` …
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// The fault, in a few words.
    pub title: String,
    /// Devices, mount points or knobs; empty for the machine as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_frame_reads_back_and_unknown_fields_do_not_matter() {
        let frame = Frame {
            at_unix_ms: 1_700_000_000_000,
            window_ms: 1000,
            disks: vec![Disk { name: "sda".into(), drain_ms: Some(0), ..Disk::default() }],
            processes: vec![Process { pid: 7, is_victim: true, ..Process::default() }],
            ..Frame::default()
        };
        let text = serde_json::to_string(&frame).unwrap();
        assert_eq!(serde_json::from_str::<Frame>(&text).unwrap(), frame);
        let newer = r#"{"at_unix_ms":5,"colour":"blue","disks":[{"name":"sdb","spin":3}]}"#;
        let read: Frame = serde_json::from_str(newer).unwrap();
        assert_eq!((read.at_unix_ms, read.disks[0].name.as_str()), (5, "sdb"));
        let older = r#"{"processes":[{"pid":7,"waiting":1,"oldest_us":8000000}]}"#;
        let read: Frame = serde_json::from_str(older).unwrap();
        let process = &read.processes[0];
        assert_eq!((process.oldest_us, process.slowest_call()), (8_000_000, None));
        assert!(!serde_json::to_string(process).unwrap().contains("call"));
    }

    #[test]
    fn a_tenth_of_a_backlog_makes_an_author() {
        let holds = |percent| Process {
            backlog_percent: Some(percent),
            dirtied_bytes: Some(300),
            ..Process::default()
        };
        assert!(holds(10.0).is_author() && !holds(9.9).is_author());
        assert!(Process { is_flood: true, ..Process::default() }.is_author());
        assert_eq!(holds(50.0).written_bytes(Some(1000)), 500);
        assert_eq!(holds(50.0).written_bytes(Some(400)), 300);
        assert_eq!(holds(50.0).written_bytes(None), 300);
    }

    #[test]
    fn more_than_three_windows_without_a_frame_are_a_hole() {
        let frame = |at_unix_ms| Frame { at_unix_ms, window_ms: 5_000, ..Frame::default() };
        assert!(!frame(30_000).is_after_hole(10_000, 1_000));
        assert!(frame(30_001).is_after_hole(10_000, 1_000));
        assert!(!frame(5_000).is_after_hole(10_000, 5_000), "a clock that was set back");
    }

    #[test]
    fn the_slowest_wait_may_not_have_ended() {
        let waits = Waits { max_us: 40, sum_us: 90, ..Waits::default() };
        let process = Process { waits: vec![waits], oldest_us: 70, ..Process::default() };
        assert_eq!((process.slowest_us(), process.waited_us()), (70, 160));
    }

    #[test]
    fn the_slowest_call_is_that_of_the_slowest_wait_ended_or_not() {
        let waits = |call: &str, max_us| Waits { call: call.into(), max_us, ..Waits::default() };
        let ended = vec![waits("read", 2), waits("sync_write", 900), waits("fsync", 9)];
        let call = |waits: &[Waits], oldest_us, oldest_call: Option<&str>| {
            let (waits, oldest_call) = (waits.to_vec(), oldest_call.map(str::to_owned));
            let process = Process { waits, oldest_us, oldest_call, ..Process::default() };
            process.slowest_call().map(str::to_owned)
        };
        assert_eq!(call(&ended, 0, None).as_deref(), Some("sync_write"));
        assert_eq!(call(&ended, 900, Some("fsync")).as_deref(), Some("sync_write"));
        assert_eq!(call(&ended, 901, Some("fsync")).as_deref(), Some("fsync"));
        assert_eq!(call(&[], 901, Some("fsync")).as_deref(), Some("fsync"));
        // Frames of older versions.
        assert_eq!(call(&ended, 901, None), None);
        assert_eq!(call(&[], 0, None), None);
    }
}
