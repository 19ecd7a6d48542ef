//! Stalls for people (a table, a sentence each) and for programs (JSON).
//!
//! ```text
//! Stall ─┬▶ sentence        journal, alerts, the night's page
//!        └▶ cells ─▶ table  stalls, the night's page
//! all   ─▶ totals: how many, how long, the longest wait, the most frequent flood
//! ```

mod cells;
mod json;
mod sentence;
mod text;
mod totals;

use std::ops::Range;

use floodwall_model::stall::Stall;
use jiff::tz::TimeZone;

pub(crate) use cells::{BELOW, COLUMNS, cells, sort_key};
pub use json::{SCHEMA, json};
pub use sentence::sentence;
pub(crate) use sentence::what;
pub use text::text;
pub use totals::Totals;

/// The stalls of a time. Moments are milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    /// In the order of their beginnings.
    pub stalls: &'a [Stall],
    /// The time that was asked for, its end excluded.
    pub from_unix_ms: u64,
    /// Its end.
    pub to_unix_ms: u64,
    /// The disk that was asked for.
    pub disk: Option<&'a str>,
    /// The first and last moment that were recorded; `None` if nothing was.
    pub known: Option<(u64, u64)>,
    /// Times without frames, which are told where no stall is.
    pub gaps: &'a [Range<u64>],
    /// Frames and lines of the log that could not be read.
    pub damaged: u64,
    /// The reader's time zone.
    pub zone: &'a TimeZone,
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
