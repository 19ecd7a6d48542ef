//! What a job is asked for.

use std::path::PathBuf;
use std::time::Duration;

use floodwall_model::scenario::Data;
use rustix::fs::OFlags;

/// A file or device of a job, and the part of it that requests go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFile {
    /// Its name.
    pub path: PathBuf,
    /// Where its part begins.
    pub from: u64,
    /// Bytes of the part.
    pub len: u64,
}

/// How blocks of a new file are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// By fallocate(2), if the filesystem has it.
    Blocks,
    /// The same, without a new length.
    BlocksAlone,
    /// Only the length is set.
    Length,
    /// Not: writes do it.
    Never,
}

/// How requests are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Each by itself.
    Each,
    /// Those of one direction that ended in the same millisecond as one. A job may keep 16 Mi of
    /// them, which is 4.6 hours of one direction.
    Milliseconds,
}

/// Intervals whose rates are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Of bytes.
    pub bytes: Duration,
    /// Of requests.
    pub requests: Duration,
}

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// Its files, which requests go to in turn.
    pub files: Vec<JobFile>,
    /// It begins when all jobs of lower stages have ended.
    pub stage: u32,
    /// Jobs that one of them may end together.
    pub group: u32,
    /// Whether files may be made or extended. Without it a file that is too short is an error.
    pub may_make: bool,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
    /// At random, else from begin to end.
    pub is_random: bool,
    /// At random each block once a pass, else any.
    pub each_once: bool,
    /// Of a job that reads and writes: percent of requests that read.
    pub read_percent: u32,
    /// Bytes of a read and of a write.
    pub block: [u64; 2],
    /// Flags of open(2) beside those of reading and writing.
    pub flags: OFlags,
    /// Requests in flight, by io_uring. `None`: one, by plain calls.
    pub depth: Option<u32>,
    /// A ring's syncs are plain calls.
    pub plain_syncs: bool,
    /// fsync(2) after so many writes; 0 for never.
    pub sync_every: u64,
    /// fdatasync(2) after so many writes; 0 for never.
    pub sync_data_every: u64,
    /// fsync(2) at the end of a pass, as a part of it.
    pub sync_at_end: bool,
    /// fsync(2) before files are closed.
    pub sync_on_close: bool,
    /// Bytes a second of reads and of writes, at most.
    pub rate: [Option<f64>; 2],
    /// Before it begins.
    pub delay: Duration,
    /// At its begin without figures.
    pub ramp: Duration,
    /// It ends after so much more.
    pub time: Option<Duration>,
    /// It goes on with another pass until its time is up.
    pub is_timed: bool,
    /// Passes without that.
    pub loops: u64,
    /// Bytes of all passes, if that is not the sizes of the files.
    pub bytes: Option<u64>,
    /// Requests after which it ends.
    pub requests: Option<u64>,
    /// Its files are dropped from the page cache before each pass.
    pub drops_cache: bool,
    /// Its files are written before it begins, if they are too short.
    pub fills: bool,
    /// Files are made when they are opened.
    pub makes_late: bool,
    /// How its files get their blocks.
    pub allocate: Allocate,
    /// Its files are removed at its end.
    pub removes: bool,
    /// Its end ends all others of its stage.
    pub ends_all: bool,
    /// What is written.
    pub data: Data,
    /// Whether times from a request's begin to its submission are counted, from there to its
    /// completion, and both together.
    pub timed: [bool; 3],
    /// Which requests are kept; `None` for none.
    pub keeps: Option<Keep>,
    /// `None`: rates are not sampled.
    pub window: Option<Window>,
    /// Equal seeds give equal offsets.
    pub seed: u64,
}

impl JobPlan {
    /// Writes its files once, in blocks of so many bytes from begin to end, by plain calls, as fast
    /// as they go.
    #[must_use]
    pub fn new(files: Vec<JobFile>, block: u64) -> Self {
        Self {
            files,
            stage: 0,
            group: 0,
            may_make: true,
            reads: false,
            writes: true,
            is_random: false,
            each_once: true,
            read_percent: 50,
            block: [block; 2],
            flags: OFlags::empty(),
            depth: None,
            plain_syncs: false,
            sync_every: 0,
            sync_data_every: 0,
            sync_at_end: false,
            sync_on_close: false,
            rate: [None; 2],
            delay: Duration::ZERO,
            ramp: Duration::ZERO,
            time: None,
            is_timed: false,
            loops: 1,
            bytes: None,
            requests: None,
            drops_cache: false,
            fills: false,
            makes_late: false,
            allocate: Allocate::Blocks,
            removes: false,
            ends_all: false,
            data: Data::Random,
            timed: [true; 3],
            keeps: None,
            window: None,
            seed: 1,
        }
    }

    /// Bytes of its files.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }

    /// The longest request.
    pub(super) fn longest(&self) -> u64 {
        let read = if self.reads { self.block[0] } else { 0 };
        let write = if self.writes { self.block[1] } else { 0 };
        read.max(write)
    }

    /// The shortest request.
    pub(super) fn shortest(&self) -> u64 {
        let read = if self.reads { self.block[0] } else { u64::MAX };
        let write = if self.writes { self.block[1] } else { u64::MAX };
        read.min(write)
    }
}
