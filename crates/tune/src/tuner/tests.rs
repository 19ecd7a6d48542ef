//! Searches on surfaces whose best point is known.

use std::cell::Cell;
use std::rc::Rc;

use floodwall_model::{Setting, Trial};
use floodwall_stats::frontier::Point as Shares;
use floodwall_stats::versus::Compared;

use super::trials::IN_VAIN;
use super::*;
use crate::objective::Objective;
use crate::space::{Description, Kind, Point};
use crate::testing::{SurfaceRunner, Truth, disk, scenario};

/// A device with everything whose loads can't be told apart.
fn space(reference: &Reference) -> Space {
    Space::of(&description(reference))
}

/// The same with every lever that needs groups, priorities and tunables.
fn space_of_all(reference: &Reference) -> Space {
    Space::of(&Description {
        kind: Some(Kind::Disk),
        flood_bytes_per_s: reference.flood_bytes_per_s,
        paced: true,
        tunables: true,
        bfq_groups: Some(true),
        ext4_journal: true,
        reads: true,
        device_depth: Some(32),
        ..description(reference)
    })
}

fn description(reference: &Reference) -> Description {
    Description { drain_bytes_per_s: reference.drain_bytes_per_s, ..disk() }
}

/// Settings as numbers: limit in seconds of 200 MB/s (20 without one), depth, request size in KiB,
/// elevator, wbt off.
struct Knobs {
    limit_s: f64,
    depth: f64,
    request: f64,
    scheduler: String,
    wbt_off: bool,
}

fn knobs(setting: &Setting) -> Knobs {
    let number =
        |knob: &str, default: f64| setting.get(knob).map_or(default, |v| v.parse().unwrap());
    Knobs {
        limit_s: number("vm.dirty_bytes", 4e9) / 200e6,
        depth: number("nr_requests", 256.0),
        request: number("max_sectors_kb", 1024.0),
        scheduler: setting.get("scheduler").unwrap_or("mq-deadline").to_owned(),
        wbt_off: setting.get("wbt_lat_usec") == Some("0"),
    }
}

/// How far a value is from the best one, in octaves.
fn octaves(value: f64, best: f64) -> f64 {
    (value / best).log2().abs()
}

/// Every knob does its part by itself.
fn separable(setting: &Setting) -> Truth {
    let k = knobs(setting);
    let elevator = match k.scheduler.as_str() {
        "bfq" => 1.0,
        "kyber" => 0.8,
        "none" => 0.6,
        _ => 0.5,
    };
    let victim = 0.9
        * elevator
        * (-0.2 * octaves(k.limit_s, 0.25)).exp()
        * (-0.25 * octaves(k.depth, 16.0)).exp();
    let flood = 0.9 * (-0.1 * octaves(k.request, 512.0)).exp();
    Truth { victim, dead: 0.0, flood, burst: (k.limit_s / 2.0).clamp(0.2, 1.0) }
}

/// A short queue and a small limit each protect; both together only cost.
fn interacting(setting: &Setting) -> Truth {
    let k = knobs(setting);
    let queue_s = k.depth * k.request * 1024.0 / 200e6;
    let wait = (queue_s.min(1.0) + 0.3 * k.limit_s.min(4.0) * f64::from(u8::from(queue_s > 0.05)))
        .max(0.004);
    let starved = if k.limit_s < 0.3 && queue_s < 0.02 { 0.5 } else { 1.0 };
    Truth {
        victim: (0.02 / wait).clamp(0.01, 0.8) * if k.wbt_off { 1.0 } else { 0.85 },
        dead: (wait - 0.2).clamp(0.0, 0.9),
        flood: (0.9 * (1.0 - 0.03 / queue_s.max(0.01)).clamp(0.3, 1.0)) * starved,
        burst: (k.limit_s / 2.0).clamp(0.15, 1.0),
    }
}

