//! Any command as a victim or a flood.
//!
//! ```text
//! supervisor thread: spawn /bin/sh -c COMMAND in a group of its own ─▶ wait
//!                    ─▶ end what is left of the group ─┬─▶ status 0: again
//!                                                      └─▶ else, or asked to stop: end
//! sampling thread:   sum of /proc/PID/io over the group ─▶ Meter ─▶ Delta
//! guardian:          a shell that waits on a pipe; if floodwall dies, the pipe closes
//!                    and the guardian kills the group
//! ```
//!
//! Operations are its read and write system calls. Bytes are those that they moved, into or out of
//! the page cache: read and written for a victim, written for a flood. What leaves the group
//! (`setsid`) can be neither counted nor ended.

mod exec;
mod group;
mod guardian;
mod load;
mod run;
mod start;

pub(crate) use load::{CommandLoad, Role};
pub(crate) use run::CommandRun;
pub(crate) use start::start;
