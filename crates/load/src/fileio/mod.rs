//! Requests over files that are there before and stay afterwards: one stream of them, which all
//! threads take from, as sysbench's fileio test does.
//!
//! ```text
//! make ─▶ files, written from end to end
//! open ─▶ FileSet ─ start(Plan) ─▶ FileRun: wait_until, sample, end
//!                     │ a thread: queue ─ when ─▶ order ─ which ─▶ pread │ pwrite │ fsync
//! remove ─▶ the files are gone
//!
//! of_target ─▶ FileSet of one file or device, or a part of it, as disktest has it
//! ```
//!
//! Other victims have files of their own, and threads with requests of their own. Here a sync of
//! all files holds the whole stream up, which is what published figures of this test measure.

mod arrivals;
mod counts;
mod error;
mod files;
mod order;
mod plan;
mod run;
mod target;
mod worker;

pub use counts::{Counts, ThreadCounts};
pub use error::FileIoError;
pub use files::{FileSet, Found, Size, make, remove};
pub use plan::{EndSync, Mode, Pause, Plan, Way};
pub use run::{FileProgress, FileRun, FileSample};
pub use target::{Part, Target};
