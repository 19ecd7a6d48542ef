//! A setting: a set of knob values, each as the kernel writes it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The control group of a bench's victims, before the colon in a knob's name: `victim:io.max`.
pub const VICTIM: &str = "victim";
/// The control group of a bench's floods: `flood:io.max`.
pub const FLOOD: &str = "flood";
/// The I/O priority with which a bench's victims start.
pub const VICTIMS_PRIORITY: &str = "victim.ioprio";
/// The I/O priority of the threads that commit ext4's journals.
pub const JOURNAL_PRIORITY: &str = "journal.ioprio";

/// The begin of a process's name in knobs: `pid:4711.ioprio`.
pub const PROCESS: &str = "pid:";

/// Whether a plant's knob is the I/O priority of threads: `pid:4711.ioprio`, `journal.ioprio`.
#[must_use]
pub fn is_priority(knob: &str) -> bool {
    knob == JOURNAL_PRIORITY || knob.starts_with(PROCESS) && knob.ends_with(".ioprio")
}

/// Whether a plant's knob comes and goes while its device stays: a limit of a control group,
/// `GROUP:io.max`, or a priority. It needs nothing back once it has gone.
#[must_use]
pub fn is_passing(knob: &str) -> bool {
    knob.contains(':') || is_priority(knob)
}

/// The flusher never writes less at a time (fs/fs-writeback.c `MIN_WRITEBACK_PAGES`: 4 MiB for any
/// page size).
pub const FLUSHER_CHUNK_BYTES: u64 = 4 << 20;

/// Queue files whose writes wait until the queue is empty and hold all I/O back meanwhile
/// (block/elevator.c `elevator_change`; block/blk-sysfs.c `queue_requests_store`,
/// `queue_max_sectors_store`, `queue_wb_lat_store`). Since Linux 6.10 the first `io.max` of a disk
/// does so too, once (block/blk-throttle.c `blk_throtl_init`). `rotational` and `write_cache` do so
/// since Linux 6.11; neither a search nor the guard writes these. No other knob does.
pub const FREEZING: [&str; 4] = ["scheduler", "nr_requests", "max_sectors_kb", "wbt_lat_usec"];

/// Knob name → value, in the order of the names. Global knobs are named like their sysctl
/// (`vm.dirty_bytes`), a queue's like its file (`scheduler`, `nr_requests`); values are what the
/// kernel's file reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Setting(pub BTreeMap<String, String>);

impl Setting {
    /// Whether no knob is named: whatever is in force.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a knob, if the setting names it.
    #[must_use]
    pub fn get(&self, knob: &str) -> Option<&str> {
        self.0.get(knob).map(String::as_str)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("in force");
        }
        for (i, (knob, value)) in self.0.iter().enumerate() {
            write!(f, "{}{knob}={value}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl FromIterator<(String, String)> for Setting {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}
