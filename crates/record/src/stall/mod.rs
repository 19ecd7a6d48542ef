//! Stalls: found in frames, logged, and found again.
//!
//! ```text
//! Frame ─▶ Detector ─▶ Event ─┬▶ metrics, alerts
//!                             ├▶ journal: a message of systemd's journal
//!                             └▶ Log: stalls.jsonl
//! ```

mod detector;
mod episode;
mod parties;

pub use detector::{COUNTS_MS, Detector, Event, HOLE_WINDOWS, QUIET_MS};
pub use episode::AUTHOR_PERCENT;
pub use parties::KEPT;

#[cfg(test)]
mod tests;
