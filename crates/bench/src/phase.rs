//! One phase: start the loads, wait until they are steady, measure second by second, stop.
//!
//! ```text
//! start ─▶ warm-up: sample every 250 ms ─steady or time up─▶ measure: sample every second ─▶ stop
//!                   and the floods past the device's cache                                     │
//!                                    operations still in flight count with their latency ◀─────┘
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use floodwall_host::Sampler;
use floodwall_knobs::start_at;
use floodwall_load::{
    Apart, Delta, Finished, LoadError, PreparedFlood, PreparedVictim, Running, sleep_until,
};
use floodwall_model::rig::{Second, Step};
use floodwall_model::trial::{HostSample, LoadTotals, OpLatencies, Warmup};
use floodwall_model::{Interval, Phase, PhaseKind, Timing, Watch};
use floodwall_stats::intervals::IntervalStore;
use floodwall_stats::steady;

use crate::budget::Budget;
use crate::drain::drain_rate;
use crate::error::BenchError;
use crate::onlooker::{Onlooker, Sights};

/// Sampling period of the warm-up.
const WARMUP_TICK: Duration = Duration::from_millis(250);
/// Samples that the stationarity test looks at: two seconds.
const STEADY_WINDOW: usize = 8;
/// The latency of the first operations includes page faults and cold caches: never measure them.
const WARMUP_MIN: Duration = Duration::from_secs(1);
/// A page cache that is still filling may stretch a warm-up to this many times its normal limit.
/// Before the kernel throttles it, a flood runs at the speed of memory, not of the device.
const FILLING_PATIENCE: u32 = 4;
/// The page cache is filling if the backlog grew by more than this share of the hard limit within a
/// second.
const FILLING_SHARE: f64 = 0.01;

/// Everything that a phase needs.
pub(crate) struct PhaseRun<'a> {
    pub(crate) kind: PhaseKind,
    pub(crate) round: u32,
    pub(crate) victims: &'a [PreparedVictim],
    pub(crate) floods: &'a [PreparedFlood],
    pub(crate) timing: &'a Timing,
    pub(crate) sampler: &'a mut Sampler,
    pub(crate) stop: &'a AtomicBool,
    /// When the whole run began.
    pub(crate) origin: Instant,
    pub(crate) seed: u64,
    /// Where commands' I/O counters are.
    pub(crate) proc_root: &'a Path,
    /// The data that the phase may keep.
    pub(crate) budget: Budget,
    /// How victims that are commands are counted.
    pub(crate) sights: &'a mut Sights,
    /// How floods are started in another process.
    pub(crate) apart: Option<&'a Apart>,
    /// The victims' I/O priority; none if they have the caller's.
    pub(crate) priority: Option<&'a str>,
}

/// The loads of a phase while they run.
struct Loads {
    victims: Vec<Running>,
    floods: Vec<Running>,
    /// Looks at what commands do, where it can.
    onlooker: Option<Onlooker>,
    /// Why it looks no more.
    sight_lost: Option<String>,
}

/// Starts the victims at their priority, which their threads and commands inherit.
fn start_victims(run: &PhaseRun<'_>) -> Result<Vec<Running>, BenchError> {
    let start = || {
        let started = run.victims.iter().enumerate();
        let started =
            started.map(|(i, victim)| victim.start(run.seed.wrapping_add(i as u64), run.proc_root));
        started.collect::<Result<_, _>>().map_err(BenchError::from)
    };
    match run.priority {
        None => start(),
        Some(priority) => start_at(priority, start).unwrap_or_else(|error| {
            Err(BenchError::Priority { priority: priority.to_owned(), source: error.into() })
        }),
    }
}

/// The work of all loads since the last sample.
struct Sampled {
    victims: Vec<Delta>,
    floods: Vec<Delta>,
}

impl Sampled {
    fn victim_ops(&self) -> u64 {
        self.victims.iter().map(|d| d.ops).sum()
    }

    fn flood_bytes(&self) -> u64 {
        self.floods.iter().map(|d| d.bytes).sum()
    }

