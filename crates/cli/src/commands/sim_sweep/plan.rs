//! The cells of a sweep, the runs for them, and the figures of a run.
//!
//! ```text
//! number ─▶ a value of each axis ─▶ Cell: machine, scenario, setting ─▶ rounds ─▶ Figures
//! ```
//!
//! A cell's number is its place in the grid, the last axis fastest. Cells that differ in nothing
//! but the setting are a group. Its default run is the same machine under the default setting:
//! floods and bursts of the group are compared with it. Each run is a function of its cell alone.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

use floodwall_model::scenario::settle_rates;
use floodwall_model::{Runner, RunnerError, Scenario, Setting, Trial, Watch};
use floodwall_sim::{SimOptions, SimRunner};
use floodwall_stats::figures::{PhaseFigures, Reference, Summary, summarise};
use floodwall_stats::random::Random;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use twox_hash::XxHash64;

/// More cells than this are refused: at a hundred a second they would take three hours a core.
const MOST_CELLS: u64 = 1_000_000;

/// A machine, what runs on it, and under which setting.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) options: SimOptions,
    pub(super) scenario: Scenario,
    pub(super) setting: Setting,
}

/// A value of an axis.
pub(super) struct Value {
    /// As a row shows it; null: the default.
    pub(super) shown: Json,
    /// Gives it to a cell.
    set: Box<dyn Fn(&mut Cell) + Send + Sync>,
}

impl Value {
    pub(super) fn new(
        shown: impl Into<Json>,
        set: impl Fn(&mut Cell) + Send + Sync + 'static,
    ) -> Self {
        Self { shown: shown.into(), set: Box::new(set) }
    }
}

/// Something that varies.
pub(super) struct Axis {
    /// Its column.
    pub(super) name: String,
    /// Never empty.
    pub(super) values: Vec<Value>,
}

/// A random sample of the grid.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    cells: u64,
    #[serde(default = "first_seed")]
    seed: u64,
}

fn first_seed() -> u64 {
    1
}

/// A run: of one setting of a group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) group: u64,
    pub(super) setting: Setting,
    /// The cells that have this setting; none if floods and bursts alone are compared with it.
    pub(super) cells: Vec<u64>,
}

/// Axes, and which cells of their grid are wanted.
pub(super) struct Sweep {
    pub(super) name: String,
    pub(super) axes: Vec<Axis>,
    /// Cells of the whole grid.
    pub(super) grid: u64,
    /// The wanted ones, ascending.
    pub(super) cells: Vec<u64>,
    /// Cells of a group.
    pub(super) group: u64,
    /// Whether default runs are wanted.
    pub(super) baseline: bool,
    /// What the axes' values are given to.
    base: Cell,
}

impl Sweep {
    /// The axes of machines come before those of settings. The error is a sentence: too many cells,
    /// or an impossible sample.
    pub(super) fn new(
        name: String,
        base: Cell,
        machines: Vec<Axis>,
        settings: Vec<Axis>,
        baseline: bool,
        sample: Option<Sample>,
    ) -> Result<Self, String> {
        let product = |axes: &[Axis]| {
            axes.iter().try_fold(1u64, |all, axis| all.checked_mul(axis.values.len() as u64))
        };
        let sizes = product(&settings)
            .and_then(|group| Some((group, product(&machines)?.checked_mul(group)?)));
        let (group, grid) = sizes.ok_or("the grid has more than 2^64 cells; shorten its axes")?;
        let cells = match sample {
            None if grid > MOST_CELLS => {
                return Err(format!(
                    "the grid has {grid} cells and a sweep takes {MOST_CELLS}; shorten its axes, \
                     or add [sample] with cells = 1000"
                ));
            }
            None => (0..grid).collect(),
            Some(Sample { cells, .. }) if cells == 0 || cells >= grid || cells > MOST_CELLS => {
                return Err(format!(
                    "a grid of {grid} cells has no sample of {cells}; write 1 to {}, or leave \
                     [sample] out",
                    MOST_CELLS.min(grid - 1)
                ));
            }
            Some(Sample { cells, seed }) => draw(grid, cells, seed),
        };
        let axes = machines.into_iter().chain(settings).collect();
        Ok(Self { name, axes, grid, cells, group, baseline, base })
    }

