//! Sweeps: a grid of machines and settings, or a random sample of one, one simulated cell after the
//! other.
//!
//! ```text
//! FILE.toml ─ file::parse ─▶ Sweep
//!   ├─ Shard ─▶ the cells of one job of an array
//!   ├─ Sweep::runs ─▶ what has to be simulated for them
//!   ├─ Sweep::run ──▶ one cell's Figures               (a line of a journal)
//!   └─ Sweep::row ──▶ Figures + those of the default ─▶ a row of the table
//! ```
//!
//! | word | meaning |
//! |---|---|
//! | axis | something that varies, and its values |
//! | cell | one value of each axis: a machine, a scenario and a setting |
//! | a cell's number | its place in the grid, the settings fastest |
//! | group | cells that differ in nothing but the setting |
//! | default run | a group's machine, default setting: what its floods, bursts are compared with |
//! | key | a digest of everything that a run's result depends on: runs with one key are one run |
//!
//! Each run is a function of its cell alone. Neither the number of threads nor that of shards can
//! change a result, so runs may happen in any order. Rows are ordered by the cell's number. Units
//! are in the names of the columns.

mod axes;
mod digest;
mod figures;
mod file;
mod library;
mod plan;
mod sample;
mod shard;
mod table;
#[cfg(test)]
mod testing;

pub use axes::{Axes, KnobAxis, Named};
pub use digest::{Key, checksum};
pub use figures::{Figures, LineError};
pub use file::{SweepError, parse};
pub use library::{Library, builtin_device, builtin_scenario};
pub use plan::{Run, Sweep, Which};
pub use shard::{Shard, ShardError};
pub use table::{Column, ColumnKind, Value};