    fn latencies(&self) -> OpLatencies {
        let mut all = OpLatencies::default();
        for delta in &self.victims {
            all.merge(&delta.latencies);
        }
        all
    }
}

impl Loads {
    fn start(run: &mut PhaseRun<'_>) -> Result<Self, BenchError> {
        let looked_at = if run.kind.has_victim() { Onlooker::open(run.sights) } else { Ok(None) };
        let onlooker = looked_at.map_err(BenchError::CutShort)?;
        let mut loads =
            Self { victims: Vec::new(), floods: Vec::new(), onlooker, sight_lost: None };
        // Floods first: a command takes a moment to start.
        if run.kind.has_flood() {
            for (i, flood) in run.floods.iter().enumerate() {
                let seed = run.seed.wrapping_add(1_000 + i as u64);
                loads.floods.push(match run.apart {
                    Some(apart) => flood.start_apart(seed, run.proc_root, apart)?,
                    None => flood.start(seed, run.proc_root)?,
                });
            }
        }
        if run.kind.has_victim() {
            loads.victims = start_victims(run)?;
        }
        if let Some(onlooker) = &mut loads.onlooker {
            onlooker.follow(&loads.victims);
        }
        Ok(loads)
    }

    fn sample(&mut self, sights: &mut Sights) -> Sampled {
        let mut sampled = Sampled {
            victims: self.victims.iter_mut().map(Running::sample).collect(),
            floods: self.floods.iter_mut().map(Running::sample).collect(),
        };
        if let Some(onlooker) = &mut self.onlooker {
            onlooker.replace(&mut sampled.victims, sights);
        }
        sampled
    }

    fn sleep_until(&mut self, end: Instant, stop: &AtomicBool) -> bool {
        match self.onlooker.as_mut().map(|onlooker| onlooker.sleep_until(end, stop)) {
            Some(Ok(reached)) => reached,
            Some(Err(e)) => {
                self.sight_lost = Some(e.to_string());
                false
            }
            None => sleep_until(end, stop),
        }
    }

    fn failure(&self) -> Option<LoadError> {
        self.victims.iter().chain(&self.floods).find_map(Running::failure)
    }

    /// Stops everything; the victims are told first, so that none starts an operation that no flood
    /// disturbs any more.
    fn stop(mut self, sights: &mut Sights) -> (Vec<Finished>, Vec<Finished>) {
        if let Some(onlooker) = &mut self.onlooker {
            onlooker.stopping();
        }
        for running in self.victims.iter_mut().chain(&mut self.floods) {
            running.ask_to_stop();
        }
        let mut victims: Vec<Finished> = self.victims.into_iter().map(Running::finish).collect();
        let floods = self.floods.into_iter().map(Running::finish).collect();
        if let Some(onlooker) = self.onlooker {
            onlooker.finish(&mut victims, sights);
        }
        (victims, floods)
    }
}

/// Runs a phase. `Err` only if it could not start: a phase that breaks midway comes back with
/// [`Phase::cut_short`].
pub(crate) fn run(mut run: PhaseRun<'_>, watch: &mut dyn Watch) -> Result<Phase, BenchError> {
    let mut loads = Loads::start(&mut run)?;
    let (warmup, cut_in_warmup) = warm_up(&mut run, &mut loads, watch);
    if let Some(onlooker) = &loads.onlooker {
        onlooker.decide(run.sights);
    }
    let mut measured = Measured::new(&run, Instant::now());
    let cut_short = match cut_in_warmup {
        Some(cause) => Some(cause),
        None => measure(&mut run, &mut loads, &mut measured, watch),
    };
    let (victims, floods) = loads.stop(run.sights);
    Ok(measured.into_phase(&run, warmup, cut_short, victims, floods))
}

