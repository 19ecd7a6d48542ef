//! The host's counters, once a second: what a benchmark shows beside its own figures.
//!
//! ```text
//! /proc/{meminfo,vmstat,pressure/io,stat,diskstats} → Sampler
//!   → HostSample (levels now, counters since the last call)
//! ```

use floodwall_model::status::Missing;
use floodwall_model::trial::{DeviceSample, HostSample};
use floodwall_model::{DeviceId, Reading};

use crate::diskstats::{self, DiskStats};
use crate::memory;
use crate::root::SysRoot;

/// Reads the host's counters and remembers them until the next call.
#[derive(Debug)]
pub struct Sampler {
    root: SysRoot,
    devices: Vec<DeviceId>,
    before: Counters,
    missing: Vec<Missing>,
}

/// Counters since boot.
#[derive(Clone, Debug, Default)]
struct Counters {
    psi_some_us: Option<u64>,
    psi_full_us: Option<u64>,
    steal_ms: Option<u64>,
    /// In the order of the sampler's devices; `None` if any of them is unknown.
    devices: Option<Vec<DeviceSample>>,
}

impl Sampler {
    /// A sampler for the machine and the block devices under the directory: none, one, or several
    /// (btrfs), whose sum is sampled. Nothing is read yet.
    #[must_use]
    pub fn new(root: SysRoot, devices: impl IntoIterator<Item = DeviceId>) -> Self {
        let devices = devices.into_iter().collect();
        Self { root, devices, before: Counters::default(), missing: Vec::new() }
    }

    /// Levels now, and counters since the last call.
    ///
    /// The first call only primes the counters: they are `None` in what it returns, the levels are
    /// there. An unreadable value is `None` too, with its reason in [`Self::missing`].
    pub fn sample(&mut self) -> HostSample {
        let mut missing = Vec::new();
        let memory = memory::read_memory(&self.root);
        let thresholds = memory::read_thresholds(&self.root);
        let now = self.read_counters(&mut missing);
        let mut level = |what: &str, reading: Reading<u64>| known(&mut missing, what, reading);
        let sample = HostSample {
            dirty_bytes: level("dirty_bytes", memory.dirty_bytes),
            writeback_bytes: level("writeback_bytes", memory.writeback_bytes),
            dirty_threshold_bytes: level("dirty_threshold_bytes", thresholds.hard_bytes),
            background_threshold_bytes: level(
                "background_threshold_bytes",
                thresholds.background_bytes,
            ),
            psi_io_some_us: since(self.before.psi_some_us, now.psi_some_us),
            psi_io_full_us: since(self.before.psi_full_us, now.psi_full_us),
            steal_ms: since(self.before.steal_ms, now.steal_ms),
            device: self.before.devices.as_ref().zip(now.devices.as_ref()).and_then(
                |(before, after)| {
                    before
                        .iter()
                        .zip(after)
                        .map(|(a, b)| diskstats::between(a, b))
                        .reduce(DeviceSample::beside)
                },
            ),
        };
        self.before = now;
        self.missing = missing;
        sample
    }

    /// What the last sample lacks, and why; names are those of [`HostSample`].
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    fn read_counters(&self, missing: &mut Vec<Missing>) -> Counters {
        let pressure = known(missing, "psi_io", memory::read_io_pressure(&self.root));
        let devices = if self.devices.is_empty() {
            Reading::Absent("no block device is known under the directory".into())
        } else {
            let stats = DiskStats::read(&self.root);
            self.devices.iter().fold(Reading::Value(Vec::new()), |all, id| {
                all.and_then(|mut all| {
                    stats.device(*id).map(|one| {
                        all.push(one);
                        all
                    })
                })
            })
        };
        Counters {
            psi_some_us: pressure.map(|p| p.some_us),
            psi_full_us: pressure.map(|p| p.full_us),
            devices: known(missing, "device", devices),
            steal_ms: known(missing, "steal_ms", memory::read_steal_ms(&self.root)),
        }
    }
}

/// The value, or a note with the reason why it is missing.
fn known<T>(missing: &mut Vec<Missing>, what: &str, reading: Reading<T>) -> Option<T> {
    if let Some(why) = reading.why() {
        missing.push(Missing { what: what.to_owned(), why });
    }
    reading.into_value()
}

