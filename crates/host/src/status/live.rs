//! The state of the write path again and again, for hours and for little.
//!
//! ```text
//! every look            counters of memory and devices ─┐
//! every WHOLE, and when a filesystem is mounted         ├─ Status
//!                       everything else ────────────────┘
//! ```
//!
//! Processes are left out: whoever looks for hours has a probe.

use std::time::Duration;

use floodwall_model::status::{Machine, Status};

use super::counted::{Counted, counted};
use super::drains::Drains;
use super::observation::{Observation, Window};
use super::status;
use crate::memory;
use crate::root::SysRoot;

/// Settings, limits and servers are read as often as this: with a hundred disks they take 20 ms.
const WHOLE: Duration = Duration::from_secs(15);

/// The last look, for the next one.
#[derive(Clone, Debug)]
pub struct Live {
    before: Observation,
    at: Duration,
    /// The last status, and when it was read whole; `None` before the first one.
    last: Option<(Status, Duration)>,
    drains: Drains,
}

impl Live {
    /// The first look, at a moment of the caller's clock, which must not go back.
    #[must_use]
    pub fn new(root: &SysRoot, now: Duration) -> Self {
        let drains = Drains::default();
        Self { before: Observation::read_devices(root), at: now, last: None, drains }
    }

    /// The state now, with rates since the last look. The drain rate of a device that is not
    /// backlogged now is that of an earlier look, if one saw it. `waiters`, `writers` and
    /// `findings` are empty; `is_root` as for [`status`].
    pub fn next(&mut self, root: &SysRoot, now: Duration, is_root: bool) -> Status {
        let window_s = now.saturating_sub(self.at).as_secs_f64().max(f64::EPSILON);
        let known = self.last.take().filter(|(_, whole)| {
            now.saturating_sub(*whole) < WHOLE && self.before.has_same_mounts(root)
        });
        let (mut status, after, whole) = match known {
            Some((last, whole)) => {
                let after = self.before.read_devices_again(root);
                let window = Window::new(root, &self.before, &after, window_s);
                (counted_again(root, last, &window, window_s), after, whole)
            }
            None => {
                let after = Observation::read_devices(root);
                (status(root, &self.before, &after, window_s, is_root), after, now)
            }
        };
        (self.before, self.at) = (after, now);
        self.drains.look(&mut status);
        self.last = Some((status.clone(), whole));
        status
    }
}

/// A status with new counters. Its devices are the rows of the same layout, in the same order.
fn counted_again(root: &SysRoot, last: Status, window: &Window<'_>, window_s: f64) -> Status {
    let mut status = last;
    status.window_s = window_s;
    level(root, &mut status.machine);
    for (device, row) in status.devices.iter_mut().zip(&window.after.layout.rows) {
        let Counted { stats, written, drain, .. } = counted(row, window, &status.machine);
        device.dirty_bytes = stats.dirty_bytes;
        device.writeback_bytes = stats.writeback_bytes;
        device.device_limit_bytes = stats.limit_bytes;
        device.written_bytes_per_s = written;
        device.drain = drain;
        for leaf in &mut device.leaves {
            leaf.written_bytes_per_s = window.disk_rate(leaf.id);
        }
    }
    status
}

/// What is dirty, the limits and the pressure now.
fn level(root: &SysRoot, machine: &mut Machine) {
    let memory = memory::read_memory(root);
    let thresholds = memory::read_thresholds(root);
    let pressure = memory::read_io_pressure(root);
    machine.dirty_bytes = memory.dirty_bytes;
    machine.writeback_bytes = memory.writeback_bytes;
    machine.hard_limit_bytes = thresholds.hard_bytes;
    machine.background_limit_bytes = thresholds.background_bytes;
    machine.psi_io_some_avg10_percent = pressure.as_ref().map(|p| p.some_avg10_percent);
    machine.psi_io_full_avg10_percent = pressure.map(|p| p.full_avg10_percent);
}

#[cfg(test)]
mod tests {
    use floodwall_model::Reading;
    use floodwall_testing::tree::{copy_host, put};

    use super::*;

    #[test]
    fn a_look_that_reads_counters_alone_tells_the_same_as_a_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        copy_host("vm-virtio-ext4", dir.path()).unwrap();
        let root = SysRoot::new(dir.path()).unwrap();
        let second = Duration::from_secs(1);
        let mut live = Live::new(&root, Duration::ZERO);
        live.next(&root, second, true);
        let text = std::fs::read_to_string(dir.path().join("proc/meminfo")).unwrap();
        let dirty = text.lines().find(|line| line.starts_with("Dirty:")).unwrap();
        let more = text.replace(dirty, "Dirty:  1048576 kB");
        put(&dir.path().join("proc/meminfo"), &more);
        let before = live.clone();
        let again = live.next(&root, 2 * second, true);
        assert_eq!(again.machine.dirty_bytes, Reading::Value(1 << 30));
        let after = Observation::read_devices(&root);
        let whole = status(&root, &before.before, &after, 1.0, true);
        assert_eq!(again, whole);
        assert!(!again.devices.is_empty());
    }

    #[test]
    fn settings_are_read_again_after_a_while() {
        let dir = tempfile::tempdir().unwrap();
        copy_host("vm-virtio-ext4", dir.path()).unwrap();
        let root = SysRoot::new(dir.path()).unwrap();
        let mut live = Live::new(&root, Duration::ZERO);
        let mut at = |seconds: u64| live.next(&root, Duration::from_secs(seconds), true);
        let first = at(1);
        let file =
            dir.path().join(format!("sys/dev/block/{}/queue/nr_requests", first.devices[0].id));
        assert!(file.exists(), "{}", file.display());
        put(&file, "7\n");
        let seen = |status: Status| status.devices[0].queue.nr_requests.value().copied();
        assert_ne!(seen(at(2)), Some(7));
        assert_eq!(seen(at(17)), Some(7));
    }
}
