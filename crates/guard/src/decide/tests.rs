use super::*;
use floodwall_model::LatencyCounts;
use floodwall_model::latency::bucket_of;

use crate::act::Held;
use crate::config::{DEAD_S, Mode};

const TICK: Duration = Duration::from_millis(250);

fn offers() -> Offers<'static> {
    let own = [("scheduler", "mq-deadline"), ("nr_requests", "256"), ("max_sectors_kb", "4096")];
    Offers::of(
        &Held::new(own.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect()),
        None,
        None,
    )
}

const WHOLE: Whole = Whole {
    wait_s: Some(0.005),
    drain: 1e8,
    goal_s: None,
    goal_is_given: false,
    mode: Mode::Balance,
};

/// A disk of 100 MB/s with victims and floods: the victims' share of their speed alone, and the
/// flood's.
fn estimate(victims: f64, flood: f64) -> Estimate {
    let ended = (100.0 * victims) as u64;
    let each = 500_000_000 / ended.max(1);
    Estimate {
        drain_bytes_per_s: Some(1e8),
        base: Some(Duration::from_millis(5)),
        goal: Duration::from_millis(20),
        pressure: Some(1.5),
        ended: LatencyCounts::from_buckets([(bucket_of(each), ended)], each * ended, each),
        under_way: Duration::from_millis(500),
        flooded_bytes: (25e6 * flood) as u64,
        victims: true,
        floods: true,
        tick: TICK,
        ..Estimate::default()
    }
}

struct Bench {
    machine: StateMachine,
    now: Duration,
    /// When a try began.
    tries: Vec<(Duration, Level)>,
}

impl Bench {
    fn new() -> Self {
        Self { machine: StateMachine::default(), now: Duration::ZERO, tries: Vec::new() }
    }

    /// Runs so many seconds on a device that gives each level the shares that `worth` says.
    fn run(&mut self, seconds: u64, worth: &dyn Fn(Level) -> (f64, f64)) -> Vec<Move> {
        let mut moves = Vec::new();
        for _ in 0..4 * seconds {
            self.now += TICK;
            let (victims, flood) = worth(self.machine.level);
            let before = self.machine.state;
            let e = estimate(victims, flood);
            moves.extend(self.machine.tick(self.now, &e, &WHOLE, &offers(), true));
            if self.machine.state == State::Probe && before != State::Probe {
                self.tries.push((self.now, self.machine.level));
            }
        }
        moves
    }
}

#[test]
fn it_climbs_to_the_best_level_and_stays() {
    // The product is best under the first elevator with 16 requests of 64 KiB.
    let worth = |level: Level| {
        let (off, size) = (f64::from(level.depth) - 2.0, f64::from(level.size) - 4.0);
        let elevator = if level.elevator == 1 { 0.4 } else { 0.0 };
        (0.3 * (-0.3 * off * off - 0.2 * size * size + elevator).exp(), 0.5)
    };
    let mut bench = Bench::new();
    bench.run(200, &worth);
    assert_eq!(bench.machine.best, Level { elevator: 1, depth: 2, size: 4, ..Level::default() });
    // Rounds that find nothing get rarer.
    let late = |bench: &Bench, from: u64| {
        bench.tries.iter().filter(|(at, _)| *at > Duration::from_secs(from)).count()
    };
    bench.run(2 * 3600, &worth);
    assert!(late(&bench, 3800) <= 3, "{} tries in the second hour", late(&bench, 3800));
    assert_eq!(bench.machine.best, Level { elevator: 1, depth: 2, size: 4, ..Level::default() });
}

#[test]
fn what_hurts_costs_a_second_and_an_elevator_two() {
    let mut bench = Bench::new();
    let first = offers().first(&estimate(1.0, 1.0));
    let worth = move |level: Level| if level == first { (0.5, 0.5) } else { (0.01, 0.5) };
    let (mut level, mut since, mut stays) = (Level::default(), Duration::ZERO, Vec::new());
    for _ in 0..4 * 60 {
        bench.now += TICK;
        let (victims, flood) = worth(level);
        bench.machine.tick(bench.now, &estimate(victims, flood), &WHOLE, &offers(), true);
        if bench.machine.level != level {
            stays.push((level, bench.now - since));
            (level, since) = (bench.machine.level, bench.now);
        }
    }
    assert_eq!((bench.machine.best, level), (first, first));
    let tried = || stays.iter().filter(|(level, _)| *level != first && !level.is_free());
    assert!(tried().count() >= 8, "{stays:?}");
    for (level, stayed) in tried() {
        let dead = if offers().is_bfq(*level) { 2.0 * DEAD_S } else { DEAD_S };
        // Whole slots are judged.
        let most = SETTLE + Duration::from_secs_f64(dead + 0.5);
        assert!(*stayed <= most, "{level} for {stayed:?}");
    }
}

