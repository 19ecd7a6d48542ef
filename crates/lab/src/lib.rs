//! Any storage device out of a model, as a real block device: a slow disk behind a real kernel.
//!
//! ```text
//! filesystem ─▶ block layer, elevator, wbt ─▶ loop device (direct I/O) ─▶ FUSE file ─▶ server process
//!                                                                                       ├─ Engine: device model in real time
//!                                                                                       └─ Store: contents in memory
//! guardian process: waits for the server's end and takes the rest down
//! ```
//!
//! The kernel's whole write path is real; only the time that the device takes, and what it loses in
//! a power cut, come from a model of [`floodwall_device`]. [`Lab`] is the way in. Contents are in
//! memory and go with the device.
//!
//! What the stack adds to the model is measured and told ([`Timings::lateness`]); what it changes
//! is this: a FLUSH is alone in the device, because the loop driver and FUSE let nothing pass it;
//! requests are at most 1 MiB and at most 128 of them at once, the loop driver's bounds.
//!
//! Only this crate makes or removes devices, and it touches none that it did not make. The two
//! attributes that it writes below `/sys/block` are those of its own loop device and say what a
//! disk's driver would say.

mod child;
mod control;
mod engine;
mod error;
mod guardian;
mod lab;
mod loopdev;
mod meter;
mod mounts;
mod process;
mod recorder;
mod server;
mod state;
mod store;
mod teardown;

pub use child::{Role, child};
pub use control::{LabStats, PowerCut, StoreStats};
pub use error::LabError;
pub use floodwall_device::DeviceStats;
pub use lab::{Downed, Lab, LabInfo, LabState, Ran, UpOptions};
pub use meter::{Timing, Timings};
pub use mounts::Filesystem;
pub use state::{DEFAULT_ROOT, MountAt, Overflow};
