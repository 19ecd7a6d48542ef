//! A scenario: victims + floods + sizes + durations.
//!
//! ```text
//! TOML file ────────┐
//! `commit,threads=10` ┼─ parse ──▶ Scenario ──▶ a Runner runs it
//! built-in list ────┘
//! ```
//!
//! Everything here is already checked: a `Scenario` that exists can be run, given the space.

mod builtin;
mod error;
mod loads;
mod pace;
mod parse;
mod rate;
mod spec;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::trial::PhaseKind;
use crate::units::{Bytes, Rate, human_duration};

pub use builtin::{builtin, builtin_names, builtin_text};
pub use error::ScenarioError;
pub use pace::Pace;
pub use parse::{name_apart, parse};
pub use rate::{settle_rates, unsettled_rate};
pub use spec::{command_flood, command_victim, parse_flood, parse_victim};

/// Victims and floods with their sizes and durations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// Short, lower case, with dashes.
    pub name: String,
    /// One sentence.
    pub description: String,
    /// Where it comes from, if it was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The loads that wait. May be empty: then only floods run.
    pub victims: Vec<Victim>,
    /// The loads that flood. May be empty: then only victims run.
    pub floods: Vec<Flood>,
    /// Bytes of the burst; `None` leaves the phase out.
    #[serde(rename = "burst_bytes")]
    pub burst: Option<Bytes>,
    /// Rounds and durations.
    pub timing: Timing,
    /// The phases to run; empty: all that make sense ([`Scenario::phase_kinds`]). A search names
    /// some of them: it measures the loads alone once, not under every setting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseKind>,
}

/// Rounds and durations of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// How often all phases are run, interleaved; 1 to [`MAX_ROUNDS`].
    pub rounds: u32,
    /// Measured part of each phase, in whole seconds.
    #[serde(serialize_with = "seconds", rename = "measure_s")]
    pub measure: Duration,
    /// Longest warm-up of a phase; it ends earlier once the load is steady.
    #[serde(serialize_with = "seconds", rename = "warmup_max_s")]
    pub warmup_max: Duration,
    /// Pause after each phase in which the device's own cache can drain.
    #[serde(serialize_with = "seconds", rename = "settle_s")]
    pub settle: Duration,
    /// What the device may hold in its own write cache: a flood has written this much before it is
    /// measured.
    #[serde(rename = "device_cache_bytes")]
    pub device_cache: Bytes,
}

/// The most rounds: each keeps its own histograms, and beyond some tens the interval of a figure
/// hardly narrows any more.
pub const MAX_ROUNDS: u32 = 100;

impl Timing {
    /// Why a run can't be timed like this, and what to write instead; `None` if it can.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        if self.rounds == 0 {
            return Some("rounds = 0 measures nothing; write at least 1".into());
        }
        if self.rounds > MAX_ROUNDS {
            let rounds = self.rounds;
            return Some(format!(
                "rounds = {rounds} is over {MAX_ROUNDS}; measure longer in fewer rounds"
            ));
        }
        if self.measure.is_zero() || self.measure.subsec_nanos() > 0 {
            return Some(format!(
                "measure = {} is not a whole number of seconds, the length of a window; write at \
                 least \"1s\"",
                human_duration(self.measure)
            ));
        }
        None
    }
}

fn seconds<S: serde::Serializer>(d: &Duration, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_f64(d.as_secs_f64())
}

/// Synchronous I/O that a process waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Victim {
    /// Name in tables and results; unique in its scenario.
    pub name: String,
    /// The kind of victim.
    #[serde(flatten)]
    pub kind: VictimKind,
    /// Threads, each with one operation (psync) or `depth` operations (io_uring) outstanding.
    pub threads: u32,
    /// Bytes of each read or write.
    #[serde(rename = "block_bytes")]
    pub block: Bytes,
    /// Files over which the size is spread evenly.
    pub files: u32,
    /// Total size of its files.
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
    /// How system calls are made.
    pub engine: Engine,
    /// Operations each thread keeps outstanding; 1 unless the engine is io_uring.
    pub depth: u32,
    /// Operations a second over all threads that fall due whether or not earlier ones are done
    /// (open loop). `None`: each thread starts the next when one is done (closed loop).
    #[serde(rename = "rate_per_s")]
    pub rate: Option<f64>,
    /// In place of `rate`: the percentage of its closed-loop rate alone that falls due, above 0
    /// and up to 100. The function [`settle_rates`] measures that and makes a rate of it; no
    /// runner runs a percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_percent: Option<f64>,
}