#[test]
fn a_queue_that_no_length_helps_is_left_alone_for_longer_and_longer() {
    let whole = Whole { goal_s: Some(0.02), goal_is_given: true, mode: Mode::Protect, ..WHOLE };
    let mut bench = Bench::new();
    let mut turned = Vec::new();
    for tick in 0..4 * 1800 {
        bench.now += TICK;
        // Victims miss their goal at any length. The device becomes slower all the time, so that
        // the level in force looks worse than one that was seen earlier.
        let left = (-(tick as f64) / 2000.0).exp();
        let e = estimate(0.05 * left, 0.5 * left);
        let e = Estimate { drains: true, ..e };
        let level = bench.machine.level;
        bench.machine.tick(bench.now, &e, &whole, &offers(), true);
        if bench.machine.level != level {
            turned.push(bench.now.as_secs());
        }
    }
    let late = turned.iter().filter(|at| **at >= 900).count();
    assert!(turned.len() > 5, "nothing was tried: {turned:?}");
    // At most a look at another length and back each 128 s, and a round of other levers.
    assert!(late <= 2 * 900 / 128 + 6, "{late} turns in a quarter of an hour: {turned:?}");
}

#[test]
fn what_was_good_elsewhere_is_tried_before_any_single_step() {
    // Nothing that is one step away leads to it.
    let good = Level { elevator: 1, size: 3, ..Level::default() };
    let worth = move |level: Level| if level == good { (0.6, 0.6) } else { (0.2, 0.2) };
    let mut bench = Bench::new();
    bench.run(60, &worth);
    assert_eq!(bench.machine.best, good);
    // An elevator that the device does not have is not asked for.
    assert!(
        offers().recipes(false).iter().all(|level| offers().may_switch_elevator(level.elevator))
    );
    assert!(
        offers().recipes(true).iter().any(|level| level.is_free()),
        "readers are best served by what is there at times"
    );
}

#[test]
fn a_device_that_becomes_slower_is_told_from_victims_that_do() {
    let mut bench = Bench::new();
    let worth = |times: f64| {
        move |level: Level| {
            let share = if level.depth == 4 { 0.5 } else { 0.3 };
            (share / times, 0.5 / times)
        }
    };
    bench.run(120, &worth(1.0));
    let slower: f64 = bench.run(10, &worth(8.0)).iter().filter_map(|m| m.slower).product();
    assert!((5.0..=8.5).contains(&slower), "{slower:?}");
    // Victims alone become slower: the device does not count as slower, but tries begin anew.
    let mut bench = Bench::new();
    bench.run(300, &worth(1.0));
    let tries = bench.tries.len();
    let moves = bench.run(20, &|level| (worth(1.0)(level).0 / 10.0, 0.5));
    assert!(moves.iter().all(|m| m.slower.is_none()) && bench.tries.len() > tries, "{moves:?}");
}

#[test]
fn what_a_short_encounter_has_not_tried_is_tried_in_the_next() {
    let mut bench = Bench::new();
    let first = offers().first(&estimate(1.0, 1.0));
    let seen = |bench: &mut Bench, seconds: u64| {
        let mut seen = Vec::new();
        for _ in 0..4 * seconds {
            bench.now += TICK;
            bench.machine.tick(bench.now, &estimate(0.3, 0.3), &WHOLE, &offers(), true);
            let level = bench.machine.level;
            if bench.machine.state == State::Probe && level != first && seen.last() != Some(&level)
            {
                seen.push(level);
            }
        }
        seen
    };
    let before = seen(&mut bench, 12);
    leave(&mut bench);
    let after = seen(&mut bench, 12);
    assert!(!before.is_empty() && !after.is_empty());
    // The try that was under way at the end was not watched to its end.
    let (last, done) = before.split_last().unwrap();
    assert_eq!(after.first(), Some(last));
    assert!(after.iter().all(|level| !done.contains(level)), "{before:?} {after:?}");
}

#[test]
fn readers_and_those_who_commit_each_have_a_level_of_their_own() {
    let good = |readers: u32| Level {
        elevator: if readers > 0 { 1 } else { 3 },
        depth: 3,
        size: 3,
        ..Level::default()
    };
    let mut bench = Bench::new();
    let mut encounter = |readers: u32, seconds: u64| {
        for _ in 0..4 * seconds {
            bench.now += TICK;
            let victims = if bench.machine.level == good(readers) { 0.6 } else { 0.2 };
            let e = Estimate { readers, ..estimate(victims, 0.5) };
            bench.machine.tick(bench.now, &e, &WHOLE, &offers(), true);
        }
        let level = bench.machine.level;
        leave(&mut bench);
        level
    };
    assert_eq!(encounter(4, 60), good(4));
    assert_eq!(encounter(0, 60), good(0));
    assert_eq!((encounter(4, 1), encounter(0, 1)), (good(4), good(0)), "at once the second time");
}

/// Lets the victims leave, until the state is free.
fn leave(bench: &mut Bench) {
    let gone = Estimate { victims: false, ..estimate(0.0, 1.0) };
    for _ in 0..40 {
        bench.now += TICK;
        bench.machine.tick(bench.now, &gone, &WHOLE, &offers(), true);
    }
    assert_eq!((bench.machine.state, bench.machine.level), (State::Free, Level::default()));
}