    /// A digest of everything that rows depend on, except the program.
    pub(super) fn digest(&self) -> String {
        let mut hasher = XxHash64::with_seed(0);
        let mut add = |text: String| hasher.write(text.as_bytes());
        add(format!("{};{:?};{:?};", self.baseline, self.cells, self.base));
        for axis in &self.axes {
            for value in &axis.values {
                let mut cell = self.base.clone();
                (value.set)(&mut cell);
                add(format!("{};{};{cell:?};", axis.name, value.shown));
            }
        }
        format!("{:016x}", hasher.finish())
    }

    /// The name and value of each axis of a cell.
    pub(super) fn columns(&self, cell: u64) -> Vec<(&str, &Json)> {
        let names = self.axes.iter().map(|axis| axis.name.as_str());
        names.zip(self.values(cell).into_iter().map(|value| &value.shown)).collect()
    }

    fn values(&self, mut number: u64) -> Vec<&Value> {
        let of_axis = |axis: &'_ Axis| {
            let length = axis.values.len() as u64;
            let at = (number % length) as usize;
            number /= length;
            at
        };
        let places: Vec<usize> = self.axes.iter().rev().map(of_axis).collect();
        self.axes.iter().zip(places.into_iter().rev()).map(|(axis, at)| &axis.values[at]).collect()
    }

    /// A cell by its number.
    pub(super) fn cell(&self, number: u64) -> Cell {
        let mut cell = self.base.clone();
        for value in self.values(number) {
            (value.set)(&mut cell);
        }
        cell
    }

    /// The runs for some cells: a group's default run before its others, each setting once.
    pub(super) fn runs(&self, cells: &[u64]) -> Vec<Run> {
        let mut runs = Vec::new();
        for cells in cells.chunk_by(|a, b| a / self.group == b / self.group) {
            let mut settings = BTreeMap::new();
            if self.baseline {
                settings.insert(BTreeMap::new(), Vec::new());
            }
            for cell in cells {
                settings.entry(self.cell(*cell).setting.0).or_insert_with(Vec::new).push(*cell);
            }
            let group = cells[0] / self.group;
            let run = |(setting, cells)| Run { group, setting: Setting(setting), cells };
            runs.extend(settings.into_iter().map(run));
        }
        runs
    }

    /// The machine, scenario and setting of a run.
    pub(super) fn cell_of(&self, run: &Run) -> Cell {
        Cell { setting: run.setting.clone(), ..self.cell(run.group * self.group) }
    }

    /// Simulates all rounds of a run; `None` if `watch` asked for the end.
    ///
    /// An impossible run (a setting that the kernel did not have, a machine too small) is a result
    /// with the reason, not a failure.
    pub(super) fn simulate(&self, run: &Run, watch: &mut dyn Watch) -> Option<Figures> {
        let Cell { options, mut scenario, setting } = self.cell_of(run);
        let mut runner = SimRunner::new(options);
        let mut noted = Noted { watch, notes: Vec::new() };
        let mut trials = Vec::new();
        let ended = |error: RunnerError| {
            (!error.interrupted).then(|| Figures::impossible(error.source.to_string()))
        };
        // Under the default setting: all settings of a group have the same rates.
        if let Err(error) =
            settle_rates(&mut runner, &mut scenario, &Setting::default(), &mut noted)
        {
            return ended(error);
        }
        for round in 1..=scenario.timing.rounds {
            match runner.run(&scenario, &setting, round, &mut noted) {
                Ok(trial) => trials.push(trial),
                Err(error) => return ended(error),
            }
        }
        let note = (!noted.notes.is_empty()).then(|| noted.notes.join("; "));
        Some(Figures { note, ..Figures::of(&trials) })
    }
}

/// `count` different numbers below `below`, ascending; the same seed draws the same ones on every
/// machine.
///
/// Floyd's algorithm (Bentley & Floyd 1987): every subset of that size is as likely as any other,
/// and the grid is never listed.
fn draw(below: u64, count: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::seeded(seed);
    let mut chosen = BTreeSet::new();
    for last in below - count..below {
        let drawn = random.below(last + 1);
        if !chosen.insert(drawn) {
            chosen.insert(last);
        }
    }
    chosen.into_iter().collect()
}

