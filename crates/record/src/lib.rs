//! Recordings: a machine's frames on disk, and the stalls in them.
//!
//! ```text
//! Frame ─▶ store (daily files) ─▶ Frame      record, watch --replay, dump
//!       ─▶ stall::Detector     ─▶ Stall ─▶ log ─▶ stalls
//! Frame, Stall ─▶ metrics       ─▶ text ─▶ HTTP, textfile     Prometheus
//! moment: what people write (03:10, 10 minutes ago) as a moment
//! ```

pub mod metrics;
pub mod moment;
pub mod stall;
mod store;
pub mod textfile;

pub use store::{
    Appended, Between, Damage, FORMAT, Limits, RecordError, Recording, Writer, condensed,
};
