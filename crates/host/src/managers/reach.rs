//! From a kernel file's path, a udev attribute or a sysctl's name to the knob.
//!
//! ```text
//! "vm.dirty_ratio", "vm/dirty_ratio", /proc/sys/vm/dirty_ratio     → vm.dirty_ratio, the machine
//! "queue/scheduler", /sys/block/sda/queue/scheduler                → scheduler, sda
//! "queue/iosched/fifo_batch"                                       → iosched.fifo_batch
//! "bdi/max_bytes", /sys/class/bdi/8:0/max_bytes                    → bdi.max_bytes, 8:0
//! ```

use super::glob;
use crate::memory::DIRTY_KNOBS;
use crate::queue;

/// Knobs of a request queue, by file name.
const QUEUE: [&str; 10] = [
    "async_depth",
    "max_sectors_kb",
    "nomerges",
    "nr_requests",
    "read_ahead_kb",
    "rotational",
    "rq_affinity",
    "scheduler",
    "wbt_lat_usec",
    "write_cache",
];
/// Knobs of a backing device, by file name. Its read_ahead_kb is the queue's.
const BDI: [&str; 7] = [
    "max_bytes",
    "max_ratio",
    "max_ratio_fine",
    "min_bytes",
    "min_ratio",
    "min_ratio_fine",
    "strict_limit",
];

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
        "queue/iosched" if !name.is_empty() && name.chars().all(plain) => {
            Some(format!("iosched.{name}"))
        }
        _ => None,
    }
}

/// The knobs of a sysctl's name, which may be a pattern. If its first separator is a dot, dots and
/// slashes change places (sysctl.d(5)).
pub(super) fn of_sysctl(key: &str) -> Vec<String> {
    let dots_first = key.find(['.', '/']).is_some_and(|at| key[at..].starts_with('.'));
    let swapped = |c: char| match c {
        '.' => '/',
        '/' => '.',
        c => c,
    };
    let path = if dots_first { key.chars().map(swapped).collect() } else { key.to_owned() };
    let knobs = DIRTY_KNOBS.iter().filter(|name| glob::matches(&path, &format!("vm/{name}")));
    knobs.map(|name| format!("vm.{name}")).collect()
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
        return of_sysctl(key).pop().map(|knob| (knob, Owner::Machine));
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
    if let Some(number) =
        parent.strip_suffix("dev/block").filter(|before| before.is_empty()).map(|_| name)
    {
        return Some((of_attribute(attribute)?, Owner::Number(number)));
    }
    let is_block = parent == "block" || parent.ends_with("/block");
    if is_block { Some((of_attribute(attribute)?, Owner::Name(name))) } else { None }
}

/// Whether a name or a path that a configuration has is that of a knob.
pub(super) fn is_name(name: &str) -> bool {
    !of_sysctl(name).is_empty() || of_path(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_leads_to_the_knob() {
        let own = |knob: &str| Some(knob.to_owned());
        assert_eq!(of_attribute("queue/scheduler"), own("scheduler"));
        assert_eq!(of_attribute("queue/iosched/fifo_batch"), own("iosched.fifo_batch"));
        assert_eq!(of_attribute("bdi/max_bytes"), own("bdi.max_bytes"));
        assert_eq!(of_attribute("bdi/read_ahead_kb"), own("read_ahead_kb"));
        assert_eq!(of_attribute("queue/rotational"), own("rotational"));
        assert_eq!(of_attribute("queue/add_random"), None);
        assert_eq!(of_attribute("device/queue_depth"), own("device.queue_depth"));
        assert_eq!(of_attribute("device/timeout"), None);
        for key in ["vm.dirty_ratio", "vm/dirty_ratio"] {
            assert_eq!(of_sysctl(key), ["vm.dirty_ratio"]);
        }
        assert_eq!(of_sysctl("vm.swappiness"), [""; 0]);
        assert_eq!(of_sysctl("vm.dirty_*_centisecs").len(), 2);
        assert_eq!(
            of_path("/proc/sys/vm/dirty_bytes"),
            Some(("vm.dirty_bytes".into(), Owner::Machine))
        );
        assert_eq!(
            of_path("/sys/block/sd*/queue/nr_requests"),
            Some(("nr_requests".into(), Owner::Name("sd*")))
        );
        assert_eq!(
            of_path("/sys/block/%k/bdi/max_bytes"),
            Some(("bdi.max_bytes".into(), Owner::Name("%k")))
        );
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
        for knob in [
            "vm.dirty_bytes",
            "scheduler",
            "wbt_lat_usec",
            "iosched.fifo_batch",
            "bdi.strict_limit",
        ] {
            assert!(is_known(knob), "{knob}");
        }
        assert!(!is_known("vm.swappiness") && !is_known("io.max"));
    }
}
