//! A disk over time, in bins that each keep the largest values.

use std::ops::Range;

use floodwall_model::frame::{Disk, Frame, Process};

/// Bins of a picture: about as many as its columns.
const BINS: u64 = 720;

/// A shorter bin than the shortest window would be empty, in milliseconds.
const SHORTEST_MS: u64 = 1_000;

/// The largest values of a time; `None` where nothing was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// How long the backlog takes, in milliseconds.
    pub drain_ms: Option<u64>,
    /// The backlog.
    pub backlog_bytes: Option<u64>,
    /// The slowest wait of a process, in microseconds; `None` if none waited.
    pub slowest_us: Option<u64>,
    /// The slowest wait of a victim, in microseconds; `None` without one.
    pub victim_us: Option<u64>,
    /// Bytes that the disk completed writing, a second.
    pub written_bytes_per_s: Option<u64>,
}

/// A disk over time.
#[derive(Debug)]
pub struct Course {
    /// The kernel's name.
    pub disk: String,
    /// Vendor and model.
    pub model: Option<String>,
    /// Where its filesystems are mounted.
    pub mounts: Vec<String>,
    /// How long a bin is, in milliseconds.
    pub bin_ms: u64,
    /// From the beginning of the time to its end.
    pub bins: Vec<Bin>,
    from_ms: u64,
}

impl Course {
    pub(super) fn new(disk: &str, time: Range<u64>) -> Self {
        let length_ms = time.end.saturating_sub(time.start).max(1);
        let bin_ms = length_ms.div_ceil(BINS).max(SHORTEST_MS);
        Self {
            disk: disk.to_owned(),
            model: None,
            mounts: Vec::new(),
            bin_ms,
            bins: vec![Bin::default(); length_ms.div_ceil(bin_ms) as usize],
            from_ms: time.start,
        }
    }

    /// Adds a frame to every bin that its window touches.
    pub(super) fn add(&mut self, disk: &Disk, frame: &Frame) {
        if self.model.is_none() {
            self.model.clone_from(&disk.model);
        }
        if self.mounts.is_empty() {
            self.mounts.clone_from(&disk.mounts);
        }
        let users = frame.processes.iter().filter(|one| one.disk.as_deref() == Some(&disk.name));
        let waits = |process: &Process| Some(process.slowest_us()).filter(|us| *us > 0);
        let now = Bin {
            drain_ms: disk.drain_ms,
            backlog_bytes: disk.backlog_bytes,
            slowest_us: users.clone().filter_map(waits).max(),
            victim_us: users.filter(|process| process.is_victim).filter_map(waits).max(),
            written_bytes_per_s: disk.written_bytes_per_s,
        };
        let bin_of = |ms: u64| (ms.saturating_sub(self.from_ms) / self.bin_ms) as usize;
        let last_ms = frame.at_unix_ms.saturating_sub(1).max(frame.began_unix_ms());
        let touched = bin_of(frame.began_unix_ms())..=bin_of(last_ms);
        for bin in self.bins.get_mut(touched).into_iter().flatten() {
            bin.take_in(now);
        }
    }

    /// When a bin begins, in milliseconds since 1970.
    #[must_use]
    pub fn began_unix_ms(&self, bin: usize) -> u64 {
        self.from_ms + bin as u64 * self.bin_ms
    }

    pub(super) fn slowest_us(&self) -> u64 {
        self.bins.iter().filter_map(|bin| bin.slowest_us).max().unwrap_or(0)
    }

    pub(super) fn most_written(&self) -> u64 {
        self.bins.iter().filter_map(|bin| bin.written_bytes_per_s).max().unwrap_or(0)
    }

    /// Whether anything went on.
    pub(crate) fn is_used(&self) -> bool {
        self.slowest_us() > 0 || self.most_written() > 0
    }
}

impl Bin {
    fn take_in(&mut self, other: Self) {
        // `None` is less than any value.
        self.drain_ms = self.drain_ms.max(other.drain_ms);
        self.backlog_bytes = self.backlog_bytes.max(other.backlog_bytes);
        self.slowest_us = self.slowest_us.max(other.slowest_us);
        self.victim_us = self.victim_us.max(other.victim_us);
        self.written_bytes_per_s = self.written_bytes_per_s.max(other.written_bytes_per_s);
    }
}
