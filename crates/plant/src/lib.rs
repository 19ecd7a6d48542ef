//! The host as a [`Plant`](floodwall_model::plant::Plant): what a controller sees of it, and its
//! knobs through the journal.
//!
//! ```text
//! probe (who waits, who floods, counters) ─┐
//! /proc/vmstat (dirty, limits) ────────────┼─▶ HostPlant::observe ─▶ controller ─▶ HostPlant::write
//! debugfs bdi (dirty of each device) ──────┘                                          │ a lane for each device and each group's limit
//! /sys/block, mounts ─▶ units: which queue, which bdi belongs to which device         ▼
//!                                                            knobs: hold (saved, fsynced) ─▶ intent ─▶ write ─▶ read back
//! ```
//!
//! - [`units`]: devices as a controller is to know them: the one whose queue writes meet, with
//!   everything stacked on it.
//! - [`HostPlant`]: sensors and knobs. Nothing in a look or a write waits for a device: a change
//!   that needs a queue to run dry is made by a thread of its own.
//! - [`restore()`]: puts back what a process that steered has left behind; for its parent, or
//!   systemd's `ExecStopPost=`.
//!
//! Sizes are bytes, times as [`Duration`](std::time::Duration).

mod cells;
mod error;
mod groups;
mod lanes;
mod levels;
mod plant;
mod restore;
#[cfg(test)]
mod testing;
mod told;
pub mod units;
mod writer;

pub use error::HostPlantError;
pub use floodwall_probe::{Blind, SourceKind};
pub use plant::{HostPlant, Options};
pub use restore::{Restored, restore};
pub use told::{Closed, Event, HeldKnob};
pub use units::{LeftOut, Unit, Which};
