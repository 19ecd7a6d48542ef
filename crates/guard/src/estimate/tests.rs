use floodwall_model::DeviceId;
use floodwall_model::plant::{Claimant, DeviceKind, Observation};
use floodwall_model::trial::DeviceSample;

use super::*;

const TICK: Duration = Duration::from_millis(250);
const PACE: Claimant = Claimant { pid: 7, start_ticks: 100 };

struct Bench {
    estimator: Estimator,
    at: Duration,
    writeback_bytes: Option<u64>,
    missed_waits: bool,
    pulled: Pulled,
}

impl Bench {
    fn new() -> Self {
        Self {
            estimator: Estimator::new(),
            at: Duration::ZERO,
            writeback_bytes: None,
            missed_waits: false,
            pulled: Pulled::Nothing,
        }
    }

    /// One tick: bytes written by the device, its backlog in MiB, actors.
    fn tick(&mut self, written: u64, backlog_mib: u64, actors: Vec<Actor>) -> Estimate {
        self.at += TICK;
        let counters = DeviceSample {
            written_bytes: written,
            write_ops: written >> 20,
            in_flight: u64::from(backlog_mib > 0),
            ..DeviceSample::default()
        };
        let seen = DeviceObservation {
            id: DeviceId { major: 8, minor: 0 },
            kind: DeviceKind::Unknown,
            counters,
            dirty_bytes: Some(backlog_mib << 20),
            writeback_bytes: self.writeback_bytes,
            changing: false,
            actors,
        };
        let observed = Observation {
            at: self.at,
            missed_waits: self.missed_waits,
            devices: vec![seen.clone()],
            ..Observation::default()
        };
        let now = Now::new(&observed, TICK);
        self.estimator.update(&Config::default(), &now, &seen, self.pulled)
    }
}

fn victim(ms: u64, operations: usize) -> Actor {
    let commits = LatencyCounts::from_values(vec![ms * 1_000_000; operations]);
    Actor { who: "db".into(), dirtied_bytes: 4096 * operations as u64, commits, ..Actor::default() }
}

fn flood() -> Actor {
    Actor { who: "cp".into(), dirtied_bytes: 100 << 20, ..Actor::default() }
}

#[test]
fn only_a_backlogged_device_tells_its_drain_rate() {
    let mut bench = Bench::new();
    for _ in 0..10 {
        assert_eq!(bench.tick(1 << 20, 1, vec![]).drain_bytes_per_s, None);
    }
    // The tick in which the backlog began does not count.
    assert_eq!(bench.tick(5 << 20, 100, vec![flood()]).drain_bytes_per_s, None);
    assert_eq!(bench.tick(25 << 20, 100, vec![flood()]).drain_bytes_per_s, Some(100.0 * 1048576.0));
    // Still known after idle time.
    for _ in 0..100 {
        bench.tick(0, 0, vec![]);
    }
    assert_eq!(bench.tick(0, 0, vec![]).drain_bytes_per_s, Some(100.0 * 1048576.0));
    // Ten times slower: believed after the window.
    let mut ticks = 0;
    while bench.tick(2_500_000, 100, vec![flood()]).drain_bytes_per_s != Some(10_000_000.0) {
        ticks += 1;
        assert!(ticks < 20, "{ticks} ticks");
    }
}

#[test]
fn a_burst_into_the_devices_cache_is_not_what_the_device_can_do() {
    let mut bench = Bench::new();
    bench.tick(0, 100, vec![flood()]);
    // 400 MB/s for half a second, then 100 MB/s.
    bench.tick(100 << 20, 100, vec![flood()]);
    let first = bench.tick(100 << 20, 100, vec![flood()]).most_drain_bytes_per_s.unwrap();
    assert_eq!(first, 400.0 * 1048576.0, "the best that is known");
    for _ in 0..8 {
        bench.tick(25 << 20, 100, vec![flood()]);
    }
    let later = bench.tick(25 << 20, 100, vec![flood()]).most_drain_bytes_per_s.unwrap();
    assert!((100.0..=180.0).contains(&(later / 1048576.0)), "{later}");
}

