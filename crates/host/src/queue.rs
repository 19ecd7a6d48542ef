//! A request queue's settings: /sys/block/NAME/queue, reached by the device's number.

use floodwall_model::status::Queue;
use floodwall_model::{DeviceId, Reading};
use rustix::io::Errno;

use crate::block;
use crate::root::{SysRoot, not_understood, refused};

/// The directory of a device's queue. Partitions have none: give the whole disk.
#[must_use]
pub fn directory(disk: DeviceId) -> String {
    format!("{}/queue", block::directory(disk))
}

/// Reads a queue's settings.
#[must_use]
pub fn read_queue(root: &SysRoot, disk: DeviceId) -> Queue {
    let dir = directory(disk);
    let file = |name: &str| format!("{dir}/{name}");
    let number = |name: &str| root.parse::<u64>(&file(name));
    let flag = |name: &str| number(name).map(|n| n != 0);
    Queue {
        scheduler: read_scheduler(root, disk),
        offered: root
            .read_line(&file("scheduler"))
            .map(|text| choices(&text).map(str::to_owned).collect()),
        nr_requests: number("nr_requests"),
        wbt_lat_us: read_wbt(root, disk).and_then(|text| match text.parse() {
            Ok(us) => Reading::Value(us),
            Err(_) => not_understood(&file("wbt_lat_usec"), &text),
        }),
        write_cache: root.read_line(&file("write_cache")),
        device_cache: read_device_cache(root, disk),
        async_depth: number("iosched/async_depth"),
        queue_async_depth: number("async_depth"),
        write_expire_ms: number("iosched/write_expire"),
        fua: flag("fua"),
        rotational: flag("rotational"),
        max_sectors_kib: number("max_sectors_kb"),
        nomerges_level: number("nomerges"),
        rq_affinity_level: number("rq_affinity"),
    }
}

/// The choice in brackets: `mq-deadline` in `none [mq-deadline] kyber`. A single word without
/// brackets is the choice itself.
#[must_use]
pub fn chosen(text: &str) -> Option<&str> {
    match (text.find('['), text.find(']')) {
        (Some(open), Some(close)) if open < close => Some(&text[open + 1..close]),
        _ => {
            let mut words = text.split_whitespace();
            words.next().filter(|word| words.next().is_none() && !word.contains(['[', ']']))
        }
    }
}

/// All choices of such a text, in its order, without brackets.
pub fn choices(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().map(|name| name.trim_matches(['[', ']']))
}

/// The elevator in use. `none` alone, without brackets, is what bio-based devices (dm, md) and
/// kernels before 4.12 print.
#[must_use]
pub(crate) fn read_scheduler(root: &SysRoot, disk: DeviceId) -> Reading<String> {
    let path = format!("{}/scheduler", directory(disk));
    root.read_line(&path).and_then(|text| match chosen(&text) {
        Some(name) => Reading::Value(name.to_owned()),
        None => not_understood(&path, &text),
    })
}

/// Whether an elevator puts commits before a flood by priority. With mq-deadline classes set the
/// order, but its commits wait for the same tags as the flood (block/mq-deadline.c
/// `dd_limit_depth`). kyber and none know no classes.
#[must_use]
pub fn heeds_priority(elevator: &str) -> bool {
    matches!(elevator, "bfq" | "cfq")
}

/// Whether the kernel's bfq divides requests among control groups and priorities
/// (CONFIG_BFQ_GROUP_IOSCHED): then it has `bfq_pd_alloc` (block/bfq-cgroup.c), which is called
/// through a pointer only and so never inlined. Absent where bfq is not loaded.
#[must_use]
pub fn read_bfq_groups(root: &SysRoot) -> Reading<bool> {
    let path = "/proc/kallsyms";
    root.read(path).and_then(|text| {
        // `ffffffff81b39190 t bfq_pd_alloc`, of a module with ` [bfq]` behind it.
        let mut names = text.lines().filter_map(|line| line.split_whitespace().nth(2));
        match names.clone().any(|name| name == "bfq_pd_alloc") {
            true => Reading::Value(true),
            false if names.any(|name| name.starts_with("bfq_")) => Reading::Value(false),
            false => Reading::Absent(format!("{path} has no symbol of bfq")),
        }
    })
}

/// The depth of the device's own queue, as a knob.
pub(crate) const DEPTH_KNOB: &str = "device.queue_depth";

/// How many requests a disk behind the SCSI layer is given at once (drivers/scsi/scsi_sysfs.c).
/// Others have none.
#[must_use]
pub fn read_depth(root: &SysRoot, disk: DeviceId) -> Reading<String> {
    root.read_line(&format!("{}/device/queue_depth", block::directory(disk)))
}

/// What a SCSI or SATA disk told of its cache: `write back`, `write through`, `none` …
/// (drivers/scsi/sd.c `cache_type_show`). The kernel sets `queue/write_cache` from it, which can be
/// written afterwards.
fn read_device_cache(root: &SysRoot, disk: DeviceId) -> Reading<String> {
    let dir = format!("{}/device/scsi_disk", block::directory(disk));
    match root.list(&dir) {
        Reading::Value(names) => match names.first() {
            Some(address) => root.read_line(&format!("{dir}/{address}/cache_type")),
            None => Reading::Absent(format!("{dir} is empty")),
        },
        Reading::Absent(_) => Reading::Absent("it is not a SCSI or SATA disk".to_owned()),
        Reading::Unreadable(why) => Reading::Unreadable(why),
    }
}

