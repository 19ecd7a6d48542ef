//! Counts of one thread, which it alone writes, and of all.

use std::sync::atomic::{AtomicU64, Ordering};

use super::order::Call;

/// Operations of all threads since the begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Syncs, those at the end included.
    pub syncs: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// One thread's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    /// How many.
    pub events: u64,
    /// The time that they took.
    pub event_ns: u64,
}

/// The counters of a thread.
#[derive(Debug)]
// A cache line and its prefetched neighbour to itself: two threads must not fight over one.
#[repr(align(128))]
pub(super) struct Counters {
    reads: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    events: AtomicU64,
    event_ns: AtomicU64,
    /// The shortest event; `u64::MAX` before the first.
    min_ns: AtomicU64,
}

/// The writer is alone: a load and a store, no locked instruction.
fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

impl Counters {
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            reads: zero(),
            writes: zero(),
            syncs: zero(),
            read_bytes: zero(),
            written_bytes: zero(),
            events: zero(),
            event_ns: zero(),
            min_ns: AtomicU64::new(u64::MAX),
        }
    }

    /// A call that is done.
    pub(super) fn call(&self, call: Call, bytes: u64) {
        match call {
            Call::Read => {
                add(&self.reads, 1);
                add(&self.read_bytes, bytes);
            }
            Call::Write => {
                add(&self.writes, 1);
                add(&self.written_bytes, bytes);
            }
            Call::Sync => add(&self.syncs, 1),
        }
    }

    /// An event that is done.
    pub(super) fn event(&self, ns: u64) {
        add(&self.events, 1);
        add(&self.event_ns, ns);
        if ns < self.min_ns.load(Ordering::Relaxed) {
            self.min_ns.store(ns, Ordering::Relaxed);
        }
    }

    pub(super) fn thread(&self) -> ThreadCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ThreadCounts { events: get(&self.events), event_ns: get(&self.event_ns) }
    }

    /// The shortest event since the last call; `u64::MAX` for none.
    pub(super) fn take_min_ns(&self) -> u64 {
        self.min_ns.swap(u64::MAX, Ordering::Relaxed)
    }

    pub(super) fn add_to(&self, counts: &mut Counts) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        counts.reads += get(&self.reads);
        counts.writes += get(&self.writes);
        counts.syncs += get(&self.syncs);
        counts.read_bytes += get(&self.read_bytes);
        counts.written_bytes += get(&self.written_bytes);
    }
}