#[test]
fn a_short_queue_lowers_no_reference() {
    let most = |e: &Estimate| e.most_drain_bytes_per_s.unwrap() / 1048576.0;
    let mut bench = Bench::new();
    for _ in 0..20 {
        bench.tick(25 << 20, 100, vec![flood()]);
    }
    let mut short = |pulled: Pulled, mib: u64, seconds: u64| {
        bench.pulled = pulled;
        let last = (0..4 * seconds).map(|_| bench.tick(mib << 18, 100, vec![flood()])).last();
        most(&last.unwrap())
    };
    for pulled in [Pulled::Somehow, Pulled::Shortest] {
        assert_eq!(short(pulled, 20, 300), 100.0, "{pulled:?}");
    }
    assert_eq!(short(Pulled::Somehow, 120, 5), 120.0, "the device drains more");
    // The device becomes ten times slower, and as fast as before.
    bench.estimator.becomes_slower(10.0);
    assert_eq!(most(&bench.tick(2 << 18, 100, vec![flood()])), 12.0);
    bench.estimator.becomes_slower(0.1);
    assert_eq!(most(&bench.tick(20 << 18, 100, vec![flood()])), 120.0);
    // Under the administrator's settings a slower device is known after a minute.
    bench.pulled = Pulled::Nothing;
    let later = (0..4 * 65).map(|_| bench.tick(5 << 18, 100, vec![flood()])).last();
    assert_eq!(most(&later.unwrap()), 5.0);
}

#[test]
fn the_base_latency_is_learnt_while_nothing_floods() {
    let mut bench = Bench::new();
    for _ in 0..8 {
        bench.tick(0, 0, vec![victim(5, 20)]);
    }
    let quiet = bench.tick(0, 0, vec![victim(6, 20)]);
    assert_eq!((quiet.victims, quiet.floods), (true, false));
    assert!(quiet.base.unwrap() <= Duration::from_millis(6), "{quiet:?}");
    assert!((quiet.goal.as_secs_f64() - 0.02).abs() < 0.002, "{quiet:?}");
    for _ in 0..200 {
        bench.tick(25 << 20, 500, vec![victim(800, 5), flood()]);
    }
    let flooded = bench.tick(25 << 20, 500, vec![victim(800, 5), flood()]);
    assert_eq!(flooded.base, quiet.base, "a flooded latency is no base");
    assert!(flooded.pressure.unwrap() > 30.0 && flooded.floods && flooded.victims);
}

#[test]
fn victims_that_commit_seldom_are_judged_over_some_seconds() {
    let mut bench = Bench::new();
    for _ in 0..40 {
        bench.tick(0, 0, vec![victim(20, 1)]);
    }
    // Two commits a second, each six times the goal of 80 ms: never five of them within a second.
    let looks: Vec<Option<f64>> = (0..16)
        .map(|look| {
            let ended = if look % 2 == 0 { vec![victim(480, 1)] } else { vec![] };
            bench.tick(25 << 20, 500, [ended, vec![flood()]].concat()).pressure
        })
        .collect();
    assert!(looks[8..].iter().all(|pressure| pressure.is_some_and(|p| p > 5.0)), "{looks:?}");
    // A step of a lever begins anew.
    bench.estimator.begin_anew();
    let pressures: Vec<_> =
        (0..6).map(|_| bench.tick(25 << 20, 500, vec![victim(20, 1), flood()]).pressure).collect();
    assert!(pressures[..4].iter().all(Option::is_none), "{pressures:?}");
    assert!(pressures[5].is_some_and(|p| p < 0.5), "{pressures:?}");
    // What ended 8 s ago counts no more.
    let quiet = (0..33).map(|_| bench.tick(25 << 20, 500, vec![flood()]).pressure).last().unwrap();
    assert_eq!(quiet, None);
}