/// Waits until the loads are steady. Returns why the phase must end, if it must.
fn warm_up(
    run: &mut PhaseRun<'_>,
    loads: &mut Loads,
    watch: &mut dyn Watch,
) -> (Warmup, Option<String>) {
    let begin = Instant::now();
    let mut rates = Rates::default();
    let (mut flooded, mut drained) = (0u64, None::<u64>);
    let mut filling = Filling::default();
    watch.step(Step {
        what: "warming up",
        phase: Some(run.kind),
        round: run.round,
        expected_s: run.timing.warmup_max.as_secs_f64(),
    });
    let mut live = LiveSecond::new(run.origin);
    let mut last = begin;
    loop {
        // From the last sample on, not from the begin: ticks that were missed are not made up for
        // by shorter ones.
        let reached = loads.sleep_until(last + WARMUP_TICK, run.stop);
        let sampled = loads.sample(run.sights);
        let host = run.sampler.sample();
        let now = Instant::now();
        let tick = now - last;
        last = now;
        rates.add(&sampled, tick);
        flooded += sampled.flood_bytes();
        if let Some(device) = host.device {
            drained = Some(drained.unwrap_or(0) + device.written_bytes);
        }
        live.add(&sampled, &host, tick, watch);
        filling.add(now - begin, &host);

        let seconds = begin.elapsed();
        let done = |steady: bool, verdict: String, cut: Option<String>| {
            let steady = cut.is_none().then_some(steady);
            (Warmup { seconds: seconds.as_secs_f64(), steady, verdict, flood_bytes: flooded }, cut)
        };
        if let Some(cause) = broken(run.stop, reached, loads) {
            return done(false, "cut short".into(), Some(cause));
        }
        let filling = if run.kind.has_flood() { filling.reason() } else { None };
        let patience = if filling.is_some() { FILLING_PATIENCE } else { 1 };
        let verdict =
            filling.map_or_else(|| judge(run, &rates, drained.unwrap_or(flooded), seconds), Err);
        match verdict {
            Ok(verdict) if seconds >= WARMUP_MIN => return done(true, verdict, None),
            Err(why) if seconds >= run.timing.warmup_max * patience => {
                return done(
                    false,
                    format!("not steady after {:.0} s: {why}", seconds.as_secs_f64()),
                    None,
                );
            }
            _ => {}
        }
    }
}

/// How fast the loads ran in each tick: ticks differ in length, for example when a device hangs or
/// the machine stands still.
#[derive(Default)]
struct Rates {
    /// Victim operations a second.
    ops: Vec<f64>,
    /// Flood bytes a second.
    bytes: Vec<f64>,
}

impl Rates {
    fn add(&mut self, sampled: &Sampled, tick: Duration) {
        let per_second = |amount: u64| amount as f64 / tick.as_secs_f64().max(1e-9);
        self.ops.push(per_second(sampled.victim_ops()));
        self.bytes.push(per_second(sampled.flood_bytes()));
    }
}

/// Watches the backlog rise towards the limit at which the kernel throttles writers.
#[derive(Default)]
struct Filling {
    /// The time since the warm-up began, and the bytes dirty or under writeback then; `None` if
    /// they can't be read. One entry a tick.
    backlog: Vec<(Duration, Option<u64>)>,
    hard_limit: Option<u64>,
}

impl Filling {
    fn add(&mut self, at: Duration, host: &HostSample) {
        let backlog =
            host.dirty_bytes.zip(host.writeback_bytes).map(|(dirty, writeback)| dirty + writeback);
        self.backlog.push((at, backlog));
        self.hard_limit = host.dirty_threshold_bytes;
    }

    /// That and how far it is still filling; `None` if it is not, or if that can't be told.
    fn reason(&self) -> Option<String> {
        let (at, now) = *self.backlog.last()?;
        let (earlier, before) =
            *self.backlog.iter().rev().find(|(then, _)| at - *then >= Duration::from_secs(1))?;
        let (now, before) = (now?, before?);
        let growth_per_s = now.saturating_sub(before) as f64 / (at - earlier).as_secs_f64();
        let limit = self.hard_limit?;
        let growing = growth_per_s > FILLING_SHARE * limit as f64;
        // From halfway between the background and the hard limit on, the kernel throttles
        // (balance_dirty_pages); ratios put that at three quarters of the hard limit.
        (growing && now < limit / 4 * 3).then(|| {
            format!(
                "the page cache is still filling: {} of {}",
                floodwall_model::Bytes(now),
                floodwall_model::Bytes(limit)
            )
        })
    }
}

