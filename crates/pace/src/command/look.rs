//! Reports about a paced command to the caller.

use std::collections::BTreeMap;
use std::time::Duration;

/// A paced command at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look<'a> {
    /// The means that hold it, for people: those of its control group, or why it has none.
    pub means: &'a str,
    /// Bytes that it dirtied so far, without those of files that it deleted before they were
    /// written.
    pub dirtied: u64,
    /// Bytes that it dirtied and that are not written yet.
    pub backlog: u64,
    /// Whether it is stopped.
    pub is_held: bool,
    /// Bytes of its files that were written back or are under way, by the `st_dev` of the files.
    pub by_filesystem: &'a BTreeMap<u64, u64>,
}

/// A command that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ended {
    /// Its exit status; 128 + n if signal n ended it.
    pub status: u8,
    /// Seconds from its start until the data that it left dirty is written.
    pub seconds: f64,
    /// False if an outer pace paces it: then the rest is zero.
    pub is_paced: bool,
    /// False if no shell (/bin/sh) guards its processes: then it was never stopped.
    pub is_guarded: bool,
    /// Bytes that it dirtied, without those of files that it deleted before they were written.
    pub dirtied: u64,
    /// Sum of its stops.
    pub held: Duration,
    /// System calls that waited until the backlog had room for them.
    pub held_calls: u64,
    /// Files that were written back early.
    pub found_files: u64,
    /// Files that it had open for writing, and that this process may not open.
    pub refused_files: u64,
    /// Bytes of no known file.
    pub unfound_bytes: u64,
    /// Processes whose bytes are not counted, since this process may not read their counters.
    pub unread_processes: u64,
    /// Whether files were closed faster than inotify(7) could tell.
    pub is_incomplete: bool,
    /// Bytes that it dirtied in known files and that are left to the kernel, since a signal ended
    /// their writing.
    pub left_bytes: u64,
    /// Whether the disk had not answered within two seconds when the wait for the last pieces
    /// ended.
    pub has_pieces_under_way: bool,
    /// Processes that it left behind. They are not paced any more.
    pub left_processes: usize,
}
