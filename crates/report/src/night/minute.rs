//! The worst minute, frame by frame: who waited, who dirtied.

use floodwall_model::frame::{Disk, Frame, Process};
use floodwall_model::stall::Stall;

/// What led to the slowest wait is before the moment at which it was seen, in milliseconds.
const BEFORE_MS: u64 = 50_000;

/// What became of it, in milliseconds.
const AFTER_MS: u64 = 10_000;

/// Windows of a second make 60 moments. Shorter ones end the table here.
const MOST_MOMENTS: usize = 120;

/// The minute around the slowest wait.
#[derive(Debug)]
pub struct Minute {
    /// The disk, by the kernel's name.
    pub disk: String,
    /// Its beginning.
    pub from_unix_ms: u64,
    /// Its end, included.
    pub to_unix_ms: u64,
    /// When the slowest wait was seen.
    pub worst_unix_ms: u64,
    /// Its frames.
    pub moments: Vec<Moment>,
}

/// A frame of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// When its window ended.
    pub at_unix_ms: u64,
    /// How long that was, in milliseconds.
    pub window_ms: u64,
    /// The process that waited longest, a victim if there is one.
    pub waiter: Option<Process>,
    /// Victims.
    pub victims: usize,
    /// The process that dirtied most.
    pub writer: Option<Process>,
    /// The disk.
    pub disk: Option<Disk>,
    /// The guard's state for it; absent without a guard.
    pub guard: Option<String>,
}

impl Minute {
    pub(super) fn of(stall: &Stall) -> Self {
        let worst_unix_ms = stall.worst_unix_ms;
        Self {
            disk: stall.disk.clone(),
            from_unix_ms: worst_unix_ms.saturating_sub(BEFORE_MS),
            to_unix_ms: worst_unix_ms.saturating_add(AFTER_MS),
            worst_unix_ms,
            moments: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, frame: &Frame) {
        let is_in = frame.at_unix_ms > self.from_unix_ms && frame.at_unix_ms <= self.to_unix_ms;
        if !is_in || self.moments.len() >= MOST_MOMENTS {
            return;
        }
        let users = frame.processes.iter().filter(|one| one.disk.as_ref() == Some(&self.disk));
        let waits = users.clone().filter(|process| process.slowest_us() > 0);
        let dirtied = |process: &Process| process.dirtied_bytes.unwrap_or(0);
        let dirties = users.clone().filter(|process| dirtied(process) > 0);
        let guarded = frame.guard.iter().flat_map(|guard| &guard.disks);
        self.moments.push(Moment {
            at_unix_ms: frame.at_unix_ms,
            window_ms: frame.window_ms,
            waiter: waits.max_by_key(|one| (one.is_victim, one.wait_rank())).cloned(),
            victims: users.filter(|process| process.is_victim).count(),
            writer: dirties.max_by_key(|process| dirtied(process)).cloned(),
            disk: frame.disks.iter().find(|disk| disk.name == self.disk).cloned(),
            guard: guarded
                .filter(|guarded| guarded.name == self.disk)
                .map(|guarded| guarded.state.clone())
                .next(),
        });
    }
}

impl Moment {
    /// Bytes that the writer dirtied, a second; `None` without a writer.
    #[must_use]
    pub fn dirtied_bytes_per_s(&self) -> Option<f64> {
        let bytes = self.writer.as_ref()?.dirtied_bytes?;
        Some(bytes as f64 * 1000.0 / self.window_ms.max(1) as f64)
    }

    /// The call that took the waiter longest; `None` if it is not known.
    #[must_use]
    pub fn call(&self) -> Option<&str> {
        self.waiter.as_ref()?.slowest_call()
    }
}
