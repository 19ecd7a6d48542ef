//! The guard as a service: a worker that steers, the process that watches over it, and those who
//! ask it.
//!
//! ```text
//! Flags, config ─▶ supervisor ─ pipe ─▶ worker ─▶ controller ─▶ guard::Guard over audit over machine (host | sim)
//!                    │  ▲                 │         ▲
//!                    │  └ beats           │         └ socket: serve ◀─ protocol ◀─ client
//!                    │                    │                ◀─ HTTP (metrics) ◀─ Prometheus
//!                    └ restore, when the worker dies or hangs
//! ```
//!
//! The supervisor starts the worker and the restore by running this very program again: as
//! [`worker::COMMAND`] it has to call [`worker::run`], as [`restore::COMMAND`] and a journal's
//! directory [`restore::for_parent`].
//!
//! Nothing is printed: what happens goes to the log on stderr, stdout is the worker's pipe to its
//! parent. Durations in documents are seconds (`_s`) or microseconds (`_us`), sizes bytes.

mod config;
pub mod document;
mod error;
mod log;
mod machine;
mod metrics;
mod pipe;
mod place;
pub mod restore;
pub mod socket;
pub mod supervisor;
pub mod worker;

pub use config::Flags;
pub use error::DaemonError;
