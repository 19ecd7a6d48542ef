//! Runs a scenario on this host: the host [`Rig`](floodwall_model::Rig).
//!
//! ```text
//! scenario → space (sizes settled) → rig (checks, files) → rounds of phases → Trials
//! ```
//!
//! Writes only below a scratch directory that it makes itself, and leaves the disk as it found it: on success, on errors, on signals. A
//! killed run leaves a marked directory, which [`scratch::leftovers`] finds.

mod budget;
pub mod device_lock;
mod drain;
mod phase;
pub mod rig;
pub mod scratch;
pub mod space;

pub use rig::{BenchError, HostRig, Options};
