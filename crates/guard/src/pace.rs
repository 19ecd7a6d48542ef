//! Pacing of a flood whose control group holds no victim. The flood writes at a share of the rate
//! at which the device drains. Its group has a separate dirty limit. Nothing that others share is
//! touched.
//!
//! ```text
//! begin: half of the drain rate (of its prior while unknown); the floor, if victims already miss
//!        their goal
//!   │  victims keep their goal with room ─▶ × 1.5 a second, up to 85 % of a rate that harmed them
//!   │  from there on                     ─▶ × 1.1 each 8 s, after failures 16 s … 128 s
//!   └─ victims miss their goal           ─▶ the floor at once, until they keep it again; then the
//!                                           last rate that they bore, or three quarters of it
//! floor: a tenth of the drain rate (of its prior while unknown); at least 1 MB/s
//! ```
//!
//! The scheme is TCP BBR's (Cardwell et al., 2016). Startup raises the rate. Drain empties the
//! queue after it was too high. ProbeBW looks for more. As there, a sample that the sender limits
//! tells nothing: the rate rises only if the device has written what the flood may. The gains are
//! smaller, and tries are rarer. A rate that is too high makes victims wait, for half a second or,
//! behind a cache, for seconds. A p99 allows one second in a hundred.
//!
//! The drain rate is a windowed maximum. The pace does not lower it: a sample of a paced flood
//! counts only if it is higher (see [`crate::estimate`]).

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::Setting;
use floodwall_model::units::{Rate, human_duration};

use crate::config::{
    BASE_MULTIPLE, DOMAIN, FIRST_SHARE, HARMED, IGNORED, LEAST_DOMAIN, LEAST_PACE, LEAST_SHARE,
    LEAST_TRIAL, MOST_PROBE_WAIT, PACE_DOWN, PACE_NEAR, PACE_NEAR_UP, PACE_OLD, PACE_ROOM,
    PACE_STEP, PACE_UP, PACE_USED, PROBE_WAIT, SETTLE,
};
use crate::estimate::Estimate;

/// The pace of one group's flood on one device.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    group: String,
    /// Bytes a second that it may write.
    rate: f64,
    /// The rate to go back to after victims missed their goal: the last that they bore, or less.
    good: f64,
    /// The least rate.
    floor: f64,
    /// The last rate at which victims missed their goal.
    ceiling: f64,
    /// Whether the flood has its floor, until victims keep their goal again.
    is_draining: bool,
    /// When the drain began, or `good` was last lowered in it.
    lowered: Duration,
    /// Whether the rate has risen near the ceiling since victims missed their goal.
    is_probing: bool,
    /// When a higher rate is tried next, and the wait after a try that fails.
    next: Duration,
    wait: Duration,
    /// When the rate was last changed, or a drain began.
    changed: Duration,
    /// For how long after that the rate stays as it is.
    hold: Duration,
    /// Bytes that the device wrote of the flood, and since when.
    written: u64,
    counted: Duration,
    /// For how long victims have missed their goal.
    late: Duration,
    /// Whether the rate follows from an earlier start of the guard, and victims have not borne it
    /// yet.
    is_learnt: bool,
    /// Bytes of `memory.high`.
    high: u64,
}

