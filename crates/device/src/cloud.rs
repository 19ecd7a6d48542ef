//! A cloud volume: a token bucket for operations, one for bytes, and a network in between.
//!
//! ```text
//! ready      = when both buckets have the tokens (first come, first served)
//! completion = ready + len / link_rate + max(floor, median × e^(sigma × z)),  z normal
//! ```
//!
//! A request takes `⌈len / io_size⌉` operations and `len` bytes. A bucket fills at its rate up to
//! its burst; a request waits for the missing part. With burst credits there is a second bucket for
//! operations: the large one fills at the base rate and holds the credits, the small one bounds the
//! peak. Storage services write to several machines before they acknowledge: nothing is volatile,
//! FLUSH costs one round trip.

use crate::device::{Completion, Device, DeviceStats, LostWrites, Op, Profile, Request};
use crate::events::{EventQueue, if_ever};
use crate::random::Random;
use crate::time::Nanos;

/// What a volume is sold as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CloudParams {
    /// Bytes that it exposes.
    pub capacity: u64,
    /// Operations per second.
    pub iops: f64,
    /// Operations that may be used at once after a pause.
    pub iops_burst: f64,
    /// Saved credits: base rate in operations per second and how many are saved at most; `None` if
    /// the volume has none.
    pub credits: Option<(f64, f64)>,
    /// Bytes per second.
    pub rate: f64,
    /// Bytes that may be used at once after a pause.
    pub rate_burst: f64,
    /// Bytes that count as one operation.
    pub io_size: u64,
    /// Median latency of the network and the service.
    pub median: Nanos,
    /// Spread of its logarithm.
    pub sigma: f64,
    /// No answer is sooner.
    pub floor: Nanos,
    /// Network bandwidth of the machine to its volumes, in bytes per second and direction.
    pub link_rate: f64,
}

/// Tokens that come back at a rate.
struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    at: Nanos,
}

impl Bucket {
    fn new(rate: f64, burst: f64) -> Self {
        Self { rate, burst, tokens: burst, at: Nanos::ZERO }
    }

    /// Takes tokens; returns when they are all there. Debts are waited for in order.
    fn take(&mut self, now: Nanos, tokens: f64) -> Nanos {
        self.tokens = (self.tokens + now.since(self.at).as_secs_f64() * self.rate).min(self.burst);
        self.at = self.at.max(now);
        self.tokens -= tokens;
        now + Nanos::from_secs_f64((-self.tokens).max(0.0) / self.rate)
    }
}

/// See the [module](self).
pub struct Cloud {
    p: CloudParams,
    operations: Bucket,
    credits: Option<Bucket>,
    bytes: Bucket,
    random: Random,
    up_free: Nanos,
    down_free: Nanos,
    events: EventQueue<Completion>,
    stats: DeviceStats,
}

impl Cloud {
    /// With full buckets; `seed` draws the latencies.
    #[must_use]
    pub fn new(p: CloudParams, seed: u64) -> Self {
        Self {
            operations: Bucket::new(p.iops, p.iops_burst),
            credits: p.credits.map(|(rate, most)| Bucket::new(rate, most)),
            bytes: Bucket::new(p.rate, p.rate_burst),
            random: Random::new(seed, 0xc10d),
            up_free: Nanos::ZERO,
            down_free: Nanos::ZERO,
            events: EventQueue::new(),
            stats: DeviceStats::default(),
            p,
        }
    }

    fn latency(&mut self) -> Nanos {
        self.p.median.scaled((self.p.sigma * self.random.normal()).exp()).max(self.p.floor)
    }
}

impl Device for Cloud {
    fn submit(&mut self, now: Nanos, request: Request) {
        let latency = self.latency();
        let at = match request.op {
            Op::Flush => now + latency,
            op => {
                let bytes = if matches!(op, Op::Read | Op::Write { .. }) { request.len } else { 0 };
                let operations = bytes.div_ceil(self.p.io_size).max(1) as f64;
                let mut ready =
                    self.operations.take(now, operations).max(self.bytes.take(now, bytes as f64));
                if let Some(credits) = &mut self.credits {
                    ready = ready.max(credits.take(now, operations));
                }
                let lane = if op == Op::Read { &mut self.down_free } else { &mut self.up_free };
                *lane = (*lane).max(ready) + Nanos::for_bytes(bytes, self.p.link_rate);
                if op == Op::Read {
                    self.stats.media_read_bytes += bytes;
                } else {
                    self.stats.media_write_bytes += bytes;
                }
                *lane + latency
            }
        };
        self.events.push(at, Completion { id: request.id, at, result: Ok(()) });
    }

    fn next_event(&self) -> Option<Nanos> {
        if_ever(self.events.due())
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        while let Some((_, c)) = self.events.pop_due(to) {
            out.push(c);
        }
    }

    fn profile(&self) -> Profile {
        Profile {
            capacity_bytes: self.p.capacity,
            rotational: false,
            volatile_cache: false,
            queue_depth: 64,
            floor: self.p.floor,
            max_rate: self.p.link_rate,
        }
    }

    fn stats(&self) -> DeviceStats {
        self.stats
    }

    fn powercut(&mut self, _now: Nanos) -> LostWrites {
        self.events.clear();
        LostWrites::default()
    }

    fn oldest_volatile(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_at_once_and_then_its_rate() {
        let mut b = Bucket::new(100.0, 10.0);
        assert!((0..10).all(|_| b.take(Nanos::ZERO, 1.0) == Nanos::ZERO));
        assert_eq!(b.take(Nanos::ZERO, 1.0), Nanos::from_millis(10));
        assert_eq!(b.take(Nanos::ZERO, 1.0), Nanos::from_millis(20));
        assert_eq!(
            b.take(Nanos::from_secs(9), 10.0),
            Nanos::from_secs(9),
            "no more than the burst is saved"
        );
        assert_eq!(b.take(Nanos::from_secs(9), 1.0), Nanos(9_010_000_000));
    }
}
