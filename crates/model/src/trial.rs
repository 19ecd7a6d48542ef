//! A trial: one scenario run under one setting, with everything measured.
//!
//! ```text
//! Trial ─ Phase (victim alone | flood alone | both | burst)
//!           ├ warm-up: how long, and whether it reached a steady state
//!           ├ Interval × n: one second each, with raw latency histograms
//!           │    └ HostSample: dirty, writeback, thresholds, device counters, pressure
//!           └ LoadTotals per victim and flood
//! ```
//!
//! Only raw data is stored: every figure of a report can be computed from it again. These types say
//! how a result has it. The crate `report` writes it with derived values in between, which reading
//! passes over; docs/result-schema.md has all fields.

mod stored;

use serde::{Deserialize, Serialize};

use crate::latency::LatencyCounts;
use crate::setting::Setting;

/// One scenario run once under one setting.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Trial {
    /// The knob values that were in force, as read back.
    pub setting: Setting,
    /// Counts from 1.
    pub round: u32,
    /// In the order in which they ran.
    pub phases: Vec<Phase>,
}

/// What runs during a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseKind {
    /// The victims alone.
    Victim,
    /// The floods alone.
    Flood,
    /// Victims and floods together.
    Both,
    /// A burst that fits in RAM, alone.
    Burst,
}

impl PhaseKind {
    /// As results and tables spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Victim => "victim",
            Self::Flood => "flood",
            Self::Both => "both",
            Self::Burst => "burst",
        }
    }

    /// Whether the victims run.
    #[must_use]
    pub fn has_victim(self) -> bool {
        matches!(self, Self::Victim | Self::Both)
    }

    /// Whether it measures victims or floods without the others.
    #[must_use]
    pub fn is_alone(self) -> bool {
        matches!(self, Self::Victim | Self::Flood)
    }

    /// Whether the floods run.
    #[must_use]
    pub fn has_flood(self) -> bool {
        matches!(self, Self::Flood | Self::Both)
    }
}

/// One phase of a trial.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Phase {
    /// What ran.
    #[serde(rename = "name")]
    pub kind: PhaseKind,
    /// When the measured part began, in seconds since the run began.
    #[serde(default)]
    pub start_s: f64,
    /// Length of the measured part in seconds.
    pub seconds: f64,
    /// How the phase reached its steady state.
    #[serde(default)]
    pub warmup: Warmup,
    /// The measured part, in order, of about one second each (longer when old ones were merged to
    /// bound memory).
    pub intervals: Vec<Interval>,
    /// Operations that were in flight when the measured part ended: their latency counts, their
    /// completion does not.
    #[serde(default)]
    pub overrun: OpLatencies,
    /// Per victim, in the scenario's order.
    #[serde(default)]
    pub victims: Vec<LoadTotals>,
    /// Per flood, in the scenario's order.
    #[serde(default)]
    pub floods: Vec<LoadTotals>,
    /// For a burst: bytes accepted and how long that took.
    #[serde(default)]
    pub burst: Option<BurstTotals>,
    /// Why the phase ended early, if it did.
    #[serde(default)]
    pub cut_short: Option<String>,
}

/// How a phase warmed up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Warmup {
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Whether the stationarity test passed within the time allowed; `None` where no warm-up
    /// applies.
    pub steady: Option<bool>,
    /// What the test said, for people.
    pub verdict: String,
    /// Bytes that the floods wrote meanwhile, to get past the device's cache.
    pub flood_bytes: u64,
}

/// Latencies by kind of operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpLatencies {
    /// Write + sync of a committed write, from its intended start; an O_DSYNC write counts here
    /// and as a write.
    pub commit: LatencyCounts,
    /// The write call alone.
    pub write: LatencyCounts,
    /// The sync call alone.
    pub sync: LatencyCounts,
    /// Reads.
    pub read: LatencyCounts,
}

impl OpLatencies {
    /// Each operation by its name in results, and its latencies.
    #[must_use]
    pub fn by_operation(&self) -> [(&'static str, &LatencyCounts); 4] {
        [
            ("commit", &self.commit),
            ("write", &self.write),
            ("sync", &self.sync),
            ("read", &self.read),
        ]
    }

    /// The latencies in the order of [`OpLatencies::by_operation`].
    fn all_mut(&mut self) -> [&mut LatencyCounts; 4] {
        [&mut self.commit, &mut self.write, &mut self.sync, &mut self.read]
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Self) {
        for (counts, (_, more)) in self.all_mut().into_iter().zip(other.by_operation()) {
            counts.merge(more);
        }
    }

    /// Bytes that they hold on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.by_operation().into_iter().map(|(_, counts)| counts.heap_bytes()).sum()
    }

    /// Whole operations as the victim sees them: commits and reads.
    #[must_use]
    pub fn operations(&self) -> LatencyCounts {
        let mut all = self.commit.clone();
        all.merge(&self.read);
        all
    }
}

/// About one second of a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "stored::StoredInterval", into = "stored::StoredInterval")]
pub struct Interval {
    /// Start, in seconds since the phase's measured part began.
    pub start_s: f64,
    /// Length in seconds.
    pub seconds: f64,
    /// Victim operations completed, second by second; one entry unless intervals were merged.
    pub victim_ops: Vec<u32>,
    /// Latencies of the victims' operations completed in the interval.
    pub latencies: OpLatencies,
    /// Bytes that the victims read or wrote.
    pub victim_bytes: u64,
    /// Bytes that the floods wrote (into the page cache).
    pub flood_bytes: u64,
    /// What the host's counters said at the interval's end.
    pub host: HostSample,
}

