//! One look at a machine: all that a diagnosis concludes from.

use std::collections::{BTreeMap, BTreeSet};

use floodwall_model::Reading;
use floodwall_model::status::Status;

use super::super::facts::DiskUser;

/// One look at a machine.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// The state of the write path.
    pub status: &'a Status,
    /// The processes that waited or wrote in the look.
    pub users: &'a [DiskUser],
    /// Processes of Floodwall's that neither flood nor count as victims.
    pub own: &'a [u32],
    /// Memory of control groups besides page cache, by their paths, in bytes.
    pub group_memory: &'a BTreeMap<String, u64>,
    /// Control groups that have a limit of their own on writes or memory.
    pub limited_groups: &'a BTreeSet<String>,
    /// Disks that a guard steers, by name.
    pub guarded: &'a [String],
    /// Where processes were seen: `bpf`, `perf` or `proc`.
    pub source: &'static str,
    /// Whether the reader is root already.
    pub is_root: bool,
    /// Whether waits were seen.
    pub sees_waits: bool,
    /// Share of the look in which some task waited for I/O (PSI), in percent.
    pub waited_percent: &'a Reading<f64>,
    /// What the look could not see, each with its reason.
    pub unseen: &'a [String],
}