/// A bistable controller cache: only under bfq with a queue of a few MiB does it stay awake.
fn bistable(setting: &Setting) -> Truth {
    let k = knobs(setting);
    let queue_mib = k.depth * k.request / 1024.0;
    let asleep = if k.scheduler == "bfq" { 0.03 } else { 0.3 } + 0.1 * octaves(queue_mib, 2.0);
    Truth {
        victim: 0.5 * (1.0 - asleep).max(0.03),
        dead: asleep.clamp(0.0, 0.95),
        flood: 0.8 * (-0.08 * octaves(queue_mib, 16.0)).exp(),
        burst: (k.limit_s / 2.0).clamp(0.15, 1.0),
    }
}

/// Nothing matters.
fn flat(_: &Setting) -> Truth {
    Truth { victim: 0.3, dead: 0.1, flood: 0.7, burst: 1.0 }
}

/// A paced flood leaves the victim nearly all; a raised victim leaves the flood little; the rest is
/// as separable.
fn paced(setting: &Setting) -> Truth {
    let rest = separable(setting);
    let rate =
        setting.get("flood:io.max").map(|v| v["wbps=".len()..].parse::<f64>().unwrap() / 200e6);
    match rate {
        Some(rate) => {
            Truth { victim: 1.0 - 0.6 * rate.powi(8), dead: 0.0, flood: rate, burst: 0.5 }
        }
        None if setting.get("victim.ioprio").is_some() => {
            Truth { victim: 0.65, flood: 0.2, ..rest }
        }
        None => Truth { victim: 0.4 * rest.victim, ..rest },
    }
}

type Surface = fn(&Setting) -> Truth;

fn true_score(truth: Truth) -> f64 {
    let point = Shares {
        victim_kept: truth.victim,
        dead_share: truth.dead,
        flood_kept: Some(truth.flood),
        burst_kept: Some(truth.burst),
    };
    Objective::default().log_score(&Kept {
        point,
        p99_us: None,
        slowest_us: None,
        waits: Default::default(),
        seconds: 10.0,
    })
}

/// Runs a search of so many seconds of the runner's own time.
fn search(surface: Surface, noise: f64, seconds: f64, seed: u64) -> Outcome {
    let mut runner = SurfaceRunner::new(noise, move |s| Ok(surface(s)));
    runner.seed = seed;
    search_on(&mut runner, seconds, seed, Vec::new())
}

fn search_on(
    runner: &mut SurfaceRunner,
    seconds: f64,
    seed: u64,
    earlier: Vec<Earlier>,
) -> Outcome {
    search_in(&mut space, runner, seconds, seed, earlier)
}

fn search_in(
    space: &mut dyn FnMut(&Reference) -> Space,
    runner: &mut SurfaceRunner,
    seconds: f64,
    seed: u64,
    earlier: Vec<Earlier>,
) -> Outcome {
    let time = Rc::new(Cell::new(0.0));
    let mut timed = Timed { runner, time: Rc::clone(&time) };
    let options = Options { seconds, seed, earlier, ..Options::default() };
    let mut now = || time.get();
    tune(&mut timed, &scenario(5), space, &options, Clock::Wall(&mut now), &mut (), &mut |_| ())
}

struct Timed<'a> {
    runner: &'a mut SurfaceRunner,
    time: Rc<Cell<f64>>,
}

impl Runner for Timed<'_> {
    fn run(
        &mut self,
        scenario: &Scenario,
        setting: &Setting,
        round: u32,
        watch: &mut dyn Watch,
    ) -> Result<Trial, floodwall_model::RunnerError> {
        let result = self.runner.run(scenario, setting, round, watch);
        self.time.set(self.runner.seconds);
        result
    }
}

/// A flood of 200 MB/s, the drain rate of the device.
fn reference() -> Reference {
    Reference {
        iops_alone: 1.0,
        flood_bytes_per_s: 200e6,
        burst_bytes_per_s: None,
        drain_bytes_per_s: 200e6,
        rated: Vec::new(),
        waits: Default::default(),
    }
}

fn grid() -> (Space, Vec<Point>) {
    let space = space(&reference());
    let points = space.points();
    (space, points)
}

/// The recommended setting, or the default.
fn recommended(outcome: &Outcome) -> Setting {
    match (&outcome.recommendation, outcome.winner) {
        (Recommendation::Winner, Some(i)) => outcome.candidates[i].setting.clone(),
        _ => Setting::default(),
    }
}

