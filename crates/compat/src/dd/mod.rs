//! dd of GNU coreutils 9.1: operands, and the lines that it ends with.
//!
//! ```text
//! words ─▶ Options (operands, numbers) ─▶ the copy, in the command
//! its Counts and seconds ─▶ report: records, bytes, rate
//! names in messages ─▶ quote
//! ```

mod flags;
mod number;
mod options;
pub mod quote;
mod report;

pub use flags::{Conv, Flags};
pub use options::{Options, OptionsError, Status};
pub use report::{Counts, amount, progress, records, transfer};
