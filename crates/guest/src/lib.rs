//! Runs a command inside another kernel, as an ordinary user. User-mode Linux boots in about a
//! second. QEMU boots the image of any kernel.
//!
//! ```text
//! host                                            guest (one CPU; user-mode Linux: 6.1, HZ=100)
//! Guest::run ── linux.uml ─▶ boots ─▶ init::serve, process 1: modules, mounts, cgroup v2
//!            └─ QEMU ─▶ boots ─▶ first_root::leave ─▶ init::serve
//!    │   ◀── frames (wire) over a serial line ───▶   │
//!    └ stdin, signals, window                        └ the command: its output and its exit status
//! ```
//!
//! The guest's root is an overlay: the host's files below, a tmpfs above. The command can write
//! anywhere and the host's files stay as they are, but for the directories that the caller names
//! ([`Order::writable`]).
//!
//! Only this crate boots kernels, and [`init`] is the only code of the project that runs as
//! process 1.

pub mod cpio;
mod error;
mod find;
mod first_root;
mod guest;
mod host;
mod image;
pub mod init;
mod kernel;
mod launch;
mod machine;
pub mod memory;
pub mod modules;
mod network;
mod outbox;
mod process;
mod wire;

pub use error::GuestError;
pub use find::Uml;
pub use first_root::libraries_of;
pub use guest::{CommandIo, Guest};
pub use image::Image;
pub use kernel::Kernel;
pub use launch::launch;
pub use wire::Order;