/// Growth of a counter; steal time may fall by a tick (kernel/sched/cputime.c rounds), which is no
/// growth.
fn since(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    before.zip(after).map(|(before, after)| after.saturating_sub(before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::{put, tree};

    const ID: DeviceId = DeviceId { major: 8, minor: 0 };

    #[test]
    fn the_first_call_primes_and_the_next_gives_differences() {
        let (dir, root) = tree(&[
            ("proc/meminfo", "Dirty: 100 kB\nWriteback: 0 kB\n"),
            ("proc/vmstat", "nr_dirty_threshold 5\nnr_dirty_background_threshold 3\n"),
            (
                "proc/pressure/io",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=500\n\
                 full avg10=0.00 avg60=0.00 avg300=0.00 total=100\n",
            ),
            ("proc/stat", "cpu 1 1 1 1 1 1 1 50\n"),
            ("proc/diskstats", "8 0 sda 1 0 8 1 10 0 80 5 0 7 9 0 0 0 0 2 1\n"),
        ]);
        let mut sampler = Sampler::new(root, Some(ID));
        let first = sampler.sample();
        assert_eq!(first.dirty_bytes, Some(102_400));
        assert_eq!(first.writeback_bytes, Some(0));
        assert_eq!(first.dirty_threshold_bytes, Some(20_480));
        assert_eq!((first.psi_io_some_us, first.steal_ms, first.device), (None, None, None));
        assert_eq!(sampler.missing(), []);

        put(
            &dir.path().join("proc/pressure/io"),
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=750\n\
             full avg10=0.00 avg60=0.00 avg300=0.00 total=100\n",
        );
        put(&dir.path().join("proc/stat"), "cpu 1 1 1 1 1 1 1 53\n");
        put(&dir.path().join("proc/diskstats"), "8 0 sda 1 0 8 1 15 0 180 5 6 107 9 0 0 0 0 4 1\n");
        let second = sampler.sample();
        assert_eq!((second.psi_io_some_us, second.psi_io_full_us), (Some(250), Some(0)));
        assert_eq!(second.steal_ms, Some(30));
        let device = second.device.unwrap();
        assert_eq!((device.write_ops, device.written_bytes, device.busy_ms), (5, 51_200, 100));
        assert_eq!((device.flush_ops, device.in_flight), (Some(2), 6));
    }

    #[test]
    fn several_devices_are_sampled_as_one() {
        let stat = |a: &str, b: &str| format!("8 0 sda {a}\n8 16 sdb {b}\n");
        let first =
            stat("1 0 8 1 10 0 80 5 0 7 9 0 0 0 0 2 1", "1 0 8 1 20 0 160 5 0 7 9 0 0 0 0 5 1");
        let (dir, root) = tree(&[("proc/diskstats", &first)]);
        let mut sampler = Sampler::new(root, [ID, DeviceId { major: 8, minor: 16 }]);
        assert_eq!(sampler.sample().device, None);
        let later = stat(
            "3 0 24 1 15 0 180 5 6 107 29 0 0 0 0 4 1",
            "1 0 8 1 21 0 168 5 1 37 10 0 0 0 0 6 1",
        );
        put(&dir.path().join("proc/diskstats"), &later);
        let both = sampler.sample().device.unwrap();
        assert_eq!((both.read_ops, both.read_bytes), (2, 8_192));
        assert_eq!((both.write_ops, both.written_bytes), (5 + 1, (100 + 8) * 512));
        assert_eq!((both.flush_ops, both.in_flight, both.weighted_ms), (Some(3), 7, 21));
        assert_eq!(both.busy_ms, 100, "of the busier");
        // Half of them is not a small sum.
        put(
            &dir.path().join("proc/diskstats"),
            "8 0 sda 3 0 24 1 15 0 180 5 6 107 29 0 0 0 0 4 1\n",
        );
        assert_eq!(sampler.sample().device, None);
        assert!(sampler.missing().iter().any(|m| m.what == "device" && m.why.contains("8:16")));
    }

    #[test]
    fn what_is_missing_is_named_with_its_reason() {
        let (_dir, root) = tree(&[("proc/meminfo", "Dirty: 0 kB\n")]);
        let mut sampler = Sampler::new(root, None);
        let sample = sampler.sample();
        assert_eq!(sample.dirty_bytes, Some(0));
        let names: Vec<&str> = sampler.missing().iter().map(|m| m.what.as_str()).collect();
        assert_eq!(
            names,
            [
                "psi_io",
                "device",
                "steal_ms",
                "writeback_bytes",
                "dirty_threshold_bytes",
                "background_threshold_bytes"
            ]
        );
    }
}
