//! Pacing of a flood whose control group holds no victim. The flood writes at a share of the rate
//! at which the device drains. Its group has a separate dirty limit. Nothing that others share is
//! touched.
//!
//! ```text
//! rate ─── begin: half of the drain rate, or of its prior while that is not known
//!   │  victims keep their goal ─▶ × 2 each 0.75 s, until they miss it: back to the last that they bore
//!   │  … with room            ─▶ × 1.25 for two seconds ─┬─ still: kept, and on
//!   │                                                    └─ not: back, and wait longer
//!   │  victims miss their goal ─▶ × 0.75 at once
//!   ├─ between a tenth of the drain rate and all of it, and at least 1 MB/s
//!   │  while that is not known: at least a tenth of its prior; at most half of the prior, or
//!   │  four times what the flood was seen to write
//!   └─ above what the device took when they missed it last: a step each 8 s, later 16 s … 128 s
//! ```
//!
//! The gains are those of TCP BBR (Cardwell et al., 2016): Startup, and probing for bandwidth with 1.25
//! and 0.75. As there, the drain rate is a windowed maximum. The pace does not lower it: a sample of a
//! paced flood counts only if it is higher (see [`crate::estimate`]).

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::Setting;

use crate::config::{
    DOMAIN, FIRST_SHARE, HARMED, IGNORED, LATE, LEAST_DOMAIN, LEAST_PACE, LEAST_SHARE, LEAST_TRIAL,
    MOST_PROBE_WAIT, MOST_UNUSED, PACE_DOWN, PACE_OLD, PACE_ROOM, PACE_START, PACE_START_STEP, PACE_UP,
    PROBE, PROBE_WAIT, SETTLE,
};
use crate::estimate::Estimate;

/// The pace of one group's flood on one device.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    group: String,
    /// Bytes a second that it may write.
    rate: f64,
    /// The rate before the current try of a higher one, and when that try began.
    probing: Option<(f64, Duration)>,
    /// When a higher rate is tried next, and the wait after a try that fails.
    next: Duration,
    wait: Duration,
    /// When the rate was last changed.
    changed: Duration,
    /// When the pace began.
    begun: Duration,
    /// Whether the rate still doubles: victims have borne each so far.
    is_starting: bool,
    /// How long after a change the next may follow.
    hold: Duration,
    /// Bytes that the flood wrote since the last change.
    written: u64,
    /// What the device took of the flood when victims missed their goal last, in bytes a second. It
    /// was the bottleneck then.
    ceiling: f64,
    /// Since victims miss their goal; `None` while they keep it.
    late: Option<Late>,
    /// The most that the flood was seen to write, in bytes a second.
    used: f64,
    /// Whether the rate follows from an earlier start of the guard, and the device has not shown
    /// that it drains as much.
    is_learnt: bool,
    /// Bytes of `memory.high`.
    high: u64,
}

/// Victims miss their goal.
#[derive(Clone, Copy, Debug, Default)]
struct Late {
    time: Duration,
    /// What the device wrote of the flood meanwhile.
    bytes: u64,
    /// Whether the flood was slowed down for it.
    is_slowed: bool,
    /// Whether the ceiling follows from it.
    is_measured: bool,
}

impl Pace {
    /// `last`: the rate at the end of the last encounter, in bytes a second, if there was one.
    pub(crate) fn begin(now: Duration, group: &str, last: Option<f64>, e: &Estimate) -> Self {
        let drain = e.known_most_drain();
        let first = drain.unwrap_or(e.prior_bytes_per_s) * FIRST_SHARE;
        let rate = last.unwrap_or(first).min(drain.unwrap_or(f64::INFINITY)).max(floor(e));
        Self {
            group: group.to_owned(),
            rate,
            probing: None,
            next: now + PROBE,
            wait: PROBE_WAIT,
            changed: now,
            begun: now,
            is_starting: last.is_none(),
            hold: SETTLE,
            written: 0,
            ceiling: f64::INFINITY,
            late: None,
            used: 0.0,
            is_learnt: e.is_learnt,
            high: high(drain.unwrap_or(rate)),
        }
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// Bytes a second that the flood may write.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
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
        self.late.is_some_and(|late| late.time >= LEAST_TRIAL)
            && time >= LEAST_TRIAL
            && self.written as f64 > most
    }