#[test]
fn floods_can_be_paced_in_a_group_that_no_victim_is_in() {
    let group = |name: &str, actor: Actor| Actor { group: Some(name.to_owned()), ..actor };
    let told = |looks: Vec<Vec<Actor>>| {
        let mut bench = Bench::new();
        let why =
            looks.into_iter().map(|actors| bench.tick(0, 100, actors).unpaced).last().unwrap();
        bench.estimator.groups().flood().map(str::to_owned).ok_or(why)
    };
    let in_copy = Ok("copy".to_owned());
    let not = |why: Unpaced| Err(Some(why));
    let (db, copy) = (|| group("db", victim(5, 4)), || group("copy", flood()));
    assert_eq!(told(vec![vec![db(), copy()]]), in_copy);
    // The flood is held back for a look or two.
    assert_eq!(told(vec![vec![db(), copy()], vec![db()]]), in_copy);
    let both = vec![db(), copy(), group("other", flood())];
    assert_eq!(told(vec![both]), not(Unpaced::SeveralGroups));
    assert_eq!(told(vec![vec![db(), flood()]]), not(Unpaced::NoGroup));
    let below = group("copy/db", victim(5, 4));
    assert_eq!(told(vec![vec![below, copy()]]), not(Unpaced::WithVictim));
    let beside = group("copydb", victim(5, 4));
    assert_eq!(told(vec![vec![beside, copy()]]), in_copy);
    // A backup reads what it copies.
    let reads = LatencyCounts::from_values(vec![1_000_000; 9]);
    let reader = group("copy", Actor { reads, ..Actor::default() });
    assert_eq!(told(vec![vec![db(), copy(), reader]]), in_copy);
    // Also a victim that has not waited for a moment.
    let moments_ago = vec![group("copy", victim(5, 4))];
    assert_eq!(told(vec![moments_ago, vec![copy()]]), not(Unpaced::WithVictim));
    // Without a flood nothing is to be paced.
    assert_eq!(told(vec![vec![db()]]), Err(None));
}

#[test]
fn a_victim_that_is_seen_one_second_in_eight_keeps_its_group_from_being_paced() {
    let group = |actor: Actor| Actor { group: Some("app".to_owned()), ..actor };
    let mut bench = Bench::new();
    // It commits once in the first sample, and not in the next.
    bench.tick(0, 0, vec![group(victim(5, 1))]);
    while bench.at < Duration::from_secs(19) {
        bench.tick(0, 0, vec![]);
    }
    bench.tick(0, 100, vec![group(flood())]);
    assert_eq!(bench.estimator.groups().flood(), None);
    while bench.at < Duration::from_secs(21) {
        bench.tick(0, 100, vec![group(flood())]);
    }
    assert_eq!(bench.estimator.groups().flood(), Some("app"), "it is gone");
}

#[test]
fn no_pace_begins_while_a_process_of_the_group_waits() {
    let group = |actor: Actor| Actor { group: Some("app".to_owned()), ..actor };
    let waits = || group(Actor { waiting: 1, ..Actor::default() });
    let mut bench = Bench::new();
    bench.tick(0, 100, vec![group(flood()), waits()]);
    assert_eq!(bench.estimator.groups().flood(), None);
    // A backup's reading half waits for reads.
    let reads = LatencyCounts::from_values(vec![1_000_000; 9]);
    bench.tick(0, 100, vec![group(flood()), Actor { reads, ..waits() }]);
    assert_eq!(bench.estimator.groups().flood(), Some("app"));
    // A pace goes on. The flood's own commits wait too.
    bench.pulled = Pulled::Paced;
    bench.tick(0, 100, vec![group(flood()), waits()]);
    assert_eq!(bench.estimator.groups().flood(), Some("app"));
}

