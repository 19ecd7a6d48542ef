//! How fast a device drains, in bytes a second, and how many seconds the waiting bytes and the
//! limits take at that rate.
//!
//! What the device wrote during the window, but only if it was backlogged at both ends, because an
//! idle device's rate says nothing of what it could do. Else, and where no time passed (a captured
//! tree), the kernel's own running mean, which is as old as the device's last busy time. Else
//! unknown.

use floodwall_model::status::{Drain, DrainSource, Machine};
use floodwall_model::{Rate, Reading};

use crate::bdi::BdiStats;

/// A device with less than this dirty and under writeback does not count as backlogged. The flusher
/// writes at least 1024 pages of an inode at a time (fs/fs-writeback.c `MIN_WRITEBACK_PAGES`), 4
/// MiB. Less than that may be written at once and leave the device idle for the rest of the window.
const BACKLOG_BYTES: u64 = 4 << 20;

/// Nor does a device with less than this under writeback. The counters are per-CPU sums that may be
/// off by some hundred KiB (lib/percpu_counter.c), and dirty data that is too young leaves the
/// device idle.
const WRITING_BYTES: u64 = 1 << 20;

/// A shorter window tells no rate, in seconds: requests end in bursts. The kernel's own estimate
/// takes as long (mm/page-writeback.c `BANDWIDTH_INTERVAL`).
const SHORTEST_S: f64 = 0.2;

/// The kernel's estimate below this is of small writes, in bytes a second: it falls while small
/// commits alone run, down to kB/s. Slower devices than this are seen when they are backlogged.
const LEAST_ESTIMATE: u64 = 4_000_000;

/// Why rates are unknown for a captured tree whose counters stand still.
pub(crate) const ONE_MOMENT: &str = "the captured tree holds one moment: its counters don't move";

/// How fast a device drains, and how long that makes its backlog and the limits.
///
/// `written` is what its block devices wrote, in bytes a second, for kernels that don't count it
/// for backing devices. `window_s` is `None` if no time passed between the two readings.
pub(crate) fn drain(
    before: &BdiStats,
    after: &BdiStats,
    written: Option<f64>,
    window_s: Option<f64>,
    machine: &Machine,
) -> Drain {
    let (rate, from) = drain_rate(before, after, written, window_s);
    at_rate(rate, from, &after.dirty_bytes, &after.writeback_bytes, machine)
}

/// How long a device's backlog and the limits take at a rate.
pub(crate) fn at_rate(
    rate: Reading<f64>,
    from: DrainSource,
    dirty_bytes: &Reading<u64>,
    writeback_bytes: &Reading<u64>,
    machine: &Machine,
) -> Drain {
    let backlog = dirty_bytes.as_ref().and_then(|dirty| {
        writeback_bytes.as_ref().map(|writeback| dirty.saturating_add(*writeback))
    });
    let time = |bytes: Reading<u64>| {
        bytes.and_then(|bytes| match rate.as_ref() {
            // Nothing takes no time, whatever the rate.
            _ if bytes == 0 => Reading::Value(0.0),
            Reading::Value(rate) if *rate > 0.0 => Reading::Value(bytes as f64 / rate),
            Reading::Value(_) => {
                Reading::Absent("nothing was written during the window".to_owned())
            }
            Reading::Absent(why) => Reading::Absent(why),
            Reading::Unreadable(why) => Reading::Unreadable(why),
        })
    };
    Drain {
        from,
        now_s: time(backlog),
        hard_limit_s: time(machine.hard_limit_bytes.clone()),
        background_limit_s: time(machine.background_limit_bytes.clone()),
        rate_bytes_per_s: rate,
    }
}

