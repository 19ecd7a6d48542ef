//! Stalls: found in frames, logged, and found again.
//!
//! ```text
//! a recorder:  Frame ─▶ Watch { Detector } ─▶ Event ─┬▶ metrics, alerts
//!                         │                          └▶ journal: systemd's, when it has ended
//!                         └─▶ Lines ─▶ Log: stalls.jsonl
//! afterwards:  log, and frames where nothing watched ─▶ find ─▶ stalls, the night's page
//! ```

mod detector;
mod episode;
mod find;
pub mod journal;
mod log;
mod parties;
mod watch;

pub use detector::{COUNTS_MS, Detector, Event, QUIET_MS};
pub use find::{Found, find, gaps_in};
pub use log::{Lines, Log};
pub use parties::KEPT;
pub use watch::Watch;

pub use crate::store::LOG;

#[cfg(test)]
mod found_tests;
#[cfg(test)]
mod tests;
