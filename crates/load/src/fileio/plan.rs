//! A run of requests as its user asks for it.

use std::time::Duration;

/// Which blocks, in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the first file's begin to the last one's end, `laps` times or for ever.
    Sequential {
        /// `None` for no end.
        laps: Option<u32>,
    },
    /// Uniformly at random over all files, at multiples of the block.
    Random,
}

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Reads alone.
    Read,
    /// Writes alone.
    Write,
    /// A read while (completed reads + 1) / (completed writes + 1) is below this, else a write.
    Mixed(f64),
    /// Each block is written, then read.
    WriteThenRead,
}

/// Syncs after the last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSync {
    /// None.
    Never,
    /// Each thread syncs each file.
    ByThread,
    /// Each file is synced once, if the run came to its last request. A run that is stopped ends
    /// without.
    AfterLast,
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Which blocks.
    pub way: Way,
    /// Reads or writes.
    pub mode: Mode,
    /// Bytes of a request; the last one of a file may be shorter.
    pub block: u64,
    /// How many threads.
    pub threads: u32,
    /// All files are synced after so many requests, if one of them wrote.
    pub sync_every: Option<u64>,
    /// Each write is followed by a sync of its file, in its latency.
    pub sync_each: bool,
    /// Syncs at the end.
    pub end_sync: EndSync,
    /// By fdatasync(2) instead of fsync(2).
    pub data_only: bool,
    /// Whether syncs between requests have latencies and count towards `limit`.
    pub syncs_are_events: bool,
    /// After so many events no further one begins.
    pub limit: Option<u64>,
    /// Events a second that fall due, at random moments; latencies count from when they did.
    pub rate: Option<f64>,
    /// Equal seeds give equal offsets.
    pub seed: u64,
}

/// What a thread waits from a request to its next one, at random from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The shortest.
    pub least: Duration,
    /// The longest.
    pub most: Duration,
}

impl Plan {
    pub(super) fn writes(&self) -> bool {
        self.mode != Mode::Read
    }

    pub(super) fn reads(&self) -> bool {
        self.mode != Mode::Write
    }
}