impl Pace {
    /// `last`: the rate that victims bore in the last encounter, in bytes a second, if there was
    /// one.
    pub(crate) fn begin(now: Duration, group: &str, last: Option<f64>, e: &Estimate) -> Self {
        let drain = e.known_most_drain();
        let first = drain.unwrap_or(e.prior_bytes_per_s) * FIRST_SHARE;
        let floor = floor(e);
        let good = last.unwrap_or(first).min(drain.unwrap_or(f64::INFINITY)).max(floor);
        let mut pace = Self {
            group: group.to_owned(),
            rate: good,
            good,
            floor,
            // A higher rate was tried in the last encounter.
            ceiling: if last.is_some() { good / PACE_NEAR } else { f64::INFINITY },
            is_draining: false,
            lowered: now,
            is_probing: false,
            next: now + if last.is_some() { PROBE_WAIT } else { step(e) },
            wait: PROBE_WAIT,
            changed: now,
            hold: Duration::ZERO,
            written: 0,
            counted: now,
            late: Duration::ZERO,
            is_learnt: e.is_learnt,
            high: high(drain.unwrap_or(good)),
        };
        if e.pressure.is_some_and(|pressure| pressure > HARMED) {
            pace.forget_import(e);
            pace.drain(now, e);
        }
        pace
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// Bytes a second that the flood may write.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    /// The rate at which the next encounter begins.
    pub(crate) fn good(&self) -> f64 {
        self.good
    }

    /// Whether operations that have begun before the last change may still end.
    pub(crate) fn holds(&self, now: Duration) -> bool {
        now - self.changed < self.hold
    }

    /// When the rate was last changed. Operations that ended before met another rate.
    pub(crate) fn changed(&self) -> Duration {
        self.changed
    }

    /// Whether victims have missed their goal for [`LEAST_TRIAL`] beside this rate, and the device
    /// writes far more. It also writes what victims write past the page cache, so only much more
    /// tells that the pace does not hold the flood.
    pub(crate) fn is_ignored(&self, now: Duration) -> bool {
        let time = now - self.counted;
        let most = IGNORED * self.rate * time.as_secs_f64();
        self.late.min(time) >= LEAST_TRIAL && self.written as f64 > most
    }

    /// One tick. Returns why the rate has changed; `None` if it has not.
    pub(crate) fn tick(&mut self, now: Duration, e: &Estimate) -> Option<String> {
        if e.tick.is_zero() {
            // The bytes written meanwhile are unknown.
            self.count_anew(now);
        }
        self.written += e.flooded_bytes;
        // Too few operations end to tell, and none is very late: victims bear a rate. A drain goes
        // on until none is late at all.
        let is_late =
            e.pressure.map_or(self.is_draining && e.oldest > e.goal, |pressure| pressure > HARMED);
        self.late = if is_late { self.late + e.tick } else { Duration::ZERO };
        self.follow_floor(e, is_late);
        if self.holds(now) {
            return None;
        }
        self.hold = Duration::ZERO;
        let before = self.rate;
        if is_late {
            self.too_much(now, e);
        } else if self.is_draining {
            self.is_draining = false;
            self.rate = self.good;
            self.next = now + self.wait;
        } else {
            self.bear(now, e);
        }
        self.rate = self.rate.max(self.floor);
        (self.rate != before).then(|| self.change(now, e))
    }

    /// The floor follows the drain rate, or what the device has shown until that is known. A rate
    /// that it has shown does not raise the floor while victims miss their goal, because it may be
    /// a burst into the cache.
    fn follow_floor(&mut self, e: &Estimate, is_late: bool) {
        let least = floor(e);
        let is_known = e.known_most_drain().is_some() && !e.is_learnt;
        let is_held = (is_late || self.is_draining) && !is_known;
        self.floor = if is_held { self.floor.min(least) } else { least };
        self.good = self.good.max(self.floor);
    }

    /// The rate was changed. Returns why.
    fn change(&mut self, now: Duration, e: &Estimate) -> String {
        self.changed = now;
        self.count_anew(now);
        let shown = e.most_drain_bytes_per_s.unwrap_or(0.0);
        // The drain rate may have been far too low at first. Less is not asked for again: the
        // kernel would reclaim the group's memory once more.
        self.high = self.high.max(high(shown.max(self.rate)));
        let of = match e.known_most_drain() {
            None => "the drain rate is not known yet".to_owned(),
            Some(drain) => format!("{:.0} % of the drain rate", 100.0 * self.rate / drain.max(1.0)),
        };
        let wait = match e.pressure {
            Some(pressure) => {
                format!("victims wait {pressure:.1} × the goal of {}", human_duration(e.goal))
            }
            None => "too few operations end to tell the victims' wait".to_owned(),
        };
        format!("{wait}: the flood may write {}, {of}", Rate(self.rate))
    }

    /// Victims keep their goal. They bear a rate once late operations would have shown; with room
    /// for more, a higher one is tried.
    fn bear(&mut self, now: Duration, e: &Estimate) {
        // Without a judged operation the harm of a rate shows late.
        let is_judged = e.pressure.is_some() || now - self.changed >= LEAST_TRIAL;
        if is_judged && now - self.changed >= step(e) {
            (self.good, self.is_learnt) = (self.rate, false);
        }
        if now < self.next || !is_judged || e.pressure.unwrap_or(0.0) > PACE_ROOM {
            return;
        }
        if !self.is_used(now) {
            // A flood that does not use its rate shows nothing of a higher one, nor does a device
            // that can't follow.
            self.count_anew(now);
            self.next = now + step(e);
            return;
        }
        let most = e.known_most_drain().unwrap_or(f64::INFINITY);
        if self.rate > self.ceiling {
            // They bear more than they did: the ceiling is higher, and not known.
            (self.ceiling, self.wait) = (self.rate * PACE_UP, PROBE_WAIT);
        }
        let near = PACE_NEAR * self.ceiling;
        let is_near = self.rate >= near;
        self.is_probing |= is_near;
        self.good = self.rate;
        let to = if is_near { self.rate * PACE_NEAR_UP } else { (self.rate * PACE_UP).min(near) };
        self.rate = to.min(most).max(self.rate);
        // A device with a cache shows harm only once its cache is full.
        self.next = now + if is_near { self.wait } else { step(e) };
    }

    /// Victims miss their goal.
    fn too_much(&mut self, now: Duration, e: &Estimate) {
        if self.is_draining {
            // They may wait for older writes of the flood.
            if now - self.lowered >= PACE_OLD {
                self.lowered = now;
                self.good *= PACE_DOWN;
            }
        } else if self.rate > self.floor {
            if std::mem::take(&mut self.is_probing) {
                self.wait = (self.wait * 2).min(MOST_PROBE_WAIT);
            }
            // The rate is to blame if it is new, else the one before may be.
            let is_new = self.rate > self.good;
            self.ceiling = self.rate;
            self.good = self.good.min(self.rate * if is_new { PACE_NEAR } else { PACE_DOWN });
            self.forget_import(e);
        }
        self.good = self.good.max(self.floor);
        if !self.is_draining {
            self.drain(now, e);
        }
    }

    /// Victims miss their goal at an earlier start's rate, or before it: the prior counts instead.
    fn forget_import(&mut self, e: &Estimate) {
        if std::mem::take(&mut self.is_learnt) {
            self.good = self.good.min(FIRST_SHARE * e.prior_bytes_per_s).max(self.floor);
        }
    }

    /// Holds the flood to its floor until victims keep their goal again.
    fn drain(&mut self, now: Duration, e: &Estimate) {
        (self.is_draining, self.lowered, self.changed) = (true, now, now);
        self.rate = self.floor;
        // Operations that have begun before the change still end.
        self.hold = (SETTLE + e.goal).min(PACE_OLD);
    }

    fn count_anew(&mut self, now: Duration) {
        (self.written, self.counted) = (0, now);
    }

    /// Whether the device has written as much as the flood may.
    fn is_used(&self, now: Duration) -> bool {
        self.written as f64 >= PACE_USED * self.rate * (now - self.counted).as_secs_f64()
    }

    /// The wanted knobs with their values. Never more than the administrator allows.
    pub(crate) fn knobs(&self, own: &Setting) -> BTreeMap<String, String> {
        let [io_max, high] = limits(&self.group);
        let mut knobs = BTreeMap::new();
        if let Some(line) = own.get(&io_max) {
            let wbps = |pair: &str| {
                let most = pair.strip_prefix("wbps=")?.parse().unwrap_or(u64::MAX);
                Some(format!("wbps={}", most.min(self.rate as u64)))
            };
            let pairs = line.split(' ').map(|pair| wbps(pair).unwrap_or_else(|| pair.to_owned()));
            knobs.insert(io_max, pairs.collect::<Vec<_>>().join(" "));
        }
        if let Some(own) = own.get(&high) {
            let most = own.parse().unwrap_or(u64::MAX);
            knobs.insert(high, self.high.min(most).to_string());
        }
        knobs
    }
}

/// Time from one higher rate to the next: an operation that is late is seen so long after it began.
fn step(e: &Estimate) -> Duration {
    PACE_STEP.max(e.goal.mul_f64(BASE_MULTIPLE))
}

/// The least rate, in bytes a second. An earlier start's drain rate may be far too high: the prior
/// stands for it until the device has shown as much.
fn floor(e: &Estimate) -> f64 {
    let shown = || e.most_drain_bytes_per_s.unwrap_or(0.0).max(e.prior_bytes_per_s);
    let drain =
        if e.is_learnt { e.prior_bytes_per_s } else { e.known_most_drain().unwrap_or_else(shown) };
    (LEAST_SHARE * drain).max(LEAST_PACE)
}

/// Bytes of `memory.high` for a drain rate: whole pages of every architecture, as the kernel reads
/// them back.
fn high(drain: f64) -> u64 {
    ((drain * DOMAIN.as_secs_f64()) as u64 >> 16 << 16).max(LEAST_DOMAIN)
}

/// The knobs that hold a group to its pace. Both are needed: a group without a separate dirty limit
/// fills the machine's, where victims wait too.
pub(crate) fn limits(group: &str) -> [String; 2] {
    [format!("{group}:io.max"), format!("{group}:memory.high")]
}

#[cfg(test)]
mod tests;
