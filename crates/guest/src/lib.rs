//! A command inside a kernel of its own: user-mode Linux, started by an ordinary user in about a second.
//!
//! ```text
//! host                                            guest (Linux 6.1, one CPU, HZ=100)
//! Guest::run ── linux.uml ─▶ boots ─▶ init::serve, process 1: modules, mounts, cgroup v2
//!    │   ◀──── frames (wire) over a serial line ────▶   │
//!    └ stdin, signals, window                           └ the command: its output and its exit status
//! ```
//!
//! The guest's root is an overlay: the host's files below, a tmpfs above. The command can write anywhere and the host's
//! files stay as they are, but for the directories that the caller names ([`Order::writable`]).
//!
//! Only this crate boots kernels, and [`init`] is the only code of the project that runs as process 1.

mod error;
mod find;
mod host;
pub mod init;
mod launch;
pub mod memory;
pub mod modules;
mod network;
mod outbox;
mod wire;

pub use error::GuestError;
pub use find::Uml;
pub use host::{CommandIo, Ended, Guest};
pub use launch::launch;
pub use wire::Order;
