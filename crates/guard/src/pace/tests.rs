//! Tests of the pace, tick by tick.

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
            assert!(
                pace.rate <= PACE_UP * bearable,
                "{} after {seconds} s of {bearable}",
                pace.rate
            );
            assert!(
                pace.good() >= 0.6 * bearable,
                "{} after {seconds} s of {bearable}",
                pace.good()
            );
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
    let mut rises = Vec::new();
    for tick in 1..80 {
        let few = Estimate { pressure: None, ..beside(0.0, pace.rate, f64::INFINITY) };
        rises.extend(pace.tick(TICK * tick, &few).map(|_| TICK * tick));
    }
    assert_eq!(pace.rate, 100e6);
    // The harm of a rate shows late.
    assert_eq!(rises, [LEAST_TRIAL, LEAST_TRIAL * 2]);
}

#[test]
fn a_rate_that_was_not_judged_is_none_that_victims_bore() {
    let mut pace = Pace::begin(Duration::ZERO, "flood", None, &estimate(0.0));
    let mut tick = 0;
    let mut look = |pace: &mut Pace, pressure: Option<f64>| {
        tick += 1;
        let e = Estimate { pressure, ..beside(0.0, pace.rate, f64::INFINITY) };
        pace.tick(TICK * tick, &e);
    };
    let bore = pace.rate;
    while pace.rate == bore {
        look(&mut pace, None);
    }
    // Three seconds later the first operations end, and are late.
    for _ in 0..12 {
        look(&mut pace, None);
    }
    look(&mut pace, Some(2.0));
    assert!(pace.good <= bore, "{} after {bore}", pace.good);
    // They have begun before the change: one cut is enough.
    let (good, hold) = (pace.good, pace.hold);
    assert!(pace.holds(pace.changed + hold - TICK) && !pace.holds(pace.changed + hold));
    look(&mut pace, Some(2.0));
    assert_eq!(pace.good, good);
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
    // It has shown more than the prior, but that may be its cache: the floor stays while victims
    // miss their goal.
    let shown = Estimate { most_drain_bytes_per_s: Some(200e6), ..late.clone() };
    (0..40).for_each(|tick| drop(pace.tick(TICK * (240 + tick), &shown)));
    assert_eq!((pace.rate, pace.floor), (8e6, 8e6));
    let kept = Estimate { pressure: Some(0.9), ..shown };
    (0..40).for_each(|tick| drop(pace.tick(TICK * (280 + tick), &kept)));
    assert_eq!((pace.rate, pace.floor), (20e6, 20e6));
    // A drain rate that is known counts at once.
    let known = Estimate { drain_is_least: false, ..late };
    let known = Estimate { most_drain_bytes_per_s: Some(300e6), ..known };
    (0..4).for_each(|tick| drop(pace.tick(TICK * (320 + tick), &known)));
    assert_eq!((pace.rate, pace.floor), (30e6, 30e6));
}

#[test]
fn tries_that_harm_become_rare() {
    for bearable in [20e6, 40e6, 70e6] {
        let mut pace = Pace::begin(Duration::ZERO, "flood", None, &estimate(0.5));
        let (mut tries, mut above) = ([0, 0], 0);
        for tick in 1..=4800 {
            let is_above = pace.rate > bearable;
            above += u32::from(is_above);
            let was_draining = pace.is_draining;
            pace.tick(
                TICK * tick,
                &beside(if is_above { 2.0 } else { 0.5 }, pace.rate, f64::INFINITY),
            );
            tries[usize::from(tick > 2400)] += u32::from(pace.is_draining && !was_draining);
        }
        // The second ten minutes: one try with each wait of 128 s, or two.
        assert!(tries[1] <= 5, "{tries:?} harmful tries in the first and the second ten minutes");
        assert!(above < 48, "{above} of 4800 looks are above {bearable}");
    }
}

#[test]
fn a_drain_goes_on_while_an_operation_is_late() {
    let goal = Duration::from_millis(500);
    let few = |pressure, oldest| Estimate { pressure, goal, oldest, ..beside(0.0, 10e6, 10e6) };
    let mut pace = Pace::begin(Duration::ZERO, "flood", None, &few(Some(0.5), Duration::ZERO));
    pace.tick(TICK, &few(Some(1.5), goal));
    assert_eq!(pace.rate, 10e6);
    for tick in 2..20 {
        pace.tick(TICK * tick, &few(None, 2 * goal));
        assert_eq!(pace.rate, 10e6, "{tick}");
    }
    pace.tick(TICK * 20, &few(None, goal / 2));
    assert!(pace.rate > 10e6);
}

#[test]
fn a_flood_that_used_little_for_long_rises_soon_once_it_wants_more() {
    let mut pace = Pace::begin(Duration::ZERO, "flood", None, &estimate(0.5));
    for tick in 1..=1440 {
        let most = if tick <= 1200 { 5e6 } else { f64::INFINITY };
        pace.tick(TICK * tick, &beside(0.1, pace.rate, most));
        assert!(tick > 1200 || pace.rate == 50e6);
    }
    assert_eq!(pace.rate, 100e6);
    // A look after a suspend does not delay the rise either.
    let mut pace = Pace::begin(Duration::ZERO, "flood", None, &estimate(0.5));
    let hour = Duration::from_secs(3600);
    pace.tick(hour, &Estimate { tick: Duration::ZERO, ..estimate(0.1) });
    (1..40).for_each(|tick| drop(pace.tick(hour + TICK * tick, &beside(0.1, pace.rate, 1e9))));
    assert_eq!(pace.rate, 100e6);
}

#[test]
fn harm_at_the_floor_says_nothing_of_higher_rates() {
    let mut pace = Pace::begin(Duration::ZERO, "flood", None, &estimate(0.5));
    let mut now = Duration::ZERO;
    for tick in 0..360 {
        now += TICK;
        let pressure = if pace.rate > 10e6 || tick % 8 < 5 { 2.0 } else { 0.9 };
        pace.tick(now, &beside(pressure, pace.rate, 100e6));
    }
    assert!(pace.rate == 10e6 && pace.ceiling > 10e6, "{} {}", pace.rate, pace.ceiling);
    let free = now;
    while pace.rate < 60e6 {
        now += TICK;
        pace.tick(now, &beside(0.3, pace.rate, 100e6));
        assert!(now - free < Duration::from_secs(150), "{} after {:?}", pace.rate, now - free);
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
