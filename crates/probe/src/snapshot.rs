//! The result of one window, as plain data.
//!
//! What a source can't see is `None` or named in [`Blind`], which is not zero. Sizes are bytes,
//! latencies nanoseconds.

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::plant::Actor;
use floodwall_model::trial::DeviceSample;
use floodwall_model::{DeviceId, LatencyCounts};

use crate::event::{Call, Class};

/// Where sight comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// Counters in /proc alone.
    Proc,
    /// Tracepoints, read through perf events.
    Perf,
    /// Programs in the kernel that count there.
    Bpf,
}

impl SourceKind {
    /// As it is named on the command line and in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Proc => "proc",
            Self::Perf => "perf",
            Self::Bpf => "bpf",
        }
    }
}

/// Something that can't be seen, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blind {
    /// What.
    pub what: String,
    /// Why, and what would help.
    pub why: String,
}

impl Blind {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }
}

impl std::fmt::Display for Blind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// One window.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When it ended, since the probe was opened.
    pub at: Duration,
    /// How long it was.
    pub window: Duration,
    /// The part of it in which tracepoints were open; before and after, waits are unknown.
    pub attached: Duration,
    /// Calls and reads are those of a sample, scaled by this factor; `None`: all were counted.
    pub sampled_by: Option<f64>,
    /// Where sight came from.
    pub source: SourceKind,
    /// Events that the kernel had no room for; their data is missing here.
    pub lost_events: u64,
    /// Operations that were counted for [`OTHERS`] because too many processes were active.
    pub folded_operations: u64,
    /// Threads whose writes to `O_SYNC` and `O_DIRECT` files are not seen, because too many do
    /// such.
    pub unwatched_threads: u32,
    /// Time in which at least one task waited for I/O (PSI); `None` where the kernel does not say.
    pub pressure: Option<Duration>,
    /// Devices, in the order of their numbers.
    pub devices: Vec<DeviceUse>,
    /// Active processes, by process, then device; `None` comes first.
    pub processes: Vec<ProcessUse>,
}

/// The operations of followed processes, in one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FollowedWindow {
    /// Events that the kernel had no room for; their data is missing here.
    pub lost_events: u64,
    /// Operations that may be theirs and could not be told apart.
    pub folded_operations: u64,
    /// Threads of any process whose writes to `O_SYNC` and `O_DIRECT` files are not seen.
    pub unwatched_threads: u32,
    /// By tag; a tag without operations may be missing.
    pub by_tag: BTreeMap<u32, Followed>,
}

/// The process number under which those are counted that are too many to be told apart.
pub const OTHERS: u32 = 0;

/// One device in one window.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceUse {
    /// Which: always a whole disk.
    pub id: DeviceId,
    /// The kernel's name of it, such as `sda`, or its number.
    pub name: String,
    /// Its counters' growth (/proc/diskstats); `None` if it was not there at both ends.
    pub counters: Option<DeviceSample>,
    /// Its requests by class, only those that occurred; `None` if the source sees no requests, or
    /// a sparing probe does not count them.
    pub requests: Option<BTreeMap<Class, Requests>>,
}

/// Requests of one class to one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Bytes of those that ended.
    pub bytes: u64,
    /// From being made to being handed to the driver: plug, elevator, tags. May hold fewer than
    /// `device`: a request whose making was not seen counts there only.
    pub queue: LatencyCounts,
    /// From the driver to completion.
    pub device: LatencyCounts,
}

/// What the processes followed under one tag did in one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Followed {
    /// Synchronous calls and direct writes that returned, by kind, as the caller saw them.
    pub calls: BTreeMap<Call, LatencyCounts>,
    /// Reads that a device answered, by device: programs are read too when they start, wherever
    /// they are.
    pub reads: BTreeMap<DeviceId, LatencyCounts>,
}

impl Followed {
    /// Adds what a process did.
    pub(crate) fn add(&mut self, process: &ProcessUse) {
        for (call, counts) in &process.calls {
            self.calls.entry(*call).or_default().merge(counts);
        }
        if let Some(device) = process.device.filter(|_| !process.reads.is_empty()) {
            self.reads.entry(device).or_default().merge(&process.reads);
        }
    }
}

/// Bytes by process and device.
pub(crate) type ByDevice = BTreeMap<(u32, Option<DeviceId>), u64>;

/// The counts of one window, by one way to count.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// By process and device; without names and without dirtied bytes.
    pub(crate) processes: Vec<ProcessUse>,
    /// By device and class.
    pub(crate) devices: BTreeMap<DeviceId, BTreeMap<Class, Requests>>,
    /// Operations counted for [`OTHERS`].
    pub(crate) folded: u64,
    /// By tag, the operations of followed processes, however many they are.
    pub(crate) followed: BTreeMap<u32, Followed>,
    /// Page cache dirtied, in bytes; `None` if this way does not count it.
    pub(crate) dirtied: Option<ByDevice>,
}

