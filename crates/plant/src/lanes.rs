//! Writes, lane by lane, and their outcomes.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use floodwall_knobs::catalogue::Knob;
use floodwall_knobs::{Change, Target};
use floodwall_model::DeviceId;
use floodwall_model::plant::{KnobWrite, PlantError};

use crate::told::{Event, HeldKnob};

/// Events that are kept until somebody asks for them.
const EVENTS: usize = 1_000;

/// The lane of a unit, or of the machine.
pub(crate) type Lane = Option<DeviceId>;
/// The owner of a knob: a device, by its number as knobs has it, or the machine.
pub(crate) type Number = Option<String>;

pub(crate) fn number(target: &Target) -> Number {
    target.device().map(|device| device.number.clone())
}

/// What a lane's thread is to do.
pub(crate) enum Job {
    /// Save cells before they are written some time.
    Save(Vec<(&'static Knob, Target)>),
    Write {
        write: KnobWrite,
        changes: Vec<Change>,
        ticket: u64,
    },
    /// Put back the held knobs of these devices.
    Back {
        of: Vec<Number>,
        /// The caller that has everything put back asks for the failures; else each is an event.
        asked: bool,
    },
}

/// What a lane has to do.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) running: bool,
    /// Writes waiting or under way.
    pub(crate) writes: u32,
}

/// All lanes.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) lanes: BTreeMap<Lane, Queue>,
    /// Which lane a device's knobs belong to, by the device's number as knobs has it.
    pub(crate) lane_of: HashMap<String, Lane>,
    /// Devices that a lane is at: from what it reads before a write to what it reads after.
    pub(crate) taken: BTreeSet<Number>,
    pub(crate) tickets: u64,
    /// Writes that somebody waits for, and how they ended.
    pub(crate) awaited: BTreeMap<u64, Option<Result<(), PlantError>>>,
    /// Cells that could not be put back.
    pub(crate) failed: Vec<String>,
    pub(crate) held: Vec<HeldKnob>,
    pub(crate) events: VecDeque<Event>,
    /// Writes that failed when no caller waited for them any more, and have not been asked for.
    pub(crate) failures: Vec<(KnobWrite, PlantError)>,
    /// The rest of a look's patience.
    pub(crate) patience: Duration,
    /// Everything is being put back until then: nothing new is tried again, nor what goes back
    /// after that.
    pub(crate) ends: Option<Instant>,
    /// Nothing more is written.
    pub(crate) closing: bool,
}

impl State {
    pub(crate) fn tell(&mut self, event: Event) {
        if self.events.len() < EVENTS {
            self.events.push_back(event);
        }
    }

    pub(crate) fn lane(&self, number: &Number) -> Lane {
        number.as_ref().and_then(|number| self.lane_of.get(number).copied()).flatten()
    }

    /// The knobs that may have to be put back, by lane: the held ones, and all of a lane that has
    /// something to do.
    pub(crate) fn to_put_back(&self) -> BTreeMap<Lane, BTreeSet<Number>> {
        let known =
            self.lane_of.iter().filter(|(_, lane)| self.lanes.get(lane).is_some_and(|its| its.running));
        let held = self.held.iter().map(|held| &held.device);
        let mut all: BTreeMap<Lane, BTreeSet<Number>> = BTreeMap::new();
        for number in
            known.map(|(number, _)| Some(number.clone())).chain(held.cloned()).chain(self.taken.clone())
        {
            all.entry(self.lane(&number)).or_default().insert(number);
        }
        all
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.lanes.values().all(|lane| !lane.running && lane.jobs.is_empty())
    }

    /// Ends a write: for the caller that waits, else as an event.
    pub(crate) fn end(&mut self, ticket: u64, write: KnobWrite, outcome: Result<(), PlantError>) {
        match (self.awaited.get_mut(&ticket), outcome) {
            (Some(place), outcome) => *place = Some(outcome),
            (None, Err(error)) => {
                self.tell(Event::Failed(error.clone()));
                // The caller that has everything put back is not told of writes dropped for it.
                if self.ends.is_none() && self.failures.len() < EVENTS {
                    self.failures.push((write, error));
                }
            }
            (None, Ok(())) => {}
        }
    }

    /// Whether a file that says "busy" is tried again.
    pub(crate) fn goes_on(&self, back: bool) -> bool {
        self.ends.is_none_or(|end| back && Instant::now() < end)
    }
}
