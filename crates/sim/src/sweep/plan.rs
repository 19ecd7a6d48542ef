//! The cells of a sweep, the runs for them, and the run of one.
//!
//! ```text
//! number ─▶ group (machine, scenario, seed) + setting ─▶ Key, SimRig ─▶ rounds ─▶ Figures
//! ```

use std::collections::HashSet;

use floodwall_model::rig::Step;
use floodwall_model::scenario::settle_rates;
use floodwall_model::{Rig, RigError, Scenario, Setting, Watch};

use super::axes::{Axes, Named, indexes, product};
use super::digest::Key;
use super::figures::Figures;
use super::sample;
use super::shard::Shard;
use crate::error::SimError;
use crate::rig::{SimOptions, SimRig};

/// More cells than this are refused: at a hundred a second they would take three hours a core, and
/// their table a gigabyte of memory.
const MOST_CELLS: u64 = 1_000_000;

/// Which cells of the grid are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// All.
    All,
    /// A random sample.
    Sample {
        /// How many.
        cells: u64,
        /// Which ones.
        seed: u64,
    },
}

/// Something to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Which {
    /// A cell, by its number.
    Cell(u64),
    /// A group's machine under the default setting.
    Default(u64),
}

/// A run that has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Identifies it.
    pub key: Key,
    /// The run itself.
    pub which: Which,
}

/// A sweep: axes, and which cells of their grid are wanted.
#[derive(Clone, Debug)]
pub struct Sweep {
    name: String,
    axes: Axes,
    baseline: bool,
    choice: Choice,
    /// Ascending; empty for the whole grid.
    sample: Vec<u64>,
    /// Cells of the grid.
    grid: u64,
    /// Lengths of the setting's axes.
    setting_lengths: Vec<usize>,
    /// Cells of a group.
    group: u64,
}

/// A group's machine and what runs on it.
pub(crate) struct Place<'a> {
    pub(crate) options: SimOptions,
    pub(crate) scenario: &'a Named<Scenario>,
    pub(crate) device: &'a str,
    pub(crate) kernel: &'a str,
    /// Everything of it that results depend on.
    identity: String,
}

impl Sweep {
    /// Of checked axes. The error is a sentence: too many cells, or an invalid sample.
    pub(crate) fn new(
        name: String,
        axes: Axes,
        baseline: bool,
        choice: Choice,
    ) -> Result<Self, String> {
        let setting_lengths = axes.setting_lengths();
        let sizes = product(&setting_lengths)
            .and_then(|group| Some((group, product(&axes.machine_lengths())?.checked_mul(group)?)));
        let (group, grid) = sizes.ok_or("the grid has more than 2^64 cells; shorten its axes")?;
        let sample = match choice {
            Choice::All if grid > MOST_CELLS => {
                return Err(format!(
                    "the grid has {grid} cells and a sweep takes {MOST_CELLS}; shorten its axes, \
                     or add [sample] with cells = 1000"
                ));
            }
            Choice::All => Vec::new(),
            Choice::Sample { cells, .. } if cells >= grid => {
                return Err(format!(
                    "a sample of {cells} of a grid of {grid} cells is all of them; leave [sample] out"
                ));
            }
            Choice::Sample { cells, .. } if cells > MOST_CELLS => {
                return Err(format!(
                    "a sample of {cells} cells is too large; a sweep takes {MOST_CELLS}"
                ));
            }
            Choice::Sample { cells, seed } => sample::draw(grid, cells, seed),
        };
        Ok(Self { name, axes, baseline, choice, sample, grid, setting_lengths, group })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its axes.
    #[must_use]
    pub fn axes(&self) -> &Axes {
        &self.axes
    }

    /// How many cells it has.
    #[must_use]
    pub fn len(&self) -> u64 {
        if self.choice == Choice::All { self.grid } else { self.sample.len() as u64 }
    }

    /// Whether it has none: never, since no axis is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of cells in the grid; a sample takes some of them.
    #[must_use]
    pub fn grid(&self) -> u64 {
        self.grid
    }

    /// A shard's cells, by their numbers, ascending.
    #[must_use]
    pub fn cells(&self, shard: Shard) -> Vec<u64> {
        let with_group = |n: u64| (n, n / self.group);
        let all: Vec<(u64, u64)> = match self.choice {
            Choice::All => (0..self.grid).map(with_group).collect(),
            Choice::Sample { .. } => self.sample.iter().copied().map(with_group).collect(),
        };
        shard.deal(&all)
    }

    /// The runs of some cells: the cells and their groups' default runs, each key once, a group's
    /// default before its cells.
    #[must_use]
    pub fn runs(&self, cells: &[u64]) -> Vec<Run> {
        let mut known = HashSet::new();
        let mut runs = Vec::new();
        let mut last_group = None;
        for cell in cells {
            let group = cell / self.group;
            let default =
                (self.baseline && last_group != Some(group)).then_some(Which::Default(group));
            last_group = Some(group);
            for which in default.into_iter().chain([Which::Cell(*cell)]) {
                let key = self.key(which);
                if known.insert(key) {
                    runs.push(Run { key, which });
                }
            }
        }
        runs
    }

    /// The key of the default run that a cell's floods and bursts are compared with; `None` if the
    /// sweep wants none.
    #[must_use]
    pub fn default_of(&self, cell: u64) -> Option<Key> {
        self.baseline.then(|| self.key(Which::Default(cell / self.group)))
    }

    /// What identifies a run.
    #[must_use]
    pub fn key(&self, which: Which) -> Key {
        let place = self.place(self.group_of(which));
        Key::of(&format!("{};setting={}", place.identity, self.setting(which)))
    }

    /// A digest of everything that the table depends on: the program, the axes, the values behind
    /// their names, the chosen cells. `build` is the program's version and everything else that
    /// tells builds apart.
    #[must_use]
    pub fn fingerprint(&self, build: &str) -> Key {
        // The name is not in it: it changes nothing.
        Key::of(&format!("{build};{:?};{:?};{}", self.axes, self.choice, self.baseline))
    }

    /// Seconds of simulated time that a run's measured parts, warm-ups and pauses take at the most.
    #[must_use]
    pub fn planned_s(&self, which: Which) -> f64 {
        self.place(self.group_of(which)).scenario.value.planned_seconds()
    }

    /// Runs one: all rounds of its scenario. `None` if `watch` asked for the end.
    ///
    /// An impossible run (a setting that the kernel did not have, a machine too small) is a result
    /// with the reason, not a failure.
    #[must_use]
    pub fn run(&self, which: Which, watch: &mut dyn Watch) -> Option<Figures> {
        let place = self.place(self.group_of(which));
        let setting = self.setting(which);
        let mut rig = SimRig::new(place.options);
        let mut trials = Vec::new();
        let mut noted = Noted { watch, notes: Vec::new() };
        let mut scenario = place.scenario.value.clone();
        let ended = |error: RigError| {
            (!error.interrupted).then(|| Figures::impossible(error.source.to_string()))
        };
        // Under the default setting: all settings of a group have the same rates.
        if let Err(error) = settle_rates(&mut rig, &mut scenario, &Setting::default(), &mut noted) {
            return ended(error);
        }
        for round in 1..=scenario.timing.rounds {
            match rig.run(&scenario, &setting, round, &mut noted) {
                Ok(trial) => trials.push(trial),
                Err(error) => return ended(error),
            }
        }
        let mut figures = Figures::of(&trials);
        if !noted.notes.is_empty() {
            figures.note = Some(noted.notes.join("; "));
        }
        Some(figures)
    }

    /// Why a run can't be, without running it; `None` if it can.
    #[must_use]
    pub fn check(&self, which: Which) -> Option<SimError> {
        let place = self.place(self.group_of(which));
        SimRig::new(place.options).check(&place.scenario.value, &self.setting(which)).err()
    }

    fn group_of(&self, which: Which) -> u64 {
        match which {
            Which::Cell(cell) => cell / self.group,
            Which::Default(group) => group,
        }
    }

    /// The machine and scenario of a cell.
    pub(crate) fn place_of(&self, cell: u64) -> Place<'_> {
        self.place(cell / self.group)
    }

