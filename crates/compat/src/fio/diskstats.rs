//! Disks' figures from /proc/diskstats.

use procfs_core::DiskStat;

use super::outcome::Disk;

/// A disk between two readings of /proc/diskstats; `None` if one of them has no line of it.
#[must_use]
pub fn disk_between(before: &str, after: &str, name: &str, span_ms: u64) -> Option<Disk> {
    let line = |text: &str| {
        let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(name))?;
        DiskStat::from_line(line).ok()
    };
    let (before, after) = (line(before)?, line(after)?);
    let since = |of: fn(&DiskStat) -> u64| of(&after).saturating_sub(of(&before));
    Some(Disk {
        name: name.to_owned(),
        ios: [since(|d| d.reads), since(|d| d.writes)],
        merges: [since(|d| d.merged), since(|d| d.writes_merged)],
        ticks_ms: [since(|d| d.time_reading), since(|d| d.time_writing)],
        in_queue_ms: since(|d| d.weighted_time_in_progress),
        busy_ms: since(|d| d.time_in_progress),
        span_ms,
        below: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_the_difference_of_two_readings() {
        let before = "254 0 vda 10 1 80 5 20 2 160 7 0 9 12 0 0 0 0 0 0\n";
        let after = "7 0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
                     254 0 vda 15 1 120 6 30 5 260 17 0 19 32 0 0 0 0 0 0\n";
        let disk = disk_between(before, after, "vda", 100).unwrap();
        assert_eq!((disk.ios, disk.merges), ([5, 10], [0, 3]));
        assert_eq!((disk.ticks_ms, disk.in_queue_ms, disk.busy_ms), ([1, 10], 20, 10));
        assert_eq!(disk_between(before, after, "loop0", 100), None);
    }
}