#[test]
fn a_flood_has_a_group_once_its_commits_would_be_seen() {
    let group = |name: &str, actor: Actor| Actor { group: Some(name.to_owned()), ..actor };
    let mut bench = Bench::new();
    bench.missed_waits = true;
    let unseen = Actor { dirtied_bytes: 12 << 20, ..Actor::default() };
    let seen = bench.tick(0, 100, vec![group("db", unseen)]);
    assert!(seen.floods, "it is met at once");
    assert_eq!(bench.estimator.groups().flood(), None);
    // A commit that is seen is one.
    bench.tick(0, 100, vec![group("copy", victim(5, 1))]);
    bench.missed_waits = false;
    bench.tick(0, 100, vec![group("copy", flood())]);
    assert_eq!(bench.estimator.groups().flood(), None);
    let mut bench = Bench::new();
    bench.tick(0, 100, vec![group("copy", flood())]);
    assert_eq!(bench.estimator.groups().flood(), Some("copy"));
    bench.missed_waits = true;
    bench.tick(0, 100, vec![group("db", flood())]);
    assert_eq!(bench.estimator.groups().flood(), Some("copy"), "it goes on");
}

#[test]
fn a_group_that_commits_on_another_device_is_not_paced() {
    let group = |name: &str, actor: Actor| Actor { group: Some(name.to_owned()), ..actor };
    let device = |minor: u32, actors: Vec<Actor>| DeviceObservation {
        id: DeviceId { major: 8, minor },
        kind: DeviceKind::Unknown,
        counters: DeviceSample::default(),
        dirty_bytes: Some(100 << 20),
        writeback_bytes: None,
        changing: false,
        actors,
    };
    let flooded = device(0, vec![group("app", flood()), group("db", victim(5, 4))]);
    let other = device(16, vec![group("app", victim(5, 4))]);
    let told = |devices: Vec<DeviceObservation>| {
        let seen = Observation { at: TICK, devices, ..Observation::default() };
        let mut estimator = Estimator::new();
        estimator.update(&Config::default(), &Now::new(&seen, TICK), &flooded, Pulled::Nothing);
        estimator.groups().flood().map(str::to_owned)
    };
    assert_eq!(told(vec![flooded.clone()]).as_deref(), Some("app"));
    assert_eq!(told(vec![flooded.clone(), other]), None);
}

#[test]
fn a_device_that_was_slower_for_a_while_has_its_old_goal_again() {
    let mut bench = Bench::new();
    let mut goal = |ms: u64, ticks: u32, times: Option<f64>, has_flood: bool| {
        let actors =
            || if has_flood { vec![victim(ms, 40), flood()] } else { vec![victim(ms, 40)] };
        let goals =
            (0..ticks).map(|_| bench.tick(25 << 20, 64 * u64::from(has_flood), actors()).goal);
        let goal = goals.last().unwrap();
        times.into_iter().for_each(|times| bench.estimator.becomes_slower(times));
        goal.as_secs_f64() * 1e3
    };
    let near = |goal: f64, ms: f64| assert!((goal / ms - 1.0).abs() < 0.1, "{goal} is not {ms}");
    near(goal(2, 40, None, false), 8.0);
    near(goal(3, 40, None, true), 8.0);
    near(goal(30, 8, Some(10.0), true), 8.0);
    near(goal(30, 40, None, true), 80.0);
    near(goal(3, 40, None, true), 8.0);
    // A longer queue later is the guard's own.
    near(goal(12, 40, None, true), 8.0);
}

#[test]
fn a_databases_own_dirty_pages_are_no_flood_until_they_are_flushed() {
    let mut bench = Bench::new();
    for (writeback, is_flood) in [(0, false), (64 << 10, false), (FLUSHING, true)] {
        bench.writeback_bytes = Some(writeback);
        let seen = bench.tick(1 << 20, 64, vec![victim(5, 40)]);
        assert_eq!((seen.floods, seen.drains), (is_flood, is_flood), "{writeback} under writeback");
    }
    // A flood that begins is one before the flusher does.
    let mut bench = Bench::new();
    bench.writeback_bytes = Some(0);
    assert!(bench.tick(0, 64, vec![victim(5, 40), flood()]).floods);
}

