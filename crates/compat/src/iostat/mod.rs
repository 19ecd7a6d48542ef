//! `iostat` of sysstat 12.6: use of processors and disks, since boot and by intervals.
//!
//! ```text
//! words ─▶ options ───────────────────┐
//! /proc/{stat,diskstats,uptime}       ▼
//!   ─▶ sample ─▶ select: which disks ─▶ table: figures in columns ─▶ report ─▶ text or JSON
//! ```
//!
//! Units: an interval is counted in hundredths of a second, as /proc/uptime has them. Sectors are
//! 512 bytes. The tool's kB and MB are 1,024 and 1,048,576 bytes.

mod figures;
mod options;
mod report;
mod sample;
mod select;
mod table;

pub use options::{OptionError, Options, Unit};
pub use report::{Machine, Report};
pub use sample::{Sample, SampleError};
pub use select::Partitions;
