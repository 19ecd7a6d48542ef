//! Parts of a plan: an entry for each cell, and steps, each about an entry.

use crate::catalogue::Knob;
use crate::catalogue::cell::{Cell, State};
use crate::catalogue::systemd::Limit;
use crate::catalogue::target::{Device, Target};

/// A cell that a plan changes, or that changes with one that it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The knob that names it.
    pub knob: &'static Knob,
    /// The place that it belongs to.
    pub target: Target,
    /// Its state in the kernel.
    pub cell: Cell,
    /// Its state before; `None` if it is not there yet (the tunable of an elevator that the plan
    /// switches to).
    pub old: Option<State>,
    /// The wanted state; `None` if it is saved only because the kernel may change it beside
    /// another knob.
    pub new: Option<State>,
}

impl Entry {
    /// As people write the knob: `sda.scheduler`.
    #[must_use]
    pub fn label(&self) -> String {
        self.target.label(self.knob)
    }

    /// Whether the wanted state, if there is one, is another one than the old one.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        let new = self.new.as_ref();
        new.is_some_and(|new| !self.cell.way(self.old.as_ref(), new).is_empty())
    }

    /// A write of a unit's limit as a shell command.
    pub(crate) fn systemctl(&self, to: &State) -> String {
        let Some(limit) = Limit::parse(&to.path) else { return String::new() };
        let before = limit.view_after(self.old.as_ref().map_or("", |old| &old.value));
        let node = self.target.device().map_or_else(String::new, Device::node);
        limit.commands(&before, &to.value, &node)
    }

    /// Whether writing this one may change the other by itself.
    #[must_use]
    pub fn resets(&self, other: &Self) -> bool {
        self.knob.resets(other.knob)
            && self.target.device().is_some()
            && self.target.device() == other.target.device()
    }
}

/// One step of a plan. A knob that already has its value when its turn comes is not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Bring an entry to a state.
    Set {
        /// Which.
        entry: usize,
        /// Where to.
        to: State,
    },
    /// Lower a hard limit by at most 10 % at a time, so that writers are slowed down and not
    /// stopped.
    Lower {
        /// Which.
        entry: usize,
        /// Where to.
        to: State,
        /// The value in the kernel.
        limit_bytes: u64,
    },
}

impl Step {
    /// The entry that it is about.
    #[must_use]
    pub fn entry(&self) -> usize {
        match self {
            Self::Set { entry, .. } | Self::Lower { entry, .. } => *entry,
        }
    }

    /// Where it leads.
    #[must_use]
    pub fn to(&self) -> &State {
        match self {
            Self::Set { to, .. } | Self::Lower { to, .. } => to,
        }
    }
}
