//! The values read from each captured tree.

use std::path::Path;

use floodwall_host::status::{Observation, status};
use floodwall_host::{HostFacts, Location, Sampler, locate, settings_in_force};
use floodwall_model::status::{Device, DrainSource, LimitKnob, Status};
use floodwall_model::{DeviceId, Reading};

use crate::support::Machine;

const SERVER: &str = "server-md-crypt-lvm";
const CONTAINER: &str = "container-overlay";
const VM: &str = "vm-virtio-ext4";

fn at(machine: &Machine, path: &str) -> Location {
    locate(&machine.root(), Path::new(path)).unwrap()
}

fn leaves(location: &Location) -> Vec<&str> {
    location.leaves.iter().map(|d| d.name.as_str()).collect()
}

fn id(text: &str) -> Option<DeviceId> {
    text.parse().ok()
}

/// Two observations, one second apart.
fn status_of(name: &'static str, is_root: bool) -> Status {
    let machine = Machine::copy_of(name);
    let before = Observation::read(&machine.root());
    machine.later();
    status(&machine.root(), &before, &Observation::read(&machine.root()), 1.0, is_root)
}

fn device<'a>(status: &'a Status, name: &str) -> &'a Device {
    status.devices.iter().find(|d| d.name == name).unwrap()
}

#[test]
fn a_directory_on_lvm_over_crypt_over_raid_drains_to_both_disks() {
    let machine = Machine::copy_of(SERVER);
    let here = at(&machine, "/srv/some/dir");
    assert_eq!(here.mount.mountpoint, Path::new("/srv"));
    assert_eq!((here.device, here.queue_device), (id("253:1"), id("253:1")));
    assert_eq!(here.path, "dm-1 → dm-0 → md0 → sdb + sdc");
    assert_eq!(leaves(&here), ["sdb", "sdc"]);
    assert_eq!(here.bdi, Reading::Value("253:1".into()));
    assert!(here.has_own_writeback() && !here.read_only && here.notes.is_empty());
}

#[test]
fn a_partition_has_its_disks_queue() {
    let machine = Machine::copy_of(SERVER);
    let here = at(&machine, "/home/me");
    assert_eq!((here.device, here.queue_device), (id("8:2"), id("8:0")));
    assert_eq!((here.path.as_str(), here.bdi.value().map(String::as_str)), ("sda", Some("8:0")));
}

#[test]
fn btrfs_is_followed_to_all_its_members() {
    let machine = Machine::copy_of(SERVER);
    let here = at(&machine, "/backup/today");
    assert_eq!(leaves(&here), ["sdd", "sde"]);
    assert_eq!(here.queue_device, id("8:48"));
    assert_eq!(here.queue_devices, [id("8:48").unwrap(), id("8:64").unwrap()]);
    assert_eq!(here.bdi, Reading::Value("btrfs-1".into()));
}

#[test]
fn a_loop_device_goes_on_below_its_backing_file() {
    let machine = Machine::copy_of(SERVER);
    let here = at(&machine, "/build");
    assert_eq!(here.path, "loop0 → dm-1 → dm-0 → md0 → sdb + sdc");
    assert_eq!(leaves(&here), ["sdb", "sdc"]);
    assert_eq!(here.queue_device, id("7:0"));
}

#[test]
fn nfs_has_a_backing_device_and_no_block_device() {
    let machine = Machine::copy_of(SERVER);
    let here = at(&machine, "/mnt/archive copies/x");
    assert_eq!((here.device, here.queue_device), (None, None));
    assert_eq!(here.bdi, Reading::Value("0:51".into()));
    assert!(here.has_own_writeback() && here.leaves.is_empty());
}

#[test]
fn filesystems_without_writeback_say_why() {
    let machine = Machine::copy_of(SERVER);
    for (path, why) in [
        ("/run/x", "memory"),
        ("/proc/1", "interface of the kernel"),
        ("/var/lib/docker/overlay2/one/merged", "stacked"),
        ("/snap/core20/2015/bin", "can't be written"),
    ] {
        let here = at(&machine, path);
        assert!(here.without_writeback.is_some_and(|w| w.contains(why)), "{path}");
    }
    assert!(at(&machine, "/snap/core20/2015").read_only);
    let container = Machine::copy_of(CONTAINER);
    assert!(!at(&container, "/").has_own_writeback());
    assert!(at(&container, "/data").has_own_writeback());
}

#[test]
fn the_settings_of_an_older_kernel() {
    let machine = Machine::copy_of(SERVER);
    let read = settings_in_force(&machine.root(), id("8:0"), Some("8:0"));
    let get = |knob: &str| read.setting.get(knob).unwrap().to_owned();
    assert_eq!(get("scheduler"), "mq-deadline");
    assert_eq!(get("iosched.fifo_batch"), "16");
    assert_eq!(get("wbt_lat_usec"), "2000");
    assert_eq!(get("bdi.max_ratio"), "100");
    for (knob, default) in [
        ("vm.dirty_ratio", "20"),
        ("vm.dirty_background_ratio", "10"),
        ("vm.dirty_bytes", "0"),
        ("vm.dirty_background_bytes", "0"),
    ] {
        assert_eq!(read.setting.get(knob), Some(default));
    }
    let lacking: Vec<&str> = read.missing.iter().map(|m| m.what.as_str()).collect();
    assert_eq!(lacking, ["bdi.max_ratio_fine", "bdi.min_ratio_fine", "bdi.strict_limit"]);
}

