//! One phase on a simulated machine: its loads are started, and then run as
//! [`floodwall_stats::phase`] says.

use std::time::Duration;

use floodwall_device::Nanos;
use floodwall_model::trial::{LoadTotals, OpLatencies};
use floodwall_model::{LatencyCounts, Phase, PhaseKind, Timing, Watch};
use floodwall_stats::phase::{self, LoadedHost, Loads, Plan, Sample};

use crate::machine::Machine;
use crate::sample::Sampler;
use crate::setup::{Placed, PlacedLoads};

/// Intervals kept of one phase, and bytes that they may take.
const INTERVALS: usize = 400;
const INTERVAL_BYTES: usize = 8 << 20;
/// How long operations may go on after the phase until they count as never ended.
const OVERRUN: Nanos = Nanos::from_secs(600);

/// Everything that a phase needs.
pub(crate) struct PhaseRun<'a> {
    pub(crate) kind: PhaseKind,
    pub(crate) round: u32,
    pub(crate) loads: &'a PlacedLoads,
    pub(crate) timing: &'a Timing,
}

/// Runs a phase; one that was stopped midway comes back with [`Phase::cut_short`].
pub(crate) fn run(run: &PhaseRun<'_>, machine: &mut Machine, watch: &mut dyn Watch) -> Phase {
    let loads = Loads {
        victims: active(&run.loads.victims, run.kind.has_victim()),
        floods: active(&run.loads.floods, run.kind.has_flood()),
    };
    let plan = Plan {
        kind: run.kind,
        round: run.round,
        timing: run.timing,
        names: loads.clone().map(|placed| placed.name.as_str()),
        intervals: INTERVALS,
        interval_bytes: INTERVAL_BYTES,
    };
    // Floods first, as on a real host.
    for placed in loads.floods.iter().chain(&loads.victims) {
        machine.start_load(placed.load);
    }
    let sampler = Sampler::new(machine);
    phase::run(&plan, SimulatedHost { machine, loads, sampler }, watch)
}

/// References to loads that run; none to others.
fn active(loads: &[Placed], run: bool) -> Vec<&Placed> {
    if run { loads.iter().collect() } else { Vec::new() }
}

/// A machine while the loads of a phase run.
struct SimulatedHost<'a> {
    machine: &'a mut Machine,
    loads: Loads<&'a Placed>,
    sampler: Sampler,
}

impl LoadedHost for SimulatedHost<'_> {
    fn now(&self) -> Duration {
        self.machine.now.into()
    }

    fn wait_until(&mut self, moment: Duration) {
        self.machine.run_until(moment.into());
    }

    fn sample(&mut self) -> Sample {
        let loads = self.loads.clone().map(|placed| self.machine.loads[placed.load].meter.take());
        Sample { loads, host: self.sampler.sample(self.machine) }
    }

    fn broken(&self, watch: &dyn Watch) -> Option<String> {
        watch.stop().then(|| "interrupted".into())
    }

    fn warmed_up(&mut self) {
        let now = self.machine.now;
        if let Some(explainer) = &mut self.machine.explainer {
            explainer.since = Some(now);
        }
    }

    fn stop(self) -> (Loads<LoadTotals>, Option<String>) {
        let Self { machine, loads, .. } = self;
        if let Some(explainer) = &mut machine.explainer {
            explainer.since = None;
        }
        let asked = machine.now;
        loads.iter().for_each(|placed| machine.stop_load(placed.load));
        machine.run_while(asked + OVERRUN, |m| !loads.iter().all(|p| m.load_stopped(p.load)));
        (loads.map(|placed| totals(placed, machine, asked)), None)
    }
}

/// A load's totals at its end, with the latencies of what was in flight when it was asked to stop.
fn totals(placed: &Placed, machine: &mut Machine, asked: Nanos) -> LoadTotals {
    let load = &mut machine.loads[placed.load];
    let mut totals = LoadTotals { latencies: load.meter.take().latencies, ..LoadTotals::default() };
    if let Some(tickets) = &load.tickets {
        let waiting = tickets.unserved(asked.since(load.began));
        totals.unserved_ops = waiting.count();
        totals.latencies.merge(&by_kind(&waiting, placed.read_percent));
    }
    let tasks = machine.tasks.iter().filter(|t| t.load == placed.load);
    totals.cpu_us = Some(tasks.map(|t| t.cpu_total.0).sum::<u64>() / 1_000);
    totals.ops_with_warmup = load.meter.since_start;
    totals
}

/// Operations of unknown kind: by their share reads, or else commits.
fn by_kind(waiting: &LatencyCounts, read_percent: u32) -> OpLatencies {
    if read_percent > 50 {
        OpLatencies { read: waiting.clone(), ..OpLatencies::default() }
    } else {
        OpLatencies { commit: waiting.clone(), ..OpLatencies::default() }
    }
}