/// The host's counters over (or at the end of) one interval. `None` is unreadable or absent; the
/// reasons are in the result's `missing`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSample {
    /// Dirty page cache at the end (/proc/meminfo `Dirty`).
    pub dirty_bytes: Option<u64>,
    /// Page cache under writeback at the end (`Writeback`).
    pub writeback_bytes: Option<u64>,
    /// The hard limit in force (/proc/vmstat `nr_dirty_threshold`).
    pub dirty_threshold_bytes: Option<u64>,
    /// The background limit in force (`nr_dirty_background_threshold`).
    pub background_threshold_bytes: Option<u64>,
    /// Time in which some task waited for I/O (/proc/pressure/io `some`), in microseconds.
    pub psi_io_some_us: Option<u64>,
    /// Time in which every task waited for I/O (`full`), in microseconds.
    pub psi_io_full_us: Option<u64>,
    /// CPU time taken by the hypervisor (/proc/stat `steal`), in milliseconds over all CPUs.
    pub steal_ms: Option<u64>,
    /// The device under the directory.
    pub device: Option<DeviceSample>,
}

/// One block device's counters over one interval (/proc/diskstats; sectors of 512 bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSample {
    /// Reads completed.
    pub read_ops: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes completed.
    pub write_ops: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Cache flushes completed; `None` before kernel 5.5.
    pub flush_ops: Option<u64>,
    /// Time with a request outstanding, in milliseconds.
    pub busy_ms: u64,
    /// Sum over requests of their time in queue and device, in milliseconds.
    pub weighted_ms: u64,
    /// Requests outstanding at the end.
    pub in_flight: u64,
}

impl DeviceSample {
    /// Two devices as one: amounts add; the busy time is that of the busier, so that it stays a
    /// share of the time.
    #[must_use]
    pub fn beside(self, other: Self) -> Self {
        let sum = u64::saturating_add;
        Self {
            read_ops: sum(self.read_ops, other.read_ops),
            read_bytes: sum(self.read_bytes, other.read_bytes),
            write_ops: sum(self.write_ops, other.write_ops),
            written_bytes: sum(self.written_bytes, other.written_bytes),
            flush_ops: self.flush_ops.zip(other.flush_ops).map(|(a, b)| sum(a, b)),
            busy_ms: self.busy_ms.max(other.busy_ms),
            weighted_ms: sum(self.weighted_ms, other.weighted_ms),
            in_flight: sum(self.in_flight, other.in_flight),
        }
    }
}

/// What one victim or flood did in the measured part of a phase.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct LoadTotals {
    /// Its name in the scenario.
    pub name: String,
    /// Operations completed. For a command: its read and write system calls.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Latencies; empty for floods and commands.
    #[serde(flatten)]
    pub latencies: OpLatencies,
    /// Open loop: operations that fell due and never got a turn. Closed loop: 0.
    #[serde(default)]
    pub unserved_ops: u64,
    /// For a command: how often it ran to its end and was started again.
    #[serde(default)]
    pub command_runs: Option<u64>,
    /// CPU time of its threads over warm-up and measured part together, in microseconds; `None`
    /// for commands.
    #[serde(default)]
    pub cpu_us: Option<u64>,
    /// Operations completed over warm-up and measured part together: what `cpu_us` was spent on.
    #[serde(default)]
    pub ops_with_warmup: u64,
}

/// A burst: how fast the kernel accepted it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BurstTotals {
    /// Bytes accepted.
    pub bytes: u64,
    /// Time from the first write to the return of the last, in seconds.
    pub seconds: f64,
}

impl BurstTotals {
    /// Bytes per second at which it was accepted.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9)
    }
}

impl Interval {
    /// Bytes that it takes in memory, its heap included.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.victim_ops.capacity() * size_of::<u32>()
            + self.latencies.heap_bytes()
    }
}

impl Phase {
    /// A burst as a phase. It has no warm-up, no intervals and no loads.
    #[must_use]
    pub fn of_burst(start_s: f64, totals: BurstTotals, cut_short: Option<String>) -> Self {
        Self {
            kind: PhaseKind::Burst,
            start_s,
            seconds: totals.seconds,
            warmup: Warmup { verdict: "a burst has no warm-up".into(), ..Warmup::default() },
            intervals: Vec::new(),
            overrun: OpLatencies::default(),
            victims: Vec::new(),
            floods: Vec::new(),
            burst: Some(totals),
            cut_short,
        }
    }

    /// Victim operations completed in the measured part.
    #[must_use]
    pub fn victim_ops(&self) -> u64 {
        self.per_second_ops().map(u64::from).sum()
    }

    /// Victim operations completed a second.
    #[must_use]
    pub fn victim_iops(&self) -> f64 {
        self.victim_ops() as f64 / self.seconds.max(1e-9)
    }

    /// Bytes that the floods wrote in the measured part.
    #[must_use]
    pub fn flood_bytes(&self) -> u64 {
        self.intervals.iter().map(|i| i.flood_bytes).sum()
    }

    /// Bytes a second that the floods wrote.
    #[must_use]
    pub fn flood_bytes_per_s(&self) -> f64 {
        self.flood_bytes() as f64 / self.seconds.max(1e-9)
    }

    /// Victim operations of each second, in order.
    pub fn per_second_ops(&self) -> impl Iterator<Item = u32> + '_ {
        self.intervals.iter().flat_map(|i| i.victim_ops.iter().copied())
    }

    /// All latencies of the phase, those of operations still in flight at its end included.
    #[must_use]
    pub fn latencies(&self) -> OpLatencies {
        let mut all = self.overrun.clone();
        for interval in &self.intervals {
            all.merge(&interval.latencies);
        }
        all
    }
}
