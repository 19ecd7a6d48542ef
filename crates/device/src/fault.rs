//! Faults around any device: slowness, stalls, errors.
//!
//! [`Warp`] slows a device down by slowing its clock. While it is `f` times slower, its own time
//! passes at `1/f`; in a stall it stands still:
//!
//! ```text
//! slow:  own(t) = t1 + ⌊(t − t1) / f⌋              for t1 ≤ t < t2, then at full speed again
//! stall: own(t) = t less every `length` that began at a multiple of `every` before t
//! ```
//!
//! Everything inside (seeks, rotation, caches, timers) slows down together, which neither a delay
//! nor a lower rate would do. Both maps are exact in whole nanoseconds. [`Errors`] lets a share of
//! requests fail after their normal time.
//!
//! A battery that fails is part of the [controller](crate::controller).

use std::collections::BTreeSet;

use crate::device::{Completion, Device, DeviceStats, IoError, LostWrites, Op, Profile, Request};
use crate::random::Random;
use crate::time::Nanos;

/// How a clock is disturbed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Disturbance {
    /// `factor_permille / 1000` times slower from one moment to another.
    Slow {
        /// Thousandths; at least 1000.
        factor_permille: u64,
        /// Beginning.
        from: Nanos,
        /// End.
        to: Nanos,
    },
    /// Stands still for `length` at every multiple of `every`.
    Stall {
        /// Period.
        every: Nanos,
        /// Less than the period.
        length: Nanos,
    },
}

impl Disturbance {
    /// The device's own time at a moment.
    fn own(self, t: Nanos) -> Nanos {
        match self {
            Self::Slow { factor_permille, from, to } => {
                let within = t.min(to).since(from);
                let passed =
                    (u128::from(within.0) * 1000 / u128::from(factor_permille.max(1000))) as u64;
                Nanos(t.0.min(from.0)) + Nanos(passed) + t.since(to.max(from))
            }
            Self::Stall { every, length } if every.0 > length.0 => {
                let (k, rest) = (t.0 / every.0, t.0 % every.0);
                if k == 0 {
                    return t;
                }
                Nanos(every.0 + (k - 1) * (every.0 - length.0) + rest.saturating_sub(length.0))
            }
            Self::Stall { .. } => t,
        }
    }

    /// The first moment at which the device's own time is at least this.
    fn outer(self, own: Nanos) -> Nanos {
        match self {
            Self::Slow { factor_permille, from, to } => {
                if own <= from {
                    return own;
                }
                let factor = u128::from(factor_permille.max(1000));
                let end = self.own(to);
                if own > end {
                    return to + own.since(end);
                }
                Nanos(from.0 + (u128::from(own.since(from).0) * factor).div_ceil(1000) as u64)
            }
            Self::Stall { every, length } if every.0 > length.0 => {
                if own <= every {
                    return own;
                }
                let run = every.0 - length.0;
                let past = own.0 - every.0;
                let periods = (past - 1) / run;
                Nanos((periods + 1) * every.0 + length.0 + (past - periods * run))
            }
            Self::Stall { .. } => own,
        }
    }
}

/// A device whose clock is disturbed.
pub struct Warp {
    inner: Box<dyn Device>,
    disturbance: Disturbance,
}

impl Warp {
    /// Disturbs a device's clock.
    #[must_use]
    pub fn new(inner: Box<dyn Device>, disturbance: Disturbance) -> Self {
        Self { inner, disturbance }
    }
}

impl Device for Warp {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.inner.submit(self.disturbance.own(now), request);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.inner.next_event().map(|t| self.disturbance.outer(t))
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        let from = out.len();
        self.inner.advance(self.disturbance.own(to), out);
        for c in &mut out[from..] {
            c.at = self.disturbance.outer(c.at);
        }
    }

    fn profile(&self) -> Profile {
        self.inner.profile()
    }

    fn stats(&self) -> DeviceStats {
        self.inner.stats()
    }

    fn stats_at(&self, now: Nanos) -> DeviceStats {
        self.inner.stats_at(self.disturbance.own(now))
    }

    fn powercut(&mut self, now: Nanos) -> LostWrites {
        self.inner.powercut(self.disturbance.own(now))
    }

    fn oldest_volatile(&self) -> Option<u64> {
        self.inner.oldest_volatile()
    }
}

/// A device that fails some of its requests.
pub struct Errors {
    inner: Box<dyn Device>,
    read_rate: f64,
    write_rate: f64,
    random: Random,
    /// Requests in flight that will fail.
    doomed: BTreeSet<u64>,
}

