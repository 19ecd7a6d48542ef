use floodwall_model::status::DrainSource;

use super::*;
use crate::findings::testing::{Machine, found};

/// A disk that seeks at 100 MB/s.
fn rotating() -> Machine {
    let mut machine = Machine::healthy();
    let device = &mut machine.status.devices[0];
    device.queue.rotational = Reading::Value(true);
    device.queue.wbt_lat_us = Reading::Value(75_000);
    device.drain.rate_bytes_per_s = Reading::Value(130e6);
    machine
}

#[test]
fn a_disk_that_seeks_is_nothing_wrong_by_itself() {
    let machine = rotating();
    for id in ["FW018", "FW020", "FW021", "FW022", "FW023", "FW024", "FW025"] {
        assert_eq!(found(&machine, id), None, "{id}");
    }
}

#[test]
fn fw018_is_the_time_that_a_full_queue_takes() {
    let mut machine = rotating();
    let queue = &mut machine.status.devices[0].queue;
    queue.max_sectors_kib = Reading::Value(4096);
    let one = found(&machine, "FW018").unwrap();
    insta::assert_snapshot!(one.evidence[0], @"sda: 48 of 64 requests (async_depth) of 4 MiB \
        are 192 MiB, at 130 MB/s (seen during the window) 1.55 s; wbt keeps most of it out \
        while reads are slow");
    assert_eq!((one.severity, one.cost_bytes), (Severity::Note, Some(192 << 20)));
    insta::assert_snapshot!(one.remedy, @"floodwall apply sda.max_sectors_kb=256 \
        sda.nr_requests=48");
    machine.status.devices[0].queue.wbt_lat_us = Reading::Value(0);
    machine.status.devices[0].queue.nr_requests = Reading::Value(256);
    machine.status.devices[0].queue.async_depth = Reading::Value(256);
    let one = found(&machine, "FW018").unwrap();
    assert_eq!((one.severity, one.cost_bytes), (Severity::Warning, Some(1 << 30)));
    insta::assert_snapshot!(one.remedy, @"floodwall apply sda.max_sectors_kb=256 \
        sda.nr_requests=123");
    machine.status.devices[0].drain.from = DrainSource::KernelEstimate;
    insta::assert_snapshot!(found(&machine, "FW018").unwrap().remedy, @"floodwall fix /mnt/sda \
        --tune");
}

#[test]
fn fw018_looks_at_the_disks_below() {
    let mut machine = Machine::healthy();
    let mut leaf = machine.leaf("sdz");
    leaf.queue.max_sectors_kib = Reading::Value(4096);
    leaf.queue.nr_requests = Reading::Value(256);
    leaf.queue.async_depth = Reading::Absent("bfq".into());
    machine.status.devices = vec![machine.stacked("dm-0", vec![leaf])];
    assert_eq!(found(&machine, "FW018").unwrap().subjects, ["sdz"]);
}

#[test]
fn fw019_depends_on_what_the_kernel_prints() {
    let mut machine = rotating();
    machine.status.devices[0].queue.scheduler = Reading::Value("bfq".into());
    assert!(found(&machine, "FW019").unwrap().evidence[0].contains("set by hand: wbt holds"));
    machine.kernel("5.14.0-427.el9.x86_64");
    assert!(found(&machine, "FW019").unwrap().evidence[0].contains("prints the target even while"));
    machine.status.devices[0].queue.wbt_lat_us = Reading::Value(0);
    assert_eq!(found(&machine, "FW019"), None);
}

#[test]
fn fw020_knows_both_ways_to_be_wrong() {
    let mut machine = rotating();
    machine.status.devices[0].queue.wbt_lat_us = Reading::Value(2000);
    insta::assert_snapshot!(found(&machine, "FW020").unwrap().remedy, @"floodwall apply \
        sda.wbt_lat_usec=75000");
    let mut machine = Machine::healthy();
    machine.status.devices[0].queue.wbt_lat_us = Reading::Value(75_000);
    insta::assert_snapshot!(found(&machine, "FW020").unwrap().remedy, @"floodwall apply \
        sda.wbt_lat_usec=2000");
    machine.status.devices[0].queue.wbt_lat_us = Reading::Value(10_000);
    assert_eq!(found(&machine, "FW020"), None);
}

#[test]
fn fw021_tells_a_contradiction_from_a_guess() {
    let mut machine = rotating();
    machine.status.devices[0].driver = Reading::Value("virtio_blk".into());
    let one = found(&machine, "FW021").unwrap();
    insta::assert_snapshot!(one.evidence[0], @"sda: rotational=1 from a hypervisor's disk \
        (driver virtio_blk), which says so of any storage; wbt's target is 75000 µs because \
        of it");
    insta::assert_snapshot!(one.remedy, @"floodwall apply sda.rotational=0 \
        sda.wbt_lat_usec=2000   # if the storage is flash");
    assert_eq!((one.severity, found(&machine, "FW020")), (Severity::Note, None));
    let mut machine = rotating();
    machine.status.devices[0].model = Reading::Value("CT500 SSD".into());
    assert_eq!(found(&machine, "FW021").unwrap().severity, Severity::Warning);
}

#[test]
fn fw022_to_fw025() {
    let mut machine = rotating();
    machine.status.devices[0].queue.scheduler = Reading::Value("none".into());
    assert_eq!(
        found(&machine, "FW022").unwrap().remedy,
        "floodwall apply sda.scheduler=mq-deadline"
    );
    let mut machine = rotating();
    machine.status.devices[0].queue.async_depth = Reading::Value(64);
    assert_eq!(found(&machine, "FW023"), None);
    machine.status.devices[0].queue.wbt_lat_us = Reading::Value(0);
    assert_eq!(
        found(&machine, "FW023").unwrap().remedy,
        "floodwall apply sda.iosched.async_depth=48"
    );
    let queue = &mut machine.status.devices[0].queue;
    // Linux 7.3.
    queue.queue_async_depth =
        std::mem::replace(&mut queue.async_depth, Reading::Absent("no file".into()));
    assert_eq!(found(&machine, "FW023").unwrap().remedy, "floodwall apply sda.async_depth=48");
    machine.status.devices[0].queue.queue_async_depth = Reading::Value(63);
    assert_eq!(found(&machine, "FW023"), None);
    machine.status.devices[0].queue.async_depth = Reading::Value(64);
    machine.status.devices[0].limits.read_ahead_kib = Reading::Value(16);
    assert_eq!(found(&machine, "FW024").unwrap().remedy, "floodwall apply sda.read_ahead_kb=128");
    machine.status.devices[0].queue.nomerges_level = Reading::Value(2);
    assert_eq!(found(&machine, "FW025").unwrap().remedy, "floodwall apply sda.nomerges=0");
}
