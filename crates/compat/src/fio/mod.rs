//! fio: its reports of a run, as version 3.33 prints them.
//!
//! ```text
//! a run ─▶ Outcome ─ Job ─ Direction ─ Distribution, Moments
//!             └────▶ report: terse, json, normal
//! ```
//!
//! Units: bytes, nanoseconds of latencies, milliseconds of run times.

mod distribution;
mod number;
mod outcome;
pub mod report;

pub use distribution::{Distribution, Moments};
pub use outcome::{
    Depths, Direction, Disk, Job, LatencyBuckets, Outcome, Percentiles, completed_slot, level_slot,
};
