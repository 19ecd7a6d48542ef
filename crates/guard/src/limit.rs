//! A device's own dirty limit: its levels, and its way down.

use std::time::Duration;

use crate::config::{ABOVE_BACKLOG, FIRST_LIMIT, LEAST_LIMIT, RAMP};
use crate::estimate::Estimate;

/// A limit is written again if it is off by more than this share: it is a share of the hard limit,
/// which moves with free memory.
pub(crate) const DRIFT: f64 = 0.1;

/// The limit of a level in bytes.
pub(crate) fn limit_bytes(level: u32, drain_bytes_per_s: f64) -> u64 {
    let first = drain_bytes_per_s * FIRST_LIMIT.as_secs_f64();
    ((first / f64::from(1u32 << (level - 1).min(30))) as u64).max(LEAST_LIMIT)
}

/// Whether a limit level is the last that changes anything.
pub(crate) fn is_last_limit(level: u32, estimate: &Estimate) -> bool {
    estimate
        .drain_bytes_per_s
        .is_none_or(|drain| level > 0 && limit_bytes(level, drain) == LEAST_LIMIT)
}

/// The first limit level that is as low as limits get.
pub(crate) fn last_limit(estimate: &Estimate) -> u32 {
    (1..=30).find(|level| is_last_limit(*level, estimate)).unwrap_or(0)
}

/// Time to drain the bytes that a limit level allows.
pub(crate) fn limit_time(level: u32, estimate: &Estimate) -> Option<Duration> {
    let drain = estimate.drain_bytes_per_s.filter(|_| level > 0)?;
    Some(Duration::from_secs_f64(limit_bytes(level, drain) as f64 / drain.max(1.0)))
}

/// A device's limit on its way down to its target, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ramp(Option<f64>);

impl Ramp {
    /// The limit now; `None` if none is wanted.
    pub(crate) fn bytes(self) -> Option<f64> {
        self.0
    }

    /// One tick. The limit rises at once. It falls at half of the drain rate, and never below the
    /// device's backlog: the kernel stops all writers of a device above its limit, victims too.
    pub(crate) fn tick(&mut self, level: u32, estimate: &Estimate, hard_limit: Option<u64>) {
        let (Some(drain), Some(hard), true) = (estimate.drain_bytes_per_s, hard_limit, level > 0)
        else {
            self.0 = None;
            return;
        };
        let target = limit_bytes(level, drain) as f64;
        let there = estimate.backlog_bytes as f64;
        let now = self
            .0
            .unwrap_or_else(|| (there * ABOVE_BACKLOG).clamp(target, (hard as f64).max(target)));
        let lower = (now - drain * RAMP * estimate.tick.as_secs_f64()).max(there.min(now));
        self.0 = Some(lower.max(target));
    }

    /// Whether the limit has reached its target.
    pub(crate) fn is_at_target(self, level: u32, estimate: &Estimate) -> bool {
        match (self.0, estimate.drain_bytes_per_s) {
            (Some(now), Some(drain)) => now <= limit_bytes(level, drain) as f64 * (1.0 + DRIFT),
            _ => true,
        }
    }
}
