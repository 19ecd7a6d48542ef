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

mod disk;
mod process;

use serde::{Deserialize, Serialize};

use crate::finding::Severity;
pub use disk::{Disk, Queue, Requests};
use process::is_zero;
pub use process::{Group, Process, Waits, is_kernel_worker};

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
    fn more_than_three_windows_without_a_frame_are_a_hole() {
        let frame = |at_unix_ms| Frame { at_unix_ms, window_ms: 5_000, ..Frame::default() };
        assert!(!frame(30_000).is_after_hole(10_000, 1_000));
        assert!(frame(30_001).is_after_hole(10_000, 1_000));
        assert!(!frame(5_000).is_after_hole(10_000, 5_000), "a clock that was set back");
    }
}
