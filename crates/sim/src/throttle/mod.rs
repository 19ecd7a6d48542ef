//! How each generation makes writers wait for the dirty limits.
//!
//! ```text
//! writer dirties pages ─▶ dirtied() ─ not yet ─▶ carries on
//!                            └ time to look ─▶ balance() ─▶ Go              carry on
//!                                                 ▲    ├──▶ Sleep           wait
//!                                                 │    ├──▶ WriteOut        submit pages oneself
//!                                                 │    └──▶ CongestionWait  wait for a queue
//!                                                 └───────────┘ then resume()
//! flusher: over_background(), chunk_pages(), writepages_begin(), writepages_end(),
//!          writeback_settled()
//! device:  completed()
//! ```
//!
//! A [`Throttle`] keeps the kernel's state (bandwidth estimates, rate limits, shares, per-task
//! counters) and nothing else. The counters of pages belong to the page cache, which shows them as
//! [`Seen`]. It has no event queue: a ruling says until when to wait. Counts are pages of 4 KiB,
//! rates pages per second, times [`floodwall_device::Nanos`] outside and jiffies inside.

pub mod estimate;
pub mod flex_proportions;
mod interface;
pub mod jiffies;
pub mod pause;
#[cfg(test)]
mod plant_tests;
pub mod position;
pub mod proportions;
#[cfg(test)]
mod trace_tests;
pub mod v2_6_18;
pub mod v2_6_32;
pub mod v3_2;
pub mod v6;

use crate::kernel::Generation;
use crate::limits::{DirtyKnobs, Memory};

pub use interface::{
    BdiId, Dirtier, Machine, MemcgCounts, MemcgId, Ruling, Seen, TaskId, TaskTraits, Throttle,
    Verdict, WbCounts, WbId, stat_error,
};

/// The throttle of a generation.
#[must_use]
pub fn new(
    generation: Generation,
    machine: Machine,
    knobs: DirtyKnobs,
    memory: &Memory,
) -> Box<dyn Throttle> {
    match generation {
        Generation::K2_6_18 => Box::new(v2_6_18::Pushing::new(machine, knobs, memory)),
        Generation::K2_6_32 => Box::new(v2_6_32::Sharing::new(machine, knobs, memory)),
        Generation::K3_2 => Box::new(v3_2::Pausing::new(machine, knobs, memory)),
        Generation::K6 => Box::new(v6::Balancing::new(machine, knobs, memory)),
    }
}
