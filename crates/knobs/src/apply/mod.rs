//! Changes carried out and put back.
//!
//! ```text
//! session       the process that changes settings, and its means
//! carry_out     recover → apply | rollback; every write read back
//!   recover     what a crash, a kill or an earlier boot left open
//!   run         one transaction's steps: intent → write → read back → done
//!   undo        what of a transaction is still ours goes back
//! hold          the transaction of a process that steers: the same knobs again and again, until
//!               it ends
//! held          knobs of such a process in the way of a change, for which it is asked
//! limited       groups that a plan holds to less, and raised threads in them
//! kernel_files  the files of this machine, or of a captured tree
//!   priority    … threads' I/O priorities; systemd: units' limits
//! rehearsal     the files and the journal of a session that changes nothing
//! ```

mod carry_out;
pub(crate) mod clock;
pub(crate) mod held;
pub mod hold;
pub(crate) mod kernel_files;
pub mod limited;
pub(crate) mod priority;
mod recover;
pub mod rehearsal;
pub(crate) mod run;
pub(crate) mod session;
mod systemd;
pub(crate) mod undo;

pub use carry_out::{Applied, ApplyError, may_write};
pub use recover::Recovery;
