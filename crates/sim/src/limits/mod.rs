//! The limits of dirty memory: the knobs, the memory that they are a share of, and the thresholds.
//! Pure arithmetic, of 6.x where [`crate::eras::limits`] has that of older kernels.
//!
//! ```text
//! knobs + memory ─▶ thresholds (dirty, background) ─▶ freerun, setpoint ─▶ throttle
//! bdi: a device's share of them
//! flush: what a flusher makes of them
//! nfs: the client's own limit
//! ```
//!
//! Counts are pages of 4 KiB unless a name says otherwise; shares of a device are parts per million
//! (ppm).

mod bdi;
pub mod flush;
mod knobs;
mod memory;
pub mod nfs;
mod thresholds;

pub use bdi::{BDI_KNOBS, BdiContext, BdiLimits, PPM};
pub(crate) use knobs::has;
pub use knobs::{DIRTY_KNOBS, DirtyKnobs, KnobError, Limit};
pub use memory::Memory;
pub use thresholds::{Thresholds, global, memcg};

/// Bytes of a page.
pub const PAGE_SIZE: u64 = 4096;
