//! The knob values in force, each as its file reads.

use std::collections::BTreeMap;

use floodwall_model::status::Missing;
use floodwall_model::{DeviceId, Reading, Setting};

use crate::memory::DIRTY_KNOBS;
use crate::root::SysRoot;
use crate::{bdi, queue};

/// Knobs of a queue, by file name in /sys/block/NAME/queue. `scheduler` is read as the elevator in
/// use alone.
const QUEUE_KNOBS: [&str; 6] =
    ["max_sectors_kb", "nomerges", "nr_requests", "read_ahead_kb", "rq_affinity", "write_cache"];
/// Knobs of a backing device, by file name in /sys/class/bdi/NAME. Not max_bytes: it is derived
/// from max_ratio and drifts with free memory.
const BDI_KNOBS: [&str; 5] =
    ["max_ratio", "max_ratio_fine", "min_ratio", "min_ratio_fine", "strict_limit"];

/// The knobs that could be read, and those that could not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsInForce {
    /// `vm.dirty_bytes`, `scheduler`, `nr_requests`, `iosched.fifo_batch`, `bdi.strict_limit` …
    pub setting: Setting,
    /// The others, with the reason.
    pub missing: Vec<Missing>,
}

/// Reads the six `vm.dirty_*` knobs, and those of a whole disk's queue and elevator and of a
/// backing device where there is one.
#[must_use]
pub fn settings_in_force(
    root: &SysRoot,
    disk: Option<DeviceId>,
    bdi_name: Option<&str>,
) -> SettingsInForce {
    let mut found = Found::default();
    for knob in DIRTY_KNOBS {
        found.add(format!("vm.{knob}"), root.read_line(&format!("/proc/sys/vm/{knob}")));
    }
    match disk {
        Some(disk) => read_queue_knobs(root, disk, &mut found),
        None => found.lack("scheduler", "absent: no block device is known"),
    }
    match bdi_name {
        Some(name) => {
            for knob in BDI_KNOBS {
                found.add(
                    format!("bdi.{knob}"),
                    root.read_line(&format!("{}/{knob}", bdi::directory(name))),
                );
            }
        }
        None => found.lack("bdi.strict_limit", "absent: the backing device is not known"),
    }
    SettingsInForce { setting: Setting(found.knobs), missing: found.missing }
}

fn read_queue_knobs(root: &SysRoot, disk: DeviceId, found: &mut Found) {
    let dir = queue::directory(disk);
    found.add("scheduler".to_owned(), queue::read_scheduler(root, disk));
    found.add("wbt_lat_usec".to_owned(), queue::read_wbt(root, disk));
    for knob in QUEUE_KNOBS {
        found.add(knob.to_owned(), root.read_line(&format!("{dir}/{knob}")));
    }
    // Before Linux 7 it is mq-deadline's own, below.
    let depth = root.read_line(&format!("{dir}/async_depth"));
    if depth.value().is_some() {
        found.add("async_depth".to_owned(), depth);
    }
    // Elevators have different tunables, `none` has none: those that exist are those that count.
    for knob in root.list(&format!("{dir}/iosched")).into_value().unwrap_or_default() {
        found.add(format!("iosched.{knob}"), root.read_line(&format!("{dir}/iosched/{knob}")));
    }
}

#[derive(Default)]
struct Found {
    knobs: BTreeMap<String, String>,
    missing: Vec<Missing>,
}

impl Found {
    fn add(&mut self, knob: String, reading: Reading<String>) {
        match reading {
            Reading::Value(value) => {
                self.knobs.insert(knob, value);
            }
            other => self.lack(&knob, &other.why().unwrap_or_default()),
        }
    }

    fn lack(&mut self, what: &str, why: &str) {
        self.missing.push(Missing { what: what.to_owned(), why: why.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    #[test]
    fn knobs_are_named_and_the_rest_is_missing_with_its_reason() {
        let (_dir, root) = tree(&[
            ("proc/sys/vm/dirty_bytes", "15000000\n"),
            ("proc/sys/vm/dirty_ratio", "0\n"),
            ("sys/dev/block/8:0/queue/scheduler", "none [bfq]\n"),
            ("sys/dev/block/8:0/queue/nr_requests", "8\n"),
            ("sys/dev/block/8:0/queue/iosched/slice_idle", "8\n"),
            ("sys/class/bdi/8:0/max_ratio", "100\n"),
        ]);
        let read = settings_in_force(&root, Some(DeviceId { major: 8, minor: 0 }), Some("8:0"));
        let shown = read.setting.to_string();
        assert_eq!(
            shown,
            "bdi.max_ratio=100,iosched.slice_idle=8,nr_requests=8,scheduler=bfq,\
             vm.dirty_bytes=15000000,vm.dirty_ratio=0"
        );
        let strict = read.missing.iter().find(|m| m.what == "bdi.strict_limit").unwrap();
        assert_eq!(strict.why, "absent: /sys/class/bdi/8:0/strict_limit does not exist");
        assert!(read.missing.iter().any(|m| m.what == "vm.dirty_expire_centisecs"));
    }

    #[test]
    fn without_a_device_only_the_machines_knobs_are_looked_for() {
        let (_dir, root) = tree(&[]);
        let read = settings_in_force(&root, None, None);
        assert!(read.setting.is_empty());
        assert_eq!(read.missing.len(), DIRTY_KNOBS.len() + 2);
    }
}
