//! Typed kernel knobs, ordered plans, and a journal that can always undo them: the only writer of
//! kernel files.
//!
//! ```text
//! "sda.scheduler=bfq"
//!   catalogue   is there such a knob, which value may it have, and how does the kernel keep it?
//!   plan        what is to be written, in which order, and what would do harm?      (reads alone)
//!   journal     old and new values, fsynced before the first write; whose values are held
//!   apply       every value written and read back, until a rollback, a hold's end or a crash
//!               brings the old one back
//!   persist     the same settings across boots, as files of sysctl.d, udev and systemd
//! ```
//!
//! Each folder uses those above it, and `persist` not `apply`.
//!
//! Sizes are bytes unless a name says otherwise; times in files are in the unit that the file's
//! name ends in.

mod apply;
pub mod catalogue;
pub mod journal;
pub mod persist;
pub mod plan;
#[cfg(test)]
mod testing;

pub use apply::clock::{Clock, SystemClock};
pub use apply::held::{Ask, InTheWay, Intention, KnobName};
pub use apply::hold::{HeldCell, Hold, HoldError, Prepared, Written};
pub use apply::kernel_files::KernelFiles;
pub use apply::priority::start_at;
pub use apply::run::StepError;
pub use apply::session::{Session, Who};
pub use apply::undo::{Fate, Undone};
pub use apply::{Applied, ApplyError, Recovery, hold, limited, may_write, rehearsal};
pub use catalogue::files::Files;
pub use catalogue::target::{Device, Process, Target, TargetError};
pub use catalogue::{cell, presets, value};
pub use journal::owner;
pub use persist::export;
pub use plan::change::{Change, ChangeError};
pub use plan::entry::{Entry, Step};
pub use plan::error::PlanError;
pub use plan::refuse::servers::OVERRIDE;
pub use plan::{Plan, plan, rivals, size};