#[test]
fn facts_for_a_result() {
    let machine = Machine::copy_of(SERVER);
    let facts = HostFacts::read(&machine.root(), &at(&machine, "/srv"));
    assert_eq!(facts.kernel, Reading::Value("5.15.0-91-generic".into()));
    assert_eq!(facts.cpus, Reading::Value(8));
    assert_eq!(facts.distribution, Reading::Value("Ubuntu 22.04.3 LTS".into()));
    assert_eq!(facts.virtualisation, Reading::Value("none seen (Supermicro, X11SSL-F)".into()));
    assert_eq!(
        (facts.filesystem.as_str(), facts.path.as_str()),
        ("xfs", "dm-1 → dm-0 → md0 → sdb + sdc")
    );
    assert_eq!(facts.mount_options, "rw,attr2,inode64,logbsize=32k,logbufs=8,noatime,noquota");
    let device = facts.device.unwrap();
    assert!(matches!(device.model, Reading::Absent(_)));
    assert_eq!(device.leaves[1].model, Reading::Value("ST4000NM000A-2HZ".into()));
    assert_eq!(device.leaves[1].rotational, Reading::Value(true));
}

#[test]
fn a_sample_of_one_second() {
    let machine = Machine::copy_of(SERVER);
    let mut sampler = Sampler::new(machine.root(), id("8:16"));
    sampler.sample();
    machine.later();
    let sample = sampler.sample();
    assert_eq!(sample.device.map(|d| d.written_bytes), Some(122_880 * 1024));
    assert_eq!(sample.device.map(|d| d.in_flight), Some(32));
    assert_eq!(sampler.missing(), []);
}

#[test]
fn every_backing_device_of_the_server_has_one_row() {
    let status = status_of(SERVER, true);
    let names: Vec<&str> = status.devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["sda", "dm-1", "dm-2", "btrfs-1", "loop0", "server:/exports/archive"]);
    let mounts: Vec<&str> =
        device(&status, "sda").mounts.iter().map(|m| m.mountpoint.as_str()).collect();
    assert_eq!(mounts, ["/", "/boot/efi"]);
    assert_eq!(device(&status, "dm-1").kind, "lvm 'vg-srv'");
    let fuse_and_overlays: Vec<&str> =
        status.elsewhere.iter().map(|e| e.filesystem.as_str()).collect();
    assert_eq!(fuse_and_overlays, ["overlay", "overlay", "fuse.lxcfs"]);
    assert_eq!(status.machine.hard_limit_from, Reading::Value(LimitKnob::RatioPercent(20)));
    assert!(status.root_would_add.is_empty());
}

#[test]
fn a_backlogged_device_shows_the_rate_that_was_seen() {
    let status = status_of(SERVER, true);
    let srv = device(&status, "dm-1");
    let rate = 122_880.0 * 1024.0;
    assert_eq!(srv.drain.from, DrainSource::Seen);
    assert_eq!(srv.drain.rate_bytes_per_s, Reading::Value(rate));
    let backlog = srv.dirty_bytes.value().unwrap() + srv.writeback_bytes.value().unwrap();
    assert_eq!(srv.drain.now_s, Reading::Value(backlog as f64 / rate));
    // NFS: no block device, but its backing device counts.
    let nfs = device(&status, "server:/exports/archive");
    assert_eq!(nfs.drain.rate_bytes_per_s, Reading::Value(40_960.0 * 1024.0));
    assert!(matches!(nfs.written_bytes_per_s, Reading::Absent(_)));
    assert!(matches!(nfs.queue.scheduler, Reading::Absent(_)));
    // Idle: the kernel's estimate where it has one.
    assert_eq!(device(&status, "dm-2").drain.from, DrainSource::KernelEstimate);
    assert_eq!(device(&status, "loop0").drain.from, DrainSource::Unknown);
    assert_eq!(device(&status, "loop0").drain.now_s, Reading::Value(0.0));
}

#[test]
fn writers_are_ranked_by_what_they_dirtied_meanwhile() {
    let status = status_of(SERVER, true);
    let top: Vec<(u32, f64, f64)> = status
        .writers
        .top
        .iter()
        .map(|w| (w.pid, w.dirtied_bytes_per_s, w.cancelled_bytes_per_s))
        .collect();
    assert_eq!(
        top,
        [(2441, 118e6, 0.0), (2507, 61e6, 20e6), (3100, 409_600.0, 0.0), (812, 24_576.0, 0.0)]
    );
}

