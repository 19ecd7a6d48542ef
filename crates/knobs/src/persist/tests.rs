use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::*;
use crate::apply::kernel_files::KernelFiles;
use crate::testing::{Tree, machine, root_of};

/// The machine with a serial number for its disk, and a udev.
fn tree() -> Tree {
    let mut tree = machine();
    tree.insert("/sys/devices/sda/serial".into(), "S1\n".into());
    tree.insert("/usr/lib/udev/rules.d/60-block.rules".into(), "\n".into());
    tree
}

struct Machine {
    dir: tempfile::TempDir,
    root: SysRoot,
    files: KernelFiles,
}

impl Machine {
    fn new() -> Self {
        Self::of(&tree())
    }

    fn of(tree: &Tree) -> Self {
        let (dir, root) = root_of(tree);
        let files = KernelFiles::new(&root).unwrap();
        Self { dir, root, files }
    }

    fn changes(&self, texts: &[&str]) -> Vec<Change> {
        texts.iter().map(|text| Change::parse(&self.root, None, text).unwrap()).collect()
    }

    fn settle(&self, kept: &Persisted, texts: &[&str]) -> Result<Settled, String> {
        settle(&self.root, &self.files, kept, &self.changes(texts)).map_err(|e| e.to_string())
    }

    fn keep(&self, texts: &[&str]) -> Persisted {
        let settled = self.settle(&read(&self.root).settings, texts).unwrap();
        Etc::open(&self.root).unwrap().write(settled.settings.files()).unwrap();
        settled.settings
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn put(&self, path: &str, text: &str) {
        floodwall_testing::tree::put(&self.path(path), text);
    }
}

const ALL: &[&str] = &[
    "sda.bdi.strict_limit=1",
    "sda.iosched.fifo_batch=8",
    "sda.wbt_lat_usec=5ms",
    "sda.bdi.max_ratio=5",
    "sda.nr_requests=64",
    "vm.dirty_bytes=64MiB",
    "sda.scheduler=mq-deadline",
    "vm.dirty_background_bytes=16MiB",
    "vm.dirty_expire_centisecs=10s",
];

#[test]
fn both_files_say_it_in_the_order_that_the_kernel_needs() {
    let machine = Machine::new();
    machine.keep(ALL);
    insta::assert_snapshot!(machine.text(SYSCTL_PATH), @"
    # Written by floodwall persist; floodwall unpersist removes it. Edited by hand it is nobody's \
    but yours.
    # floodwall-persist/1 fdddbc30bb854bb4
    vm.dirty_expire_centisecs = 1000
    vm.dirty_background_bytes = 16777216
    vm.dirty_bytes = 67108864
    ");
    let rules = machine.text(RULES_PATH);
    let sum = rules.lines().nth(1).unwrap().rsplit_once(' ').unwrap().1.to_owned();
    // Its two longest lines are wrapped.
    let wrapped = rules.replace(". Edited", ".\nEdited").replace(": what", ":\nwhat");
    insta::assert_snapshot!(wrapped.replace(&sum, "SUM"), @r#"
    # Written by floodwall persist; floodwall unpersist removes it.
    Edited by hand it is nobody's but yours.
    # floodwall-persist/1 SUM
    ACTION!="add|change", GOTO="floodwall_end"
    SUBSYSTEM!="block", GOTO="floodwall_end"
    ENV{DEVTYPE}!="disk", GOTO="floodwall_end"
    # Not a change of the disk, but made by udevadm trigger or after a write:
    what was set since is left alone.
    ACTION=="change", ENV{SYNTH_UUID}=="?*", GOTO="floodwall_end"
    ENV{DM_UDEV_DISABLE_OTHER_RULES_FLAG}=="1", GOTO="floodwall_end"

    # sda
    ATTR{serial}=="S1", ENV{.FLOODWALL}="1"
    ENV{.FLOODWALL}=="1", ATTR{queue/scheduler}="mq-deadline"
    ENV{.FLOODWALL}=="1", ATTR{queue/nr_requests}="64"
    ENV{.FLOODWALL}=="1", ATTR{queue/nr_requests}!="64", ATTR{queue/nr_requests}="64"
    ENV{.FLOODWALL}=="1", ATTR{queue/iosched/fifo_batch}="8"
    ENV{.FLOODWALL}=="1", ATTR{queue/wbt_lat_usec}="5001"
    ENV{.FLOODWALL}=="1", ATTR{queue/wbt_lat_usec}="5000"
    ENV{.FLOODWALL}=="1", ATTR{bdi/max_ratio}="5"
    ENV{.FLOODWALL}=="1", ATTR{bdi/strict_limit}="1"

    LABEL="floodwall_end"
    "#);
    assert_eq!(
        fs::metadata(machine.path(RULES_PATH)).unwrap().permissions().mode() & 0o7777,
        0o644
    );
}

#[test]
fn what_is_read_back_is_what_was_written() {
    let machine = Machine::new();
    let written = machine.keep(ALL);
    let kept = read(&machine.root);
    assert_eq!((&kept.sysctl, &kept.rules), (&FileState::Ours, &FileState::Ours));
    assert!(
        written.difference(&kept.settings).is_empty(),
        "{:?}",
        written.difference(&kept.settings)
    );
    // Written again it is the same text.
    assert_eq!(
        kept.settings.files().into_iter().map(|(_, text)| text.unwrap()).collect::<Vec<_>>(),
        [machine.text(SYSCTL_PATH), machine.text(RULES_PATH)]
    );
    let of_sda = &kept.settings.disks[0].values;
    for (knob, value) in [("bdi.max_ratio", "5"), ("wbt_lat_usec", "5000")] {
        assert!(of_sda.iter().any(|v| v.knob.name == knob && v.value == value), "{of_sda:?}");
    }
}

#[test]
fn a_second_time_merges_and_shows_what_differs() {
    let machine = Machine::new();
    let before = machine.keep(ALL);
    // The other name of the limit takes its place; another elevator takes the old one's tunable
    // away.
    let after =
        machine.keep(&["vm.dirty_ratio=5", "sda.iosched.slice_idle_us=0", "sda.scheduler=bfq"]);
    insta::assert_snapshot!(before.difference(&after).join("\n"), @r"
    sda.iosched.fifo_batch: iosched.fifo_batch 8 -> not kept
    vm.dirty_ratio: vm.dirty_bytes 67108864 -> vm.dirty_ratio 5
    sda.scheduler: scheduler mq-deadline -> scheduler bfq
    sda.iosched.slice_idle_us: not kept -> iosched.slice_idle_us 0
    ");
    assert_eq!(read(&machine.root).settings.disks.len(), 1);
    assert!(machine.text(SYSCTL_PATH).contains("vm.dirty_expire_centisecs = 1000"));
}

#[test]
fn the_same_disk_under_another_name_keeps_its_settings() {
    let machine = Machine::new();
    machine.keep(&["sda.scheduler=bfq"]);
    // The same serial number, now 8:16.
    let mut moved = tree();
    moved.insert("/sys/dev/block/8:16".into(), "->../../devices/sdb".into());
    moved.insert("/sys/class/block/sdb".into(), "->../../devices/sdb".into());
    moved.insert("/sys/devices/sdb/dev".into(), "8:16\n".into());
    moved.insert("/sys/devices/sdb/uevent".into(), "DEVNAME=sdb\n".into());
    moved.insert("/sys/devices/sdb/serial".into(), "S1\n".into());
    moved.insert("/sys/devices/sda/serial".into(), "S2\n".into());
    moved.insert(RULES_PATH.into(), machine.text(RULES_PATH));
    let after = Machine::of(&moved);
    let kept = read(&after.root);
    let is_it = |name: &str| {
        let device = Device::find(&after.root, name).unwrap();
        matches(&after.root, &device, &kept.settings.disks[0].identity)
    };
    assert_eq!((is_it("sda"), is_it("sdb")), (false, true));
}

#[test]
fn a_tunable_is_kept_with_its_elevator() {
    let machine = Machine::new();
    let settled = machine.settle(&Persisted::default(), &["sda.iosched.fifo_batch=8"]).unwrap();
    assert!(settled.settings.disks[0].values.iter().any(|value| value.value == "mq-deadline"));
    assert!(
        settled
            .notes
            .iter()
            .any(|note| note.contains("sda.scheduler=mq-deadline is kept with its tunables"))
    );
    assert_eq!(settled.not_in_force, ["sda.iosched.fifo_batch: 16 -> 8"]);
}

#[test]
fn a_size_is_kept_as_a_share_of_a_limit_in_bytes() {
    let machine = Machine::new();
    let error = machine.settle(&Persisted::default(), &["sda.bdi.max_bytes=16MiB"]).unwrap_err();
    assert!(error.contains("persist vm.dirty_bytes with it"), "{error}");
    let kept = machine.settle(&Persisted::default(), &["vm.dirty_bytes=64MiB"]).unwrap().settings;
    let settled =
        machine.settle(&kept, &["sda.bdi.max_bytes=16MiB", "sda.bdi.strict_limit=1"]).unwrap();
    let share =
        settled.settings.disks[0].values.iter().find(|v| v.knob.name == "bdi.max_ratio_fine");
    assert_eq!(share.unwrap().value, "250000");
}

#[test]
fn what_can_not_be_kept_is_refused_with_what_to_use() {
    let machine = Machine::new();
    let refusal = |text: &str| machine.settle(&Persisted::default(), &[text]).unwrap_err();
    insta::assert_snapshot!(refusal("sda.io.cost.qos=enable=1"), @"sda.io.cost.qos=enable=1 can't \
        be kept: systemd has no setting for it; run floodwall apply from a unit at boot");
    // Changes that an apply would refuse.
    assert!(
        machine
            .settle(&Persisted::default(), &["sda.bdi.max_ratio=0", "sda.bdi.strict_limit=1"])
            .is_err()
    );

    let mut mounts = tree();
    mounts.insert("/sys/class/bdi/0:45/max_ratio".into(), "100\n".into());
    let machine = Machine::of(&mounts);
    let error = machine.settle(&Persisted::default(), &["0:45.bdi.max_ratio=5"]).unwrap_err();
    assert!(error.contains("0:45 has no disk"), "{error}");

    let mut bare = tree();
    bare.remove("/usr/lib/udev/rules.d/60-block.rules");
    let machine = Machine::of(&bare);
    let error = machine.settle(&Persisted::default(), &["sda.scheduler=bfq"]).unwrap_err();
    assert!(error.contains("there is no udev here"), "{error}");
    assert!(machine.settle(&Persisted::default(), &["vm.dirty_ratio=5"]).is_ok());
}

#[test]
fn somebody_elses_file_is_never_touched() {
    let write = |machine: &Machine| {
        let settled = machine
            .settle(&Persisted::default(), &["vm.dirty_ratio=5", "sda.scheduler=bfq"])
            .unwrap();
        Etc::open(&machine.root).unwrap().write(settled.settings.files()).map_err(|e| e.to_string())
    };
    // The second file is foreign: the first one is not written either.
    let machine = Machine::new();
    machine.put(RULES_PATH, "# mine\n");
    let error = write(&machine).unwrap_err();
    assert!(
        error.contains("99-zz-floodwall.rules' was not written by floodwall persist"),
        "{error}"
    );
    assert!(!machine.path(SYSCTL_PATH).exists());
    assert_eq!(machine.text(RULES_PATH), "# mine\n");

    let machine = Machine::new();
    machine.keep(&["vm.dirty_ratio=5"]);
    let edited = machine.text(SYSCTL_PATH).replace("= 5", "= 6");
    machine.put(SYSCTL_PATH, &edited);
    assert_eq!(read(&machine.root).sysctl, FileState::Edited);
    assert!(write(&machine).unwrap_err().contains("changed by hand since"));
    assert_eq!(machine.text(SYSCTL_PATH), edited);

    let machine = Machine::new();
    machine.put("/etc/elsewhere", "x\n");
    fs::create_dir_all(machine.path("/etc/sysctl.d")).unwrap();
    symlink("../elsewhere", machine.path(SYSCTL_PATH)).unwrap();
    assert!(write(&machine).unwrap_err().contains("symbolic link"));
    assert_eq!(machine.text("/etc/elsewhere"), "x\n");

    let machine = Machine::new();
    fs::create_dir_all(machine.path("/etc")).unwrap();
    fs::create_dir_all(machine.path("/outside")).unwrap();
    symlink("../outside", machine.path("/etc/sysctl.d")).unwrap();
    assert!(write(&machine).unwrap_err().contains("sysctl.d' is a symbolic link or no directory"));
    assert_eq!(fs::read_dir(machine.path("/outside")).unwrap().count(), 0);
}

#[test]
fn unpersist_removes_exactly_ours() {
    let machine = Machine::new();
    machine.put("/etc/sysctl.d/99-sysctl.conf", "vm.swappiness = 1\n");
    machine.keep(ALL);
    let names = |path: &str| -> Vec<String> {
        let names = fs::read_dir(machine.path(path)).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names("/etc/sysctl.d"), ["99-sysctl.conf", "99-zz-floodwall.conf"]);
    let told = Etc::open(&machine.root).unwrap().remove().unwrap();
    assert_eq!(
        told,
        [Written::Removed(SYSCTL_PATH.to_owned()), Written::Removed(RULES_PATH.to_owned())]
    );
    assert_eq!((names("/etc/sysctl.d").len(), names("/etc/udev/rules.d").len()), (1, 0));
    assert!(Etc::open(&machine.root).unwrap().remove().unwrap().is_empty());

    machine.keep(ALL);
    let edited = format!("{}# mine\n", machine.text(SYSCTL_PATH));
    machine.put(SYSCTL_PATH, &edited);
    let told = Etc::open(&machine.root).unwrap().remove().unwrap();
    assert_eq!(
        told,
        [
            Written::Removed(RULES_PATH.to_owned()),
            Written::Left(SYSCTL_PATH.to_owned(), FileState::Edited)
        ]
    );
    assert_eq!(machine.text(SYSCTL_PATH), edited);
}

#[test]
fn a_file_with_nothing_to_say_goes() {
    let machine = Machine::new();
    machine.keep(ALL);
    let only = machine.settle(&Persisted::default(), &["vm.dirty_ratio=5"]).unwrap().settings;
    let told = Etc::open(&machine.root).unwrap().write(only.files()).unwrap();
    assert_eq!(
        told,
        [Written::Replaced(SYSCTL_PATH.to_owned()), Written::Removed(RULES_PATH.to_owned())]
    );
    assert!(!machine.path(RULES_PATH).exists());
    // Unchanged, so not written.
    assert!(Etc::open(&machine.root).unwrap().write(only.files()).unwrap().is_empty());
}

#[test]
fn one_at_a_time() {
    let machine = Machine::new();
    let first = Etc::open(&machine.root).unwrap();
    assert!(matches!(Etc::open(&machine.root), Err(PersistError::Held)));
    drop(first);
    assert!(Etc::open(&machine.root).is_ok());
}

#[test]
fn a_leftover_of_a_crash_is_in_nobodys_way() {
    let machine = Machine::new();
    // Where nothing is written this time too: a kill between the two renames leaves the second
    // file's.
    let leftovers = [
        "/etc/sysctl.d/.floodwall.new",
        "/etc/udev/rules.d/.floodwall.new",
        "/etc/systemd/system/backup.service.d/.floodwall.new",
    ];
    let gone = || leftovers.iter().all(|path| !Path::new(&machine.path(path)).exists());
    leftovers.iter().for_each(|path| machine.put(path, "half a fi"));
    machine.keep(&["vm.dirty_ratio=5"]);
    assert!(gone());
    assert_eq!(read(&machine.root).sysctl, FileState::Ours);
    leftovers.iter().for_each(|path| machine.put(path, "half a fi"));
    Etc::open(&machine.root).unwrap().remove().unwrap();
    assert!(gone());
    assert!(!machine.path("/etc/systemd/system/backup.service.d").exists());
}

#[test]
fn a_failure_leaves_no_directory_of_drop_ins() {
    let machine = Machine::of(&with_units());
    machine.put("/etc/systemd/system/system.slice.d/49-floodwall.conf", "[Slice]\nMemoryHigh=1G\n");
    let mine = ["backup.service", "system.slice"].map(|unit| {
        (format!("/etc/systemd/system/{unit}.d/49-floodwall.conf"), Some("new\n".to_owned()))
    });
    let error = Etc::open(&machine.root).unwrap().write(mine.to_vec()).unwrap_err();
    assert!(matches!(error, PersistError::NotOurs { .. }), "{error}");
    assert!(!machine.path("/etc/systemd/system/backup.service.d").exists());
}

#[test]
fn somebody_elses_file_with_nothing_to_be_written_to_is_left() {
    let machine = Machine::of(&with_units());
    machine.put(SYSCTL_PATH, "vm.swappiness = 1\n");
    let settled = machine.settle(&Persisted::default(), &["unit:backup:memory.high=1GiB"]).unwrap();
    let told = Etc::open(&machine.root).unwrap().write(settled.settings.files()).unwrap();
    assert!(
        matches!(&told[..], [Written::Replaced(new), Written::Left(old, FileState::Foreign(_))]
        if new == DROP_IN && old == SYSCTL_PATH),
        "{told:?}"
    );
    assert_eq!(machine.text(SYSCTL_PATH), "vm.swappiness = 1\n");
}

#[test]
fn rules_that_we_did_not_write_are_not_believed() {
    let good = rules::body(&[], None, &Machine::new().keep(ALL).disks);
    assert!(rules::parse(&good).is_ok());
    for (from, to) in [
        ("ATTR{queue/nr_requests}=\"64\"", "ATTR{queue/nr_requests}=\"65 /etc\""),
        ("ATTR{queue/scheduler}", "ATTR{queue/rotational}"),
        ("ATTR{serial}", "ATTR{size}"),
        ("LABEL", "RUN"),
        ("ATTR{bdi/strict_limit}=\"1\"", "RUN+=\"/bin/sh\""),
    ] {
        assert!(rules::parse(&good.replace(from, to)).is_err(), "{to}");
    }
    assert!(
        sysctl::parse("vm.swappiness = 1\n").is_err()
            && sysctl::parse("vm.dirty_ratio = x\n").is_err()
    );
}

/// The machine with two units and a name of the disk that goes with it.
fn with_units() -> Tree {
    let mut tree = tree();
    let mut put = |path: &str, text: &str| tree.insert(path.to_owned(), format!("{text}\n"));
    put("/usr/lib/systemd/systemd", "");
    put("/dev/disk/by-id/ata-S1", "->../../sda");
    for unit in ["system.slice/backup.service", "system.slice", "system.slice/run-1.scope"] {
        let group = format!("/sys/fs/cgroup/{unit}");
        put(&format!("{group}/cgroup.procs"), "");
        put(&format!("{group}/memory.high"), "max");
        put(&format!("{group}/memory.current"), "4096");
        put(&format!("{group}/memory.stat"), "file 0\nshmem 0");
        put(&format!("{group}/io.max"), "");
        put(&format!("{group}/io.weight"), "default 100");
        put(&format!("{group}/io.latency"), "");
        put(&format!("{group}/ioprio"), "none");
    }
    tree
}

const OF_UNITS: &[&str] = &[
    "unit:backup:memory.high=1GiB",
    "unit:backup:sda.io.max=wbps=50MB riops=max",
    "unit:backup:io.weight=50",
    "unit:backup:ioprio=be/7",
    "system.slice:sda.io.weight=200",
];
const DROP_IN: &str = "/etc/systemd/system/backup.service.d/49-floodwall.conf";

#[test]
fn units_have_a_drop_in_each() {
    let machine = Machine::of(&with_units());
    let written = machine.keep(OF_UNITS);
    let below_the_head = machine.text(DROP_IN).lines().skip(2).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(below_the_head, @r"
    [Service]
    MemoryHigh=1073741824
    IOWriteBandwidthMax=/dev/disk/by-id/ata-S1 50000000
    IOReadIOPSMax=/dev/disk/by-id/ata-S1 infinity
    IOWeight=50
    IOSchedulingClass=best-effort
    IOSchedulingPriority=7
    ");
    let slice = machine.text("/etc/systemd/system/system.slice.d/49-floodwall.conf");
    assert!(slice.ends_with("\n[Slice]\nIODeviceWeight=/dev/disk/by-id/ata-S1 200\n"), "{slice}");
    let kept = read(&machine.root);
    assert!(
        kept.drop_ins.iter().all(|(_, state)| *state == FileState::Ours),
        "{:?}",
        kept.drop_ins
    );
    assert!(
        written.difference(&kept.settings).is_empty(),
        "{:?}",
        written.difference(&kept.settings)
    );
    // A key more; the others stay.
    let more = machine.keep(&["unit:backup:sda.io.max=wbps=60MB,rbps=1MB"]);
    assert_eq!(
        kept.settings.difference(&more),
        ["unit:backup.service:/dev/disk/by-id/ata-S1.io.max: io.max wbps=50000000 riops=max -> \
             io.max riops=max wbps=60000000 rbps=1000000"]
    );
}

#[test]
fn drop_ins_go_with_their_units_and_with_everything() {
    let machine = Machine::of(&with_units());
    machine.keep(OF_UNITS);
    let etc = || Etc::open(&machine.root).unwrap();
    // Kept alone from here on.
    let only = machine.settle(&Persisted::default(), &["system.slice:memory.high=1GiB"]).unwrap();
    etc().write(only.settings.files()).unwrap();
    assert!(!machine.path("/etc/systemd/system/backup.service.d").exists());
    machine.put(DROP_IN, "[Service]\nMemoryHigh=1G\n");
    let told = etc().remove().unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(!machine.path("/etc/systemd/system/system.slice.d").exists());
    // Another program's drop-in stays.
    assert!(machine.path(DROP_IN).exists());
    let error =
        etc().write(machine.settle(&Persisted::default(), OF_UNITS).unwrap().settings.files());
    assert!(matches!(error, Err(PersistError::NotOurs { .. })), "{error:?}");
}

#[test]
fn what_no_drop_in_can_keep_is_refused() {
    let mut tree = with_units();
    tree.insert("/sys/fs/cgroup/a.slice/b/memory.high".into(), "max\n".into());
    tree.insert("/run/systemd/transient/backup.service".into(), "\n".into());
    let refused = |tree: &Tree, text: &str| {
        Machine::of(tree).settle(&Persisted::default(), &[text]).unwrap_err()
    };
    insta::assert_snapshot!(refused(&tree, "unit:run-1.scope:memory.high=1GiB"), @"\
        system.slice/run-1.scope:memory.high=1073741824 can't be kept: a scope ends with its \
        processes; set MemoryHigh=1073741824 where it is made, or in its slice");
    insta::assert_snapshot!(refused(&tree, "unit:backup:memory.high=1GiB"), @"\
        system.slice/backup.service:memory.high=1073741824 can't be kept: backup.service is \
        transient; set MemoryHigh=1073741824 where it is made, as in systemd-run -p");
    insta::assert_snapshot!(refused(&tree, "a.slice/b:memory.high=1GiB"), @"\
        a.slice/b:memory.high=1073741824 can't be kept: a.slice/b is no unit of systemd's, and no \
        format keeps its settings; run its processes as a unit, or write the value where the group \
        is made");
    insta::assert_snapshot!(refused(&tree, "system.slice:ioprio=be/0"), @"system.slice:ioprio=be/0 \
        can't be kept: a priority is a service's; set IOSchedulingClass=best-effort \
        IOSchedulingPriority=0 in the services of system.slice");
    insta::assert_snapshot!(refused(&tree, "a.slice:sda.io.bfq.weight=50"), @"\
        a.slice:sda.io.bfq.weight=50 can't be kept: systemd has no setting for it; run floodwall \
        apply from a unit at boot");
    tree.insert(
        "/sys/fs/cgroup/machine.slice/c.service/system.slice/backup.service/memory.high".into(),
        "max\n".into(),
    );
    let of_container = "machine.slice/c.service/system.slice/backup.service:memory.high=1GiB";
    insta::assert_snapshot!(refused(&tree, of_container), @"\
        machine.slice/c.service/system.slice/backup.service:memory.high=1073741824 can't be kept: \
        backup.service belongs to a container or another manager, c.service; set \
        MemoryHigh=1073741824 there");
    let mut tree = with_units();
    let mut put = |path: &str, text: &str| tree.insert(path.to_owned(), format!("{text}\n"));
    put("/sys/dev/block/253:0", "->../../devices/dm-0");
    put("/sys/class/block/dm-0", "->../../devices/dm-0");
    put("/sys/devices/dm-0/dev", "253:0");
    put("/sys/devices/dm-0/uevent", "DEVNAME=dm-0");
    put("/sys/devices/dm-0/slaves/sda1", "->../../sda/sda1");
    insta::assert_snapshot!(refused(&tree, "unit:backup:dm-0.io.latency=target=5000"), @"\
        system.slice/backup.service:dm-0.io.latency=target=5000 can't be kept: systemd takes dm-0 \
        for the disk below it, sda; name that");
    let mut tree = with_units();
    tree.remove("/dev/disk/by-id/ata-S1");
    insta::assert_snapshot!(refused(&tree, "unit:backup:sda.io.max=wbps=50MB"), @"\
        system.slice/backup.service:sda.io.max=wbps=50000000 can't be kept: nothing in \
        /dev/disk/by-id leads to sda, and its name may be another's after a boot; name a path of \
        it in the unit: systemctl edit backup.service");
    tree.remove("/usr/lib/systemd/systemd");
    insta::assert_snapshot!(refused(&tree, "unit:backup:memory.high=1GiB"), @"a unit's settings \
        can't be kept: there is no systemd here to set them; run floodwall apply at boot");
}
