//! Who waits for a disk and who floods it, live: per device and per process.
//!
//! ```text
//! tracefs format files ─▶ format ─▶ tracepoints (Decoder) ─┐
//! perf events ─▶ perf (rings, merged by time) ─ records ───┴─▶ event ─▶ tally ─▶ snapshot
//! bpf (maps of programs in the kernel; cargo feature `bpf`) ───────────────▲
//! /proc/PID/{io,fdinfo,comm} ─▶ writers, files ──────────────────────────▲
//! ```
//!
//! `format`, `tracepoints`, `event`, `tally` and `snapshot` are pure; the rest reads. Nothing is written, not even below /sys/kernel/tracing: perf events are
//! ours alone, and gone when we are. Times are nanoseconds of CLOCK_MONOTONIC, sizes bytes.

#[cfg(feature = "bpf")]
mod bpf;
mod error;
pub mod event;
mod files;
pub mod format;
mod hash;
mod histogram;
mod perf;
mod probe;
pub mod snapshot;
pub mod tally;
mod tracefs;
pub mod tracepoints;
mod writers;

pub use error::ProbeError;
pub use event::{Call, Class};
pub use probe::{Probe, device};
pub use snapshot::{Blind, DeviceUse, ProcessUse, Requests, Snapshot, SourceKind};
