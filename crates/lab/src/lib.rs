//! Any storage device out of a model, as a real block device: a slow disk behind a real kernel.
//!
//! ```text
//! filesystem ─▶ block layer, elevator, wbt ─▶ loop device (direct I/O) ─▶ FUSE file ─┐
//! server process ◀───────────────────────────────────────────────────────────────────┘
//!   ├─ Engine: device model in real time
//!   └─ Store: contents in memory
//! guardian process: waits for the server's end and takes the rest down
//! ```
//!
//! The kernel's whole write path is real. Only the time that the device takes, and its losses in a
//! power cut, come from a model of [`floodwall_device`]. The way in is [`Lab`]. Contents are in
//! memory and go with the device.
//!
//! The time that the stack adds to the model is measured ([`Timings::lateness`]). It also changes
//! two things. A FLUSH is alone in the device, because the loop driver and FUSE let nothing pass
//! it. Requests are at most 1 MiB and at most 128 of them at once, the loop driver's bounds.
//!
//! Only this crate makes or removes devices, and it touches none that it did not make. The two
//! attributes that it writes below `/sys/block` belong to its loop device and have the values
//! that a disk's driver would give.

mod control;
mod engine;
mod error;
mod filesystem;
mod guardian;
mod lab;
mod loopdev;
mod meter;
mod mounts;
mod process;
mod recorder;
mod role;
mod server;
mod state;
mod store;
mod teardown;
mod unmount;

use std::path::Path;

pub use control::{LabStats, PowerCut, StoreStats};
pub use error::LabError;
pub use filesystem::Filesystem;
pub use floodwall_device::DeviceStats;
pub use lab::{Downed, Lab, LabInfo, LabState, Ran, UpOptions};
pub use meter::{Timing, Timings};
pub use role::Role;
pub use state::{DEFAULT_ROOT, MountAt, Overflow};

/// Does a child process's work. The program that [`Lab`] was told of calls this when it finds
/// `--role ROLE --state DIR` behind the arguments that it gave, and ends when it returns.
///
/// # Errors
/// Why the server could not start, or what the guardian could not take down. They are in the lab's
/// `log` and `error` files as well.
pub fn child(role: Role, state: &Path) -> Result<(), LabError> {
    match role {
        Role::Server => server::main(state),
        Role::Guardian => guardian::main(state),
    }
}
