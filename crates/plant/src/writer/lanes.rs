//! Writes, lane by lane, and their outcomes.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use floodwall_knobs::catalogue::Knob;
use floodwall_knobs::{Change, KnobName, Target};
use floodwall_model::DeviceId;
use floodwall_model::plant::{KnobWrite, PlantError};

use crate::owner::{Owner, is_limit};
use crate::told::{Event, HeldKnob};

/// The most events that are kept until they are asked for.
const EVENTS: usize = 1_000;

/// A row of writes, each after the one before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// The knobs of a unit, or of the machine.
    Unit(Option<DeviceId>),
    /// One limit of a control group, or one priority. A write of `memory.high` returns once the
    /// group's memory is reclaimed (mm/memcontrol.c `memory_high_write`), and keeps no other write
    /// waiting. A priority does not wait for a queue to run dry.
    Limit(Owner),
}

/// A job of a lane's thread.
pub(crate) enum Job {
    /// Save cells ahead of later writes.
    Save(Vec<(&'static Knob, Target)>),
    Write {
        write: KnobWrite,
        changes: Vec<Change>,
        ticket: u64,
    },
    /// Put back the held knobs of these owners.
    Back {
        of: Vec<Owner>,
        /// Whether the caller asks for the failures; otherwise each is an event.
        asked: bool,
    },
    /// Put back some knobs of an owner, and yield them.
    Yield(Owner, BTreeSet<KnobName>),
}

/// A lane's jobs.
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
    pub(crate) unit_of: HashMap<String, DeviceId>,
    /// Owners that a lane is writing to, from its read before a write to its read after.
    pub(crate) taken: BTreeSet<Owner>,
    /// The last value that waits to be written to each control group's limit, or is being written,
    /// and how many do.
    pub(crate) pending: BTreeMap<Owner, (u32, String)>,
    pub(crate) tickets: u64,
    /// Writes whose caller waits, and their outcomes.
    pub(crate) awaited: BTreeMap<u64, Option<Result<(), PlantError>>>,
    /// Cells that could not be put back.
    pub(crate) failed: Vec<String>,
    pub(crate) held: Vec<HeldKnob>,
    /// Knobs that are being yielded.
    pub(crate) yielding: BTreeSet<KnobName>,
    pub(crate) events: VecDeque<Event>,
    /// Writes that failed when no caller waited for them any more, and have not been asked for.
    pub(crate) failures: Vec<(KnobWrite, PlantError)>,
    /// The rest of a look's patience.
    pub(crate) patience: Duration,
    /// Until when everything is being put back. Meanwhile only a write that puts back is tried
    /// again.
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

    pub(crate) fn lane(&self, owner: &Owner) -> Lane {
        if is_limit(owner) {
            return Lane::Limit(owner.clone());
        }
        Lane::Unit(owner.as_ref().and_then(|number| self.unit_of.get(number).copied()))
    }

    /// The knobs that may have to be put back, by lane: the held ones, and all of a lane that has
    /// something to do.
    pub(crate) fn to_put_back(&self) -> BTreeMap<Lane, BTreeSet<Owner>> {
        let is_running = |unit: &DeviceId| {
            self.lanes.get(&Lane::Unit(Some(*unit))).is_some_and(|its| its.running)
        };
        let known = self.unit_of.iter().filter(|(_, unit)| is_running(unit));
        let held = self.held.iter().map(|held| held.owner.clone());
        let limits =
            self.lanes.iter().filter(|(_, its)| its.running).filter_map(|(lane, _)| match lane {
                Lane::Limit(owner) => Some(owner.clone()),
                Lane::Unit(_) => None,
            });
        let mut all: BTreeMap<Lane, BTreeSet<Owner>> = BTreeMap::new();
        for owner in known
            .map(|(number, _)| Some(number.clone()))
            .chain(held)
            .chain(limits)
            .chain(self.taken.clone())
        {
            all.entry(self.lane(&owner)).or_default().insert(owner);
        }
        all
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.lanes.values().all(|lane| !lane.running && lane.jobs.is_empty())
    }

    /// A write of a lane is over, however it ended.
    pub(crate) fn written(&mut self, lane: &Lane) {
        if let Lane::Limit(owner) = lane
            && let Some(pending) = self.pending.get_mut(owner)
        {
            pending.0 = pending.0.saturating_sub(1);
            if pending.0 == 0 {
                self.pending.remove(owner);
            }
        }
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
