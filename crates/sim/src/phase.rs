//! One phase, as on a real host (crates/bench, phase.rs): start the loads, wait until they are
//! steady, measure second by second, stop.
//!
//! ```text
//! start ─▶ warm-up: look every 250 ms ─ steady, or time up ─▶ measure: look every second ─▶ stop
//!                   and the floods past the device's cache                                   │
//!                                      operations still in flight count with their latency ◀─┘
//! ```
//!
//! The rules of the warm-up are those of a real run, so that figures mean the same.

use floodwall_device::Nanos;
use floodwall_model::rig::{Second, Step};
use floodwall_model::trial::{HostSample, LoadTotals, OpLatencies, Warmup};
use floodwall_model::{Bytes, Interval, LatencyCounts, Phase, PhaseKind, Timing, Watch};
use floodwall_stats::intervals::IntervalStore;
use floodwall_stats::steady;

use crate::machine::Machine;
use crate::sample::Sampler;
use crate::setup::{Loads, Placed};
use crate::workload::Delta;

/// Sampling period of the warm-up.
const WARMUP_TICK: Nanos = Nanos::from_millis(250);
/// Samples that the stationarity test looks at: two seconds.
const STEADY_WINDOW: usize = 8;
/// Never measure the first second.
const WARMUP_MIN: Nanos = Nanos::from_secs(1);
/// A page cache that is still filling may stretch a warm-up to this many times its normal limit.
const FILLING_PATIENCE: u64 = 4;
/// The page cache is filling if the backlog grew by more than this share of the hard limit within a
/// second.
const FILLING_SHARE: f64 = 0.01;
/// Below this much dirty and under writeback there is no backlog, and the device's rate is not its
/// drain rate.
const BACKLOG_BYTES: u64 = 16 << 20;
/// Intervals kept of one phase, and bytes that they may take.
const INTERVALS: usize = 400;
const INTERVAL_BYTES: usize = 8 << 20;
/// How long operations may go on after the phase until they count as never ended.
const OVERRUN: Nanos = Nanos::from_secs(600);

/// Everything that a phase needs.
pub(crate) struct PhaseRun<'a> {
    pub(crate) kind: PhaseKind,
    pub(crate) round: u32,
    pub(crate) loads: &'a Loads,
    pub(crate) timing: &'a Timing,
}

/// What all loads did since the last look.
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

fn active(loads: &[Placed], runs: bool) -> &[Placed] {
    if runs { loads } else { &[] }
}

impl PhaseRun<'_> {
    fn victims(&self) -> &[Placed] {
        active(&self.loads.victims, self.kind.has_victim())
    }

    fn floods(&self) -> &[Placed] {
        active(&self.loads.floods, self.kind.has_flood())
    }

    fn all(&self) -> impl Iterator<Item = &Placed> {
        self.victims().iter().chain(self.floods())
    }

    fn sample(&self, machine: &mut Machine) -> Sampled {
        let mut take = |placed: &Placed| machine.loads[placed.load].meter.take();
        Sampled {
            victims: self.victims().iter().map(&mut take).collect(),
            floods: self.floods().iter().map(&mut take).collect(),
        }
    }
}

/// Runs a phase; one that was stopped midway comes back with [`Phase::cut_short`].
pub(crate) fn run(run: &PhaseRun<'_>, machine: &mut Machine, watch: &mut dyn Watch) -> Phase {
    // Floods first, as on a real host.
    for placed in run.floods().iter().chain(run.victims()) {
        machine.start_load(placed.load);
    }
    let mut sampler = Sampler::new(machine);
    let (warmup, cut) = warm_up(run, machine, &mut sampler, watch);
    let mut measured = Measured::new(run, machine);
    let cut_short = match cut {
        Some(cause) => Some(cause),
        None => measure(run, machine, &mut sampler, &mut measured, watch),
    };
    if let Some(explainer) = &mut machine.explainer {
        explainer.since = None;
    }
    measured.finish(run, machine, warmup, cut_short)
}