#[test]
fn it_comes_within_5_percent_of_the_best_grid_point_with_a_fifth_of_its_trials() {
    let (space, points) = grid();
    for (name, surface) in [
        ("separable", separable as Surface),
        ("interacting", interacting),
        ("bistable", bistable),
        ("flat", flat),
    ] {
        let best =
            points.iter().map(|p| true_score(surface(&space.setting(p)))).fold(f64::MIN, f64::max);
        let mut shares = Vec::new();
        for seed in 0..10 {
            let outcome = search(surface, 0.05, 2_000.0, seed);
            assert!(
                f64::from(outcome.trials_run) <= points.len() as f64 / 5.0,
                "{name}: {} trials of a grid of {}",
                outcome.trials_run,
                points.len()
            );
            shares.push((true_score(surface(&recommended(&outcome))) - best).exp());
        }
        // The usual search gets there; one in some ends at a neighbour of the best point, a step of
        // one knob away.
        let middle = floodwall_stats::estimate::median(shares.clone()).unwrap();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!(middle >= 0.95 && mean >= 0.9, "{name}: {shares:?}");
    }
}

#[test]
fn a_larger_space_is_searched_as_well() {
    let space = space_of_all(&reference());
    // Ten minutes are too few for knobs that do their part each by itself, six times as many of
    // them as without tunables.
    for (name, surface, seconds, least) in [
        ("paced", paced as Surface, 600.0, 0.95),
        ("interacting", interacting, 600.0, 0.95),
        ("bistable", bistable, 600.0, 0.6),
        ("bistable", bistable, 2_000.0, 0.95),
        ("separable", separable, 2_000.0, 0.85),
    ] {
        let points = space.points();
        let best =
            points.iter().map(|p| true_score(surface(&space.setting(p)))).fold(f64::MIN, f64::max);
        let share = |seed| {
            let mut runner = SurfaceRunner::new(0.05, move |s| Ok(surface(s)));
            runner.seed = seed;
            let outcome = search_in(&mut space_of_all, &mut runner, seconds, seed, Vec::new());
            (true_score(surface(&recommended(&outcome))) - best).exp()
        };
        let shares: Vec<f64> = (0..10).map(share).collect();
        let middle = floodwall_stats::estimate::median(shares.clone()).unwrap();
        assert!(middle >= least, "{name}: {shares:.2?}");
    }
}

#[test]
fn ten_times_the_noise_gives_false_recommendations_in_under_5_percent() {
    let mut wrong = 0;
    for seed in 0..200 {
        let surface = [flat as Surface, bistable, separable, interacting][seed as usize % 4];
        let outcome = search(surface, 0.5, 600.0, seed);
        let better =
            true_score(surface(&recommended(&outcome))) > true_score(surface(&Setting::default()));
        wrong += u32::from(outcome.recommendation == Recommendation::Winner && !better);
    }
    assert!(wrong < 10, "{wrong} of 200");
}

#[test]
fn where_nothing_matters_hardly_anything_is_recommended() {
    let wrong = (0..100).filter(|seed| {
        search(flat, 0.3, 600.0, 1_000 + seed).recommendation == Recommendation::Winner
    });
    let wrong = wrong.count();
    assert!(wrong <= 5, "{wrong} of 100");
}

#[test]
fn it_never_recommends_what_is_worse_than_the_default() {
    // Everything but the default is a loss.
    fn best_as_it_is(setting: &Setting) -> Truth {
        let loss = 1.0 - 0.1 * setting.0.len() as f64;
        Truth { victim: 0.6 * loss, dead: 0.0, flood: 0.8 * loss, burst: 1.0 }
    }
    for seed in 0..40 {
        let outcome = search(best_as_it_is, 0.3, 600.0, seed);
        assert_eq!(
            recommended(&outcome),
            Setting::default(),
            "{seed}: {:?}",
            outcome.recommendation
        );
    }
}

#[test]
fn the_time_is_kept_to() {
    for seconds in [300.0, 600.0, 3_600.0] {
        let outcome = search(interacting, 0.1, seconds, 3);
        assert!(outcome.seconds <= seconds, "{seconds}: {}", outcome.seconds);
        assert!(outcome.seconds > 0.7 * seconds, "{seconds}: {}", outcome.seconds);
        assert!(outcome.last.is_some());
    }
}

