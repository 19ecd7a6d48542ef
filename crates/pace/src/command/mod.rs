//! Any command, paced from outside: its files are written back early, and its processes are stopped
//! for moments while too much of its data is dirty.
//!
//! ```text
//! start      fork and exec in this process group ─▶ the command; this process adopts its orphans
//!
//! every 0.2 ms to 2 s (decide):
//! tree       /proc/PID/task/TID/children          ─▶ its processes
//! files      /proc/PID/fd, maps ─┐
//! notified   inotify ────────────┴ ranges ─▶ drain: a thread, idle I/O priority, Writeback
//! dirtied    /proc/PID/io ─▶ bytes dirtied ──┐            │ bytes written
//!                                            ▼            ▼
//! backlog                        dirtied − written = backlog
//! decide     backlog > window ─▶ hold: note to the guardian, then freeze, or SIGSTOP
//!            backlog < half of it ─▶ hold: thaw, or SIGCONT
//! group      the command's control group, where it can have one: freezer, limits
//!
//! guardian   a shell that reads a pipe; if this process dies, the pipe closes: it thaws the group
//!            and lifts its limits, and sends SIGCONT
//! strict     intercepts system calls that dirty pages, if that is wanted: they wait for room in
//!            the window, and hold acts on the rest (mmap(2))
//! watch      a thread that continues a command after 2.5 s, if the looks have ceased
//! ```
//!
//! Works for every kind of program (static, forking, mmap(2), io_uring) and needs no privilege.
//! Bytes of no known file count as written at the pacer's rate.

mod allowed;
mod backlog;
mod decide;
mod dense;
mod dirtied;
mod drain;
mod engine;
mod error;
mod files;
mod group;
mod guardian;
mod hold;
mod look;
mod maps;
mod nested;
mod notified;
mod opens;
mod progress;
mod range;
mod regular;
mod roots;
mod run;
mod signals;
mod start;
mod stopped;
mod strict;
mod sys;
mod tree;

pub use error::{CommandError, FAILED};
pub use look::{Ended, Look};
pub use nested::OUTER;
pub use run::run;
pub use start::{Paced, Reach};
pub use strict::{StrictError, keep};
pub use sys::ignores;
