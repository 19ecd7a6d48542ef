//! Reports about writes: events, held knobs, and the outcome of giving everything back.

use floodwall_knobs::catalogue::Scope;
use floodwall_knobs::plan::short;
use floodwall_knobs::{HeldCell, KnobName};
use floodwall_model::DeviceId;
use floodwall_model::plant::PlantError;

use crate::owner::owner;

/// An event that the owner of a controller should know.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A device has come, or is used for the first time.
    Came {
        /// Its number.
        id: DeviceId,
        /// Its name.
        name: String,
    },
    /// A device has gone.
    Gone {
        /// Its number.
        id: DeviceId,
        /// Its name.
        name: String,
    },
    /// A write failed after [`Plant::write`](floodwall_model::plant::Plant::write) had returned.
    /// The value before is in force.
    Failed(PlantError),
    /// A value could not be put back: another one is in force.
    NotBack(PlantError),
    /// Another process is changing settings. Writes wait until it is done.
    Waiting {
        /// That process, as it describes itself.
        holder: String,
    },
}

/// A knob that holds another value than the administrator's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldKnob {
    /// Its name and its place, as another process asks for it: `nr_requests` of `8:0`,
    /// `pid:4711:ioprio` without a device, `journal.ioprio` of `8:0`.
    pub name: KnobName,
    /// As people write it: `sda.nr_requests`.
    pub label: String,
    /// Its device's number, `/GROUP/io.max` for a control group's limit, `/pid:4711/ioprio` or
    /// `/8:0/journal.ioprio` for a priority; none for a knob of the machine.
    pub owner: Option<String>,
    /// The value that it is put back to.
    pub own: String,
    /// The value that it read after the last write; `own` during the first one.
    pub now: String,
}

/// Knobs that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Yielded {
    /// Knobs that are back, and are left alone from now on.
    pub back: Vec<KnobName>,
    /// Knobs that are not back yet: their queue has to run dry.
    pub waiting: Vec<KnobName>,
    /// The same knobs, as a controller names them: a unit, and a knob of all its devices. A
    /// process's priority is `pid:4711.ioprio`, without a unit.
    pub knobs: Vec<(Option<DeviceId>, String)>,
}

/// The outcome of giving everything back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Knobs that hold the administrator's value again, in words: `sda.nr_requests: 256 again`.
    pub restored: Vec<String>,
    /// Knobs left as they are, in words: another program has set them meanwhile, or their device
    /// is gone.
    pub left_alone: Vec<String>,
    /// Knobs that could not be put back, and why: the next recovery tries again.
    pub failed: Vec<String>,
}

impl Closed {
    /// Whether nothing is left to be put back.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }
}

impl From<&HeldCell> for HeldKnob {
    fn from(cell: &HeldCell) -> Self {
        let shown = |state: Option<&floodwall_knobs::cell::State>| {
            state.map_or_else(|| "not there".to_owned(), |state| short(&cell.label, state))
        };
        let owner = owner(cell.knob, &cell.target);
        let name = KnobName::of(cell.knob, &cell.target);
        // A tunable goes with its elevator. Any other knob without a reading is being written
        // first.
        let before = cell.saved.as_ref().filter(|_| !matches!(cell.knob.scope, Scope::Elevator(_)));
        let now = cell.now.as_ref().or(before);
        Self {
            name,
            label: cell.label.clone(),
            owner,
            own: shown(cell.saved.as_ref()),
            now: shown(now),
        }
    }
}