/// Waits until the loads are steady. Returns why the phase must end, if it must.
fn warm_up(
    run: &PhaseRun<'_>,
    machine: &mut Machine,
    sampler: &mut Sampler,
    watch: &mut dyn Watch,
) -> (Warmup, Option<String>) {
    let begin = machine.now;
    let (mut ops, mut bytes) = (Vec::new(), Vec::new());
    let (mut flooded, mut drained) = (0u64, 0u64);
    let mut filling = Filling::default();
    let expected_s = run.timing.warmup_max.as_secs_f64();
    watch.step(Step { what: "warming up", phase: Some(run.kind), round: run.round, expected_s });
    loop {
        machine.run_until(machine.now + WARMUP_TICK);
        let sampled = run.sample(machine);
        let host = sampler.sample(machine);
        let per_second = 1.0 / WARMUP_TICK.as_secs_f64();
        ops.push(sampled.victim_ops() as f64 * per_second);
        bytes.push(sampled.flood_bytes() as f64 * per_second);
        flooded += sampled.flood_bytes();
        drained += host.device.map_or(0, |d| d.written_bytes);
        let elapsed = machine.now.since(begin);
        filling.add(elapsed, &host);
        let done = |steady: Option<bool>, verdict: String| Warmup {
            seconds: elapsed.as_secs_f64(),
            steady,
            verdict,
            flood_bytes: flooded,
        };
        if watch.stop() {
            return (done(None, "cut short".into()), Some("interrupted".into()));
        }
        let filling = if run.kind.has_flood() { filling.reason() } else { None };
        let patience = if filling.is_some() { FILLING_PATIENCE } else { 1 };
        let verdict = filling.map_or_else(|| judge(run, &ops, &bytes, drained, elapsed), Err);
        match verdict {
            Ok(verdict) if elapsed >= WARMUP_MIN => return (done(Some(true), verdict), None),
            Err(why) if elapsed.0 >= Nanos::from(run.timing.warmup_max).0 * patience => {
                let verdict = format!("not steady after {:.0} s: {why}", elapsed.as_secs_f64());
                return (done(Some(false), verdict), None);
            }
            _ => {}
        }
    }
}

/// Watches the backlog rise towards the limit at which the kernel throttles writers.
#[derive(Default)]
struct Filling {
    backlog: Vec<(Nanos, u64)>,
    hard_limit: u64,
}

impl Filling {
    fn add(&mut self, at: Nanos, host: &HostSample) {
        let backlog = host.dirty_bytes.unwrap_or(0) + host.writeback_bytes.unwrap_or(0);
        self.backlog.push((at, backlog));
        self.hard_limit = host.dirty_threshold_bytes.unwrap_or(0);
    }

    /// That and how far it is still filling; `None` if it is not.
    fn reason(&self) -> Option<String> {
        let (at, now) = *self.backlog.last()?;
        let (earlier, before) =
            *self.backlog.iter().rev().find(|(then, _)| at.since(*then) >= Nanos::from_secs(1))?;
        let growth_per_s = now.saturating_sub(before) as f64 / at.since(earlier).as_secs_f64();
        let growing = growth_per_s > FILLING_SHARE * self.hard_limit as f64;
        (growing && now < self.hard_limit / 4 * 3).then(|| {
            format!("the page cache is still filling: {} of {}", Bytes(now), Bytes(self.hard_limit))
        })
    }
}