impl Errors {
    /// Rates are shares, 0 to 1, of reads and of writes; `seed` chooses which.
    #[must_use]
    pub fn new(inner: Box<dyn Device>, read_rate: f64, write_rate: f64, seed: u64) -> Self {
        Self {
            inner,
            read_rate,
            write_rate,
            random: Random::new(seed, 0xe440),
            doomed: BTreeSet::new(),
        }
    }
}

impl Device for Errors {
    fn submit(&mut self, now: Nanos, request: Request) {
        let rate = match request.op {
            Op::Read => self.read_rate,
            Op::Write { .. } | Op::WriteZeroes => self.write_rate,
            Op::Flush | Op::Discard => 0.0,
        };
        if rate > 0.0 && self.random.uniform() < rate {
            self.doomed.insert(request.id);
        }
        self.inner.submit(now, request);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.inner.next_event()
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        let from = out.len();
        self.inner.advance(to, out);
        for c in &mut out[from..] {
            if self.doomed.remove(&c.id) {
                c.result = Err(IoError::Medium);
            }
        }
    }

    fn profile(&self) -> Profile {
        self.inner.profile()
    }

    fn stats(&self) -> DeviceStats {
        self.inner.stats()
    }

    fn stats_at(&self, now: Nanos) -> DeviceStats {
        self.inner.stats_at(now)
    }

    fn powercut(&mut self, now: Nanos) -> LostWrites {
        self.doomed.clear();
        self.inner.powercut(now)
    }

    fn oldest_volatile(&self) -> Option<u64> {
        self.inner.oldest_volatile()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::null::Null;

    const SLOW: Disturbance =
        Disturbance::Slow { factor_permille: 10_000, from: Nanos(100), to: Nanos(200) };
    const STALL: Disturbance = Disturbance::Stall { every: Nanos(100), length: Nanos(30) };

    #[test]
    fn ten_times_slower_between_two_moments() {
        let own: Vec<u64> =
            [99, 100, 109, 110, 199, 200, 201].map(|t| SLOW.own(Nanos(t)).0).to_vec();
        assert_eq!(own, [99, 100, 100, 101, 109, 110, 111]);
    }

    #[test]
    fn time_stands_still_in_a_stall() {
        let own: Vec<u64> =
            [99, 100, 130, 131, 199, 200, 230, 231].map(|t| STALL.own(Nanos(t)).0).to_vec();
        assert_eq!(own, [99, 100, 100, 101, 169, 170, 170, 171]);
    }

    #[test]
    fn a_request_that_meets_a_stall_waits_it_out() {
        let mut device = Warp::new(Box::new(Null::new(4096, Nanos(5))), STALL);
        device.submit(Nanos(98), Request::read(1, 0, 1));
        assert_eq!(device.next_event(), Some(Nanos(133)));
        let mut out = Vec::new();
        device.advance(Nanos(132), &mut out);
        assert_eq!(out, []);
        device.advance(Nanos(133), &mut out);
        assert_eq!(out[0].at, Nanos(133));
    }

    #[test]
    fn errors_come_at_their_rate_and_only_where_asked() {
        let mut device = Errors::new(Box::new(Null::new(4096, Nanos(5))), 0.25, 0.0, 3);
        for id in 0..4000 {
            let request =
                if id % 2 == 0 { Request::read(id, 0, 1) } else { Request::write(id, 0, 1) };
            device.submit(Nanos(0), request);
        }
        let mut out = Vec::new();
        device.advance(Nanos(9), &mut out);
        let failed = out.iter().filter(|c| c.result.is_err());
        assert!(failed.clone().all(|c| c.id % 2 == 0));
        assert!((400..600).contains(&failed.count()));
    }

    proptest! {
        #[test]
        fn the_inverse_is_the_first_moment(
            own in 0u64..5_000, factor_permille in 1_000u64..20_000, length in 0u64..99
        ) {
            let slow = Disturbance::Slow { factor_permille, from: Nanos(100), to: Nanos(700) };
            let stall = Disturbance::Stall { every: Nanos(100), length: Nanos(length) };
            for d in [slow, stall] {
                let t = d.outer(Nanos(own));
                prop_assert!(d.own(t) >= Nanos(own), "{d:?} {own} {t:?}");
                prop_assert!(t.0 == 0 || d.own(Nanos(t.0 - 1)) < Nanos(own), "{d:?} {own} {t:?}");
            }
        }
    }
}