/// Whether everything that runs is steady, and the device's own cache no longer hides it.
fn judge(
    run: &PhaseRun<'_>,
    rates: &Rates,
    written: u64,
    elapsed: Duration,
) -> Result<String, String> {
    if run.kind.has_flood() && written < run.timing.device_cache.0 {
        return Err(format!(
            "the floods have put {} on the device, less than its cache may hold ({})",
            floodwall_model::Bytes(written),
            run.timing.device_cache
        ));
    }
    if passes_cache_midway(written, elapsed, run.timing.measure, run.timing.device_cache.0) {
        return Err(format!(
            "the device's cache ({}) would fill up while it is measured: {} so far",
            run.timing.device_cache,
            floodwall_model::Bytes(written)
        ));
    }
    let mut reasons = Vec::new();
    for (who, wanted, series) in [
        ("victims", run.kind.has_victim(), &rates.ops),
        ("floods", run.kind.has_flood(), &rates.bytes),
    ] {
        if wanted {
            let verdict = steady::judge(series, STEADY_WINDOW);
            let text = format!("{who}: {}", verdict.reason);
            if !verdict.steady {
                return Err(text);
            }
            reasons.push(text);
        }
    }
    Ok(reasons.join("; "))
}

/// Whether writes at this rate would fill the device's cache in the measured part. Before that
/// moment they are steady at the cache's speed, afterwards at the medium's. Writes too slow to fill
/// the cache never reach it.
fn passes_cache_midway(written: u64, elapsed: Duration, measure: Duration, cache: u64) -> bool {
    let rate = written as f64 / elapsed.as_secs_f64().max(1e-9);
    written < cache && written as f64 + rate * measure.as_secs_f64() >= cache as f64
}

/// Measures second by second. Returns why it ended early, if it did.
fn measure(
    run: &mut PhaseRun<'_>,
    loads: &mut Loads,
    measured: &mut Measured,
    watch: &mut dyn Watch,
) -> Option<String> {
    let expected_s = run.timing.measure.as_secs_f64();
    watch.step(Step { what: "measuring", phase: Some(run.kind), round: run.round, expected_s });
    // Operations since the last warm-up sample belong to neither part.
    let _ = loads.sample(run.sights);
    let _ = run.sampler.sample();
    measured.begin(Instant::now());
    for end in interval_ends(run.timing.measure) {
        let reached = loads.sleep_until(measured.begin + end, run.stop);
        let cause = broken(run.stop, reached, loads);
        let sampled = loads.sample(run.sights);
        let host = run.sampler.sample();
        let interval = measured.add(&sampled, host);
        watch.second(&Second {
            elapsed_s: run.origin.elapsed().as_secs_f64(),
            done: None,
            drain_bytes_per_s: drain_rate(&interval.host, interval.seconds),
            interval: Some(&interval),
        });
        if cause.is_some() {
            return cause;
        }
    }
    None
}

/// When each interval ends, counted from the begin of the measured part: every second, and at the
/// very end.
fn interval_ends(measure: Duration) -> impl Iterator<Item = Duration> {
    let whole = (1..=measure.as_secs()).map(Duration::from_secs);
    whole.chain((measure.subsec_nanos() > 0).then_some(measure))
}

/// Why a phase can't go on, if it can't.
fn broken(stop: &AtomicBool, reached: bool, loads: &Loads) -> Option<String> {
    if let Some(failure) = loads.failure() {
        return Some(failure.to_string());
    }
    if let Some(lost) = &loads.sight_lost {
        return Some(lost.clone());
    }
    (!reached || stop.load(Ordering::Relaxed)).then(|| "interrupted".to_owned())
}