#[test]
fn a_time_in_which_nothing_could_be_tried_is_no_verdict() {
    let outcome = search(interacting, 0.1, 60.0, 3);
    assert!(
        outcome.candidates.iter().skip(1).all(|c| c.trials.is_empty()),
        "too long for this test"
    );
    assert!(matches!(outcome.recommendation, Recommendation::NotMeasured { .. }));
    assert!(!outcome.interrupted);
}

#[test]
fn the_same_seed_gives_the_same_search() {
    let summary = |o: Outcome| {
        (
            o.trials_run,
            o.candidates.iter().map(|c| c.name.clone()).collect::<Vec<_>>(),
            o.recommendation,
        )
    };
    assert_eq!(summary(search(bistable, 0.1, 600.0, 5)), summary(search(bistable, 0.1, 600.0, 5)));
}

#[test]
fn only_fresh_trials_decide() {
    let outcome = search(separable, 0.1, 600.0, 1);
    let winner = &outcome.candidates[outcome.winner.unwrap()];
    let last_of_race =
        outcome.candidates.iter().flat_map(|c| &c.trials).map(|t| t.round).max().unwrap();
    assert!(winner.final_trials.len() >= LEAST_FINAL_ROUNDS as usize);
    assert!(winner.final_trials.iter().all(|t| t.round > last_of_race));
    assert_eq!(winner.final_trials.len(), outcome.candidates[0].final_trials.len());
}

#[test]
fn a_knob_that_the_kernel_refuses_is_out_with_its_reason_and_the_search_goes_on() {
    let mut runner = SurfaceRunner::new(0.05, |setting| {
        if setting.get("scheduler") == Some("bfq") {
            Err("no such elevator".into())
        } else {
            Ok(separable(setting))
        }
    });
    let outcome = search_on(&mut runner, 600.0, 2, Vec::new());
    assert!(outcome.candidates.iter().any(|c| c.failure.as_deref() == Some("no such elevator")));
    assert_eq!(outcome.recommendation, Recommendation::Winner);
    assert_ne!(recommended(&outcome).get("scheduler"), Some("bfq"));
}

#[test]
fn a_level_that_the_runner_refuses_is_left_out_and_said_once() {
    struct Without<'a>(Timed<'a>);
    impl Runner for Without<'_> {
        fn run(
            &mut self,
            scenario: &Scenario,
            setting: &Setting,
            round: u32,
            watch: &mut dyn Watch,
        ) -> Result<Trial, floodwall_model::RunnerError> {
            assert_eq!(setting.get("wbt_lat_usec"), None, "{setting}");
            self.0.run(scenario, setting, round, watch)
        }

        fn refusal(&self, _: &Scenario, setting: &Setting) -> Option<String> {
            setting.get("wbt_lat_usec").map(|_| "there is no wbt".into())
        }
    }
    #[derive(Default)]
    struct Heard(Vec<String>);
    impl Watch for Heard {
        fn warn(&mut self, message: &str) {
            self.0.push(message.to_owned());
        }
    }
    let time = Rc::new(Cell::new(0.0));
    let mut runner = SurfaceRunner::new(0.05, |setting| Ok(separable(setting)));
    let mut runner = Without(Timed { runner: &mut runner, time: Rc::clone(&time) });
    let options = Options { seconds: 600.0, seed: 2, ..Options::default() };
    let (mut now, mut heard) = (|| time.get(), Heard::default());
    let outcome = tune(
        &mut runner,
        &scenario(5),
        &mut space,
        &options,
        Clock::Wall(&mut now),
        &mut heard,
        &mut |_| (),
    );
    assert_eq!(outcome.recommendation, Recommendation::Winner);
    assert_eq!(heard.0, ["not tried: wbt off; wbt 75 ms: there is no wbt"]);
}

#[test]
fn a_device_that_vanishes_ends_the_search_with_what_was_measured() {
    let mut runner = SurfaceRunner::new(0.05, |setting| Ok(separable(setting)));
    runner.vanish_at = Some(8);
    let outcome = search_on(&mut runner, 600.0, 2, Vec::new());
    let Recommendation::NotMeasured { why } = &outcome.recommendation else {
        panic!("{:?}", outcome.recommendation)
    };
    assert!(why.ends_with(": the device is gone"), "{why}");
    assert_eq!(outcome.candidates.iter().map(|c| c.trials.len()).sum::<usize>(), 7);
    assert!(!outcome.interrupted);
}

