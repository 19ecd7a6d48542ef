//! `disktest` of the Linux Test Project, 1.2.8 and 1.4.2: its options, arithmetic and lines.
//!
//! ```text
//! words ─▶ words: letters, values ─▶ options ─┐  number: 4k, 30:70, 2h
//! the target's size ─▶ extent ────────────────┤
//! counts, whole seconds ─▶ figures ───────────┴▶ report ─▶ lines
//! ```
//!
//! Units: bytes, sectors of 512 bytes, whole seconds. The tool's MB is 1,048,576 bytes.

mod error;
mod extent;
mod figures;
mod kinds;
mod number;
mod options;
mod report;
mod words;

pub use error::OptionError;
pub use extent::Extent;
pub use figures::{Counts, Figures};
pub use kinds::{Data, Kind, Level, Seeks, Version};
pub use options::Options;
pub use report::Report;
