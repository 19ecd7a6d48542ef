//! Pacing of a flood whose control group holds no victim. The flood writes at a share of the rate
//! at which the device drains. Its group has a separate dirty limit. Nothing that others share is
//! touched.
//!
//! ```text
//! begin: half of the drain rate, or of its prior while that is not known; where victims miss their
//!        goal already, the floor first
//!   │  victims keep their goal with room ─▶ × 1.5 a second, up to 85 % of a rate that harmed them
//!   │  from there on                     ─▶ × 1.1 each 8 s, after failures 16 s … 128 s
//!   └─ victims miss their goal           ─▶ the floor at once, until they keep it again; then the
//!                                           last rate that they bore
//! floor: a tenth of the drain rate, or of its prior; at least 1 MB/s. Never above the drain rate.
//! ```
//!
//! The scheme is TCP BBR's (Cardwell et al., 2016). Startup raises the rate, Drain empties the queue after
//! it was too high, and ProbeBW looks for more. As there, a sample that the sender limits tells nothing:
//! the rate rises only if the device has written what the flood may. The gains are smaller, and tries
//! rarer. A try that is too high makes victims wait for half a second. To keep a p99, that may be one
//! second in a hundred.
//!
//! The drain rate is a windowed maximum. The pace does not lower it: a sample of a paced flood counts only
//! if it is higher (see [`crate::estimate`]).

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::Setting;

use crate::config::{
    BASE_MULTIPLE, DOMAIN, FIRST_SHARE, HARMED, IGNORED, LEAST_DOMAIN, LEAST_PACE, LEAST_SHARE, LEAST_TRIAL,
    MOST_PROBE_WAIT, PACE_DOWN, PACE_NEAR, PACE_NEAR_UP, PACE_OLD, PACE_ROOM, PACE_STEP, PACE_UP, PACE_USED,
    PROBE, PROBE_WAIT, SETTLE,
};
use crate::estimate::Estimate;

/// The pace of one group's flood on one device.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    group: String,
    /// Bytes a second that it may write.
    rate: f64,
    /// The highest rate that victims bore. The flood goes back to it.
    good: f64,
    /// Whether the flood has its floor, until victims keep their goal again.
    is_draining: bool,
    /// When that rate was last lowered because victims missed their goal.
    slowed: Duration,
    /// The lowest rate that harmed victims.
    ceiling: f64,
    /// Whether the rate has risen near the ceiling since victims missed their goal.
    is_probing: bool,
    /// When a higher rate is tried next, and the wait after a try that fails.
    next: Duration,
    wait: Duration,
    /// When the rate was last changed.
    changed: Duration,
    /// How long after a change victims may still wait for older writes.
    hold: Duration,
    /// Bytes that the flood wrote since the last change.
    written: u64,
    /// For how long victims miss their goal.
    late: Duration,
    /// Whether the rate follows from an earlier start of the guard, and the device has not shown
    /// that it drains as much.
    is_learnt: bool,
    /// Bytes of `memory.high`.
    high: u64,
}

