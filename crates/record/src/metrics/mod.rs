//! A recorder's metrics: frames and stalls added up, in OpenMetrics' text format.
//!
//! ```text
//! Frame ─┬▶ totals ─▶ device ─▶ places ─▶ counts     sums and newest values, by device, workload
//! Stall ─┘    │
//!             ▼
//!         exposition ─▶ HTTP (floodwall_daemon::serve) | textfile
//! ```
//!
//! However many devices and processes there are, the number of series is bounded ([`Limits`]).
//! Sums never fall while their series is there. Time is what frames took: no clock is read.

mod counts;
mod device;
mod exposition;
mod label;
mod places;
mod totals;

#[cfg(test)]
mod names;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use self::totals::{Limits, Totals};
