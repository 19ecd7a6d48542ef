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
//!
//! `v6` is that of 6.x; older kernels' are in [`crate::eras::throttle`].

pub mod estimate;
pub mod flex_proportions;
mod interface;
pub mod jiffies;
pub mod pause;
#[cfg(test)]
mod plant_tests;
pub mod position;
#[cfg(test)]
mod trace_tests;
pub mod v6;

pub use interface::{
    BdiId, Dirtier, Machine, MemcgCounts, MemcgId, Ruling, Seen, TaskId, TaskTraits, Throttle,
    Verdict, WbCounts, WbId, stat_error,
};
