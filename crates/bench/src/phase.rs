//! One phase on this host: its loads are started, and then run as [`floodwall_stats::phase`] says.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use floodwall_host::Sampler;
use floodwall_knobs::start_at;
use floodwall_load::{Apart, Finished, PreparedFlood, PreparedVictim, Running, sleep_until};
use floodwall_model::trial::LoadTotals;
use floodwall_model::{Phase, PhaseKind, Timing, Watch};
use floodwall_stats::phase::{self, LoadedHost, Loads, Plan, Sample};

use crate::budget::Budget;
use crate::command_probe::{CommandCounts, CommandProbe};
use crate::error::BenchError;
use crate::live::LiveSecond;
use crate::tool::{self, Tool};

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
    pub(crate) command_counts: &'a mut CommandCounts,
    /// How floods are started in another process.
    pub(crate) apart: Option<&'a Apart>,
    /// The victims' I/O priority; none if they have the caller's.
    pub(crate) priority: Option<&'a str>,
    /// A program in the victims' place, with which the phase ends.
    pub(crate) tool: Option<&'a mut (dyn Tool + 'static)>,
}

/// Runs a phase. `Err` only if it could not start: a phase that breaks midway comes back with
/// [`Phase::cut_short`].
pub(crate) fn run(mut run: PhaseRun<'_>, watch: &mut dyn Watch) -> Result<Phase, BenchError> {
    if !run.kind.has_victim() {
        (run.victims, run.tool) = (&[], None);
    }
    if !run.kind.has_flood() {
        run.floods = &[];
    }
    let name = run.tool.as_ref().map(|tool| tool.name().to_owned());
    let measure = if name.is_some() { tool::ENDLESS } else { run.timing.measure };
    let plan = Plan {
        kind: run.kind,
        round: run.round,
        timing: &Timing { measure, ..run.timing.clone() },
        names: Loads {
            victims: match &name {
                Some(name) => vec![name],
                None => run.victims.iter().map(PreparedVictim::name).collect(),
            },
            floods: run.floods.iter().map(PreparedFlood::name).collect(),
        },
        intervals: run.budget.intervals,
        interval_bytes: run.budget.bytes,
    };
    let mut phase = phase::run(&plan, ThisHost::start(run)?, watch);
    phase.cut_short = phase.cut_short.filter(|why| why != DONE);
    Ok(phase)
}

/// Why a phase with a tool ends as it should.
const DONE: &str = "the tool is done";

/// This host while the loads of a phase run.
struct ThisHost<'a> {
    run: PhaseRun<'a>,
    loads: Loads<Running>,
    /// Looks at what commands do, where it can.
    probe: Option<CommandProbe>,
    /// Why it can look no more.
    probe_lost: Option<String>,
    /// Why the tool runs no more.
    tool_ended: Option<String>,
    live: LiveSecond,
}

impl<'a> ThisHost<'a> {
    fn start(run: PhaseRun<'a>) -> Result<Self, BenchError> {
        let opened =
            if run.victims.is_empty() { Ok(None) } else { CommandProbe::open(run.command_counts) };
        let mut probe = opened.map_err(BenchError::CutShort)?;
        // Floods first: a command takes a moment to start.
        let floods = start_floods(&run)?;
        let victims = start_victims(&run)?;
        if let Some(probe) = &mut probe {
            probe.follow(&victims);
        }
        let (loads, live) = (Loads { victims, floods }, LiveSecond::new(run.origin));
        Ok(Self { run, loads, probe, probe_lost: None, tool_ended: None, live })
    }
}

fn start_floods(run: &PhaseRun<'_>) -> Result<Vec<Running>, BenchError> {
    let started = run.floods.iter().enumerate().map(|(i, flood)| {
        let seed = run.seed.wrapping_add(1_000 + i as u64);
        match run.apart {
            Some(apart) => flood.start_apart(seed, run.proc_root, apart),
            None => flood.start(seed, run.proc_root),
        }
    });
    Ok(started.collect::<Result<_, _>>()?)
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
        Some(priority) if !run.victims.is_empty() => {
            start_at(priority, start).unwrap_or_else(|error| {
                Err(BenchError::Priority { priority: priority.to_owned(), source: error.into() })
            })
        }
        _ => start(),
    }
}