#[test]
fn who_floods_and_who_waits_is_told_by_what_they_do() {
    let mut bench = Bench::new();
    let only_flood = bench.tick(25 << 20, 0, vec![flood()]);
    assert_eq!((only_flood.victims, only_flood.floods), (false, true));
    // An actor that makes 16 MiB stable at a time is a flood.
    let mut bench = Bench::new();
    let loader = Actor { dirtied_bytes: 32 << 20, ..victim(200, 2) };
    assert_eq!((bench.tick(32 << 20, 0, vec![loader]).victims, bench.at), (false, TICK));
    // Both stay present for a while, and then they are gone.
    let mut bench = Bench::new();
    bench.tick(0, 0, vec![victim(5, 1), flood()]);
    let mut ticks = 0;
    while bench.tick(0, 0, vec![]).victims {
        ticks += 1;
    }
    assert_eq!(u128::from(ticks + 1u32) * TICK.as_millis(), PRESENCE.as_millis());
    // An actor that waits for seconds without an end is a victim under pressure.
    let stuck = Actor { waiting: 1, oldest: Duration::from_secs(2), ..Actor::default() };
    let estimate = bench.tick(0, 0, vec![stuck]);
    assert!(estimate.victims && estimate.pressure.unwrap() > 1.0, "{estimate:?}");
}

#[test]
fn a_flood_that_paces_itself_does_not_keep_another_group_from_being_paced() {
    let group = |name: &str, actor: Actor| Actor { group: Some(name.to_owned()), ..actor };
    let told = Actor { who: "pace".into(), paced_by: Some(PACE), ..flood() };
    let mut bench = Bench::new();
    let both = vec![group("backup", flood()), group("user", told.clone())];
    let e = bench.tick(0, 100, both);
    assert_eq!((bench.estimator.groups().flood(), e.unpaced), (Some("backup"), None));
    assert_eq!((e.own_pace, e.is_encounter()), (OwnPace::No, false));
    let mut bench = Bench::new();
    let e = bench.tick(0, 100, vec![group("user", told.clone()), victim(1, 10)]);
    assert_eq!((bench.estimator.groups().flood(), e.own_pace), (None, OwnPace::Spared));
    assert!(e.victims && e.floods && !e.is_encounter());
    // Victims miss the goal all the time: its group is paced as that of any flood.
    let late = || vec![group("user", told.clone()), victim(500, 10)];
    let e = (0..48).map(|_| bench.tick(0, 100, late())).last().unwrap();
    assert_eq!((bench.estimator.groups().flood(), e.own_pace), (Some("user"), OwnPace::Missed));
    assert!(e.is_encounter());
}

#[test]
fn a_flood_that_has_waited_before_it_told_is_no_victim() {
    let mut bench = Bench::new();
    bench.tick(0, 1, vec![victim(1, 1)]);
    assert!(bench.estimator.who().victims.contains_key("db"));
    bench.tick(0, 1, vec![Actor { paced_by: Some(PACE), ..victim(1, 1) }]);
    assert!(bench.estimator.who().victims.is_empty());
    assert!(bench.estimator.who().floods.contains_key("db"));
}

#[test]
fn one_that_tells_and_writes_nothing_is_neither_a_flood_nor_a_victim() {
    let mut bench = Bench::new();
    let idle = Actor { dirtied_bytes: 0, paced_by: Some(PACE), ..victim(1, 1) };
    let e = bench.tick(0, 0, vec![idle.clone()]);
    assert_eq!((e.floods, e.victims, e.own_pace), (false, false, OwnPace::No));
    let e = bench.tick(0, 0, vec![Actor { dirtied_bytes: 1, ..idle }]);
    assert_eq!((e.floods, e.victims, e.own_pace), (true, false, OwnPace::Spared));
}