/// Collects a phase's measured part.
struct Measured {
    origin: Instant,
    begin: Instant,
    last: Instant,
    store: IntervalStore,
    victims: Vec<LoadTotals>,
    floods: Vec<LoadTotals>,
}

impl Measured {
    fn new(run: &PhaseRun<'_>, now: Instant) -> Self {
        let named = |name: &str| LoadTotals { name: name.to_owned(), ..LoadTotals::default() };
        let victims = if run.kind.has_victim() {
            run.victims.iter().map(|v| named(v.name())).collect()
        } else {
            Vec::new()
        };
        let floods = if run.kind.has_flood() {
            run.floods.iter().map(|f| named(f.name())).collect()
        } else {
            Vec::new()
        };
        Self {
            origin: run.origin,
            begin: now,
            last: now,
            store: IntervalStore::new(run.budget.intervals, run.budget.bytes),
            victims,
            floods,
        }
    }

    fn begin(&mut self, now: Instant) {
        self.begin = now;
        self.last = now;
    }

    /// Adds one interval and returns it.
    fn add(&mut self, sampled: &Sampled, host: HostSample) -> Interval {
        let now = Instant::now();
        let interval = Interval {
            start_s: (self.last - self.begin).as_secs_f64(),
            seconds: (now - self.last).as_secs_f64(),
            victim_ops: vec![u32::try_from(sampled.victim_ops()).unwrap_or(u32::MAX)],
            latencies: sampled.latencies(),
            victim_bytes: sampled.victims.iter().map(|d| d.bytes).sum(),
            flood_bytes: sampled.flood_bytes(),
            host,
        };
        self.last = now;
        let totals = self.victims.iter_mut().zip(&sampled.victims);
        for (total, delta) in totals.chain(self.floods.iter_mut().zip(&sampled.floods)) {
            total.ops += delta.ops;
            total.bytes += delta.bytes;
            total.latencies.merge(&delta.latencies);
        }
        self.store.push(interval.clone());
        interval
    }

    fn into_phase(
        mut self,
        run: &PhaseRun<'_>,
        warmup: Warmup,
        cut_short: Option<String>,
        victims: Vec<Finished>,
        floods: Vec<Finished>,
    ) -> Phase {
        let mut overrun = OpLatencies::default();
        let mut failure = None;
        for (total, finished) in
            self.victims.iter_mut().zip(victims).chain(self.floods.iter_mut().zip(floods))
        {
            overrun.merge(&finished.last.latencies);
            total.latencies.merge(&finished.last.latencies);
            total.unserved_ops = finished.unserved_ops;
            total.command_runs = finished.command_runs;
            total.cpu_us = finished.cpu_us;
            total.ops_with_warmup = finished.total_ops;
            failure = failure.or(finished.failure.map(|f| f.to_string()));
        }
        Phase {
            kind: run.kind,
            start_s: (self.begin - self.origin).as_secs_f64(),
            seconds: (self.last - self.begin).as_secs_f64(),
            warmup,
            intervals: self.store.into_intervals(),
            overrun,
            victims: self.victims,
            floods: self.floods,
            burst: None,
            cut_short: cut_short.or(failure),
        }
    }
}

/// Puts warm-up ticks together to seconds, or more where ticks were late, for the live display.
struct LiveSecond {
    origin: Instant,
    interval: Interval,
}

impl LiveSecond {
    fn new(origin: Instant) -> Self {
        Self { origin, interval: Interval::default() }
    }