/// wbt_lat_usec as it reads. A read fails with EINVAL where writeback throttling was never set up
/// for the queue (block/blk-sysfs.c `queue_wb_lat_show`): it is absent then, not unreadable.
pub(crate) fn read_wbt(root: &SysRoot, disk: DeviceId) -> Reading<String> {
    let path = format!("{}/wbt_lat_usec", directory(disk));
    let mut buffer = Vec::new();
    match root.read_into(&path, &mut buffer) {
        Ok(()) => wbt_from(&path, Ok(String::from_utf8_lossy(&buffer).trim().to_owned())),
        Err(e) => wbt_from(&path, Err(e)),
    }
}

fn wbt_from(path: &str, read: Result<String, Errno>) -> Reading<String> {
    match read {
        Ok(text) => Reading::Value(text),
        Err(Errno::INVAL) => {
            Reading::Absent("writeback throttling is not set up for this queue".into())
        }
        Err(Errno::NOENT) => {
            Reading::Absent("this queue has no wbt_lat_usec: no writeback throttling".into())
        }
        Err(e) => refused(path, e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    #[test]
    fn the_choice_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), Some("mq-deadline"));
        assert_eq!(chosen("none"), Some("none"));
        assert_eq!(chosen("none kyber"), None);
        assert_eq!(chosen("]["), None);
        assert_eq!(chosen(""), None);
        assert!(choices("none [mq-deadline] kyber").eq(["none", "mq-deadline", "kyber"]));
    }

    /// As read on 7.3.4 with mq-deadline.
    #[test]
    fn since_linux_7_the_queue_has_the_depth_of_all_but_synchronous_reads() {
        let (_dir, root) = tree(&[
            ("sys/dev/block/8:0/queue/scheduler", "none bfq kyber [mq-deadline]\n"),
            ("sys/dev/block/8:0/queue/async_depth", "256\n"),
            ("sys/dev/block/8:0/queue/iosched/fifo_batch", "16\n"),
        ]);
        let queue = read_queue(&root, DeviceId { major: 8, minor: 0 });
        assert!(matches!(queue.async_depth, Reading::Absent(_)));
        assert_eq!(queue.queue_async_depth, Reading::Value(256));
    }

    #[test]
    fn settings_of_a_queue() {
        let (_dir, root) = tree(&[
            ("sys/dev/block/8:0/queue/scheduler", "none [mq-deadline] kyber bfq \n"),
            ("sys/dev/block/8:0/queue/nr_requests", "256\n"),
            ("sys/dev/block/8:0/queue/wbt_lat_usec", "75000\n"),
            ("sys/dev/block/8:0/queue/write_cache", "write back\n"),
            ("sys/dev/block/8:0/queue/fua", "0\n"),
            ("sys/dev/block/8:0/queue/iosched/async_depth", "192\n"),
            ("sys/dev/block/8:0/queue/iosched/write_expire", "5000\n"),
            ("sys/dev/block/8:0/device/scsi_disk/0:0:0:0/cache_type", "write through\n"),
        ]);
        let queue = read_queue(&root, DeviceId { major: 8, minor: 0 });
        assert_eq!(queue.scheduler, Reading::Value("mq-deadline".into()));
        assert_eq!(queue.nr_requests, Reading::Value(256));
        assert_eq!(queue.wbt_lat_us, Reading::Value(75_000));
        assert_eq!(queue.write_cache, Reading::Value("write back".into()));
        assert_eq!(queue.fua, Reading::Value(false));
        assert_eq!(queue.async_depth, Reading::Value(192));
        assert_eq!(queue.write_expire_ms, Reading::Value(5000));
        assert_eq!(queue.device_cache, Reading::Value("write through".into()));
        assert!(matches!(queue.rotational, Reading::Absent(_)));
    }

    #[test]
    fn group_support_of_bfq_is_seen_in_the_kernels_symbols() {
        let of = |symbols: &str| {
            let (_dir, root) = tree(&[("proc/kallsyms", symbols)]);
            read_bfq_groups(&root)
        };
        let with = "0000000000000000 t dd_init_sched\n0000000000000000 t bfq_pd_alloc\t[bfq]\n";
        assert_eq!(of(with), Reading::Value(true));
        // Without it these are there, and others of the same names that do nothing.
        assert_eq!(of("0000000000000000 T bfq_bic_update_cgroup\n"), Reading::Value(false));
        assert!(matches!(of("0000000000000000 t dd_init_sched\n"), Reading::Absent(_)));
        let (_dir, root) = tree(&[]);
        assert!(matches!(read_bfq_groups(&root), Reading::Absent(_)));
    }

    #[test]
    fn einval_means_that_wbt_is_not_there() {
        assert!(matches!(wbt_from("/x", Err(Errno::INVAL)), Reading::Absent(_)));
        assert!(matches!(wbt_from("/x", Err(Errno::NOENT)), Reading::Absent(_)));
        assert!(matches!(wbt_from("/x", Err(Errno::ACCESS)), Reading::Unreadable(_)));
    }
}