#[test]
fn a_disturbed_trial_is_repeated_and_a_neighbour_that_stays_does_not_take_the_time() {
    let mut runner = SurfaceRunner::new(0.05, |setting| Ok(separable(setting)));
    runner.robbed_at = vec![4];
    let outcome = search_on(&mut runner, 600.0, 2, Vec::new());
    let disturbed = |o: &Outcome| o.candidates.iter().map(|c| c.disturbed.len()).sum::<usize>();
    assert_eq!(disturbed(&outcome), 1);
    assert_eq!(outcome.recommendation, Recommendation::Winner);
    let mut runner = SurfaceRunner::new(0.05, |setting| Ok(separable(setting)));
    runner.robbed_at = (1..1_000).collect();
    let outcome = search_on(&mut runner, 600.0, 2, Vec::new());
    assert_eq!(disturbed(&outcome), IN_VAIN as usize);
    assert_eq!(outcome.recommendation, Recommendation::Winner);
}

#[test]
fn a_runner_that_does_not_work_at_all_says_so() {
    let mut runner = SurfaceRunner::new(0.05, |_| Err("the disk is full".into()));
    let outcome = search_on(&mut runner, 600.0, 2, Vec::new());
    assert_eq!(
        outcome.recommendation,
        Recommendation::NotMeasured {
            why: "the setting in force could not be measured: the disk is full".into()
        }
    );
}

#[test]
fn an_interrupted_search_goes_on_from_its_trials() {
    let mut runner = SurfaceRunner::new(0.05, |setting| Ok(separable(setting)));
    runner.interrupt_at = Some(12);
    let first = search_on(&mut runner, 600.0, 2, Vec::new());
    assert!(first.interrupted);
    let earlier: Vec<Earlier> = first.candidates.iter().map(kept_of).collect();
    runner.interrupt_at = None;
    runner.seconds = 0.0;
    let second = search_on(&mut runner, 600.0, 3, earlier);
    let before: usize = first.candidates.iter().map(|c| c.trials.len()).sum();
    let all: usize = second.candidates.iter().map(|c| c.trials.len() + c.final_trials.len()).sum();
    assert_eq!(all, before + second.trials_run as usize);
    assert_eq!(second.recommendation, Recommendation::Winner);
    let rounds: Vec<u32> = second.candidates[0].trials.iter().map(|t| t.round).collect();
    assert!(rounds.windows(2).all(|w| w[0] < w[1]), "no round comes twice: {rounds:?}");
}

/// A candidate as a stored result has it.
fn kept_of(c: &Candidate) -> Earlier {
    Earlier {
        name: c.name.clone(),
        setting: c.setting.clone(),
        trials: c.trials.clone(),
        disturbed: c.disturbed.clone(),
    }
}

/// How many trials of earlier searches, or of an outcome, are kept.
fn kept_trials(outcome: &Outcome) -> usize {
    outcome
        .candidates
        .iter()
        .map(|c| c.trials.len() + c.final_trials.len() + c.disturbed.len())
        .sum()
}

#[test]
fn what_was_measured_earlier_is_kept_whatever_becomes_of_the_reference() {
    let mut runner = SurfaceRunner::new(0.05, |setting| Ok(separable(setting)));
    (runner.interrupt_at, runner.robbed_at) = (Some(12), vec![4]);
    let first = search_on(&mut runner, 600.0, 2, Vec::new());
    let mut earlier: Vec<Earlier> = first.candidates.iter().map(kept_of).collect();
    // A default whose trials have no victim alone: the reference has to be measured again.
    for trial in &mut earlier[0].trials {
        trial.phases.retain(|p| p.kind != PhaseKind::Victim);
    }
    let before: usize = earlier.iter().map(|e| e.trials.len() + e.disturbed.len()).sum();
    assert_eq!(before, 12, "the disturbed one and the interrupted one included");
    for (interrupt_at, vanish_at) in [(Some(1), None), (None, Some(1))] {
        let mut runner = SurfaceRunner::new(0.05, |setting| Ok(separable(setting)));
        (runner.interrupt_at, runner.vanish_at) = (interrupt_at, vanish_at);
        let second = search_on(&mut runner, 600.0, 3, earlier.clone());
        assert_eq!(second.reference, None);
        let partial = usize::from(second.interrupted);
        assert_eq!(kept_trials(&second), before + partial, "{:?}", second.recommendation);
        for (was, is) in earlier.iter().zip(&second.candidates) {
            assert_eq!((&was.name, &was.setting), (&is.name, &is.setting));
        }
    }
}

