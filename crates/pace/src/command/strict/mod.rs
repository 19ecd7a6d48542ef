//! System calls that dirty pages wait until the backlog has room (seccomp_unotify(2)).
//!
//! ```text
//! filter     in the thread that starts the command, which inherits it
//!               │ write(2) and the like: the thread of the command waits
//! supervise  a thread: receives calls ─▶ of a file on the paced disk? ─▶ queue ─▶ continued
//! room       backlog of the last look + bytes let through since − bytes written since ≤ window
//! nudge      the thread that started the command: its calls end a receive that waits
//! slots      calls that were received and not answered, in memory that the keeper reads
//! keeper     a process: continues all calls while this process is dead or suspended
//! ```
//!
//! The kernel answers a notified call with ENOSYS once nobody holds the listener. The keeper holds
//! it until the last process of the command has ended.
//!
//! A call is only delayed: the kernel carries it out as if there were no filter. So it does not
//! matter that the command could change the arguments in between.

mod call;
mod error;
mod filter;
mod keeper;
mod kernel;
mod nudge;
mod room;
mod shared;
mod signalled;
mod slots;
mod supervise;

pub use error::StrictError;
pub use keeper::keep;
pub(super) use shared::Strict;
pub(super) use supervise::Supervisor;
