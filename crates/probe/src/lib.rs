//! The processes that wait for a disk and those that flood it, live: per device and per process.
//!
//! ```text
//! tracefs format files ─▶ format ─▶ tracepoints (Decoder) ─┐
//! perf events ─▶ perf (rings, merged by time) ─ records ───┴─▶ event ─▶ aggregator ─▶ snapshot
//! bpf (maps of programs in the kernel) ─────────────────────────────────────────▲
//! /proc/PID/{io,fdinfo,comm}, diskstats ─▶ writers, threads, files, disks ──────▲
//! ```
//!
//! `format`, `tracepoints`, `event`, `aggregator`, `follow`, `sync_writers`, `dirtied`, `beyond`
//! and `snapshot` are pure; the rest reads. Nothing is written, not even below
//! /sys/kernel/tracing: perf events are private to this process, and gone when it ends. Times are
//! nanoseconds of CLOCK_MONOTONIC, sizes bytes.

mod aggregator;
mod beyond;
mod bpf;
mod closer;
mod dirtied;
mod disks;
mod duty;
mod error;
pub mod event;
mod files;
mod follow;
pub mod format;
mod hash;
mod open_file;
mod perf;
mod probe;
mod samples;
mod snapshot;
mod sync_writers;
mod threads;
mod tracefs;
pub mod tracepoints;
mod under_way;
mod writers;

pub use error::ProbeError;
pub use event::{Call, Class};
pub use probe::{Probe, device};
pub use snapshot::{
    Blind, DeviceUse, Followed, FollowedWindow, OTHERS, ProcessUse, Requests, Snapshot, SourceKind,
};