/// Whether everything that runs is steady, and the device's own cache no longer hides it.
fn judge(
    run: &PhaseRun<'_>,
    ops: &[f64],
    bytes: &[f64],
    written: u64,
    elapsed: Nanos,
) -> Result<String, String> {
    let cache = run.timing.device_cache;
    if run.kind.has_flood() && written < cache.0 {
        let written = Bytes(written);
        return Err(format!(
            "the floods have put {written} on the device, less than its cache may hold ({cache})"
        ));
    }
    // Steady before and after the device passes from its cache to its medium, and two different
    // things.
    let rate = written as f64 / elapsed.as_secs_f64().max(1e-9);
    if written < cache.0
        && written as f64 + rate * run.timing.measure.as_secs_f64() >= cache.0 as f64
    {
        let written = Bytes(written);
        return Err(format!(
            "the device's cache ({cache}) would fill up while it is measured: {written} so far"
        ));
    }
    let mut reasons = Vec::new();
    for (who, wanted, series) in
        [("victims", run.kind.has_victim(), ops), ("floods", run.kind.has_flood(), bytes)]
    {
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

/// Measures second by second. Returns why it ended early, if it did.
fn measure(
    run: &PhaseRun<'_>,
    machine: &mut Machine,
    sampler: &mut Sampler,
    measured: &mut Measured,
    watch: &mut dyn Watch,
) -> Option<String> {
    let expected_s = run.timing.measure.as_secs_f64();
    watch.step(Step { what: "measuring", phase: Some(run.kind), round: run.round, expected_s });
    let begin = machine.now;
    if let Some(explainer) = &mut machine.explainer {
        explainer.since = Some(begin);
    }
    let end = begin + Nanos::from(run.timing.measure);
    while machine.now < end {
        machine.run_until((machine.now + Nanos::from_secs(1)).min(end));
        let sampled = run.sample(machine);
        let interval = measured.add(&sampled, sampler.sample(machine), machine.now);
        watch.second(&Second {
            elapsed_s: machine.now.as_secs_f64(),
            done: None,
            drain_bytes_per_s: drain_rate(&interval.host, interval.seconds),
            interval: Some(&interval),
        });
        if watch.stop() {
            return Some("interrupted".into());
        }
    }
    None
}

/// The device's write rate, where the backlog makes it a drain rate.
fn drain_rate(host: &HostSample, seconds: f64) -> Option<f64> {
    let backlog = host.dirty_bytes? + host.writeback_bytes?;
    (backlog >= BACKLOG_BYTES && seconds > 0.0)
        .then_some(host.device?.written_bytes as f64 / seconds)
}

/// Collects a phase's measured part.
struct Measured {
    begin: Nanos,
    last: Nanos,
    store: IntervalStore,
    victims: Vec<LoadTotals>,
    floods: Vec<LoadTotals>,
}

impl Measured {
    fn new(run: &PhaseRun<'_>, machine: &Machine) -> Self {
        let named = |p: &Placed| LoadTotals { name: p.name.clone(), ..LoadTotals::default() };
        Self {
            begin: machine.now,
            last: machine.now,
            store: IntervalStore::new(INTERVALS, INTERVAL_BYTES),
            victims: run.victims().iter().map(named).collect(),
            floods: run.floods().iter().map(named).collect(),
        }
    }

    /// Adds one interval and returns it.
    fn add(&mut self, sampled: &Sampled, host: HostSample, now: Nanos) -> Interval {
        let interval = Interval {
            start_s: self.last.since(self.begin).as_secs_f64(),
            seconds: now.since(self.last).as_secs_f64(),
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

    /// Stops the loads, lets operations in flight end, and puts the phase together.
    fn finish(
        mut self,
        run: &PhaseRun<'_>,
        machine: &mut Machine,
        warmup: Warmup,
        cut_short: Option<String>,
    ) -> Phase {
        let asked = machine.now;
        run.all().for_each(|p| machine.stop_load(p.load));
        let limit = machine.now + OVERRUN;
        machine.run_while(limit, |m| !run.all().all(|p| m.load_stopped(p.load)));
        let mut overrun = OpLatencies::default();
        let totals = self
            .victims
            .iter_mut()
            .zip(run.victims())
            .chain(self.floods.iter_mut().zip(run.floods()));
        for (total, placed) in totals {
            let load = &mut machine.loads[placed.load];
            let mut last = load.meter.take().latencies;
            if let Some(tickets) = &load.tickets {
                let waiting = tickets.unserved(asked.since(load.began));
                total.unserved_ops = waiting.count();
                last.merge(&by_kind(&waiting, placed.read_percent));
            }
            overrun.merge(&last);
            total.latencies.merge(&last);
            let cpu = machine
                .tasks
                .iter()
                .filter(|t| t.load == placed.load)
                .map(|t| t.cpu_total.0)
                .sum::<u64>();
            total.cpu_us = Some(cpu / 1_000);
            total.ops_with_warmup = load.meter.since_start;
        }
        Phase {
            kind: run.kind,
            start_s: self.begin.as_secs_f64(),
            seconds: self.last.since(self.begin).as_secs_f64(),
            warmup,
            intervals: self.store.into_intervals(),
            overrun,
            victims: self.victims,
            floods: self.floods,
            burst: None,
            cut_short,
        }
    }
}

/// Operations of unknown kind: by their share reads, or else commits.
fn by_kind(waiting: &LatencyCounts, read_percent: u32) -> OpLatencies {
    if read_percent > 50 {
        OpLatencies { read: waiting.clone(), ..OpLatencies::default() }
    } else {
        OpLatencies { commit: waiting.clone(), ..OpLatencies::default() }
    }
}
