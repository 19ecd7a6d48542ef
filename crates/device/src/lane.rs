//! A lane that takes one transfer after the other: one direction of a link, a bus, a pipe between
//! cache and disks.

use crate::time::Nanos;

/// See the [module](self).
pub(crate) struct Lane {
    /// Bytes per second.
    rate: f64,
    free: Nanos,
    /// The length that was asked about last, and its time: lengths come in runs.
    last: (u64, Nanos),
}

impl Lane {
    /// A lane of so many bytes per second that is free from the beginning on; for the meaning of no
    /// rate see [`Nanos::for_bytes`].
    pub(crate) const fn new(rate: f64) -> Self {
        Self { rate, free: Nanos::ZERO, last: (0, Nanos::ZERO) }
    }

    /// How long `len` bytes take.
    #[inline]
    pub(crate) fn time(&mut self, len: u64) -> Nanos {
        if self.last.0 != len {
            self.last = (len, Nanos::for_bytes(len, self.rate));
        }
        self.last.1
    }

    /// Sends `len` bytes that are ready at `ready`, after everything sent before; returns when they
    /// are across.
    #[inline]
    pub(crate) fn send(&mut self, ready: Nanos, len: u64) -> Nanos {
        self.free = self.free.max(ready) + self.time(len);
        self.free
    }

    /// When everything sent is across.
    pub(crate) fn free_at(&self) -> Nanos {
        self.free
    }

    /// Forgets transfers under way: the lane is free from `now` on.
    pub(crate) fn reset(&mut self, now: Nanos) {
        self.free = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_follow_each_other_and_an_idle_lane_begins_at_once() {
        let mut lane = Lane::new(1e9);
        assert_eq!(lane.send(Nanos(10), 5), Nanos(15));
        assert_eq!(lane.send(Nanos(12), 5), Nanos(20));
        assert_eq!(lane.send(Nanos(90), 7), Nanos(97));
        assert_eq!(lane.free_at(), Nanos(97));
        lane.reset(Nanos(50));
        assert_eq!(lane.send(Nanos(0), 7), Nanos(57));
        assert_eq!(Lane::new(0.0).send(Nanos(3), 1 << 30), Nanos(3), "no rate, no time");
    }
}
