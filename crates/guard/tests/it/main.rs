//! The guard on simulated machines, compared with the same machines without it.

#![expect(clippy::unwrap_used, reason = "a test's own functions fail with it")]

mod encounter;
mod learnt;
mod manners;
mod moving;
mod own;
mod paced;
mod raised;
mod trusted;

use std::time::Duration;

use floodwall_device::DeviceSpec;
use floodwall_guard::{Config, Decision, Guard, Mode, Report, State};
use floodwall_model::plant::{Actor, Claimant, KnobWrite, Knobs, Observation, Plant, PlantError};
use floodwall_model::scenario::{self, parse_flood, parse_victim};
use floodwall_model::setting::is_passing;
use floodwall_model::{Bytes, DeviceId, Reading, Setting};
use floodwall_sim::plant::Happening;
use floodwall_sim::{PlantDevice, SimOptions, SimPlant};

/// Four looks a second.
const TICK: Duration = Duration::from_millis(250);
/// Ticks in a second.
const TICKS: u64 = 4;
/// The first disk.
const DISK: DeviceId = DeviceId { major: 8, minor: 0 };

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn options(device: &str) -> SimOptions {
    SimOptions { ram: Bytes::gib(8), ..SimOptions::new(DeviceSpec::preset(device).unwrap()) }
}

/// A database of ten threads that commit, and a copy.
fn part(options: SimOptions) -> PlantDevice {
    with(
        options,
        &["commit,threads=10,block=16KiB,size=1GiB,name=db"],
        &["seq,size=16GiB,name=copy"],
    )
}

fn with(options: SimOptions, victims: &[&str], floods: &[&str]) -> PlantDevice {
    let mut scenario = scenario::builtin("copy-vs-database").unwrap().unwrap();
    scenario.victims = victims.iter().map(|v| parse_victim(v).unwrap()).collect();
    scenario.floods = floods.iter().map(|f| parse_flood(f).unwrap()).collect();
    PlantDevice { options, scenario }
}

/// One second of a run.
#[derive(Clone, Debug, Default, PartialEq)]
struct Second {
    /// Synchronous operations, and bytes that floods dirtied.
    ops: u64,
    flooded: u64,
    /// Knobs written.
    writes: usize,
    /// State of the first device at its end.
    state: State,
}

/// A choice of a knob's values.
type Which = fn(&str) -> bool;

/// A plant that keeps the guard's last observation and makes failures.
struct Tap {
    plant: SimPlant,
    seen: Observation,
    /// From now on sensors are lost.
    blind: bool,
    /// The device is absent.
    hidden: bool,
    /// Floods have told that they pace themselves.
    floods_pace_themselves: bool,
    /// Units and processes have ended: control groups have no limits any more, processes no
    /// priority.
    unit_ended: bool,
    /// Limits and priorities can't be read.
    unreadable: bool,
    /// There are no priorities among the knobs.
    no_priorities: bool,
    /// Writes of such values to this knob are refused.
    refuse: Option<(&'static str, Which)>,
    /// Whether a refusal shows only after the write was accepted; and those refusals.
    late: bool,
    failures: Vec<(KnobWrite, PlantError)>,
    /// Whether the journal is the cause of refusals.
    journal: bool,
    refused: usize,
    /// How often all knobs were read.
    reads: usize,
}

impl Tap {
    fn all_knobs(&mut self) -> Result<Knobs, PlantError> {
        let mut knobs = self.plant.knobs()?;
        if self.hidden {
            knobs.devices.clear();
        }
        if self.unit_ended || self.unreadable {
            knobs.devices.values_mut().for_each(|own| own.0.retain(|knob, _| !is_passing(knob)));
        }
        if self.no_priorities {
            knobs
                .devices
                .values_mut()
                .for_each(|own| own.0.retain(|knob, _| !knob.ends_with(".ioprio")));
        }
        Ok(knobs)
    }
}

impl Plant for Tap {
    fn knobs(&mut self) -> Result<Knobs, PlantError> {
        self.reads += 1;
        self.all_knobs()
    }

    fn read_passing(
        &mut self,
        device: DeviceId,
        asked: &[String],
    ) -> Result<Vec<Reading<String>>, PlantError> {
        if self.unreadable {
            return Ok(asked
                .iter()
                .map(|_| Reading::Unreadable("no permission".to_owned()))
                .collect());
        }
        Ok(self.all_knobs()?.read(device, asked))
    }

    fn observe(&mut self) -> Result<Observation, PlantError> {
        if self.blind {
            return Err(PlantError::Lost { what: "tracepoints".into(), why: "gone".into() });
        }
        self.seen = self.plant.observe()?;
        let mut seen = self.seen.clone();
        if self.hidden {
            seen.devices.clear();
        }
        if self.floods_pace_themselves {
            let paced_by = Some(Claimant { pid: 7, start_ticks: 100 });
            let told = Actor { who: "copy".to_owned(), paced_by, ..Actor::default() };
            for device in &mut seen.devices {
                let its = device.actors.iter_mut().filter(|actor| actor.who == told.who);
                if its.map(|actor| actor.paced_by = paced_by).count() == 0 {
                    device.actors.push(told.clone());
                }
            }
        }
        Ok(seen)
    }

