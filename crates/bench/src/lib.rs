//! Runs a scenario on this host: the host [`Runner`](floodwall_model::Runner).
//!
//! ```text
//! scenario → space (sizes settled) → runner (checks, files) → rounds of phases → Trials
//! setting  → setting_runner: in force for a trial, through the journal, and back
//! ```
//!
//! Writes only below a scratch directory that it makes itself, and leaves the disk as it found it:
//! on success, on errors, on signals. A killed run leaves a marked directory, which
//! [`scratch::leftovers`] finds.

mod budget;
mod command_probe;
pub mod device_lock;
pub mod drain;
mod error;
pub mod groups;
mod live;
mod options;
mod phase;
pub mod runner;
pub mod scratch;
pub mod setting_runner;
pub mod space;
pub mod tool;

pub use error::BenchError;
pub use options::Options;
pub use runner::HostRunner;
pub use setting_runner::{InForce, SettingError, SettingRunner};