/// What a victim does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum VictimKind {
    /// Overwrites random blocks of fully written files, each made stable before the next.
    Commit {
        /// How a write is made stable.
        sync: SyncMethod,
        /// Past the page cache (O_DIRECT).
        direct: bool,
    },
    /// Appends to a log, each record made stable before the next.
    Wal {
        /// How a write is made stable.
        sync: SyncMethod,
        /// Whether the log's blocks are written beforehand, so that only data has to be made
        /// stable.
        preallocated: bool,
    },
    /// Overwrites random pages of a database, each page's old content being kept in a rollback
    /// journal until it is stable: SQLite without a WAL.
    Journal {
        /// How a file is made stable.
        sync: SyncMethod,
    },
    /// Reads random blocks.
    Read {
        /// What the page cache does for it.
        access: Access,
    },
    /// Reads its files from begin to end, over and over: a full table scan per thread.
    Scan {
        /// What the page cache does for it.
        access: Access,
    },
    /// Random reads and committed random writes.
    Mixed {
        /// How a write is made stable.
        sync: SyncMethod,
        /// What the page cache does for reads.
        access: Access,
        /// Share of reads, in percent, 0 to 100.
        read_percent: u32,
    },
    /// A command, run by `/bin/sh -c` in the scratch directory, in its own process group.
    Command {
        /// The shell command.
        command: String,
    },
}

/// How a write is made stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncMethod {
    /// fsync(2) after each write.
    Fsync,
    /// fdatasync(2) after each write.
    Fdatasync,
    /// sync_file_range(2) with both waits after each write: data only, no journal, no device cache
    /// flush.
    SyncFileRange,
    /// The file is open with O_DSYNC.
    ODsync,
    /// The file is open with O_SYNC.
    OSync,
}

impl SyncMethod {
    /// Whether the write call itself makes the data stable, so that there is no sync call to time.
    #[must_use]
    pub fn is_open_flag(self) -> bool {
        matches!(self, Self::ODsync | Self::OSync)
    }
}

/// What the page cache does for reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// O_DIRECT: the cache is passed by.
    Direct,
    /// Buffered, and the block is dropped from the cache (POSIX_FADV_DONTNEED) outside the timed
    /// part.
    Evict,
    /// Buffered, and whatever is cached stays cached.
    Cached,
}

/// How system calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// pread/pwrite and fsync.
    Psync,
    /// io_uring, a write linked to its sync.
    IoUring,
}

/// Buffered writes that dirty pages faster than the device drains them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flood {
    /// Name in tables and results; unique in its scenario.
    pub name: String,
    /// The kind of flood.
    #[serde(flatten)]
    pub kind: FloodKind,
    /// How many threads do it at once.
    pub streams: u32,
    /// Bytes of each write.
    #[serde(rename = "block_bytes")]
    pub block: Bytes,
    /// Space within which it goes round and round; `None`: as much as passes the kernel's dirty
    /// limit, if that much is free.
    #[serde(rename = "size_bytes")]
    pub size: Option<Bytes>,
    /// Bytes a second over all streams; `None`: as fast as the kernel accepts them.
    #[serde(rename = "rate_bytes_per_s")]
    pub rate: Option<Rate>,
    /// The data to write.
    pub data: Data,
    /// How; only `seq`, `random` and `copy` have a choice.
    #[serde(default, skip_serializing_if = "WriteMode::is_buffered")]
    pub mode: WriteMode,
}

/// How a flood writes: programs that know that others wait can be kinder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteMode {
    /// write(2) into the page cache.
    #[default]
    #[serde(rename = "buffered")]
    Buffered,
    /// The same, started to be written back at once and dropped behind (`RWF_DONTCACHE`, Linux
    /// 6.14). Pages that are in the cache already stay there.
    #[serde(rename = "dontcache")]
    DontCache,
    /// Past the page cache (`O_DIRECT`).
    #[serde(rename = "direct")]
    Direct,
    /// Each write waits until it is stable (`O_DSYNC`).
    #[serde(rename = "dsync")]
    Dsync,
    /// After each block its writeback is started, and that of the block before is waited for
    /// (sync_file_range(2)).
    #[serde(rename = "sync_file_range")]
    SyncFileRange,
}

impl WriteMode {
    /// Whether it is the ordinary one.
    #[must_use]
    pub fn is_buffered(&self) -> bool {
        *self == Self::Buffered
    }

    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::DontCache => "dontcache",
            Self::Direct => "direct",
            Self::Dsync => "dsync",
            Self::SyncFileRange => "sync_file_range",
        }
    }
}

