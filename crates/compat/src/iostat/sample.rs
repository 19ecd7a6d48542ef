//! What the kernel counted until one moment: /proc/stat, /proc/diskstats, /proc/uptime (proc(5),
//! Documentation/admin-guide/iostats.rst).

use procfs_core::DiskStat;

/// A file of /proc that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// Without the line of all processors.
    #[error("/proc/stat has no line 'cpu' that is understood; is /proc mounted?")]
    Stat,
    /// Without a number of seconds.
    #[error("/proc/uptime has no number that is understood; is /proc mounted?")]
    Uptime,
}

/// The machine's counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Since boot, in hundredths of a second.
    pub(super) uptime_cs: u64,
    /// How many processors are online.
    pub(super) processors: usize,
    pub(super) cpu: Cpu,
    /// In the kernel's order.
    pub(super) devices: Vec<Device>,
}

/// Ticks of all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cpu {
    pub(super) user: u64,
    pub(super) nice: u64,
    /// With those of interrupts.
    pub(super) system: u64,
    pub(super) iowait: u64,
    pub(super) steal: u64,
    pub(super) idle: u64,
}

/// A disk or a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) counters: Counters,
}

/// Of one device, since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) read: Kind,
    pub(super) write: Kind,
    /// Zero before Linux 4.18.
    pub(super) discard: Kind,
    /// Zero before Linux 5.5.
    pub(super) flushes: u64,
    pub(super) flush_ms: u64,
    /// With at least one request in flight.
    pub(super) busy_ms: u64,
    /// Summed over requests in flight.
    pub(super) weighted_ms: u64,
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kind {
    /// Completed.
    pub(super) requests: u64,
    /// Merged into others before.
    pub(super) merged: u64,
    /// Of 512 bytes.
    pub(super) sectors: u64,
    /// Summed over requests.
    pub(super) ms: u64,
}

impl Counters {
    /// All requests.
    pub(super) fn requests(&self) -> u64 {
        [self.read.requests, self.write.requests, self.discard.requests, self.flushes]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

impl Sample {
    /// From the texts of /proc/stat, /proc/diskstats and /proc/uptime. Lines of disks that are not
    /// understood are left out.
    ///
    /// # Errors
    /// [`SampleError`], if processors or the uptime are not understood.
    pub fn parse(stat: &str, diskstats: &str, uptime: &str) -> Result<Self, SampleError> {
        let cpu = stat.lines().find_map(|line| line.strip_prefix("cpu "));
        let is_processor = |line: &&str| {
            line.strip_prefix("cpu")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        Ok(Self {
            uptime_cs: hundredths(uptime).ok_or(SampleError::Uptime)?,
            processors: stat.lines().filter(is_processor).count(),
            cpu: cpu.and_then(processors).ok_or(SampleError::Stat)?,
            devices: diskstats.lines().filter_map(device).collect(),
        })
    }

    /// The counters of a device.
    pub(super) fn counters(&self, name: &str) -> Option<&Counters> {
        self.devices.iter().find(|device| device.name == name).map(|device| &device.counters)
    }
}

/// `81253.97 40382.57`: the first in hundredths.
fn hundredths(uptime: &str) -> Option<u64> {
    let (seconds, rest) = uptime.split_whitespace().next()?.split_once('.')?;
    let fraction = rest.get(..2)?;
    seconds.parse::<u64>().ok()?.checked_mul(100)?.checked_add(fraction.parse().ok()?)
}

fn processors(ticks: &str) -> Option<Cpu> {
    let ticks: Vec<u64> = ticks.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let tick = |at: usize| ticks.get(at).copied().unwrap_or(0);
    (ticks.len() >= 4).then(|| Cpu {
        user: tick(0),
        nice: tick(1),
        system: tick(2).saturating_add(tick(5)).saturating_add(tick(6)),
        idle: tick(3),
        iowait: tick(4),
        steal: tick(7),
    })
}

fn device(line: &str) -> Option<Device> {
    let stat = DiskStat::from_line(line).ok()?;
    let kind = |requests, merged, sectors, ms| Kind { requests, merged, sectors, ms };
    let or_zero = Option::unwrap_or_default;
    let counters = Counters {
        read: kind(stat.reads, stat.merged, stat.sectors_read, stat.time_reading),
        write: kind(stat.writes, stat.writes_merged, stat.sectors_written, stat.time_writing),
        discard: kind(
            or_zero(stat.discards),
            or_zero(stat.discards_merged),
            or_zero(stat.sectors_discarded),
            or_zero(stat.time_discarding),
        ),
        flushes: or_zero(stat.flushes),
        flush_ms: or_zero(stat.time_flushing),
        busy_ms: stat.time_in_progress,
        weighted_ms: stat.weighted_time_in_progress,
    };
    Some(Device { name: stat.name, counters })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_every_kernel_are_understood() {
        let disks = "8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n8 1 sda1 1 2 3\n\
            8 16 sdb 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n8 32 sdc x\n";
        let stat = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4\ncpu7 1 2 3 4\nintr 5\n";
        let sample = Sample::parse(stat, disks, "81253.97 40382.57\n").unwrap();
        assert_eq!((sample.uptime_cs, sample.processors), (8_125_397, 2));
        let cpu = Cpu { user: 1, nice: 2, system: 16, idle: 4, iowait: 5, steal: 8 };
        assert_eq!(sample.cpu, cpu);
        assert_eq!(sample.devices.len(), 2);
        let old = sample.counters("sda").unwrap();
        assert_eq!((old.busy_ms, old.weighted_ms, old.flushes), (10, 11, 0));
        let new = sample.counters("sdb").unwrap();
        assert_eq!(new.discard, Kind { requests: 12, merged: 13, sectors: 14, ms: 15 });
        assert_eq!((new.flushes, new.flush_ms, new.requests()), (16, 17, 1 + 5 + 12 + 16));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert_eq!(Sample::parse("", "", "1.00 2"), Err(SampleError::Stat));
        assert_eq!(Sample::parse("cpu  1 2 3 4\n", "", "x"), Err(SampleError::Uptime));
    }
}
