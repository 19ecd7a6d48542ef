//! fio: its command lines and job files, and its reports of a run, as version 3.33 has them.
//!
//! ```text
//! words, job files ─▶ line: Command ─ JobSpec …
//! a run ─▶ Outcome ─ Job ─ Direction ─ Distribution, Moments
//!             └────▶ report: terse, json, normal
//! ```
//!
//! Units: bytes, nanoseconds of latencies, milliseconds of run times.

mod diskstats;
mod distribution;
pub mod line;
mod number;
mod outcome;
pub mod report;
mod series;

pub use diskstats::disk_between;
pub use distribution::Distribution;
pub use outcome::{
    Depths, Direction, Disk, Job, LatencyBuckets, Outcome, Percentiles, completed_slot, level_slot,
};
pub use series::write_log;
