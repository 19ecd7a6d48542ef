//! What a caller is told of a paced command.

use std::time::Duration;

/// A paced command at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Since its start.
    pub elapsed: Duration,
    /// Bytes that it dirtied so far, without those that it took back by deleting a file.
    pub dirtied: u64,
    /// Bytes that it dirtied and that are not written yet.
    pub backlog: u64,
    /// It is stopped.
    pub is_held: bool,
    /// How long it was stopped so far.
    pub held: Duration,
    /// Its processes.
    pub processes: usize,
    /// Its files that are open for writing.
    pub files: usize,
}

/// A command that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ended {
    /// Its exit status; 128 + n if signal n ended it.
    pub status: u8,
    /// From its start to its end.
    pub seconds: f64,
    /// False if an outer pace paces it: then the rest is zero.
    pub is_paced: bool,
    /// False if no shell (/bin/sh) guards its processes: then it was never stopped.
    pub is_guarded: bool,
    /// Bytes that it dirtied, without those that it took back by deleting a file.
    pub dirtied: u64,
    /// How long it was stopped.
    pub held: Duration,
    /// Files that were written back early.
    pub found_files: u64,
    /// Files that it had open for writing and that may not be opened by us.
    pub refused_files: u64,
    /// Bytes that belong to no file that was found.
    pub unfound_bytes: u64,
}
