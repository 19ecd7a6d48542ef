//! The flushes and barriers of a queue: which wait, which are under way.

use std::collections::VecDeque;

use floodwall_device::Nanos;

/// How long a flush waits for sequences under way (`FLUSH_PENDING_TIMEOUT`).
pub(super) const PENDING_TIMEOUT: Nanos = Nanos::from_secs(5);

/// Where in its sequence a bio is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waits for the flush before its data.
    Before,
    /// Its data is on its way.
    Data,
    /// Waits for the flush after its data.
    After,
}

/// The flushes of a queue.
#[derive(Debug)]
pub(super) struct FlushQueue {
    pub(super) volatile: bool,
    pub(super) fua: bool,
    /// Barriers drain the queue (before 2.6.37).
    pub(super) drains: bool,
    /// Bios that wait for the next FLUSH.
    pub(super) pending: Vec<u32>,
    pub(super) pending_since: Nanos,
    /// Bios that wait for the one in the device.
    pub(super) running: Vec<u32>,
    pub(super) in_device: bool,
    /// Data writes of sequences on their way.
    pub(super) data: u32,
    /// Barriers that wait for the queue to drain, the first possibly under way.
    pub(super) barriers: VecDeque<u32>,
    /// Whether the first of them is under way.
    pub(super) barrier_runs: bool,
    /// Requests that came after a barrier.
    pub(super) held: Vec<u32>,
}

impl FlushQueue {
    pub(super) fn new(volatile: bool, fua: bool, drains: bool) -> Self {
        Self {
            volatile,
            fua,
            drains,
            pending: Vec::new(),
            pending_since: Nanos::ZERO,
            running: Vec::new(),
            in_device: false,
            data: 0,
            barriers: VecDeque::new(),
            barrier_runs: false,
            held: Vec::new(),
        }
    }

    pub(super) fn volatile(&self) -> bool {
        self.volatile
    }

    /// Whether new requests wait behind a barrier.
    pub(super) fn holds_back(&self) -> bool {
        !self.barriers.is_empty()
    }

    pub(super) fn hold(&mut self, slot: u32) {
        self.held.push(slot);
    }

    /// Whether no sequence is under way.
    pub(super) fn is_idle(&self) -> bool {
        let waiting = self.pending.is_empty() && self.running.is_empty() && self.held.is_empty();
        waiting && self.barriers.is_empty() && !self.in_device && self.data == 0
    }

    /// When a pending flush starts even if writes are under way.
    pub(super) fn timeout(&self) -> Option<Nanos> {
        let waits = !self.pending.is_empty() && !self.in_device && self.data > 0;
        waits.then(|| self.pending_since + PENDING_TIMEOUT)
    }
}
