//! Recordings: a machine's frames on disk, and the stalls in them.
//!
//! ```text
//! Frame ─▶ store (daily files) ─▶ Frame      record, watch --replay, dump
//!       ─▶ stall::Detector     ─▶ Stall ─▶ log ─▶ stalls
//! moment: what people write (03:10, 10 minutes ago) as a moment
//! ```

pub mod moment;
mod store;

pub use store::{Appended, Between, Damage, FORMAT, Limits, RecordError, Recording, Writer};