/// What one process did to one device in one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessUse {
    /// Its number; [`OTHERS`] for all that had no room.
    pub pid: u32,
    /// Its name (`comm`).
    pub name: String,
    /// The device; `None` if it is not known, or not one.
    pub device: Option<DeviceId>,
    /// Synchronous calls that returned, by kind, as the caller saw them.
    pub calls: BTreeMap<Call, LatencyCounts>,
    /// Reads that the device answered.
    pub reads: LatencyCounts,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Synchronous calls and reads under way at the end.
    pub waiting: u32,
    /// How long the longest of them has been under way.
    pub oldest: Duration,
    /// What that is: a call by its name ([`Call::name`]), or `read`.
    pub oldest_call: Option<&'static str>,
    /// Time asleep because too much was dirty (`balance_dirty_pages`), summed over its threads.
    pub throttled: Duration,
    /// Page cache that it dirtied for this device; `None` where the kernel does not say. Counted in
    /// the kernel ([`SourceKind::Bpf`]) it is exact. What only /proc/PID/io tells is shown once a
    /// process, for the device that it is believed to write to: direct writes, and all bytes where
    /// the kernel does not count them by device.
    pub dirtied_bytes: Option<u64>,
    /// Of these, what threads dirtied that do nothing else while others of it wait; `None` where
    /// threads are not told apart.
    pub flooded_bytes: Option<u64>,
}

impl ProcessUse {
    /// All calls that make data stable, together.
    #[must_use]
    pub fn commits(&self) -> LatencyCounts {
        let mut all = LatencyCounts::default();
        self.calls
            .iter()
            .filter(|(call, _)| call.commits())
            .for_each(|(_, counts)| all.merge(counts));
        all
    }

    /// Adds another use of the same device.
    pub fn merge(&mut self, other: &Self) {
        for (call, counts) in &other.calls {
            self.calls.entry(*call).or_default().merge(counts);
        }
        self.reads.merge(&other.reads);
        self.read_bytes += other.read_bytes;
        self.waiting += other.waiting;
        self.keep_older((other.oldest, other.oldest_call));
        self.throttled += other.throttled;
        let sum =
            |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).reduce(u64::saturating_add);
        self.dirtied_bytes = sum(self.dirtied_bytes, other.dirtied_bytes);
        self.flooded_bytes = sum(self.flooded_bytes, other.flooded_bytes);
    }

    /// One of its threads has been inside this call, or has waited for a `read`, since then.
    pub(crate) fn waits(&mut self, now_ns: u64, since_ns: u64, call: &'static str) {
        self.waiting += 1;
        self.keep_older((Duration::from_nanos(now_ns.saturating_sub(since_ns)), Some(call)));
    }

    /// Keeps the older one of two waits, and with it the kind of call.
    fn keep_older(&mut self, wait: (Duration, Option<&'static str>)) {
        (self.oldest, self.oldest_call) = wait.max((self.oldest, self.oldest_call));
    }

    /// Its name and number for display.
    #[must_use]
    pub fn who(&self) -> String {
        if self.pid == OTHERS { self.name.clone() } else { format!("{} ({})", self.name, self.pid) }
    }

    /// Whether it is a worker of the kernel that writes dirty pages out (fs/fs-writeback.c
    /// `wb_workfn` names it: `kworker/u8:2-flush-8:0`). It reads metadata for the pages that it
    /// writes. No other process waits for these reads.
    #[must_use]
    pub fn is_flusher(&self) -> bool {
        self.name.starts_with("kworker/") && self.name.contains("flush-")
    }

    /// As a plant's sensors name it: one actor, or two, one of them for the flood alone.
    pub fn actors(&self) -> impl Iterator<Item = Actor> {
        let dirtied = self.dirtied_bytes.unwrap_or(0);
        let flooded = self.flooded_bytes.unwrap_or(0).min(dirtied);
        let waits = Actor {
            who: self.who(),
            group: None,
            process: None,
            commits: self.commits(),
            reads: self.reads.clone(),
            waiting: self.waiting,
            oldest: self.oldest,
            dirtied_bytes: dirtied - flooded,
            paced_by: None,
        };
        let floods = (flooded > 0).then(|| Actor {
            who: format!("{}, other threads", self.who()),
            dirtied_bytes: flooded,
            ..Actor::default()
        });
        std::iter::once(waits).chain(floods)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_uses_the_oldest_wait_and_its_call_stay() {
        let waits = |since_ns, call| {
            let mut process = ProcessUse::default();
            process.waits(1_000, since_ns, call);
            process
        };
        let both = |a: &ProcessUse, b: &ProcessUse| {
            let mut both = a.clone();
            both.merge(b);
            (both.waiting, both.oldest.as_nanos(), both.oldest_call)
        };
        let (fsync, read) = (waits(300, "fsync"), waits(400, "read"));
        assert_eq!(both(&fsync, &read), (2, 700, Some("fsync")));
        assert_eq!(both(&read, &fsync), (2, 700, Some("fsync")));
        assert_eq!(both(&ProcessUse::default(), &read), (1, 600, Some("read")));
    }

    #[test]
    fn the_kernels_flusher_is_told_by_its_name() {
        let is_flusher =
            |name: &str| ProcessUse { name: name.into(), ..ProcessUse::default() }.is_flusher();
        assert!(is_flusher("kworker/u8:2-flush-7:8") && is_flusher("kworker/u8:0+flush-8:16"));
        // A loop device's worker reads for a process that waits.
        assert!(!is_flusher("kworker/u8:2-loop8") && !is_flusher("flush-log"));
    }
}
