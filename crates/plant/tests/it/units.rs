//! Which queue and which limits belong to which device.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use floodwall_host::SysRoot;
use floodwall_model::DeviceId;
use floodwall_plant::units::{Unit, Units};
use floodwall_plant::{HostPlantError, Which};
use floodwall_testing::tree::{host, put};

fn fixture(name: &str) -> SysRoot {
    SysRoot::new(&host(name)).unwrap()
}

fn id(text: &str) -> DeviceId {
    text.parse().unwrap()
}

/// `9:0 md0: queues sdb sdc, limits 9:0, of 8:16 …`
fn line(unit: &Unit) -> String {
    let names = |devices: &[floodwall_knobs::Device]| {
        devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let members: Vec<String> = unit.members.iter().map(ToString::to_string).collect();
    format!(
        "{} {}: queues [{}] limits [{}] of {} on {}",
        unit.id,
        unit.name,
        names(&unit.queues),
        names(&unit.limits),
        members.join(" "),
        unit.mounts.join(" ")
    )
}

fn lines(units: &Units) -> Vec<String> {
    units.units.iter().map(line).collect()
}

#[test]
fn a_server_with_an_array_encryption_volumes_btrfs_nfs_and_containers() {
    let units = Units::read(&fixture("server-md-crypt-lvm"));
    assert_eq!(
        lines(&units),
        [
            "0:51 server:/exports/archive: queues [] limits [0:51] of 0:51 on /mnt/archive copies",
            "7:0 loop0: queues [loop0] limits [loop0] of 7:0 on /build",
            "7:1 loop1: queues [loop1] limits [loop1] of 7:1 on ",
            "8:0 sda: queues [sda] limits [sda] of 8:0 on / /boot/efi",
            "8:48 sdd: queues [sdd sde] limits [btrfs-1] of 8:48 8:64 on /backup",
            "9:0 md0: queues [sdb sdc] limits [dm-1 dm-2] of 8:16 8:32 9:0 253:0 253:1 253:2 on \
             /srv /srv/exports /var/lib/postgresql",
        ]
    );
    // Every device of a unit leads to that unit.
    for device in ["8:16", "8:32", "253:0", "253:2", "9:0"] {
        assert_eq!(units.units[units.of(id(device)).unwrap()].id, id("9:0"), "{device}");
    }
    assert!(units.get(id("253:2")).is_none() && units.get(id("9:0")).is_some());
    let left: Vec<&str> = units.left_out.iter().map(|left| left.what.as_str()).collect();
    assert!(left.contains(&"/mnt/archive copies (server:/exports/archive)"), "{left:?}");
    assert!(left.iter().any(|what| what.contains("overlay")), "{left:?}");
}

#[test]
fn logical_volumes_on_one_disk_are_that_disk() {
    let units = Units::read(&fixture("rhel-8"));
    assert_eq!(
        lines(&units),
        ["8:0 sda: queues [sda] limits [sda dm-0 dm-1 dm-2] of 8:0 253:0 253:1 253:2 on / /boot \
             /var/lib/pgsql"]
    );
}

/// A tree with some disks: name, number, slaves, whether it has hardware queues.
fn tree(disks: &[(&str, &str, &[&str], bool)]) -> (tempfile::TempDir, SysRoot) {
    let dir = tempfile::tempdir().unwrap();
    let put = |path: String, text: &str| put(&dir.path().join(path), text);
    let directory =
        |path: &str| fs::DirBuilder::new().recursive(true).create(dir.path().join(path)).unwrap();
    for (name, number, slaves, mq) in disks {
        let here = format!("sys/devices/{name}");
        put(format!("{here}/dev"), number);
        put(format!("{here}/size"), if *name == "loop0" { "0" } else { "2048" });
        put(format!("{here}/uevent"), &format!("DEVNAME={name}\n"));
        put(format!("{here}/queue/nr_requests"), "128\n");
        put(format!("{here}/queue/scheduler"), "none\n");
        put(format!("sys/class/bdi/{number}/max_ratio"), "100\n");
        directory("sys/block");
        directory("sys/dev/block");
        put(format!("sys/block/{name}"), &format!("->../devices/{name}"));
        put(format!("sys/dev/block/{number}"), &format!("->../../devices/{name}"));
        if *mq {
            directory(&format!("{here}/mq"));
        }
        directory(&format!("{here}/slaves"));
        for slave in *slaves {
            put(format!("{here}/slaves/{slave}"), &format!("->../../{slave}"));
        }
    }
    put("proc/self/mountinfo".to_owned(), "27 1 8:0 / / rw - ext4 /dev/sda rw\n");
    let root = SysRoot::new(dir.path()).unwrap();
    (dir, root)
}

#[test]
fn multipath_has_a_queue_of_its_own_and_its_paths_are_left_alone() {
    let (_dir, root) = tree(&[
        ("sda", "8:0", &[], true),
        ("sdb", "8:16", &[], true),
        ("sdc", "8:32", &[], true),
        ("dm-0", "253:0", &["sdb", "sdc"], true),
        ("dm-1", "253:1", &["dm-0"], false),
        ("loop0", "7:0", &[], true),
        ("zram0", "254:0", &[], false),
    ]);
    let units = Units::read(&root);
    assert_eq!(
        lines(&units),
        [
            "8:0 sda: queues [sda] limits [sda] of 8:0 on /",
            "253:0 dm-0: queues [dm-0] limits [dm-1] of 253:0 253:1 on ",
        ]
    );
    let left: Vec<String> = units.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(
        left,
        [
            "zram0: it is memory",
            "sdb: it is a path of a device above it, whose queue is steered",
            "sdc: it is a path of a device above it, whose queue is steered",
        ]
    );
}

#[test]
fn volumes_over_several_disks_join_what_they_share() {
    // Striped over both, and one volume on the second alone: one flood is in the other's way.
    let (_dir, root) = tree(&[
        ("sda", "8:0", &[], true),
        ("sdb", "8:16", &[], true),
        ("sdc", "8:32", &[], true),
        ("dm-0", "253:0", &["sdb", "sdc"], false),
        ("dm-1", "253:1", &["sdc"], false),
    ]);
    let units = Units::read(&root);
    assert_eq!(
        lines(&units),
        [
            "8:0 sda: queues [sda] limits [sda] of 8:0 on /",
            "253:0 dm-0: queues [sdb sdc] limits [dm-0 dm-1] of 8:16 8:32 253:0 253:1 on ",
        ]
    );
}

#[test]
fn devices_are_named_as_people_do() {
    let named = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let root = fixture("server-md-crypt-lvm");
        Units::read(&root)
            .named(&root, &names, &BTreeMap::new())
            .map(|units| units.units.iter().map(|u| u.name.clone()).collect::<Vec<_>>())
    };
    assert_eq!(named(&["sda"]).unwrap(), ["sda"]);
    assert_eq!(named(&["/dev/sda2", "8:0"]).unwrap(), ["sda"]);
    assert_eq!(named(&["/dev/mapper/vg-pg"]).unwrap(), ["md0"]);
    assert_eq!(named(&["/var/lib/postgresql/15", "sda1"]).unwrap(), ["sda", "md0"]);
    assert_eq!(named(&["0:51"]).unwrap(), ["server:/exports/archive"]);
    let error = named(&["sdz"]).unwrap_err();
    assert!(matches!(error, HostPlantError::Device { .. }) && error.is_wrong_use());
    assert!(
        error.to_string().starts_with("can't steer 'sdz': 'sdz' is no block device"),
        "{error}"
    );
}

