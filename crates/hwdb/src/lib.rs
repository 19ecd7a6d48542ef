//! Settings by device: submissions of measured results, the rules that merge them, and
//! `60-floodwall.hwdb`, the file of what several machines agree on.
//!
//! ```text
//! Trials ─ measured ─▶ figures ─▶ Submission ─▶ JSON, one file a result
//!                                                │ read, checked field by field
//! 60-floodwall.hwdb ◀─ Database ◀─ merge ◀───────┘
//!        └─▶ Database::read ─▶ Entry of a model, firmware and size class ─▶ a first guess
//! ```
//!
//! Submissions and files come from others. Every field has a type, a range and an alphabet, and a
//! text that does not fit is refused whole. [`Submission::check`] also judges what Floodwall itself
//! writes.
//!
//! Pure: texts, dates and hashed bytes are parameters. Rates are bytes per second, times
//! microseconds.

mod agreement;
mod alphabet;
mod database;
mod digest;
mod evidence;
pub mod measured;
mod merge;
mod products;
mod refused;
mod setting;
mod size_class;
mod submission;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use alphabet::{model_name, revision};
pub use database::{Database, Entry, SHIPPED};
pub use digest::{digest, source_of};
pub use evidence::Evidence;
pub use merge::{Candidate, Merged, merge};
pub use products::{Product, product};
pub use refused::{MOST_BYTES, Refused};
pub use setting::{parse_setting, setting_text};
pub use size_class::SizeClass;
pub use submission::{Best, Figure, SCHEMA, Submission, VICTIMS};

/// The file that a distribution or an administrator may put beside udev's own (hwdb(7)), below the
/// root.
pub const INSTALLED: &str = "/etc/udev/hwdb.d/60-floodwall.hwdb";
