//! A status for people (text) and for programs (JSON).
//!
//! ```text
//! Status ─┬─ text: machine, waiters, writers, devices, backlog, settings, findings, notes
//!         └─ json: {"schema": "floodwall/status/1", …}, every number's name ends in its unit
//! ```
//!
//! A value that could not be read is shown as `?` with the number of a note beneath that gives the
//! reason; zero is shown as zero.

mod findings;
mod notes;
mod style;
pub mod table;
mod text;
mod who;

use floodwall_model::status::{Status, Waiter, Writer};
use serde::Serialize;

pub use style::Style;

/// Name and version of the JSON document.
pub const SCHEMA: &str = "floodwall/status/1";

/// A status for people.
#[must_use]
pub fn text(status: &Status, style: Style) -> String {
    text::render(status, style)
}

/// The tables of waiters and writers, an empty line before each; nothing without rows.
#[must_use]
pub fn who(waiters: &[Waiter], writers: &[Writer], style: Style) -> Vec<String> {
    text::who_alone(waiters, writers, style)
}

/// A status for programs: one JSON document, indented, without a line end after it.
///
/// # Errors
/// None that a [`Status`] can cause; serialisation is fallible by type.
pub fn json(status: &Status) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&Document { schema: SCHEMA, command: "status", status })
}

/// The same on one line, for a stream of documents.
///
/// # Errors
/// As [`json`].
pub fn json_line(status: &Status) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Document { schema: SCHEMA, command: "status", status })
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    command: &'static str,
    #[serde(flatten)]
    status: &'a Status,
}