#[test]
fn another_drain_rate_loses_no_trial() {
    let mut runner = SurfaceRunner::new(0.05, |setting| Ok(separable(setting)));
    runner.interrupt_at = Some(20);
    let first = search_on(&mut runner, 600.0, 2, Vec::new());
    let mut earlier: Vec<Earlier> = first.candidates.iter().map(kept_of).collect();
    for host in
        earlier[0].trials.iter_mut().flat_map(|t| &mut t.phases).flat_map(|p| &mut p.intervals)
    {
        if let Some(device) = &mut host.host.device {
            device.written_bytes = device.written_bytes * 11 / 10;
        }
    }
    let of_limits =
        |e: &&Earlier| e.setting.get("vm.dirty_bytes").is_some() && !e.trials.is_empty();
    let limit = earlier.iter().find(of_limits).expect("a limit was tried").clone();
    let before: usize = earlier.iter().map(|e| e.trials.len() + e.disturbed.len()).sum();
    let mut runner = SurfaceRunner::new(0.05, |setting| Ok(separable(setting)));
    runner.seed = 2;
    let second = search_on(&mut runner, 600.0, 3, earlier);
    assert_eq!(kept_trials(&second), before + second.trials_run as usize);
    let again =
        second.candidates.iter().find(|c| c.setting == limit.setting).expect("it is still there");
    assert_eq!(
        (again.point.as_ref(), &again.name),
        (None, &limit.name),
        "it is no point of the new space"
    );
    assert!(again.trials.len() >= limit.trials.len() && again.score.is_some());
}

#[test]
fn one_failure_of_the_setting_in_force_costs_a_trial_and_not_the_search() {
    let runs = Rc::new(Cell::new(0));
    let fails = |which: fn(u32) -> bool| {
        let runs = Rc::clone(&runs);
        runs.set(0);
        SurfaceRunner::new(0.05, move |setting| {
            if setting.is_empty() {
                runs.set(runs.get() + 1);
                if which(runs.get()) {
                    return Err("a busy moment".into());
                }
            }
            Ok(separable(setting))
        })
    };
    // Of the reference, of the race, and of the final.
    for which in [|n| n == 1, |n| n == 3, |n| n % 2 == 0] as [fn(u32) -> bool; 3] {
        let outcome = search_on(&mut fails(which), 600.0, 2, Vec::new());
        assert_eq!(outcome.recommendation, Recommendation::Winner);
        assert_eq!(outcome.candidates[0].failure, None);
    }
    let outcome = search_on(&mut fails(|n| n > 2), 600.0, 2, Vec::new());
    let why = "the setting in force could not be measured: a busy moment".to_owned();
    assert_eq!(outcome.recommendation, Recommendation::NotMeasured { why });
}

#[test]
fn a_space_of_one_point_keeps_the_default() {
    let mut runner = SurfaceRunner::new(0.05, |setting| Ok(separable(setting)));
    let options = Options { seconds: 600.0, ..Options::default() };
    let mut only = |_: &Reference| Space::of(&Description::default());
    let outcome =
        tune(&mut runner, &scenario(5), &mut only, &options, Clock::Trials, &mut (), &mut |_| ());
    assert_eq!(
        (outcome.recommendation, outcome.trials_run, outcome.space),
        (Recommendation::Default, 1, 1)
    );
}