fn drain_rate(
    before: &BdiStats,
    after: &BdiStats,
    written: Option<f64>,
    window_s: Option<f64>,
) -> (Reading<f64>, DrainSource) {
    let (Some(was), Some(is)) = (is_backlogged(before), is_backlogged(after)) else {
        return (why_backlog_is_unknown(before, after), DrainSource::Unknown);
    };
    let long_s = window_s.filter(|seconds| *seconds >= SHORTEST_S);
    if let (true, true, Some(window_s)) = (was, is, long_s) {
        let by_bdi = before
            .written_bytes
            .value()
            .zip(after.written_bytes.value())
            .map(|(a, b)| b.saturating_sub(*a) as f64 / window_s);
        if let Some(rate) = by_bdi.or(written) {
            return (Reading::Value(rate), DrainSource::Seen);
        }
    }
    match &after.bandwidth_bytes_per_s {
        Reading::Value(rate) if *rate >= LEAST_ESTIMATE => {
            (Reading::Value(*rate as f64), DrainSource::KernelEstimate)
        }
        other => {
            let small = other.value().map(|rate| {
                format!("the kernel's estimate of {} is of small writes", Rate(*rate as f64))
            });
            let why = small.as_deref().or(other.reason()).unwrap_or_default();
            let seen = match window_s {
                Some(_) if was && is => "the window was too short",
                Some(_) => "it was not backlogged during the window",
                None => ONE_MOMENT,
            };
            (Reading::Absent(format!("{seen}, and {why}")), DrainSource::Unknown)
        }
    }
}

/// The reason of the first reading that has no value, of those that tell whether a device is
/// backlogged.
fn why_backlog_is_unknown(before: &BdiStats, after: &BdiStats) -> Reading<f64> {
    let readings =
        [&after.dirty_bytes, &after.writeback_bytes, &before.dirty_bytes, &before.writeback_bytes];
    match readings.into_iter().find(|reading| reading.value().is_none()) {
        Some(Reading::Unreadable(why)) => Reading::Unreadable(why.clone()),
        Some(Reading::Absent(why)) => Reading::Absent(why.clone()),
        Some(Reading::Value(_)) | None => {
            Reading::Absent("it is not known whether it is backlogged".into())
        }
    }
}

