//! From a kernel file's path, a udev attribute or a sysctl's name to the knob, and what the knob
//! holds now.
//!
//! ```text
//! "vm.dirty_ratio", "vm/dirty_ratio", /proc/sys/vm/dirty_ratio     → vm.dirty_ratio, the machine
//! "queue/scheduler", /sys/block/sda/queue/scheduler                → scheduler, sda
//! "queue/iosched/fifo_batch"                                       → iosched.fifo_batch
//! "bdi/max_bytes", /sys/class/bdi/8:0/max_bytes                    → bdi.max_bytes, 8:0
//! ```

use floodwall_model::{DeviceId, Reading};

use crate::memory::DIRTY_KNOBS;
use crate::root::SysRoot;
use crate::{bdi, queue};

/// Knobs of a request queue, by file name.
const QUEUE: [&str; 8] = [
    "async_depth",
    "max_sectors_kb",
    "nomerges",
    "nr_requests",
    "read_ahead_kb",
    "rq_affinity",
    "scheduler",
    "wbt_lat_usec",
];
/// Knobs of a backing device, by file name. Its read_ahead_kb is the queue's.
const BDI: [&str; 7] =
    ["max_bytes", "max_ratio", "max_ratio_fine", "min_bytes", "min_ratio", "min_ratio_fine", "strict_limit"];
/// What `bdi/max_ratio_fine` reads where nothing is limited (mm/page-writeback.c `BDI_RATIO_SCALE`
/// × 100 %).
const UNLIMITED_PPM: u64 = 1_000_000;

/// Whether other managers are looked for that set this knob.
#[must_use]
pub fn is_known(knob: &str) -> bool {
    match knob.split_once('.') {
        Some(("vm", name)) => DIRTY_KNOBS.contains(&name),
        Some(("bdi", name)) => BDI.contains(&name),
        Some(("iosched", name)) => !name.is_empty(),
        Some(("device", name)) => name == "queue_depth",
        _ => QUEUE.contains(&knob),
    }
}

/// The knob of an attribute below a disk's directory in /sys.
pub(super) fn of_attribute(attribute: &str) -> Option<String> {
    let (directory, name) = attribute.rsplit_once('/')?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match directory {
        "queue" if QUEUE.contains(&name) => Some(name.to_owned()),
        "bdi" if name == "read_ahead_kb" => Some(name.to_owned()),
        "bdi" if BDI.contains(&name) => Some(format!("bdi.{name}")),
        "device" if name == "queue_depth" => Some(queue::DEPTH_KNOB.to_owned()),
        "queue/iosched" if !name.is_empty() && name.chars().all(plain) => Some(format!("iosched.{name}")),
        _ => None,
    }
}

/// The knob of a sysctl. If its first separator is a dot, dots and slashes change places
/// (sysctl.d(5)).
pub(super) fn of_sysctl(key: &str) -> Option<&'static str> {
    sysctl_knobs().find(|(_, path)| *path == sysctl_path(key)).map(|(knob, _)| knob)
}

/// The knobs of the sysctls that fit a pattern.
pub(super) fn of_sysctl_pattern(pattern: &str) -> Vec<&'static str> {
    let pattern = sysctl_path(pattern);
    sysctl_knobs().filter(|(_, path)| super::glob::matches(&pattern, path)).map(|(knob, _)| knob).collect()
}

/// A sysctl's path below /proc/sys.
fn sysctl_path(key: &str) -> String {
    match key.find(['.', '/']) {
        Some(at) if key[at..].starts_with('.') => key
            .chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                c => c,
            })
            .collect(),
        _ => key.to_owned(),
    }
}

/// The machine's knobs with their paths below /proc/sys.
fn sysctl_knobs() -> impl Iterator<Item = (&'static str, &'static str)> {
    const KNOBS: [(&str, &str); 6] = [
        ("vm.dirty_background_bytes", "vm/dirty_background_bytes"),
        ("vm.dirty_background_ratio", "vm/dirty_background_ratio"),
        ("vm.dirty_bytes", "vm/dirty_bytes"),
        ("vm.dirty_expire_centisecs", "vm/dirty_expire_centisecs"),
        ("vm.dirty_ratio", "vm/dirty_ratio"),
        ("vm.dirty_writeback_centisecs", "vm/dirty_writeback_centisecs"),
    ];
    KNOBS.into_iter()
}

