//! Typed kernel knobs, ordered plans, and a journal that can always undo them: the only writer of
//! kernel files.
//!
//! ```text
//! catalogue   every knob: unit, range, quirks, source              (one static table)
//!   change    "sda.scheduler=bfq" → knob, target, checked value
//!   cell      what the kernel keeps behind one or two files; line: a line of a file that has many
//!   plan      changes + current states → entries, ordered steps, or a refusal
//!   refuse    changes that would do harm, and notes about the others
//!   journal   old and new values, fsynced before the first write
//!   session   recover → apply | rollback; every write read back
//!   hold      the transaction of a process that steers: the same knobs again and again,
//!             until it ends
//!   held      knobs of such a process in the way of a change, for which it is asked
//!   owner     whether that process can still write
//!   files     the kernel's files, read and written whole
//!   kernel_files  … of this machine, or of a captured tree
//!   priority  I/O priorities of threads, as if they were files
//!   systemd   limits of systemd's units, as if they were files
//! limited     groups that a plan holds to less, and raised threads in them
//! size        limits from bandwidth × delay                         (pure)
//! presets     settings that others have published
//! rivals      other managers that will fight a plan                 (pure)
//! export      settings in other programs' formats                  (pure)
//! persist     settings kept across boots: a sysctl.d file and udev rules
//! ```
//!
//! Sizes are bytes unless a name says otherwise; times in files are in the unit that the file's
//! name ends in.

pub mod catalogue;
pub mod cell;
pub mod change;
pub mod clock;
mod entry;
mod error;
pub mod export;
pub mod files;
pub mod held;
pub mod hold;
pub mod journal;
mod kernel_files;
pub mod limited;
pub mod limits;
mod line;
mod order;
pub mod owner;
pub mod persist;
pub mod plan;
pub mod presets;
mod priority;
mod refuse;
pub mod rehearsal;
pub mod rivals;
mod run;
pub mod session;
pub mod size;
mod systemd;
pub mod target;
#[cfg(test)]
mod testing;
mod undo;
pub mod value;

pub use change::{Change, ChangeError};
pub use clock::{Clock, SystemClock};
pub use entry::{Entry, Step};
pub use error::PlanError;
pub use files::Files;
pub use held::{Ask, InTheWay, Intention, KnobName};
pub use hold::{HeldCell, Hold, HoldError, Prepared, Written};
pub use kernel_files::KernelFiles;
pub use plan::{Plan, plan};
pub use priority::live::start_at;
pub use refuse::servers::OVERRIDE;
pub use run::StepError;
pub use session::{Applied, ApplyError, Recovery, Session, Who};
pub use target::{Device, Process, Target, TargetError};
pub use undo::{Fate, Undone};
