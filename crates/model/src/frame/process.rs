//! One process in a window.

use serde::{Deserialize, Serialize};

use crate::workload::Workload;

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
    /// It waits longer than the disk alone explains, or than the guard's goal, and not for its own
    /// data.
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
    /// share after it has ended. The backlog is the larger one of the window's ends; while a victim
    /// waits, the largest one of the slowest wait.
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

    /// The place among processes that wait: the greatest is named first. A worker of the kernel
    /// waits for others, so it is less than any process.
    #[must_use]
    pub fn wait_rank(&self) -> (bool, u64) {
        (!self.is_kernel_worker(), self.slowest_us())
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(super) fn is_zero(value: &u64) -> bool {
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