/// The owner of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner<'a> {
    /// The machine's.
    Machine,
    /// That of disks of this name, which may be a pattern, or `%k`.
    Name(&'a str),
    /// That of disks of this number (/sys/class/bdi/8:0), which may be a pattern.
    Number(&'a str),
}

/// The knob of a path of /proc/sys or /sys, and its owner.
pub(super) fn of_path(path: &str) -> Option<(String, Owner<'_>)> {
    if let Some(key) = path.strip_prefix("/proc/sys/") {
        return of_sysctl(key).map(|knob| (knob.to_owned(), Owner::Machine));
    }
    if let Some((number, name)) = path
        .strip_prefix("/sys/class/bdi/")
        .or_else(|| path.strip_prefix("/sys/devices/virtual/bdi/"))
        .and_then(|rest| rest.split_once('/'))
    {
        return Some((of_attribute(&format!("bdi/{name}"))?, Owner::Number(number)));
    }
    // /sys/block/sda/queue/…, /sys/class/block/sda/…, /sys/devices/…/block/sda/…
    let rest = path.strip_prefix("/sys/")?;
    let at = ["/queue/", "/bdi/", "/device/"].iter().find_map(|directory| rest.find(directory))?;
    let (device, attribute) = (&rest[..at], &rest[at + 1..]);
    let (parent, name) = device.rsplit_once('/')?;
    if let Some(number) = parent.strip_suffix("dev/block").filter(|before| before.is_empty()).map(|_| name) {
        return Some((of_attribute(attribute)?, Owner::Number(number)));
    }
    let is_block = parent == "block" || parent.ends_with("/block");
    if is_block { Some((of_attribute(attribute)?, Owner::Name(name))) } else { None }
}

/// What a knob's file reads now.
fn now(root: &SysRoot, knob: &str, disk: Option<DeviceId>) -> Reading<String> {
    let Some(disk) = disk else {
        return match knob.strip_prefix("vm.") {
            Some(name) => root.read_line(&format!("/proc/sys/vm/{name}")),
            None => Reading::Absent(format!("{knob} is not the machine's")),
        };
    };
    match knob.split_once('.') {
        Some(("bdi", name)) => root.read_line(&format!("{}/{name}", bdi::directory(&disk.to_string()))),
        Some(("iosched", name)) => root.read_line(&format!("{}/iosched/{name}", queue::directory(disk))),
        _ if knob == queue::DEPTH_KNOB => queue::read_depth(root, disk),
        _ if knob == "scheduler" => queue::read_scheduler(root, disk),
        _ if knob == "wbt_lat_usec" => queue::read_wbt(root, disk),
        _ => root.read_line(&format!("{}/{knob}", queue::directory(disk))),
    }
}

/// Whether a knob holds a value now.
pub(super) fn holds(root: &SysRoot, knob: &str, disk: Option<DeviceId>, value: &str) -> Reading<bool> {
    let reading = now(root, knob, disk).map(|now| same(knob, &now, value));
    match (knob, disk, &reading) {
        // It is kept as a share of a limit that moves with free memory: another number may be the
        // same share.
        ("bdi.max_bytes", Some(id), Reading::Value(false)) => {
            let directory = bdi::directory(&id.to_string());
            match root.parse::<u64>(&format!("{directory}/max_ratio_fine")) {
                Reading::Value(ppm) if ppm < UNLIMITED_PPM => Reading::Absent(format!(
                    "a share of {ppm} millionths is in force, and what it comes to in bytes moves with free memory"
                )),
                _ => reading,
            }
        }
        _ => reading,
    }
}

/// Whether two values of a knob are one.
fn same(knob: &str, now: &str, value: &str) -> bool {
    let numbers = (now.parse::<i64>(), value.trim().parse::<i64>());
    match (knob, numbers) {
        // The kernel takes the legacy elevator's name for its successor's (block/mq-deadline.c,
        // `elevator_alias`).
        ("scheduler", _) if value == "deadline" => now == "mq-deadline" || now == "deadline",
        (_, (Ok(a), Ok(b))) => a == b,
        _ => now == value.trim(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    const SDA: DeviceId = DeviceId { major: 8, minor: 0 };

    #[test]
    fn every_spelling_leads_to_the_knob() {
        let own = |knob: &str| Some(knob.to_owned());
        assert_eq!(of_attribute("queue/scheduler"), own("scheduler"));
        assert_eq!(of_attribute("queue/iosched/fifo_batch"), own("iosched.fifo_batch"));
        assert_eq!(of_attribute("bdi/max_bytes"), own("bdi.max_bytes"));
        assert_eq!(of_attribute("bdi/read_ahead_kb"), own("read_ahead_kb"));
        assert_eq!(of_attribute("queue/rotational"), None);
        assert_eq!(of_attribute("device/queue_depth"), own("device.queue_depth"));
        assert_eq!(of_attribute("device/timeout"), None);
        for key in ["vm.dirty_ratio", "vm/dirty_ratio"] {
            assert_eq!(of_sysctl(key), Some("vm.dirty_ratio"));
        }
        assert_eq!(of_sysctl("vm.swappiness"), None);
        assert_eq!(of_sysctl_pattern("vm.dirty_*_centisecs").len(), 2);
        assert_eq!(of_path("/proc/sys/vm/dirty_bytes"), Some(("vm.dirty_bytes".into(), Owner::Machine)));
        assert_eq!(
            of_path("/sys/block/sd*/queue/nr_requests"),
            Some(("nr_requests".into(), Owner::Name("sd*")))
        );
        assert_eq!(of_path("/sys/block/%k/bdi/max_bytes"), Some(("bdi.max_bytes".into(), Owner::Name("%k"))));
        assert_eq!(
            of_path("/sys/class/bdi/8:0/max_ratio"),
            Some(("bdi.max_ratio".into(), Owner::Number("8:0")))
        );
        assert_eq!(
            of_path("/sys/dev/block/8:0/queue/scheduler"),
            Some(("scheduler".into(), Owner::Number("8:0")))
        );
        assert_eq!(
            of_path("/sys/block/sda/device/queue_depth"),
            Some(("device.queue_depth".into(), Owner::Name("sda")))
        );
        assert_eq!(of_path("/sys/kernel/mm/transparent_hugepage/enabled"), None);
        assert_eq!(of_path("/sys/class/net/eth0/queues/rx-0/rps_cpus"), None);
    }

    #[test]
    fn what_is_looked_for_is_known() {
        for knob in ["vm.dirty_bytes", "scheduler", "wbt_lat_usec", "iosched.fifo_batch", "bdi.strict_limit"]
        {
            assert!(is_known(knob), "{knob}");
        }
        assert!(!is_known("vm.swappiness") && !is_known("io.max"));
    }

    #[test]
    fn values_are_compared_as_the_kernel_means_them() {
        let (_dir, root) = tree(&[
            ("proc/sys/vm/dirty_ratio", "20\n"),
            ("sys/dev/block/8:0/queue/scheduler", "none [mq-deadline] bfq\n"),
            ("sys/class/bdi/8:0/max_bytes", "16777000\n"),
            ("sys/class/bdi/8:0/max_ratio_fine", "4000\n"),
        ]);
        let holds = |knob, disk, value| holds(&root, knob, disk, value);
        assert_eq!(holds("vm.dirty_ratio", None, " 20 "), Reading::Value(true));
        assert_eq!(holds("vm.dirty_ratio", None, "40"), Reading::Value(false));
        assert_eq!(holds("scheduler", Some(SDA), "deadline"), Reading::Value(true));
        assert_eq!(holds("scheduler", Some(SDA), "bfq"), Reading::Value(false));
        assert_eq!(holds("bdi.max_bytes", Some(SDA), "16777000"), Reading::Value(true));
        assert!(matches!(holds("bdi.max_bytes", Some(SDA), "16777216"), Reading::Absent(_)));
        assert!(matches!(holds("nr_requests", Some(SDA), "64"), Reading::Absent(_)));
    }
}
