//! When the next operation may begin: the open loop and the rate limit of the loads on a real host,
//! in virtual time.

use floodwall_device::Nanos;
use floodwall_model::LatencyCounts;

/// How much unused time a flood may catch up on; more would let it burst far above its rate after a
/// stall.
const CREDIT: Nanos = Nanos::from_millis(100);

/// The operations of an open loop: number `n` falls due at `n / rate`, whether or not earlier ones
/// are done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tickets {
    period_ns: f64,
    next: u64,
}

impl Tickets {
    pub(crate) fn new(rate_per_s: f64) -> Self {
        Self { period_ns: 1e9 / rate_per_s, next: 0 }
    }

    /// A load begins: so do its operations.
    pub(crate) fn restart(&mut self) {
        self.next = 0;
    }

    /// When the next unserved operation falls due, after the begin; the caller serves it.
    pub(crate) fn take(&mut self) -> Nanos {
        self.next += 1;
        self.due(self.next - 1)
    }

    fn due(&self, ticket: u64) -> Nanos {
        Nanos((ticket as f64 * self.period_ns) as u64)
    }

    /// How long the operations that fell due in the first `elapsed` and were not taken had been
    /// waiting then.
    pub(crate) fn unserved(&self, elapsed: Nanos) -> LatencyCounts {
        let last = (elapsed.0 as f64 / self.period_ns) as u64;
        LatencyCounts::from_values(
            (self.next..=last).map(|n| elapsed.since(self.due(n)).0).take(10_000_000),
        )
    }
}

/// A rate limit (a generic cell rate algorithm).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    ns_per_byte: f64,
    next: Nanos,
}

impl Limit {
    pub(crate) fn new(bytes_per_s: f64) -> Self {
        Self { ns_per_byte: 1e9 / bytes_per_s, next: Nanos::ZERO }
    }

    /// A load begins.
    pub(crate) fn restart(&mut self) {
        self.next = Nanos::ZERO;
    }

    /// When `bytes` may be written, after the begin.
    pub(crate) fn reserve(&mut self, bytes: u64, elapsed: Nanos) -> Nanos {
        let due = self.next.max(elapsed.since(CREDIT));
        self.next = due + Nanos((bytes as f64 * self.ns_per_byte) as u64);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_fall_due_at_their_rate_and_wait_when_nobody_serves_them() {
        let mut tickets = Tickets::new(100.0);
        assert_eq!([tickets.take(), tickets.take()], [Nanos(0), Nanos::from_millis(10)]);
        // Due at 20, 30, 40, 50 ms and not taken.
        let waiting = tickets.unserved(Nanos::from_millis(50));
        assert_eq!(
            (waiting.count(), waiting.max_ns(), waiting.sum_ns()),
            (4, 30_000_000, 60_000_000)
        );
    }

    #[test]
    fn a_limited_flood_catches_up_for_a_tenth_of_a_second_at_most() {
        let mut limit = Limit::new(1e6);
        assert_eq!(limit.reserve(10_000, Nanos::ZERO), Nanos::ZERO);
        assert_eq!(limit.reserve(10_000, Nanos::ZERO), Nanos::from_millis(10));
        assert_eq!(limit.reserve(10_000, Nanos::from_secs(1)), Nanos::from_millis(900));
    }
}