    fn write(&mut self, write: &KnobWrite) -> Result<(), PlantError> {
        if self.refuse.is_some_and(|(knob, value)| knob == write.knob && value(&write.value)) {
            self.refused += 1;
            let (write, why) = (write.clone(), "not now".to_owned());
            let error = if self.journal {
                PlantError::Lost { what: "the journal".into(), why }
            } else {
                PlantError::Refused { write: write.clone(), why }
            };
            if self.late {
                self.failures.push((write, error));
                return Ok(());
            }
            return Err(error);
        }
        self.plant.write(write)
    }

    fn failures(&mut self, device: DeviceId) -> Vec<(KnobWrite, PlantError)> {
        self.failures.extract_if(.., |(write, _)| write.device == Some(device)).collect()
    }
}

/// A machine with or without a guard.
struct Run {
    tap: Tap,
    guard: Option<Guard>,
    seconds: Vec<Second>,
    decisions: Vec<Decision>,
    writes: Vec<(Duration, KnobWrite)>,
    left_alone: Vec<String>,
}

impl Run {
    fn new(parts: Vec<PlantDevice>, guarded: bool) -> Self {
        Self::under(&Setting::default(), parts, guarded)
    }

    fn under(setting: &Setting, parts: Vec<PlantDevice>, guarded: bool) -> Self {
        let plant = SimPlant::new(parts, setting).unwrap();
        Self {
            tap: Tap {
                plant,
                seen: Observation::default(),
                blind: false,
                hidden: false,
                floods_pace_themselves: false,
                unit_ended: false,
                unreadable: false,
                no_priorities: false,
                refuse: None,
                late: false,
                failures: Vec::new(),
                journal: false,
                refused: 0,
                reads: 0,
            },
            guard: guarded.then(|| Guard::new(Config::default())),
            seconds: Vec::new(),
            decisions: Vec::new(),
            writes: Vec::new(),
            left_alone: Vec::new(),
        }
    }

    /// A guard in mode balance, which tries elevators and lengths of the queue.
    fn balancing(parts: Vec<PlantDevice>) -> Self {
        let config = Config { mode: Mode::Balance, ..Config::default() };
        Self { guard: Some(Guard::new(config)), ..Self::new(parts, false) }
    }

    fn start(&mut self, at: u64, name: &str) {
        self.tap.plant.schedule(s(at), Happening::Start(name.into())).unwrap();
    }

    fn stop(&mut self, at: u64, name: &str) {
        self.tap.plant.schedule(s(at), Happening::Stop(name.into())).unwrap();
    }

    /// Runs until so many seconds after the begin.
    fn until(&mut self, end: u64) {
        while self.tap.plant.now() < s(end) {
            let mut second = Second::default();
            for _ in 0..TICKS {
                self.tap.plant.advance(TICK);
                let report = match &mut self.guard {
                    Some(guard) => guard.tick(&mut self.tap).unwrap(),
                    None => {
                        self.tap.observe().unwrap();
                        Report::default()
                    }
                };
                self.keep(report, &mut second);
            }
            second.state = self.state();
            self.seconds.push(second);
        }
    }

    fn keep(&mut self, report: Report, second: &mut Second) {
        let now = self.tap.plant.now();
        second.writes += report.writes.len();
        self.decisions.extend(report.decisions);
        self.writes.extend(report.writes.into_iter().map(|w| (now, w)));
        self.left_alone.extend(report.left_alone.iter().map(ToString::to_string));
        for actor in self.tap.seen.devices.iter().flat_map(|d| &d.actors) {
            second.ops += actor.operations();
            second.flooded += if actor.operations() == 0 { actor.dirtied_bytes } else { 0 };
        }
    }

    fn state(&self) -> State {
        self.guard
            .as_ref()
            .and_then(|g| g.status().next())
            .map_or(State::Free, |status| status.state)
    }

    fn knobs(&mut self) -> Knobs {
        self.tap.knobs().unwrap()
    }

    /// Operations a second between two moments.
    fn iops(&self, from: u64, to: u64) -> f64 {
        self.seconds[from as usize..to as usize].iter().map(|s| s.ops).sum::<u64>() as f64
            / (to - from) as f64
    }

    /// Bytes a second that floods dirtied between two moments.
    fn flooded(&self, from: u64, to: u64) -> f64 {
        self.seconds[from as usize..to as usize].iter().map(|s| s.flooded).sum::<u64>() as f64
            / (to - from) as f64
    }

    /// When a state was first entered after a moment.
    fn entered(&self, state: State, after: u64) -> Option<Duration> {
        self.decisions
            .iter()
            .find(|d| d.at >= s(after) && d.to == state && d.from != state)
            .map(|d| d.at)
    }
}