impl Pace {
    /// `last`: the rate at the end of the last encounter, in bytes a second, if there was one.
    pub(crate) fn begin(now: Duration, group: &str, last: Option<f64>, e: &Estimate) -> Self {
        let drain = e.known_most_drain();
        let first = drain.unwrap_or(e.prior_bytes_per_s) * FIRST_SHARE;
        let good = last.unwrap_or(first).min(drain.unwrap_or(f64::INFINITY)).max(floor(e));
        let mut pace = Self {
            group: group.to_owned(),
            rate: good,
            good,
            is_draining: false,
            slowed: now,
            ceiling: f64::INFINITY,
            is_probing: false,
            next: now,
            wait: PROBE_WAIT,
            changed: now,
            hold: Duration::ZERO,
            written: 0,
            late: Duration::ZERO,
            is_learnt: e.is_learnt,
            high: high(drain.unwrap_or(good)),
        };
        if e.pressure.is_some_and(|pressure| pressure > HARMED) {
            pace.drain(e);
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

    /// The highest rate that victims bore: the next encounter begins there.
    pub(crate) fn good(&self) -> f64 {
        self.good
    }

    /// When the rate was last changed. Operations that ended before met another rate.
    pub(crate) fn changed(&self) -> Duration {
        self.changed
    }

    /// Whether victims have missed their goal for [`LEAST_TRIAL`] beside this rate, and the device
    /// writes far more. It also writes what victims write past the page cache, so only much more tells
    /// that the pace does not hold the flood.
    pub(crate) fn is_ignored(&self, now: Duration) -> bool {
        let time = now - self.changed;
        let most = IGNORED * self.rate * time.as_secs_f64();
        self.late.min(time) >= LEAST_TRIAL && self.written as f64 > most
    }

    /// One tick. Returns why the rate has changed; `None` if it has not.
    pub(crate) fn tick(&mut self, now: Duration, e: &Estimate) -> Option<String> {
        if !e.tick.is_zero() {
            self.written += e.flooded_bytes;
        }
        // Too few operations end to tell, and none is late: victims bear it.
        let pressure = e.pressure.unwrap_or(0.0);
        let is_late = pressure > HARMED;
        self.late = if is_late { self.late + e.tick } else { Duration::ZERO };
        if now - self.changed < self.hold {
            return None;
        }
        let known = e.known_most_drain();
        let shown = e.most_drain_bytes_per_s.unwrap_or(0.0);
        let floor = floor(e);
        let before = self.rate;
        self.hold = Duration::ZERO;
        let was_wrong = self.is_learnt && !e.is_learnt && is_late;
        self.is_learnt &= e.is_learnt;
        if was_wrong {
            // It begins anew, with what the device has shown.
            self.good = self.good.min(shown * FIRST_SHARE);
        }
        if is_late {
            self.too_much(now, floor);
            self.drain(e);
        } else if self.is_draining {
            self.is_draining = false;
            self.rate = self.good.max(floor);
            self.next = now + self.wait;
        } else if pressure <= PACE_ROOM && now >= self.next && self.is_used(now) {
            self.more(now, e, known.unwrap_or(f64::INFINITY).max(floor));
        }
        self.rate = self.rate.max(floor);
        if self.rate == before {
            return None;
        }
        (self.changed, self.written) = (now, 0);
        // The drain rate may have been far too low at first. Less is not asked for again: the
        // kernel would reclaim the group's memory once more.
        self.high = self.high.max(high(shown.max(self.rate)));
        let of = match known {
            None => "the drain rate is not known yet".to_owned(),
            Some(drain) => format!("{:.0} % of the drain rate", 100.0 * self.rate / drain.max(1.0)),
        };
        Some(format!(
            "victims wait {pressure:.1} × the goal of {:.1?}: the flood may write {:.1} MB/s, {of}",
            e.goal,
            self.rate / 1e6
        ))
    }

    /// Whether the device has written as much as the flood may since the last change. A flood that
    /// does not use its rate shows nothing of a higher one, nor does a device that can't follow.
    fn is_used(&self, now: Duration) -> bool {
        self.written as f64 >= PACE_USED * self.rate * (now - self.changed).as_secs_f64()
    }

    /// Victims have room: a higher rate, at most this one.
    fn more(&mut self, now: Duration, e: &Estimate, most: f64) {
        self.good = self.rate;
        let near = PACE_NEAR * self.ceiling;
        let to = if self.rate < near { (self.rate * PACE_UP).min(near) } else { self.rate * PACE_NEAR_UP };
        if self.rate >= near && std::mem::replace(&mut self.is_probing, true) {
            // They bore the last one.
            self.wait = PROBE_WAIT;
        }
        self.rate = to.min(most).max(self.rate);
        // A device with a cache shows harm only once its cache is full.
        self.next = now + if self.rate < near { Self::step(e) } else { self.wait };
    }

    /// Time from one higher rate to the next: an operation that is late is seen so long after it began.
    fn step(e: &Estimate) -> Duration {
        PACE_STEP.max(e.goal.mul_f64(BASE_MULTIPLE))
    }

    /// Victims miss their goal.
    fn too_much(&mut self, now: Duration, floor: f64) {
        if self.is_draining {
            // They may wait for older writes of the flood.
            if now - self.slowed >= PACE_OLD {
                self.slowed = now;
                self.good = (self.good * PACE_DOWN).max(floor);
            }
            return;
        }
        self.slowed = now;
        let was_tried = self.rate > self.good && now - self.changed < PROBE;
        if std::mem::take(&mut self.is_probing) {
            self.wait = (self.wait * 2).min(MOST_PROBE_WAIT);
        }
        self.ceiling = self.rate;
        self.good = if was_tried { self.good.min(self.rate * PACE_NEAR) } else { self.rate * PACE_DOWN };
    }

    /// Holds the flood back until what it has queued is written.
    fn drain(&mut self, e: &Estimate) {
        self.is_draining = true;
        self.rate = floor(e);
        // Operations that have begun before the change still end.
        self.hold = (SETTLE + e.goal).min(PACE_OLD);
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

/// The least rate, in bytes a second.
fn floor(e: &Estimate) -> f64 {
    let shown = || e.most_drain_bytes_per_s.unwrap_or(0.0).max(e.prior_bytes_per_s);
    (LEAST_SHARE * e.known_most_drain().unwrap_or_else(shown)).max(LEAST_PACE)
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
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(250);

    fn estimate(pressure: f64) -> Estimate {
        Estimate {
            drain_bytes_per_s: Some(100e6),
            most_drain_bytes_per_s: Some(100e6),
            pressure: Some(pressure),
            tick: TICK,
            ..Estimate::default()
        }
    }

    /// The same beside a flood that uses its rate, up to this one.
    fn beside(pressure: f64, rate: f64, most: f64) -> Estimate {
        Estimate { flooded_bytes: (rate.min(most) * TICK.as_secs_f64()) as u64, ..estimate(pressure) }
    }

    /// The pace after so many seconds, if the pressure follows from its rate.
    fn after(seconds: u64, pressure: impl Fn(f64) -> f64) -> Pace {
        let mut now = Duration::ZERO;
        let mut pace = Pace::begin(now, "flood", None, &estimate(0.5));
        while now < Duration::from_secs(seconds) {
            now += TICK;
            pace.tick(now, &beside(pressure(pace.rate), pace.rate, f64::INFINITY));
        }
        pace
    }

    #[test]
    fn it_finds_the_rate_that_victims_bear_and_keeps_to_it() {
        for bearable in [20e6, 60e6, 90e6] {
            let (mut sum, mut late) = (0.0, 0);
            for seconds in 30..90 {
                let pace = after(seconds, |rate| if rate > bearable { 2.0 } else { 0.5 });
                (sum, late) = (sum + pace.rate, late + u32::from(pace.rate > bearable));
                assert!(pace.rate <= PACE_UP * bearable, "{} after {seconds} s of {bearable}", pace.rate);
                assert!(pace.good() >= 0.6 * bearable, "{} after {seconds} s of {bearable}", pace.good());
            }
            assert!(sum / 60.0 >= 0.7 * bearable, "{} of {bearable} in the mean", sum / 60.0);
            assert!(late <= 3, "too fast in {late} of 60 seconds beside {bearable}");
        }
    }

    #[test]
    fn victims_that_miss_their_goal_have_the_flood_at_its_floor_until_they_keep_it_again() {
        let mut pace = Pace::begin(Duration::ZERO, "flood", None, &estimate(0.5));
        pace.tick(TICK, &beside(1.5, pace.rate, 100e6));
        assert_eq!((pace.rate, pace.good()), (10e6, 37.5e6));
        // In the first half of a second operations that began before the change still end.
        pace.tick(2 * TICK, &beside(0.5, pace.rate, 100e6));
        assert_eq!(pace.rate, 10e6);
        pace.tick(3 * TICK, &beside(1.5, pace.rate, 100e6));
        assert_eq!((pace.rate, pace.good()), (10e6, 37.5e6), "they may wait for older writes");
        pace.tick(4 * TICK, &beside(0.5, pace.rate, 100e6));
        assert_eq!(pace.rate, 37.5e6);
    }

    #[test]
    fn a_drain_rate_that_was_far_too_low_at_first_is_made_up_for_in_seconds() {
        let slow = Estimate { most_drain_bytes_per_s: Some(5e6), ..estimate(0.1) };
        let mut pace = Pace::begin(Duration::ZERO, "flood", None, &slow);
        let mut now = Duration::ZERO;
        while pace.rate < 60e6 {
            now += TICK;
            pace.tick(now, &beside(0.1, pace.rate, f64::INFINITY));
            assert!(now < Duration::from_secs(12), "{} after {now:?}", pace.rate);
        }
    }

    #[test]
    fn a_victim_with_few_operations_keeps_no_flood_at_its_first_rate() {
        let mut pace = Pace::begin(Duration::ZERO, "flood", None, &estimate(0.0));
        for tick in 1..80 {
            let few = Estimate { pressure: None, ..beside(0.0, pace.rate, f64::INFINITY) };
            pace.tick(TICK * tick, &few);
        }
        assert_eq!(pace.rate, 100e6);
    }

    #[test]
    fn a_rate_that_the_device_does_not_follow_does_not_rise() {
        let unknown = Estimate { drain_is_least: true, prior_bytes_per_s: 100e6, ..estimate(0.1) };
        let mut pace = Pace::begin(Duration::ZERO, "flood", None, &unknown);
        for tick in 1..240 {
            let e = Estimate { drain_is_least: true, ..beside(0.1, pace.rate, 120e6) };
            pace.tick(TICK * tick, &e);
        }
        assert!((120e6..=120e6 / PACE_USED * PACE_UP).contains(&pace.rate), "{}", pace.rate);
    }

    #[test]
    fn the_flood_keeps_a_tenth_and_never_more_than_all() {
        assert_eq!(after(60, |_| 5.0).rate, 10e6);
        assert_eq!(after(60, |_| 0.1).rate, 100e6);
    }

    #[test]
    fn the_flood_keeps_a_tenth_of_the_prior_while_the_drain_rate_is_not_known() {
        let late = Estimate {
            drain_bytes_per_s: None,
            prior_bytes_per_s: 80e6,
            most_drain_bytes_per_s: None,
            drain_is_least: true,
            ..estimate(5.0)
        };
        let mut pace = Pace::begin(Duration::ZERO, "flood", None, &late);
        for tick in 1..240 {
            pace.tick(TICK * tick, &late);
        }
        assert_eq!(pace.rate, 8e6);
        // It has drained more than the prior: a tenth of that, although the flood has not used it.
        let shown = Estimate { most_drain_bytes_per_s: Some(200e6), ..late };
        (0..40).for_each(|tick| drop(pace.tick(TICK * (240 + tick), &shown)));
        assert_eq!(pace.rate, 20e6);
    }

    #[test]
    fn the_cap_of_an_unknown_drain_rate_is_never_below_the_floor() {
        let quiet = Estimate {
            drain_bytes_per_s: None,
            prior_bytes_per_s: 10e6,
            most_drain_bytes_per_s: Some(300e6),
            drain_is_least: true,
            ..estimate(0.1)
        };
        let mut pace = Pace::begin(Duration::ZERO, "flood", None, &quiet);
        for tick in 1..80 {
            pace.tick(TICK * tick, &quiet);
            assert!(pace.rate >= 30e6, "{} after {tick} ticks", pace.rate);
        }
    }

    #[test]
    fn a_pace_from_a_time_when_the_drain_rate_was_far_lower_rises_to_the_floor() {
        for (last, drain) in [(4e6, 500e6), (0.0, 0.0), (1e3, 2e3)] {
            let e = Estimate {
                tick: TICK,
                flooded_bytes: 1 << 20,
                most_drain_bytes_per_s: Some(drain),
                ..estimate(3.0)
            };
            let mut pace = Pace::begin(Duration::ZERO, "flood", Some(last), &e);
            let least = (LEAST_SHARE * drain).max(LEAST_PACE);
            for tick in 1..80 {
                assert!(pace.rate >= least, "{} of {drain}", pace.rate);
                // Victims are late, and late no more, in turns.
                let pressure = if tick % 20 < 13 { 3.0 } else { 0.5 };
                pace.tick(TICK * tick, &Estimate { pressure: Some(pressure), ..e.clone() });
            }
            assert!(pace.rate.is_finite());
        }
    }

    #[test]
    fn a_minute_and_a_half_at_the_floor_is_made_up_for_within_a_minute() {
        let mut pace = Pace::begin(Duration::ZERO, "flood", None, &estimate(0.5));
        let mut now = Duration::ZERO;
        for tick in 0..640 {
            now += TICK;
            let pressure = if (40..400).contains(&tick) { 3.0 } else { 0.5 };
            pace.tick(now, &beside(pressure, pace.rate, 60e6));
        }
        assert!(pace.rate >= 45e6, "{} after a minute without harm", pace.rate);
    }

    #[test]
    fn a_pace_that_the_flood_ignores_is_told() {
        let ignored = |pressure: f64, flood: f64| {
            let e = Estimate {
                tick: TICK,
                flooded_bytes: (flood * TICK.as_secs_f64()) as u64,
                ..estimate(pressure)
            };
            let mut pace = Pace::begin(Duration::ZERO, "flood", None, &e);
            let is_ignored = |tick: u32| {
                pace.tick(TICK * tick, &e);
                pace.is_ignored(TICK * tick)
            };
            (1..80).any(is_ignored)
        };
        // The least is 10 MB/s. What victims suffer beside it, more of the flood would not mend.
        assert!(ignored(5.0, 90e6));
        assert!(!ignored(5.0, 10e6) && !ignored(0.5, 90e6));
    }

    #[test]
    fn the_administrators_other_limits_stay() {
        let pace = Pace::begin(Duration::ZERO, "flood", None, &estimate(0.5));
        let own = |line: &str, high: &str| {
            let pairs = [("flood:io.max", line), ("flood:memory.high", high)];
            pace.knobs(&pairs.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
        };
        let free = own("rbps=5 wbps=max riops=max wiops=7", "max");
        assert_eq!(free["flood:io.max"], "rbps=5 wbps=50000000 riops=max wiops=7");
        assert_eq!(free["flood:memory.high"], (300_000_000u64 >> 16 << 16).to_string());
        let tight = own("rbps=max wbps=9000000 riops=max wiops=max", "67108864");
        assert_eq!(tight["flood:io.max"], "rbps=max wbps=9000000 riops=max wiops=max");
        assert_eq!(tight["flood:memory.high"], "67108864");
    }
}