    fn add(&mut self, sampled: &Sampled, host: &HostSample, tick: Duration, watch: &mut dyn Watch) {
        let i = &mut self.interval;
        i.seconds += tick.as_secs_f64();
        let ops = i.victim_ops.first().copied().unwrap_or(0);
        i.victim_ops =
            vec![ops.saturating_add(u32::try_from(sampled.victim_ops()).unwrap_or(u32::MAX))];
        i.latencies.merge(&sampled.latencies());
        i.flood_bytes += sampled.flood_bytes();
        i.host = host.clone();
        if i.seconds >= 0.999 {
            watch.second(&Second {
                elapsed_s: self.origin.elapsed().as_secs_f64(),
                done: None,
                drain_bytes_per_s: drain_rate(host, tick.as_secs_f64()),
                interval: Some(&self.interval),
            });
            self.interval = Interval::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filling(backlog: impl IntoIterator<Item = u64>) -> Option<String> {
        filling_every(WARMUP_TICK, backlog)
    }

    fn filling_every(tick: Duration, backlog: impl IntoIterator<Item = u64>) -> Option<String> {
        let mut filling = Filling::default();
        for (i, dirty) in (1..).zip(backlog) {
            let host = HostSample {
                dirty_bytes: Some(dirty),
                writeback_bytes: Some(0),
                dirty_threshold_bytes: Some(1_000),
                ..HostSample::default()
            };
            filling.add(tick * i, &host);
        }
        filling.reason()
    }

    /// The work of a victim and a flood, `speed` times that of the others.
    fn sampled(speed: u64) -> Sampled {
        let victim = Delta { ops: 25 * speed, ..Delta::default() };
        let flood = Delta { bytes: 1_000 * speed, ..Delta::default() };
        Sampled { victims: vec![victim], floods: vec![flood] }
    }

    #[test]
    fn a_late_tick_is_no_burst() {
        let mut rates = Rates::default();
        for late in [1, 1, 4, 1, 10] {
            rates.add(&sampled(u64::from(late)), WARMUP_TICK * late);
        }
        assert_eq!(rates.ops, [100.0; 5]);
        assert_eq!(rates.bytes, [4_000.0; 5]);
        // Nor does the page cache fill faster for being looked at less often.
        assert_eq!(filling_every(Duration::from_secs(8), [100, 150, 200]), None);
        assert!(filling_every(Duration::from_secs(8), [100, 200, 300]).is_some());
    }

    #[test]
    fn the_live_line_shows_the_time_that_passed() {
        #[derive(Default)]
        struct Shown(Vec<(f64, u32)>);
        impl Watch for Shown {
            fn second(&mut self, second: &Second<'_>) {
                self.0.extend(second.interval.map(|i| (i.seconds, i.victim_ops.iter().sum())));
            }
        }
        let (mut shown, host) = (Shown::default(), HostSample::default());
        let mut live = LiveSecond::new(Instant::now());
        for late in [1, 1, 1, 1, 10, 2] {
            live.add(&sampled(u64::from(late)), &host, WARMUP_TICK * late, &mut shown);
        }
        assert_eq!(shown.0, [(1.0, 100), (2.5, 250)], "half a second is not shown yet");
    }

    #[test]
    fn the_page_cache_fills_until_the_kernel_throttles_or_the_flood_has_gone_round() {
        assert!(filling((0..8).map(|i| i * 50)).is_some());
        assert_eq!(
            filling((0..8).map(|i| 500 + i * 50)),
            None,
            "beyond three quarters of the limit"
        );
        assert_eq!(filling([100, 200, 300, 300, 300, 300, 300]), None, "a small space, gone round");
        assert_eq!(filling([100, 200]), None, "too early to tell");
    }

    #[test]
    fn what_was_asked_for_is_measured_to_its_end() {
        let ends = |ms| {
            interval_ends(Duration::from_millis(ms)).map(|d| d.as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(ends(3_000), [1_000, 2_000, 3_000]);
        assert_eq!(ends(1_900), [1_000, 1_900]);
        assert_eq!(ends(400), [400]);
    }

    #[test]
    fn a_cache_that_would_fill_up_while_it_is_measured_is_passed_first() {
        let s = Duration::from_secs;
        assert!(
            passes_cache_midway(200, s(2), s(4), 512),
            "100 a second: full in the fourth second"
        );
        assert!(!passes_cache_midway(600, s(6), s(4), 512), "full already");
        assert!(!passes_cache_midway(20, s(2), s(4), 512), "never full");
        assert!(!passes_cache_midway(0, s(0), s(4), 512), "nothing written");
    }
}