/// Keeps a run's warnings, each once.
struct Noted<'a> {
    watch: &'a mut dyn Watch,
    notes: Vec<String>,
}

impl Watch for Noted<'_> {
    fn warn(&mut self, message: &str) {
        if !self.notes.iter().any(|note| note == message) {
            self.notes.push(message.to_owned());
        }
    }

    fn stop(&self) -> bool {
        self.watch.stop()
    }
}

/// What one run gives. An absent figure was not measured, or does not follow from what was.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Figures {
    pub(super) victim_kept: Option<f64>,
    pub(super) flood_kept: Option<f64>,
    pub(super) burst_kept: Option<f64>,
    dead_seconds: Option<f64>,
    of_seconds: Option<u64>,
    longest_stall_s: Option<u64>,
    victim_alone_iops: Option<f64>,
    victim_beside_iops: Option<f64>,
    victim_alone_p50_us: Option<f64>,
    victim_alone_p99_us: Option<f64>,
    victim_alone_p999_us: Option<f64>,
    victim_beside_p50_us: Option<f64>,
    victim_beside_p99_us: Option<f64>,
    victim_beside_p999_us: Option<f64>,
    flood_alone_bytes_per_s: Option<f64>,
    flood_beside_bytes_per_s: Option<f64>,
    burst_bytes_per_s: Option<f64>,
    simulated_s: Option<f64>,
    /// Why the machine, the scenario or the setting is impossible.
    pub(super) error: Option<String>,
    /// Warnings of the run.
    pub(super) note: Option<String>,
}

impl Figures {
    /// Figures of an impossible run.
    pub(super) fn impossible(why: String) -> Self {
        Self { error: Some(why), ..Self::default() }
    }

    /// Figures over all rounds of a run.
    fn of(trials: &[Trial]) -> Self {
        let summary = summarise(trials, Reference::InForce);
        let end = |t: &Trial| t.phases.iter().map(|p| p.start_s + p.seconds).fold(0.0, f64::max);
        let Summary { victim, flood, both, .. } = &summary;
        let (alone, beside) = (latencies(victim.as_ref()), latencies(both.as_ref()));
        let rate = |phase: &Option<PhaseFigures>| phase.as_ref().and_then(|p| p.flood_bytes_per_s);
        let iops = |phase: &Option<PhaseFigures>| phase.as_ref().and_then(|p| p.iops);
        Self {
            victim_kept: summary.victim_kept.map(|e| e.value),
            dead_seconds: summary.dead_seconds.map(|e| e.value),
            of_seconds: both.as_ref().map(|_| summary.of_seconds),
            longest_stall_s: both.as_ref().and_then(|p| p.longest_stall_s),
            victim_alone_iops: iops(victim),
            victim_beside_iops: iops(both),
            victim_alone_p50_us: alone[0],
            victim_alone_p99_us: alone[1],
            victim_alone_p999_us: alone[2],
            victim_beside_p50_us: beside[0],
            victim_beside_p99_us: beside[1],
            victim_beside_p999_us: beside[2],
            flood_alone_bytes_per_s: rate(flood),
            flood_beside_bytes_per_s: rate(both),
            burst_bytes_per_s: summary.burst_bytes_per_s,
            simulated_s: Some(trials.iter().map(end).sum()),
            ..Self::default()
        }
    }

    /// The same with the shares that its group's default run gives.
    pub(super) fn beside(mut self, default: &Self) -> Self {
        let share = |own: Option<f64>, all: Option<f64>| Some(own? / all.filter(|n| *n > 0.0)?);
        self.flood_kept = share(self.flood_beside_bytes_per_s, default.flood_alone_bytes_per_s);
        self.burst_kept = share(self.burst_bytes_per_s, default.burst_bytes_per_s);
        if let (None, Some(why)) = (&self.error, &default.error) {
            let why = format!("the default setting could not be run: {why}");
            self.note = Some(self.note.iter().cloned().chain([why]).collect::<Vec<_>>().join("; "));
        }
        self
    }
}

/// The median, p99 and p99.9 in microseconds, each `None` with too few operations.
fn latencies(phase: Option<&PhaseFigures>) -> [Option<f64>; 3] {
    phase.and_then(|p| p.operation_us.as_ref()).map_or([None; 3], |p| [p.p50, p.p99, p.p999])
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
