//! What a run measured: everything that the reports print.
//!
//! ```text
//! Outcome ─┬ Job, one for each process or thread ─┬ read, write, trim: Direction
//!          │                                      ├ sync: Distribution
//!          │                                      └ depths, latency buckets, CPU
//!          └ Disk
//! ```
//!
//! Jobs are not merged: the reports do that for `group_reporting`.

use floodwall_model::Moments;

use super::distribution::Distribution;

/// A run that ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// When it ended: milliseconds since the epoch.
    pub ended_ms: u64,
    /// The same as `date` prints it, `Fri Nov 27 15:48:31 2026`, in the local time zone.
    pub ended: String,
    /// Options before the first job, or of all `[global]`, in the order in which they came first.
    /// Each has its first name (`rw`, `bs`) and its last value as it was written. Those without a
    /// value, such as `thread`, are left out.
    pub global_options: Vec<(String, String)>,
    /// Every process or thread, in the order of the jobs.
    pub jobs: Vec<Job>,
    /// Disks below the files; empty with `disk_util=0`, and if there are none.
    pub disks: Vec<Disk>,
}

/// The work of one process or thread, with the options that reports depend on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// Its description, if it has one.
    pub description: Option<String>,
    /// Its reporting group, from 0: a new one begins with `new_group` and `stonewall`.
    pub group: u32,
    /// Its process or thread.
    pub pid: u32,
    /// Its own options, as `global_options`. `name` is there if the command line made the job.
    pub options: Vec<(String, String)>,
    /// `group_reporting`.
    pub is_grouped: bool,
    /// The first error's number, 0 without one, and its text.
    pub error: u32,
    /// Text of the first error; empty without one.
    pub error_text: String,
    /// Whole seconds from the run's begin to its end, at least 1.
    pub elapsed_s: u64,
    /// From the first I/O's begin to the last one's end, with ramp time: milliseconds.
    pub run_ms: u64,
    /// Reads.
    pub read: Direction,
    /// Writes.
    pub write: Direction,
    /// Trims.
    pub trim: Direction,
    /// Latencies of fsync, fdatasync and sync_file_range.
    pub sync: Distribution,
    /// Milliseconds of processor time in user mode.
    pub user_ms: u64,
    /// Milliseconds of processor time in the kernel.
    pub system_ms: u64,
    /// Context switches, voluntary and not.
    pub context_switches: u64,
    /// Page faults that waited for I/O.
    pub major_faults: u64,
    /// Page faults that did not.
    pub minor_faults: u64,
    /// How many requests were in flight, submitted and completed at a time.
    pub depths: Depths,
    /// Latencies in coarse steps, of requests of all directions; not of syncs.
    pub latency_buckets: LatencyBuckets,
    /// The percentiles that are printed.
    pub percentiles: Percentiles,
    /// `iodepth`.
    pub depth: u32,
    /// `kb_base=1000`: bytes come first in powers of 1,000.
    pub is_decimal: bool,
}

/// Reads, writes or trims of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Direction {
    /// Bytes done.
    pub bytes: u64,
    /// Milliseconds from the first one's begin to the last one's end, without ramp time.
    pub runtime_ms: u64,
    /// Requests done, in whole or in part.
    pub ios: u64,
    /// Requests that moved less than their size.
    pub short: u64,
    /// Requests that were dropped at the end.
    pub dropped: u64,
    /// From the request's begin to its submission.
    pub slat: Distribution,
    /// From submission to completion.
    pub clat: Distribution,
    /// From the request's begin to its completion.
    pub lat: Distribution,
    /// KiB/s by interval of `bwavgtime`, 500 ms.
    pub bw: Moments,
    /// Requests a second by interval of `iopsavgtime`, 500 ms.
    pub iops: Moments,
}

/// Depths by slot: see [`level_slot`] and [`completed_slot`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    /// Requests by the number in flight when they were submitted. fio counts a sync here, too.
    pub level: [u64; 7],
    /// Calls of submit by their number of requests.
    pub submit: [u64; 7],
    /// Calls of submit.
    pub submits: u64,
    /// Calls for completions by their number of requests.
    pub complete: [u64; 7],
    /// Calls for completions.
    pub completes: u64,
}

/// The slot of a number of requests in flight: 1, 2–3, 4–7, 8–15, 16–31, 32–63, 64 and more.
#[must_use]
pub fn level_slot(in_flight: u32) -> usize {
    (in_flight.max(1).ilog2() as usize).min(6)
}

/// The slot of a number of requests of one call: 0, 1–4, 5–8, 9–16, 17–32, 33–64, more.
#[must_use]
pub fn completed_slot(requests: u32) -> usize {
    match requests {
        0 => 0,
        1..=4 => 1,
        5..=8 => 2,
        9..=16 => 3,
        17..=32 => 4,
        33..=64 => 5,
        _ => 6,
    }
}

/// Requests by upper limits in nanoseconds, microseconds and milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyBuckets {
    /// Up to 2, 4, 10, 20, 50, 100, 250, 500, 750 and 1,000 ns.
    pub ns: [u64; 10],
    /// The same of microseconds.
    pub us: [u64; 10],
    /// The same of milliseconds, then up to 2,000 and more.
    pub ms: [u64; 12],
}

/// Upper limits of the buckets; a latency of a limit lies above it.
pub(super) const LIMITS: [u64; 11] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1_000, 2_000];

impl LatencyBuckets {
    /// Adds a request's completion latency.
    pub fn record(&mut self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// Adds that of so many requests.
    pub fn record_many(&mut self, ns: u64, requests: u64) {
        let slot = |value: u64| LIMITS.iter().take_while(|limit| value >= **limit).count();
        match ns {
            0..1_000 => self.ns[slot(ns)] += requests,
            1_000..1_000_000 => self.us[slot(ns / 1_000)] += requests,
            _ => self.ms[slot(ns / 1_000_000)] += requests,
        }
    }
}

/// `clat_percentiles`, `lat_percentiles`, `slat_percentiles` and `percentile_list`.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentiles {
    /// Of completion latencies.
    pub clat: bool,
    /// Of whole latencies.
    pub lat: bool,
    /// Of submission latencies.
    pub slat: bool,
    /// Percents, ascending, at most 20.
    pub list: Vec<f64>,
    /// Their decimals in texts.
    pub precision: usize,
}

impl Default for Percentiles {
    fn default() -> Self {
        let list = [
            1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9,
            99.95, 99.99,
        ];
        Self { clat: true, lat: false, slat: false, list: list.to_vec(), precision: 2 }
    }
}

/// The work of a disk over the run, by /proc/diskstats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// Requests read and written.
    pub ios: [u64; 2],
    /// Requests that were merged.
    pub merges: [u64; 2],
    /// Milliseconds that requests took, together.
    pub ticks_ms: [u64; 2],
    /// Milliseconds of requests in the queue.
    pub in_queue_ms: u64,
    /// Milliseconds with a request in flight.
    pub busy_ms: u64,
    /// Milliseconds between the readings.
    pub span_ms: u64,
    /// Names of the disks below it, as of a mapping or array, which follow it in the list.
    pub below: Vec<String>,
}