    /// A group's machine and scenario.
    fn place(&self, group: u64) -> Place<'_> {
        let a = &self.axes;
        let [device, scenario, kernel, ram, fs, cpus, hz, depth, queues, capacity, seed] =
            indexes(group, a.machine_lengths());
        let (device, scenario, kernel) =
            (&a.devices[device], &a.scenarios[scenario], &a.kernels[kernel]);
        let options = SimOptions {
            capacity: a.capacities[capacity],
            generation: kernel.value,
            ram: a.ram[ram],
            cpus: a.cpus[cpus],
            hz: a.hz[hz],
            fs: a.filesystems[fs],
            queue_depth: a.queue_depths[depth],
            member_queues: a.member_queues[queues],
            seed: a.seeds[seed],
            ..SimOptions::new(device.value.clone())
        };
        let o = &options;
        let identity = format!(
            "device={};scenario={};kernel={};ram={};fs={};cpus={};hz={:?};queue_depth={:?};member_queues={};capacity={:?};seed={}",
            device.digest,
            scenario.digest,
            o.generation,
            o.ram.0,
            o.fs,
            o.cpus,
            o.hz,
            o.queue_depth,
            o.member_queues,
            o.capacity,
            o.seed
        );
        Place { options, scenario, device: &device.label, kernel: &kernel.label, identity }
    }

    /// The named setting of a cell, and its value of each knob axis.
    pub(crate) fn choices(&self, cell: u64) -> (&Named<Setting>, Vec<Option<&str>>) {
        let mut left = cell % self.group;
        let mut values = Vec::new();
        for axis in self.axes.knobs.iter().rev() {
            let length = axis.values.len() as u64;
            values.push(axis.values[(left % length) as usize].as_deref());
            left /= length;
        }
        values.reverse();
        debug_assert!(left < self.setting_lengths[0] as u64);
        (&self.axes.settings[left as usize], values)
    }

    /// The setting of a run.
    pub(crate) fn setting(&self, which: Which) -> Setting {
        let Which::Cell(cell) = which else { return Setting::default() };
        let (named, values) = self.choices(cell);
        let mut setting = named.value.clone();
        for (axis, value) in self.axes.knobs.iter().zip(values) {
            if let Some(value) = value {
                setting.0.insert(axis.knob.clone(), value.to_owned());
            }
        }
        setting
    }
}

/// Keeps a run's warnings, each once.
struct Noted<'a> {
    watch: &'a mut dyn Watch,
    notes: Vec<String>,
}

impl Watch for Noted<'_> {
    fn step(&mut self, step: Step<'_>) {
        self.watch.step(step);
    }

    fn warn(&mut self, message: &str) {
        if !self.notes.iter().any(|note| note == message) {
            self.notes.push(message.to_owned());
        }
    }

    fn stop(&self) -> bool {
        self.watch.stop()
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
