//! Command lines and job files, in fio's own grammar.
//!
//! ```text
//! words ─┬▶ options: table, number, kinds ─┬▶ Command ─ JobSpec …
//! files ─┴▶ ini: sections ─────────────────┘
//! ```

mod command;
mod error;
mod ini;
mod kinds;
mod number;
mod options;
mod others;
mod refused;
mod table;

pub use command::{Command, JobSpec};
pub use error::OptionError;
pub use ini::Host;
pub use kinds::{Amount, Data, Engine, Fallocate, Pattern, Sync};
pub use options::{JobOptions, Logs};

#[cfg(test)]
mod tests;
