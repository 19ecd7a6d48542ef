//! One disk in a window.

use serde::{Deserialize, Serialize};

use crate::diagnosis::{LONG_BACKLOG_S, Verdict, takes_unknown_time};
use crate::status::DrainSource;

/// One disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// The kernel's name (`sda`).
    pub name: String,
    /// Its number (`8:0`).
    pub id: String,
    /// What the diagnosis says of it.
    pub verdict: Verdict,
    /// Vendor and model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Where its filesystems are mounted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// Dirty and under writeback for it.
    pub backlog_bytes: Option<u64>,
    /// How fast it drains.
    pub drain_bytes_per_s: Option<u64>,
    /// Where that rate comes from.
    pub drain_from: DrainSource,
    /// How long its backlog takes at that rate.
    pub drain_ms: Option<u64>,
    /// The largest backlog while the slowest victim's wait lasted; absent if that is the present
    /// one, and without a victim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_backlog_bytes: Option<u64>,
    /// How long the hard limit would take.
    pub hard_limit_ms: Option<u64>,
    /// Its present share of the hard limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// Bytes that it completed reading, a second (/proc/diskstats).
    pub read_bytes_per_s: Option<u64>,
    /// Bytes that it completed writing, a second.
    pub written_bytes_per_s: Option<u64>,
    /// Share of the window in which a request was under way, in percent (`io_ticks`).
    pub busy_percent: Option<f32>,
    /// Requests under way at the window's end.
    pub in_flight: Option<u64>,
    /// Requests that ended, by kind; absent where the source sees none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Requests>,
    /// Settings of its queue.
    #[serde(skip_serializing_if = "Queue::is_unknown")]
    pub queue: Queue,
}

impl Disk {
    /// Whether its backlog takes a second or more, at a rate that was seen.
    #[must_use]
    pub fn is_backlogged(&self) -> bool {
        let is_long = self.drain_ms.is_some_and(|ms| ms as f64 >= LONG_BACKLOG_S * 1e3);
        is_long && self.drain_from.is_seen()
    }

    /// Whether its backlog [takes an unknown time](takes_unknown_time).
    #[must_use]
    pub fn has_unknown_backlog(&self) -> bool {
        self.backlog_bytes.is_some_and(|bytes| takes_unknown_time(bytes, self.drain_from))
    }

    /// Whether it writes its backlog: at a rate that was seen in this window, or a quarter of its
    /// drain rate at least. Dirty data that only lies there makes nobody wait.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        let written = self.written_bytes_per_s.unwrap_or(0).saturating_mul(4);
        self.drain_from == DrainSource::Seen
            || self.drain_bytes_per_s.is_some_and(|rate| rate > 0 && written >= rate)
    }

    /// How long the largest backlog of the slowest victim's wait takes, in milliseconds; `None`
    /// where backlog or rate are not known.
    #[must_use]
    pub fn peak_drain_ms(&self) -> Option<u64> {
        let Some(bytes) = self.peak_backlog_bytes else { return self.drain_ms };
        let rate = self.drain_bytes_per_s.filter(|rate| *rate > 0)?;
        Some((bytes as f64 / rate as f64 * 1e3) as u64)
    }
}

/// Requests of one kind to one disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// `read`, `sync_write`, `async_write`, `flush` or `other`.
    pub class: String,
    /// How many ended.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Median time in the kernel's queue, in microseconds.
    pub queue_p50_us: Option<u64>,
    /// 99 % were shorter in the queue; only of 100 requests or more.
    pub queue_p99_us: Option<u64>,
    /// Median time in the device, in microseconds.
    pub device_p50_us: Option<u64>,
    /// 99 % were shorter in the device; only of 100 requests or more.
    pub device_p99_us: Option<u64>,
    /// The longest in the device.
    pub device_max_us: Option<u64>,
}

/// Settings of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// The elevator in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Requests that may be queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nr_requests: Option<u64>,
    /// Largest request, in KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sectors_kib: Option<u64>,
    /// Goal of writeback throttling, in microseconds; 0 is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wbt_lat_us: Option<u64>,
    /// Whether the device's own dirty limit is strict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_limit: Option<bool>,
}

impl Queue {
    /// Whether nothing is known of it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}
