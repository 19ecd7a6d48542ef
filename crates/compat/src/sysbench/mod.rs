//! sysbench's `fileio` test: its command lines, arithmetic and reports, of 1.0.20 and of 0.4.12.
//!
//! ```text
//! words ─▶ line ─ table: which options ─▶ options ───┐
//!                          size: 2G, 16KiB, 16Kb     ▼
//! counts, latencies ─▶ figures ─▶ percentile ─▶ report: v1_0 │ v0_4 ─▶ text
//! ```
//!
//! Units: bytes, nanoseconds. The tool's MiB and its Mb are 1,048,576 bytes.

mod error;
mod figures;
mod kinds;
mod line;
mod options;
mod percentile;
mod report;
mod size;
mod table;
mod v0_4;
mod v1_0;

pub use error::OptionError;
pub use figures::{Counts, Figures, ThreadCounts};
pub use kinds::{Command, Dialect, Mode, OpenFlags};
pub use options::Options;
pub use report::{Made, Report};
