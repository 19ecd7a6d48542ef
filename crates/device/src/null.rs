//! A device that takes a fixed time for everything, or no time, for measuring the code around it.
//!
//! `completion = submission + latency`; no medium, no queue, no limit. Acknowledged writes are
//! stable.

use std::collections::VecDeque;

use crate::device::{Completion, Device, DeviceStats, LostWrites, Profile, Request};
use crate::time::Nanos;

/// A fixed time for everything.
pub struct Null {
    capacity: u64,
    latency: Nanos,
    /// In the order of submission, which is the order of time.
    pending: VecDeque<Completion>,
}

impl Null {
    /// `latency` may be zero.
    #[must_use]
    pub fn new(capacity: u64, latency: Nanos) -> Self {
        Self { capacity, latency, pending: VecDeque::new() }
    }
}

impl Device for Null {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.pending.push_back(Completion {
            id: request.id,
            at: now + self.latency,
            result: Ok(()),
        });
    }

    fn next_event(&self) -> Option<Nanos> {
        self.pending.front().map(|c| c.at)
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        while self.pending.front().is_some_and(|c| c.at <= to) {
            out.extend(self.pending.pop_front());
        }
    }

    fn profile(&self) -> Profile {
        Profile {
            capacity_bytes: self.capacity,
            rotational: false,
            volatile_cache: false,
            queue_depth: 1024,
            floor: self.latency,
            max_rate: f64::INFINITY,
        }
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }

    fn powercut(&mut self, _now: Nanos) -> LostWrites {
        self.pending.clear();
        LostWrites::default()
    }

    fn oldest_volatile(&self) -> Option<u64> {
        None
    }
}
