//! When the next operation may begin.
//!
//! ```text
//! victims, open loop   ticket n falls due at begin + n / rate, earlier operations done or not
//! floods at a rate     each block reserves its share of time; what is unused is lost after CREDIT
//! ```
//!
//! Waiting is sleeping, never spinning, in slices that keep the stop flag in view.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_model::LatencyCounts;
use floodwall_model::latency::{BUCKETS, bucket_low_ns};

/// Longest sleep without a look at the stop flag.
const SLICE: Duration = Duration::from_millis(20);
/// How much unused time a flood may catch up on. More would let a flood burst far above its rate
/// after a stall.
const CREDIT: Duration = Duration::from_millis(100);

/// Sleeps until a moment, or until `stop` is raised, which is noticed within 20 ms. Never spins.
///
/// Returns whether the moment was reached; not if the flag is up, even when the moment has passed.
pub fn sleep_until(moment: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(SLICE));
    }
}

/// The operations of an open loop, shared by the threads that serve them.
#[derive(Debug)]
pub(crate) struct Tickets {
    rate_per_s: f64,
    next: AtomicU64,
}

impl Tickets {
    pub(crate) fn new(rate_per_s: f64) -> Self {
        Self { rate_per_s, next: AtomicU64::new(0) }
    }

    /// The next operation that no thread serves yet.
    #[inline]
    pub(crate) fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// When operation `n` falls due, after the begin.
    #[inline]
    pub(crate) fn due(&self, n: u64) -> Duration {
        // A rate of almost nothing falls due after the end of time.
        Duration::try_from_secs_f64(n as f64 / self.rate_per_s)
            .unwrap_or(Duration::from_secs(u64::from(u32::MAX)))
    }

    /// The waiting times, after the first `elapsed`, of operations that had fallen due and that no
    /// thread served. They are those never taken, and those taken and given back.
    pub(crate) fn unserved(&self, elapsed: Duration, given_back: &[u64]) -> LatencyCounts {
        let taken = self.next.load(Ordering::Relaxed);
        let (elapsed_ns, period_ns) = (elapsed.as_nanos() as f64, 1e9 / self.rate_per_s);
        // Operations from the first untaken one that are at least `age_ns` old; there may be too
        // many to look at each.
        let as_old_as = |age_ns: u64| {
            let last = ((elapsed_ns - age_ns as f64) / period_ns).floor();
            if last < 0.0 { 0 } else { (last as u64 + 1).saturating_sub(taken) }
        };
        let age_ns = |n: u64| elapsed.saturating_sub(self.due(n)).as_nanos() as u64;
        let count = as_old_as(0);
        let sum_ns =
            count as f64 * (elapsed_ns - taken as f64 * period_ns) - period_ns * sum_below(count);
        let buckets = (0..BUCKETS).map(|bucket| {
            let younger =
                if bucket + 1 < BUCKETS { as_old_as(bucket_low_ns(bucket + 1)) } else { 0 };
            (bucket, as_old_as(bucket_low_ns(bucket)).saturating_sub(younger))
        });
        let mut waiting = LatencyCounts::from_buckets(
            buckets,
            sum_ns.max(0.0) as u64,
            if count > 0 { age_ns(taken) } else { 0 },
        );
        let back = given_back.iter().filter(|n| self.due(**n) <= elapsed);
        waiting.merge(&LatencyCounts::from_values(back.map(|n| age_ns(*n))));
        waiting
    }
}

/// 0 + 1 + … + (n − 1).
fn sum_below(n: u64) -> f64 {
    let n = n as f64;
    n * (n - 1.0).max(0.0) / 2.0
}

/// A rate limit over all streams of a flood (a generic cell rate algorithm).
#[derive(Debug)]
pub(crate) struct Limit {
    ns_per_byte: f64,
    /// When the next block may begin, in nanoseconds after the begin.
    next_ns: AtomicU64,
}

