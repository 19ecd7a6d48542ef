//! Any command, paced from outside: its files are written back early, and it is stopped for moments
//! while too much of it is dirty.
//!
//! ```text
//! start      fork and exec in our process group ─▶ the command; orphans of it become our children
//!
//! every 2 to 200 ms:
//! tree       /proc/PID/task/TID/children          ─▶ its processes
//! files      /proc/PID/fd, maps ─┐
//! notified   inotify ────────────┴ ranges ─▶ drain: a thread, idle I/O priority, Writeback
//! dirtied    /proc/PID/io ─▶ bytes dirtied ──┐            │ bytes written
//!                                            ▼            ▼
//! backlog                        dirtied − written = backlog
//! decide     backlog > window ─▶ hold: guardian told, SIGSTOP;  < half of it ─▶ SIGCONT
//!
//! guardian   a shell that waits on a pipe; if we die, the pipe closes and it sends SIGCONT
//! ```
//!
//! Works for every kind of program (static, forking, mmap(2), io_uring) and needs no privilege.
//! Bytes that belong to no file that was found count as written at the pacer's rate.

mod backlog;
mod decide;
mod dense;
mod dirtied;
mod drain;
mod engine;
mod error;
mod files;
mod guardian;
mod hold;
mod look;
mod maps;
mod nested;
mod notified;
mod progress;
mod range;
mod regular;
mod roots;
mod run;
mod signals;
mod start;
mod sys;
mod tree;

pub use error::CommandError;
pub use look::{Ended, Look};
pub use nested::OUTER;
pub use run::run;
pub use start::Paced;
