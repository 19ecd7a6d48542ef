//! Victims and floods: the I/O engines, their pacing and their counters.
//!
//! ```text
//! check_victim / check_flood ── refuses what can't work, before anything is written
//!
//! prepare_victim / prepare_flood
//!   │ writes the files
//!   ▼
//! PreparedVictim / PreparedFlood ── start() ──▶ Running ── sample(): Delta, once a second
//!   ▲  (as often as there are phases)             │
//!   └────────── discard() ◀── finish() ◀──────────┘
//! ```
//!
//! [`fileio`] and [`jobs`] make requests over files of the caller's. [`groups`] divides a control
//! group.
//!
//! A *victim* is synchronous I/O that a process waits for: every operation's latency is recorded. A
//! *flood* is writes that no process waits for: bytes are counted when the kernel has accepted
//! them. Either can be a command instead, whose I/O is read from `/proc/PID/io`. A flood can run in
//! a separate process ([`apart`]).
//!
//! All files are below the directory that is passed in (mode 0600, directories 0700). The caller
//! removes it. They are reached through its descriptor ([`Dir`]), so renaming it or putting a
//! symlink in its place has no effect. Its contents are safe from other users as long as the
//! directory is the caller's and closed to others.
//!
//! Units: bytes and nanoseconds; CPU time in microseconds.

pub mod apart;
mod buffer;
mod burst;
mod command;
pub mod dir;
mod error;
mod file;
pub mod fileio;
mod finished;
mod flood;
pub mod groups;
pub mod jobs;
mod lock;
mod pace;
mod preflight;
mod ring;
mod running;
mod sys;
mod user;
mod victim;

pub use apart::Apart;
pub use burst::burst;
pub use dir::Dir;
pub use error::LoadError;
pub use finished::Finished;
pub use flood::{PreparedFlood, check_flood, flood_bytes, prepare_flood};
pub use pace::sleep_until;
pub use running::{Delta, Running};
pub use sys::{RangeSync, sync_file_range};
pub use user::{User, UserError, user_name};
pub use victim::{PreparedVictim, check_victim, prepare_victim, victim_bytes};
