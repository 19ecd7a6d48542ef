//! A stall: a disk whose victims waited too long for more than a second, with who and why.
//!
//! Stalls are stored, as frames are: fields are added and never change their meaning.

use serde::{Deserialize, Serialize};

use crate::workload::Workload;

/// One stall of one disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stall {
    /// When the first victim began to wait, by the wall clock, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// When the last victim was seen to wait.
    pub ended_unix_ms: u64,
    /// The disk, by the kernel's name.
    pub disk: String,
    /// Where its filesystems are mounted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// The processes that waited, the longest wait first, the kernel's workers last; at most 16.
    /// Any others are one more at the end, with number 0.
    pub victims: Vec<Victim>,
    /// The processes that flooded it, and those that had dirtied at least a tenth of its backlog.
    /// The one that dirtied most, or held the largest part, comes first; the kernel's workers come
    /// last. Empty if none was seen; at most 16, others as with victims.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub floods: Vec<Flood>,
    /// The largest backlog.
    pub backlog_bytes: Option<u64>,
    /// How long that took to drain, at the rate of that moment.
    pub drain_ms: Option<u64>,
    /// How fast the disk drained then.
    pub drain_bytes_per_s: Option<u64>,
    /// When the slowest wait was seen.
    pub worst_unix_ms: u64,
    /// The guard's state for the disk at its worst moment; absent without a guard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<String>,
    /// A victim still waited when the frames ended: it lasted at least so long.
    #[serde(skip_serializing_if = "is_false")]
    pub end_unseen: bool,
}

impl Stall {
    /// How long it lasted, in milliseconds. A clock that was set back makes it 0.
    #[must_use]
    pub fn lasted_ms(&self) -> u64 {
        self.ended_unix_ms.saturating_sub(self.began_unix_ms)
    }

    /// The slowest wait of its first victim, in microseconds. So a worker of the kernel counts only
    /// where no process waited.
    #[must_use]
    pub fn slowest_us(&self) -> u64 {
        self.victims.first().map_or(0, |victim| victim.slowest_us)
    }
}

/// A process that waited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Victim {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its unit, container and pod.
    #[serde(skip_serializing_if = "Workload::is_unknown")]
    pub workload: Workload,
    /// The call that took it longest (`fsync`), or `read`; absent if none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Its slowest wait, in microseconds.
    pub slowest_us: u64,
    /// The time that its threads waited, added up, in microseconds.
    pub waited_us: u64,
    /// Waits that ended.
    pub count: u64,
}

/// A process that flooded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flood {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its unit, container and pod.
    #[serde(skip_serializing_if = "Workload::is_unknown")]
    pub workload: Workload,
    /// Page cache that it dirtied during the stall, in bytes.
    pub dirtied_bytes: u64,
    /// Its largest share of the backlog, in percent.
    pub backlog_percent: Option<f32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !*value
}