#[test]
fn a_container_shows_what_it_may_see_and_what_root_would_add() {
    let status = status_of(CONTAINER, false);
    let disk = device(&status, "nvme0n1");
    assert!(disk.dirty_bytes.is_unreadable() && disk.drain.rate_bytes_per_s.is_unreadable());
    assert_eq!(disk.written_bytes_per_s, Reading::Value(20_480.0 * 1024.0));
    assert_eq!(disk.queue.wbt_lat_us, Reading::Value(0));
    assert_eq!(status.machine.hard_limit_from, Reading::Value(LimitKnob::Bytes(268_435_456)));
    assert!(status.machine.hard_limit_bytes.is_unreadable());
    assert!(matches!(status.machine.psi_io_some_avg10_percent, Reading::Absent(_)));
    assert_eq!(status.root_would_add.len(), 2);
    assert!(status_of(CONTAINER, true).root_would_add.is_empty());
    // A mounted device that /sys does not show is still listed.
    assert!(matches!(device(&status, "259:9").size_bytes, Reading::Absent(_)));
}

#[test]
fn a_captured_machine_of_today() {
    let status = status_of(VM, true);
    let disk = device(&status, "vda");
    assert_eq!(disk.limits.strict_limit, Reading::Value(false));
    assert_eq!(disk.queue.scheduler, Reading::Value("mq-deadline".into()));
    // It wrote 218 MiB in that second, but nothing was under writeback at the window's ends: the
    // flusher kept up.
    assert_eq!(disk.drain.from, DrainSource::KernelEstimate);
    assert_eq!(status.writers.unreadable_processes, 1);
    assert!(status.writers.top.first().is_some_and(|w| w.comm == Reading::Value("dd".into())));
}

/// Debian 12 has Linux 6.1, whose counters of a device leave out what control groups dirtied.
#[test]
fn a_devices_figures_that_leave_out_control_groups_are_not_shown() {
    let device = |machine: &Machine, name: &str| {
        let root = machine.root();
        let look = Observation::read(&root);
        let status = status(&root, &look, &look, 1.0, true);
        status.devices.into_iter().find(|device| device.name == name).unwrap().dirty_bytes
    };
    let machine = Machine::copy_of("debian-12");
    let before = device(&machine, "sda");
    assert!(before.value().is_some(), "{before:?}");
    machine.put("sys/fs/cgroup/system.slice/memory.stat", "file_dirty 4096\nfile_writeback 0\n");
    assert_eq!(device(&machine, "sda"), before, "a page more or less");
    machine
        .put("sys/fs/cgroup/system.slice/memory.stat", "file_dirty 311705600\nfile_writeback 0\n");
    let why = device(&machine, "sda").why().unwrap();
    assert!(why.contains("297 MiB are dirty in control groups") && why.contains("6.10"), "{why}");
    // A kernel that counts them.
    machine.put("sys/kernel/debug/bdi/8:0/wb_stats", "");
    assert_eq!(device(&machine, "sda"), before);
}

/// On the same machine what groups have dirtied is written to the only disk with requests.
#[test]
fn what_control_groups_write_back_belongs_to_the_disk_that_is_busy() {
    let machine = Machine::copy_of("debian-12");
    let groups = "file_dirty 104857600\nfile_writeback 20971520\n";
    machine.put("sys/fs/cgroup/system.slice/memory.stat", groups);
    let line = |disk: &str, in_flight: u32, written: u32| {
        format!("{disk} 100 0 2000 50 200 10 {written} 90 {in_flight} 120 140\n")
    };
    let look = |of_sda: u32, of_loop: u32, written: u32| {
        machine.put("sys/dev/block/8:0/inflight", &format!("       2        {of_sda}\n"));
        machine.put("sys/dev/block/7:0/inflight", &format!("       0        {of_loop}\n"));
        let disks = line("8 0 sda", of_sda, written) + &line("7 0 loop0", of_loop, 4000);
        machine.put("proc/diskstats", &disks);
        Observation::read(&machine.root())
    };
    let told = |before: &Observation, after: &Observation, name: &str| {
        let status = status(&machine.root(), before, after, 1.0, true);
        let device = device(&status, name).clone();
        (device.writeback_bytes.into_value(), device.drain)
    };
    // 16,384 sectors in a second.
    let (before, after) = (look(7, 0, 4000), look(3, 0, 4000 + 16_384));
    let (writeback, drain) = told(&before, &after, "sda");
    assert!(writeback.is_some_and(|bytes| bytes >= 20 << 20), "{writeback:?}");
    let rate = (drain.rate_bytes_per_s, drain.from);
    assert_eq!(rate, (Reading::Value(8_388_608.0), DrainSource::Seen));
    assert!(drain.now_s.value().is_some_and(|seconds| *seconds >= 15.0), "{:?}", drain.now_s);
    assert_eq!(told(&before, &after, "loop0").0, None);
    let reads = look(0, 0, 4000);
    assert_eq!(told(&reads, &reads, "sda").0, None, "its requests are reads");
    let both = look(1, 3, 4000);
    assert_eq!((told(&both, &both, "sda").0, told(&both, &both, "loop0").0), (None, None));
}