    /// One tick. Returns why the rate has changed; `None` if it has not.
    pub(crate) fn tick(&mut self, now: Duration, e: &Estimate) -> Option<String> {
        if !e.tick.is_zero() {
            self.written += e.flooded_bytes;
            self.used = self.used.max(e.flooded_bytes as f64 / e.tick.as_secs_f64());
        }
        // Too few operations end to tell, and none is late: victims bear it.
        let pressure = e.pressure.unwrap_or(0.0);
        let late = self.late.unwrap_or_default();
        self.late = (pressure > HARMED).then(|| Late {
            time: late.time + e.tick,
            bytes: late.bytes + e.flooded_bytes,
            ..late
        });
        if now - self.changed < self.hold {
            return None;
        }
        let known = e.known_most_drain();
        let drain = e.most_drain_bytes_per_s.unwrap_or(0.0);
        let floor = floor(e);
        // A flood that does not use its rate shows nothing of a higher one.
        let unused = || (MOST_UNUSED * self.used).max(FIRST_SHARE * e.prior_bytes_per_s);
        let most = known.unwrap_or_else(unused).max(floor);
        let before = self.rate;
        self.hold = SETTLE;
        let was_wrong = self.is_learnt && !e.is_learnt && pressure > HARMED;
        self.is_learnt &= e.is_learnt;
        if was_wrong {
            // It begins anew, with what the device has shown.
            (self.begun, self.is_starting) = (now, true);
            self.rate = self.rate.min((drain * FIRST_SHARE).max(floor));
        }
        if pressure > HARMED {
            // Operations that have begun before the change still end.
            self.hold = (SETTLE + e.goal).min(PACE_OLD);
            self.too_much(now, floor);
        } else if self.is_starting {
            if now - self.changed >= PACE_START_STEP {
                let first = FIRST_SHARE * known.unwrap_or(0.0);
                self.rate = (self.rate * PACE_START).max(first).min(most);
                self.is_starting = self.rate < most;
            }
        } else if self.probing.is_none_or(|(_, since)| now - since >= PROBE) {
            if self.probing.take().is_some() {
                // The higher rate does no harm: it is kept. A device with a cache shows harm only once
                // its cache is full.
                self.next = if self.rate > self.ceiling { now + self.wait } else { now };
            }
            if pressure <= PACE_ROOM && now >= self.next && self.rate < most {
                let below = if self.rate < self.ceiling { self.ceiling } else { f64::INFINITY };
                self.probing = Some((self.rate, now));
                self.rate = (self.rate * PACE_UP).min(most).min(below);
            }
        }
        if self.rate == before {
            return None;
        }
        (self.changed, self.written) = (now, 0);
        // The drain rate may have been far too low at first. Less is not asked for again: the
        // kernel would reclaim the group's memory once more.
        self.high = self.high.max(high(drain.max(self.rate)));
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

    /// Victims miss their goal.
    fn too_much(&mut self, now: Duration, floor: f64) {
        let late = self.late.get_or_insert_default();
        let is_first = !std::mem::replace(&mut late.is_slowed, true);
        let took = (late.time >= LATE).then(|| late.bytes as f64 / late.time.as_secs_f64());
        if self.is_starting && now - self.begun < PACE_OLD {
            self.rate = (self.rate * PACE_DOWN).max(floor);
            return;
        }
        let held = self.probing.take().map(|(rate, _)| rate);
        if is_first {
            let was_tried = held.is_some() || self.rate > self.ceiling;
            self.wait = if was_tried { (self.wait * 2).min(MOST_PROBE_WAIT) } else { PROBE_WAIT };
            self.ceiling = self.rate;
        }
        // The device was the bottleneck at first. Once the flood is slowed down, it takes what it gets.
        if let Some(took) = took.filter(|_| !std::mem::replace(&mut late.is_measured, true)) {
            self.ceiling = took.max(self.rate * PACE_DOWN).min(self.ceiling);
        }
        self.next = now + self.wait;
        let down = if std::mem::take(&mut self.is_starting) { 1.0 / PACE_START } else { PACE_DOWN };
        self.rate = held.unwrap_or((self.rate * down).min(self.ceiling * PACE_DOWN)).max(floor);
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
            ..Estimate::default()
        }
    }

    /// The pace after so many seconds, if the pressure follows from its rate.
    fn after(seconds: u64, pressure: impl Fn(f64) -> f64) -> Pace {
        let mut now = Duration::ZERO;
        let mut pace = Pace::begin(now, "flood", None, &estimate(0.5));
        while now < Duration::from_secs(seconds) {
            now += TICK;
            pace.tick(now, &estimate(pressure(pace.rate)));
        }
        pace
    }

    #[test]
    fn it_finds_the_rate_that_victims_bear_and_keeps_to_it() {
        for bearable in [20e6, 60e6, 90e6] {
            let mut most = 0.0f64;
            for seconds in 30..60 {
                let rate = after(seconds, |rate| if rate > bearable { 2.0 } else { 0.5 }).rate;
                most = most.max(rate);
                assert!(rate >= 0.6 * bearable, "{rate} after {seconds} s of {bearable}");
            }
            assert!(most <= PACE_UP * bearable, "{most} of {bearable}");
        }
    }

    #[test]
    fn a_drain_rate_that_was_far_too_low_at_first_is_made_up_for_in_seconds() {
        let slow = Estimate { most_drain_bytes_per_s: Some(5e6), ..estimate(0.1) };
        let mut pace = Pace::begin(Duration::ZERO, "flood", None, &slow);
        let mut now = Duration::ZERO;
        while pace.rate < 60e6 {
            now += TICK;
            pace.tick(now, &estimate(0.1));
            assert!(now < Duration::from_secs(12), "{} after {now:?}", pace.rate);
        }
    }

    #[test]
    fn a_victim_with_few_operations_keeps_no_flood_at_its_first_rate() {
        let few = Estimate { pressure: None, ..estimate(0.0) };
        let mut pace = Pace::begin(Duration::ZERO, "flood", None, &few);
        for tick in 1..80 {
            pace.tick(TICK * tick, &few);
        }
        assert_eq!(pace.rate, 100e6);
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
    fn a_long_time_at_the_least_rate_does_not_lower_the_ceiling() {
        let beside = |pressure: f64, rate: f64| Estimate {
            tick: TICK,
            flooded_bytes: (rate.min(60e6) * TICK.as_secs_f64()) as u64,
            ..estimate(pressure)
        };
        let mut pace = Pace::begin(Duration::ZERO, "flood", None, &beside(0.5, 50e6));
        let mut now = Duration::ZERO;
        for tick in 0..480 {
            now += TICK;
            let pressure = if (40..400).contains(&tick) { 3.0 } else { 0.5 };
            pace.tick(now, &beside(pressure, pace.rate));
        }
        assert!(pace.ceiling >= 50e6, "{}", pace.ceiling);
        assert!(pace.rate >= 45e6, "{} after 20 s without harm", pace.rate);
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
