//! The host as a [`Plant`](floodwall_model::plant::Plant): its sensors, and its knobs through the
//! journal.
//!
//! ```text
//! probe (victims, floods, counters) ──┐
//! /proc/vmstat (dirty, limits) ───────┼─▶ HostPlant::observe ─▶ controller ─▶ HostPlant::write
//! debugfs bdi (dirty of each device) ─┤                                              │
//! /sys/block, mounts ─▶ units: the    │     a lane for each device and each group's limit
//!   queues and bdis of each device ───┘                                              ▼
//!                      knobs: hold (saved, fsynced) ─▶ intent ─▶ write ─▶ read back
//! ```
//!
//! - [`units`]: devices as a controller sees them: the device whose queue the writes meet, with
//!   everything stacked on it.
//! - [`HostPlant`]: sensors and knobs. Looks and writes do not wait for a queue to run dry.
//! - [`restore()`]: puts back the changes of a dead process that steered. Its parent calls it, or
//!   systemd's `ExecStopPost=`.
//!
//! Sizes are bytes, times as [`Duration`](std::time::Duration).

mod attention;
mod cells;
mod error;
mod groups;
mod identity;
mod kind;
mod levels;
mod options;
mod owner;
mod paced;
mod plant;
mod priorities;
mod restore;
#[cfg(test)]
mod testing;
mod told;
pub mod units;
mod writer;

pub use error::HostPlantError;
pub use floodwall_knobs::KnobName;
pub use floodwall_probe::{Blind, SourceKind};
pub use identity::DeviceIdentity;
pub use options::Options;
pub use plant::HostPlant;
pub use restore::{Restored, restore};
pub use told::{Closed, Event, HeldKnob, Yielded};
pub use units::{LeftOut, Unit, Which, mount_points};