/// Whether a device had enough to write, and was writing.
fn is_backlogged(stats: &BdiStats) -> Option<bool> {
    let (dirty, writeback) = (*stats.dirty_bytes.value()?, *stats.writeback_bytes.value()?);
    Some(writeback >= WRITING_BYTES && dirty.saturating_add(writeback) >= BACKLOG_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(
        dirty: u64,
        writeback: u64,
        written: Reading<u64>,
        bandwidth: Reading<u64>,
    ) -> BdiStats {
        BdiStats {
            dirty_bytes: Reading::Value(dirty),
            writeback_bytes: Reading::Value(writeback),
            limit_bytes: Reading::Absent(String::new()),
            written_bytes: written,
            bandwidth_bytes_per_s: bandwidth,
        }
    }

    fn absent() -> Reading<u64> {
        Reading::Absent("old kernel".into())
    }

    #[test]
    fn only_a_backlogged_device_shows_its_drain_rate() {
        let busy =
            |written| stats(100 << 20, 1 << 20, Reading::Value(written), Reading::Value(7_000_000));
        let seen = drain_rate(&busy(0), &busy(50), Some(3.0), Some(2.0));
        assert_eq!(seen, (Reading::Value(25.0), DrainSource::Seen));
        // Dirty, but nothing under writeback: it waits to come of age.
        let waiting =
            |written| stats(100 << 20, 4096, Reading::Value(written), Reading::Value(7_000_000));
        assert_eq!(
            drain_rate(&waiting(0), &busy(50), None, Some(2.0)),
            (Reading::Value(7e6), DrainSource::KernelEstimate)
        );
        // Less than one chunk of the flusher.
        let little =
            |written| stats(1 << 20, 4096, Reading::Value(written), Reading::Value(7_000_000));
        assert_eq!(
            drain_rate(&little(0), &little(9), None, Some(1.0)).1,
            DrainSource::KernelEstimate
        );
    }

    #[test]
    fn an_estimate_of_small_commits_tells_no_rate() {
        let idle = |bandwidth| stats(0, 0, Reading::Value(0), Reading::Value(bandwidth));
        let told = |bandwidth| drain_rate(&idle(bandwidth), &idle(bandwidth), None, Some(1.0));
        assert_eq!(told(4_000_000), (Reading::Value(4e6), DrainSource::KernelEstimate));
        let (rate, from) = told(3_999_999);
        assert_eq!(from, DrainSource::Unknown);
        assert!(rate.why().unwrap().ends_with("estimate of 4.00 MB/s is of small writes"));
    }

    #[test]
    fn a_short_window_tells_no_rate() {
        let busy = |bandwidth| stats(100 << 20, 1 << 20, Reading::Value(0), bandwidth);
        let known = busy(Reading::Value(7_000_000));
        let told = |stats: &BdiStats, window_s| drain_rate(stats, stats, None, Some(window_s));
        assert_eq!(told(&known, 0.19), (Reading::Value(7e6), DrainSource::KernelEstimate));
        assert_eq!(told(&known, 0.2), (Reading::Value(0.0), DrainSource::Seen));
        let unknown = told(&busy(absent()), 0.19).0;
        assert!(unknown.why().unwrap().contains("the window was too short"), "{unknown:?}");
    }

    #[test]
    fn the_disks_counter_stands_in_for_the_backing_devices() {
        let busy = stats(100 << 20, 1 << 20, absent(), absent());
        assert_eq!(
            drain_rate(&busy, &busy, Some(3.0), Some(2.0)),
            (Reading::Value(3.0), DrainSource::Seen)
        );
        let idle = stats(0, 0, absent(), absent());
        let (rate, from) = drain_rate(&idle, &idle, Some(3.0), Some(2.0));
        assert_eq!(from, DrainSource::Unknown);
        assert!(rate.why().unwrap().contains("not backlogged"));
    }

    #[test]
    fn where_no_time_passes_the_kernels_estimate_counts() {
        let busy = |bandwidth| stats(100 << 20, 2 << 20, Reading::Value(9), bandwidth);
        let known = busy(Reading::Value(7_000_000));
        assert_eq!(
            drain_rate(&known, &known, Some(0.0), None),
            (Reading::Value(7e6), DrainSource::KernelEstimate)
        );
        let (rate, from) = drain_rate(&busy(absent()), &busy(absent()), Some(0.0), None);
        assert_eq!(from, DrainSource::Unknown);
        assert!(rate.why().unwrap().contains("holds one moment"));
        // On a live machine a backlogged device that writes nothing is stuck.
        assert_eq!(
            drain_rate(&known, &known, None, Some(1.0)),
            (Reading::Value(0.0), DrainSource::Seen)
        );
    }

    #[test]
    fn unreadable_stays_unreadable() {
        let mut hidden = stats(0, 0, absent(), absent());
        hidden.dirty_bytes = Reading::Unreadable("needs root".into());
        let (rate, from) = drain_rate(&hidden, &hidden, Some(3.0), Some(2.0));
        assert_eq!((rate, from), (Reading::Unreadable("needs root".into()), DrainSource::Unknown));
    }

    #[test]
    fn a_rate_is_never_zero_for_want_of_a_reading() {
        let busy = stats(100 << 20, 1 << 20, Reading::Value(9), Reading::Value(7_000_000));
        let no_writeback = BdiStats { writeback_bytes: absent(), ..busy.clone() };
        let no_dirty =
            BdiStats { dirty_bytes: Reading::Unreadable("needs root".into()), ..busy.clone() };
        let unknown = |before, after| {
            let (rate, from) = drain_rate(before, after, Some(3.0), Some(1.0));
            assert_eq!(from, DrainSource::Unknown);
            rate
        };
        assert_eq!(unknown(&busy, &no_writeback), Reading::Absent("old kernel".into()));
        assert_eq!(unknown(&no_writeback, &busy), Reading::Absent("old kernel".into()));
        assert_eq!(unknown(&no_dirty, &busy), Reading::Unreadable("needs root".into()));
        assert_eq!(unknown(&no_writeback, &no_dirty), Reading::Unreadable("needs root".into()));
    }
}