#[test]
fn an_encounter_begins_where_the_last_one_ended() {
    let worth = |level: Level| (if level.elevator == 1 { 0.6 } else { 0.3 }, 0.5);
    let mut bench = Bench::new();
    bench.run(120, &worth);
    let best = bench.machine.best;
    assert_eq!(best.elevator, 1);
    leave(&mut bench);
    bench.run(1, &worth);
    assert_eq!((bench.machine.state, bench.machine.level), (State::Protect, best));
}

#[test]
fn a_flood_is_paced_at_once_although_its_drain_rate_is_not_known() {
    let own = [
        ("scheduler", "mq-deadline"),
        ("nr_requests", "256"),
        ("copy:io.max", "rbps=max wbps=max riops=max wiops=max"),
        ("copy:memory.high", "max"),
    ];
    let held = Held::new(own.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect());
    let offers = Offers::of(&held, None, Some("copy"));
    let unknown = Estimate {
        drain_bytes_per_s: None,
        prior_bytes_per_s: 80e6,
        drain_is_least: true,
        ..estimate(0.1, 0.5)
    };
    // Victims that wait already have the flood held to its floor first.
    for (pressure, rate) in [(0.9, 40e6), (1.1, 8e6)] {
        let e = Estimate { pressure: Some(pressure), backlog_bytes: 1 << 30, ..unknown.clone() };
        let mut machine = StateMachine::default();
        machine.tick(TICK, &e, &WHOLE, &offers, true);
        assert_eq!((machine.state, machine.level), (State::Pace, Level::default()));
        assert_eq!(machine.pace.map(|pace| pace.rate()), Some(rate));
    }
}

#[test]
fn a_flood_that_can_be_paced_only_later_is_paced_then_and_not_after_it_ignored_that() {
    let own = [
        ("scheduler", "mq-deadline"),
        ("nr_requests", "256"),
        ("copy:io.max", "rbps=max wbps=max riops=max wiops=max"),
        ("copy:memory.high", "max"),
    ];
    let held = Held::new(own.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect());
    let (alone, grouped) = (Offers::of(&held, None, None), Offers::of(&held, None, Some("copy")));
    let e =
        Estimate { most_drain_bytes_per_s: Some(1e8), pressure: Some(3.0), ..estimate(0.1, 0.5) };
    let mut machine = StateMachine::default();
    let mut now = TICK;
    machine.tick(now, &e, &WHOLE, &alone, true);
    assert_eq!(machine.state, State::Protect);
    now += TICK;
    machine.tick(now, &e, &WHOLE, &grouped, true);
    assert_eq!((machine.state, machine.level), (State::Pace, Level::default()));
    while machine.state == State::Pace {
        now += TICK;
        machine.tick(now, &e, &WHOLE, &grouped, true);
        assert!(now < Duration::from_secs(60), "an ignored pace is never given up");
    }
    for _ in 0..40 {
        now += TICK;
        machine.tick(now, &e, &WHOLE, &grouped, true);
        assert_ne!(machine.state, State::Pace);
    }
}

#[test]
fn a_level_without_the_guards_elevator_is_in_force_once_another_program_has_it() {
    let worth = |level: Level| (if level.elevator == 1 { 0.6 } else { 0.3 }, 0.5);
    let own = [("scheduler", "mq-deadline"), ("nr_requests", "256"), ("max_sectors_kb", "4096")];
    let mut held = Held::new(own.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect());
    held.yield_knob("scheduler");
    let theirs = Offers::of(&held, None, None);
    let mut bench = Bench::new();
    bench.run(120, &worth);
    let best = bench.machine.best;
    assert!(bench.machine.level == best && theirs.is_bfq(best));
    let told = bench.machine.tick(bench.now + TICK, &estimate(0.3, 0.5), &WHOLE, &theirs, true);
    assert!(told.is_some_and(|told| told.why.contains("another program")));
    assert_eq!(
        (bench.machine.state, bench.machine.level),
        (State::Protect, Level { elevator: 0, ..best })
    );
    assert!(!bench.machine.raises(&theirs), "mq-deadline does not heed a priority");
    for tick in 2..240 {
        bench.machine.tick(bench.now + TICK * tick, &estimate(0.3, 0.5), &WHOLE, &theirs, true);
        assert_eq!(bench.machine.level.elevator, 0);
    }
    // The same between two encounters.
    let mut bench = Bench::new();
    bench.run(120, &worth);
    leave(&mut bench);
    bench.machine.tick(bench.now + TICK, &estimate(0.3, 0.5), &WHOLE, &theirs, true);
    bench.machine.tick(bench.now + TICK * 2, &estimate(0.3, 0.5), &WHOLE, &theirs, true);
    assert_eq!((bench.machine.state, bench.machine.level.elevator), (State::Protect, 0));
}