#[test]
fn a_named_device_that_goes_leaves_the_others_and_may_come_back() {
    let disks: [(&str, &str, &[&str], bool); 2] =
        [("sda", "8:0", &[], true), ("sdb", "8:16", &[], true)];
    let (dir, root) = tree(&disks);
    let which = Which::Named(vec!["8:0".to_owned(), "8:16".to_owned()]);
    let names = |root: &SysRoot| {
        let units = Units::default().read_again(root, &which)?;
        Some((
            units.units.iter().map(|unit| unit.name.clone()).collect::<Vec<_>>().join(" "),
            units.absent,
        ))
    };
    assert_eq!(names(&root), Some(("sda sdb".to_owned(), vec![])));
    let paths = ["sys/block/sdb", "sys/dev/block/8:16"].map(|path| dir.path().join(path));
    let links = paths.clone().map(|path| fs::read_link(path).unwrap());
    paths.iter().for_each(|path| fs::remove_file(path).unwrap());
    assert_eq!(names(&root), Some(("sda".to_owned(), vec!["8:16".to_owned()])));
    for (path, link) in paths.iter().zip(links) {
        symlink(link, path).unwrap();
    }
    assert_eq!(names(&root), Some(("sda sdb".to_owned(), vec![])));
    // A tree that can't be read is not one without disks.
    let (_empty, nothing) = tree(&[]);
    assert_eq!(names(&nothing), None);
}

#[test]
fn a_directory_whose_filesystem_is_unmounted_means_no_other_disk() {
    let disks: [(&str, &str, &[&str], bool); 2] =
        [("sda", "8:0", &[], true), ("sdb", "8:16", &[], true)];
    let (dir, root) = tree(&disks);
    let mounts = |text: &str| put(&dir.path().join("proc/self/mountinfo"), text);
    let below = "27 1 8:0 / / rw - ext4 /dev/sda rw\n";
    let both = format!("{below}28 27 8:16 / /srv rw - ext4 /dev/sdb rw\n");
    put(&dir.path().join("srv/data/table"), "");
    mounts(&both);
    let names = ["/srv/data".to_owned()];
    let which = Which::Named(names.to_vec());
    let of = |units: &Units| units.units.iter().map(|u| u.name.clone()).collect::<Vec<_>>();
    let nothing = BTreeMap::new();
    let first = Units::read(&root).named(&root, &names, &nothing).unwrap();
    assert_eq!(of(&first), ["sdb"]);
    mounts(below);
    let without = first.read_again(&root, &which).unwrap();
    assert_eq!((of(&without), without.absent.as_slice()), (vec![], names.as_slice()));
    assert!(without.left_out.iter().any(|l| l.why.contains("no longer on that at '/srv'")));
    // Another plant of the same guard knows where the filesystem was.
    let srv = BTreeMap::from([(names[0].clone(), "/srv".into())]);
    assert!(Units::read(&root).named(&root, &names, &srv).is_err());
    mounts(&both);
    assert_eq!(of(&without.read_again(&root, &which).unwrap()), ["sdb"]);
    // A filesystem may be mounted later than the guard starts, and counts from then on.
    mounts(below);
    let early = Units::read(&root).named(&root, &names, &nothing).unwrap();
    assert_eq!(of(&early), ["sda"]);
    mounts(&both);
    let late = early.read_again(&root, &which).unwrap();
    assert_eq!(of(&late), ["sdb"]);
    mounts(below);
    assert_eq!(late.read_again(&root, &which).unwrap().absent, names);
}