#[test]
fn what_would_settle_it_is_said() {
    use super::verdict::rounds_to_settle;
    assert_eq!(rounds_to_settle(&[-0.1, -0.2, 0.0]), None);
    let rounds = rounds_to_settle(&[0.5, -0.3, 0.4, 0.1]).unwrap();
    assert!((10.0..60.0).contains(&rounds), "{rounds}");
    assert_eq!(rounds_to_settle(&[0.001, -0.5, 0.5, 0.002]), None);
}

/// A fast victim at half the flood; bursts differ by nothing, and vary too much for the final's
/// first rounds to tell.
fn unsure_of_bursts(setting: &Setting) -> Truth {
    let better = setting.get("scheduler") == Some("bfq");
    Truth {
        victim: if better { 0.8 } else { 0.1 },
        dead: 0.0,
        flood: if better { 0.3 } else { 0.9 },
        burst: 1.0,
    }
}

/// Of a final: trials of the winner with victim and flood, those of a burst alone, and the verdict
/// on bursts.
fn price_rounds(outcome: &Outcome) -> (usize, usize, Verdict) {
    let winner = &outcome.candidates[outcome.winner.unwrap()];
    let alone = |t: &&Trial| t.phases.iter().all(|p| p.kind == PhaseKind::Burst);
    let bursts = winner.final_trials.iter().filter(alone).count();
    let of_bursts = |c: &&Compared| c.figure == Figure::BurstBytesPerS;
    let verdict = outcome.last.as_ref().unwrap().compared.iter().find(of_bursts).unwrap().verdict;
    (winner.final_trials.len() - bursts, bursts, verdict)
}

#[test]
fn time_that_is_left_goes_to_the_price_that_can_not_be_told() {
    let of = |noise| search(unsure_of_bursts as Surface, noise, 1_200.0, 3);
    let unsure = of(0.3);
    let (both, bursts, _) = price_rounds(&unsure);
    assert!(
        both >= LEAST_FINAL_ROUNDS as usize && bursts > 0,
        "{both} rounds, {bursts} of bursts alone"
    );
    assert!(unsure.seconds <= 1_200.0);
    assert_eq!(unsure.recommendation, Recommendation::Winner);
    let (both, bursts, verdict) = price_rounds(&of(0.01));
    assert_eq!(
        (bursts, verdict),
        (0, Verdict::Same),
        "after {both} rounds nothing was left to tell"
    );
}

/// Four rounds of 26 operations have a p99 together, and three of them have none.
#[test]
fn all_rounds_of_a_final_are_compared_by_one_percentile() {
    use floodwall_model::LatencyCounts;
    use floodwall_model::trial::{LoadTotals, OpLatencies};
    let trials = |slow_ns: u64| {
        let mut runner = SurfaceRunner::new(0.0, |_| Ok(flat(&Setting::default())));
        let mut trials = Vec::new();
        for round in 1..=4 {
            // The same luck in each round.
            (runner.runs, runner.seconds) = (0, 0.0);
            let mut trial = runner.run(&scenario(1), &Setting::default(), round, &mut ()).unwrap();
            for phase in &mut trial.phases {
                let commit =
                    LatencyCounts::from_values([vec![1_000_000; 25], vec![slow_ns]].concat());
                let latencies = OpLatencies { commit, ..OpLatencies::default() };
                phase.victims = vec![LoadTotals { latencies, ..LoadTotals::default() }];
            }
            trials.push(trial);
        }
        trials
    };
    let nothing = Space::default();
    let candidate =
        |final_trials| Candidate { final_trials, ..Candidate::new(&nothing, Vec::new()) };
    let outcome = Outcome {
        candidates: vec![candidate(trials(1_000_000)), candidate(trials(900_000_000))],
        reference: None,
        space: 1,
        winner: Some(1),
        last: None,
        recommendation: Recommendation::Winner,
        trials_run: 0,
        interrupted: false,
        seconds: 0.0,
    };
    let reference = Reference {
        rated: vec![0],
        waits: LatencyCounts::from_values(vec![1_000_000; 1_000]),
        ..Reference::of(&trials(1_000_000), &scenario(1)).unwrap()
    };
    let (last, differences) = decide(&outcome, 1, &reference, Objective::default());
    assert_eq!(differences.len(), 4);
    assert!(differences.iter().all(|d| (d - last.factor.ln()).abs() < 1e-9), "{differences:?}");
}
