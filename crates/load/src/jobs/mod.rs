//! Jobs, each a thread with requests of its own over files of the caller's, as fio has them.
//!
//! ```text
//! lay_out ─▶ the files, as long as the jobs need them
//! run: stage by stage, a thread a job
//!   Order ─ which request ─▶ Pace ─ when ─▶ pread │ pwrite │ fsync, or a ring ─▶ JobCounts
//! every 10 ms: rates of the intervals, the end
//! ```
//!
//! The engines of victims measure commits, each from its begin to its sync. A job's syncs are
//! requests between its reads and writes, with latencies of their own, and its offsets depend on
//! those before.

mod counts;
mod layout;
mod order;
mod pace;
mod plain;
mod plan;
mod queue;
mod run;
mod session;
mod thread;

pub use counts::{DirectionCounts, JobCounts, Timed};
pub use layout::{LayoutError, Removal, lay_out, missing};
pub use plan::{Allocate, JobFile, JobPlan, Keep, Window};
pub use run::{JobRun, Progress, run};