/// What a flood does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum FloodKind {
    /// Writes a file from begin to end, over and over: a backup, a dump, `dd`.
    Seq,
    /// Writes random blocks of its files.
    Random,
    /// Writes many small files: an archive being unpacked.
    Files {
        /// Bytes of each file.
        #[serde(rename = "file_bytes")]
        file: Bytes,
    },
    /// Dirties pages through a shared memory mapping.
    Mmap,
    /// Reads one file and writes another: `cp`.
    Copy,
    /// A command, run by `/bin/sh -c` in the scratch directory, in its own process group.
    Command {
        /// The shell command.
        command: String,
    },
}

/// The data to write. Compressing and deduplicating filesystems and drives make zeros cheap, so
/// random is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Data {
    /// Random bytes, no two blocks alike.
    Random,
    /// Zeros.
    Zero,
    /// Half random, half zeros in every 4 KiB: compresses about 2 : 1.
    Compressible,
}

impl VictimKind {
    /// As scenario files spell it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Commit { .. } => "commit",
            Self::Wal { .. } => "wal",
            Self::Journal { .. } => "journal",
            Self::Read { .. } => "read",
            Self::Scan { .. } => "scan",
            Self::Mixed { .. } => "mixed",
            Self::Command { .. } => "command",
        }
    }

    /// Whether it writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        !matches!(self, Self::Read { .. } | Self::Scan { .. } | Self::Command { .. })
    }

    /// Whether it passes the page cache by, so that blocks must be aligned.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        match self {
            Self::Commit { direct, .. } => *direct,
            Self::Read { access } | Self::Scan { access } | Self::Mixed { access, .. } => {
                *access == Access::Direct
            }
            Self::Wal { .. } | Self::Journal { .. } | Self::Command { .. } => false,
        }
    }

    /// What one of its operations is called in tables: `commits`, `reads`, …
    #[must_use]
    pub fn operations(&self) -> &'static str {
        match self {
            Self::Commit { .. } | Self::Wal { .. } | Self::Journal { .. } => "commits",
            Self::Read { .. } | Self::Scan { .. } => "reads",
            Self::Mixed { .. } => "operations",
            Self::Command { .. } => "I/O calls",
        }
    }
}

impl Victim {
    /// Whether its operations fall due at a rate, whether or not earlier ones are done.
    #[must_use]
    pub fn is_open_loop(&self) -> bool {
        self.rate.is_some() || self.rate_percent.is_some()
    }

    /// Whether another victim works on the same files in the same way, at whatever rate.
    #[must_use]
    pub fn is_same_but_for_rate(&self, other: &Self) -> bool {
        Self { rate: other.rate, rate_percent: other.rate_percent, ..self.clone() } == *other
    }
}

impl FloodKind {
    /// As scenario files spell it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Seq => "seq",
            Self::Random => "random",
            Self::Files { .. } => "files",
            Self::Mmap => "mmap",
            Self::Copy => "copy",
            Self::Command { .. } => "command",
        }
    }
}

impl Scenario {
    /// The phases of each round: those that make sense for the loads present, and of them those in
    /// [`Scenario::phases`] unless that is empty.
    #[must_use]
    pub fn phase_kinds(&self) -> Vec<PhaseKind> {
        let (victims, floods) = (!self.victims.is_empty(), !self.floods.is_empty());
        let possible = [
            (PhaseKind::Victim, victims),
            (PhaseKind::Flood, floods),
            (PhaseKind::Both, victims && floods),
            (PhaseKind::Burst, self.burst.is_some()),
        ];
        let wanted = |kind: &PhaseKind| self.phases.is_empty() || self.phases.contains(kind);
        possible.into_iter().filter_map(|(kind, can)| can.then_some(kind)).filter(wanted).collect()
    }

    /// The phases of a round, counted from 1, in the order in which they run. Each round begins one
    /// phase later than the round before, so that no phase always runs first.
    #[must_use]
    pub fn phases_of_round(&self, round: u32) -> Vec<PhaseKind> {
        let mut kinds = self.phase_kinds();
        let first = (round as usize).saturating_sub(1) % kinds.len().max(1);
        kinds.rotate_left(first);
        kinds
    }

    /// Seconds that the measured parts, warm-ups and pauses take at the most, over all rounds;
    /// prefill and drain come on top.
    #[must_use]
    pub fn planned_seconds(&self) -> f64 {
        let t = &self.timing;
        let each = (t.measure + t.warmup_max + t.settle).as_secs_f64();
        let seconds =
            |kind| if kind == PhaseKind::Burst { t.settle.as_secs_f64() + 1.0 } else { each };
        f64::from(t.rounds) * self.phase_kinds().into_iter().map(seconds).sum::<f64>()
    }
}