impl Limit {
    pub(crate) fn new(bytes_per_s: f64) -> Self {
        Self { ns_per_byte: 1e9 / bytes_per_s, next_ns: AtomicU64::new(0) }
    }

    /// Reserves time for `bytes` and returns when they may be written, after the begin.
    pub(crate) fn reserve(&self, bytes: u64, elapsed: Duration) -> Duration {
        let earliest = elapsed.saturating_sub(CREDIT).as_nanos() as u64;
        let cost = (bytes as f64 * self.ns_per_byte).ceil() as u64;
        let mut next = self.next_ns.load(Ordering::Relaxed);
        loop {
            let due = next.max(earliest);
            let after = due.saturating_add(cost);
            match self.next_ns.compare_exchange_weak(
                next,
                after,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Duration::from_nanos(due),
                Err(now) => next = now,
            }
        }
    }
}

/// A duration in nanoseconds, without the 128 bits of the standard library's.
#[inline]
pub(crate) fn nanoseconds(took: Duration) -> u64 {
    took.as_secs() * 1_000_000_000 + u64::from(took.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tickets_fall_due_evenly_and_what_nobody_took_is_unserved() {
        let tickets = Tickets::new(10.0);
        assert_eq!((tickets.take(), tickets.take(), tickets.take()), (0, 1, 2));
        assert_eq!(tickets.due(2), Duration::from_millis(200));
        // Operations 0 to 10 fell due in the first 1.05 s; 0 to 2 were taken, and 1 came back.
        let waiting = tickets.unserved(Duration::from_millis(1050), &[1]);
        let ages = [950, 750, 650, 550, 450, 350, 250, 150, 50].map(|ms| ms * 1_000_000);
        let each = LatencyCounts::from_values(ages);
        assert_eq!((waiting.count(), waiting.max_ns()), (9, 950_000_000));
        assert_eq!(waiting.buckets().collect::<Vec<_>>(), each.buckets().collect::<Vec<_>>());
        assert!(waiting.sum_ns().abs_diff(each.sum_ns()) < 1000);
        assert!(tickets.unserved(Duration::from_millis(150), &[2]).is_empty());
    }

    #[test]
    fn a_backlog_of_billions_is_counted_at_once() {
        let tickets = Tickets::new(1e9);
        assert_eq!(tickets.unserved(Duration::from_secs(100), &[]).count(), 100_000_000_001);
    }

    #[test]
    fn a_raised_flag_ends_the_wait() {
        let far = Instant::now() + Duration::from_secs(3600);
        assert!(!sleep_until(far, &AtomicBool::new(true)));
        assert!(
            !sleep_until(Instant::now(), &AtomicBool::new(true)),
            "a stop comes before everything"
        );
        let (soon, stop) = (Instant::now() + Duration::from_millis(30), AtomicBool::new(false));
        assert!(sleep_until(soon, &stop));
        assert!(Instant::now() >= soon);
        let raised = thread::scope(|scope| {
            let sleeper = scope.spawn(|| sleep_until(far, &stop));
            stop.store(true, Ordering::Relaxed);
            sleeper.join()
        });
        assert!(!raised.unwrap(), "noticed while asleep");
    }

    proptest! {
        #[test]
        fn a_limit_never_admits_more_than_rate_times_time_and_a_block(
            blocks in prop::collection::vec((1u64..1_000_000, 0u64..50_000_000), 1..200),
            rate in 1e5f64..1e10,
        ) {
            let limit = Limit::new(rate);
            let (mut now, mut admitted) = (0u64, 0f64);
            for (bytes, idle_ns) in blocks {
                now += idle_ns;
                let due = limit.reserve(bytes, Duration::from_nanos(now)).as_nanos() as u64;
                now = now.max(due);
                // The bytes admitted before this block fit into the time before it.
                prop_assert!(admitted <= rate * now as f64 / 1e9 + 1.0, "{} in {} \
                    ns", admitted, now);
                admitted += bytes as f64;
            }
        }
    }
}
