//! The guard as a service: a worker that steers, the supervisor that watches over it, and its
//! clients.
//!
//! ```text
//! Flags ─▶ config ─▶ supervisor ─ pipe ─▶ worker: controller ─▶ guard::Guard ─▶ audit ─▶ machine
//!                     │  ▲                  │        ▲          (host | unjournaled: sim, dry run)
//!                     │  └──── beats ───────┘        ├ question ◀─ socket ◀─ client: status …
//!                     └ restore, when the worker     └ question ◀─ metrics ◀─ Prometheus
//!                       dies or hangs
//!
//! config       flags and the configuration file
//! lock         one guard a machine; directory: where lock and sockets are
//! supervisor   starts the worker, kills it when it hangs, starts another; tells systemd
//! pipe         what supervisor and worker say to each other
//! worker       the loop; controller: decisions, history, pauses, writes in words (audit)
//! machine      this host, whose journal has the held values; or a simulated machine or a dry run,
//!              whose held values are in memory (unjournaled)
//! learnt       what was learnt of devices, in a file that outlives boots
//! restore      puts back what a dead worker has left behind
//! socket       protocol, the guard's side (listener, serve) and the asker's (client)
//! metrics      OpenMetrics (prometheus-client), over HTTP; its server also serves a recorder's
//! connection   clients of socket and metrics, bounded in number and time; question: what they ask
//! document     what a guard says of itself: status and history
//! log          stderr, or systemd's journal
//! ```
//!
//! The supervisor runs this very program again: as [`worker::COMMAND`] it has to call
//! [`worker::run`], and as [`restore::COMMAND`] with a journal's directory
//! [`restore::for_parent`].
//!
//! Nothing is printed: the log goes to stderr, and stdout is the worker's pipe to its supervisor.
//! Durations in documents are seconds (`_s`) or microseconds (`_us`), sizes bytes.

mod config;
mod connection;
mod directory;
pub mod document;
mod error;
mod learnt;
mod lock;
mod log;
mod machine;
mod metrics;
mod pipe;
mod question;
pub mod restore;
pub mod socket;
pub mod supervisor;
mod unmounted;
pub mod worker;

pub use config::{Flags, Listen};
pub use error::DaemonError;
pub use metrics::http::{Served, serve};
// The law's constants that explain its status.
pub use floodwall_guard::config::{BACKLOG, SPARED, UNKNOWN_GOAL};