impl LoadedHost for ThisHost<'_> {
    fn now(&self) -> Duration {
        self.run.origin.elapsed()
    }

    fn wait_until(&mut self, moment: Duration) {
        let end = self.run.origin + moment;
        match (&mut self.probe, &mut self.run.tool) {
            (Some(probe), _) => {
                let slept = probe.sleep_until(end, self.run.stop);
                self.probe_lost = slept.err().map(|e| e.to_string());
            }
            // Before the warm-up is over it has not ended, because it has not begun.
            (None, Some(tool)) => {
                while self.tool_ended.is_none() {
                    self.tool_ended =
                        tool.has_ended().map(|how| how.err().unwrap_or_else(|| DONE.to_owned()));
                    let look = end.min(Instant::now() + tool::LOOK);
                    if !sleep_until(look, self.run.stop) || look == end {
                        break;
                    }
                }
            }
            (None, None) => {
                sleep_until(end, self.run.stop);
            }
        }
    }

    fn sample(&mut self) -> Sample {
        let mut loads = self.loads.as_mut().map(Running::sample);
        if let Some(probe) = &mut self.probe {
            probe.replace(&mut loads.victims, self.run.command_counts);
        }
        loads.victims.extend(self.run.tool.as_mut().map(|tool| tool.sample()));
        Sample { loads, host: self.run.sampler.sample() }
    }

    fn broken(&self, _: &dyn Watch) -> Option<String> {
        if let Some(failure) = self.loads.iter().find_map(Running::failure) {
            return Some(failure.to_string());
        }
        let interrupted =
            || self.run.stop.load(Ordering::Relaxed).then(|| "interrupted".to_owned());
        self.probe_lost.clone().or_else(interrupted).or_else(|| self.tool_ended.clone())
    }

    fn show_warmup(&mut self, sample: &Sample, tick: Duration, watch: &mut dyn Watch) {
        self.live.add(sample, tick, watch);
    }

    fn warmed_up(&mut self) {
        if let Some(probe) = &self.probe {
            probe.decide(self.run.command_counts);
        }
        if let Some(tool) = &mut self.run.tool {
            let started = tool.start(self.run.kind);
            self.tool_ended =
                started.err().map(|error| format!("can't start {}: {error}", tool.name()));
        }
    }

    /// The victims are told first, so that none starts an operation that no flood disturbs any
    /// more.
    fn stop(mut self) -> (Loads<LoadTotals>, Option<String>) {
        if let Some(probe) = &mut self.probe {
            probe.stopping();
        }
        if let Some(tool) = &mut self.run.tool {
            tool.stop();
        }
        self.loads.iter_mut().for_each(Running::ask_to_stop);
        let Loads { victims, floods } = self.loads;
        let victims = victims.into_iter().map(Running::finish).collect();
        // Only now: the victims' last operations are to meet the whole backlog. A file that can't
        // be cut is discarded before the next phase, and that error counts.
        self.run.floods.iter().for_each(|flood| drop(flood.cut()));
        let floods = floods.into_iter().map(Running::finish).collect();
        let mut finished = Loads { victims, floods };
        if let Some(probe) = self.probe {
            probe.finish(&mut finished.victims, self.run.command_counts);
        }
        let failure = finished.iter().find_map(|f| f.failure.as_ref().map(ToString::to_string));
        let mut totals = finished.map(totals);
        totals.victims.extend(self.run.tool.is_some().then(LoadTotals::default));
        (totals, failure)
    }
}

/// A load's totals at its end, with the latencies of what was in flight.
fn totals(finished: Finished) -> LoadTotals {
    LoadTotals {
        latencies: finished.last.latencies,
        unserved_ops: finished.unserved_ops,
        command_runs: finished.command_runs,
        cpu_us: finished.cpu_us,
        ops_with_warmup: finished.total_ops,
        ..LoadTotals::default()
    }
}
