//! Against what systemd 252 printed for units of a 6.1 kernel.

use super::*;
use crate::testing::files_of;

/// A transient unit whose limits were set at run time, on loop8 (7:8) and on a disk that is not
/// there.
const SET: &str = "ControlGroup=/system.slice/flood.service
IOReadIOPSMax=/dev/loop8 50
IOWriteBandwidthMax=/dev/loop8 5000000
IOWriteBandwidthMax=/dev/nosuch 7
MemoryHigh=314572800
IOWeight=[not set]
LoadState=loaded
DropInPaths=/run/systemd/transient/flood.service.d/50-IOReadIOPSMax.conf \
/run/systemd/transient/flood.service.d/50-IOWriteBandwidthMax.conf
";
/// One whose own file sets a limit.
const PLAIN: &str = "ControlGroup=/system.slice/plain.service
MemoryHigh=infinity
IOWeight=50
LoadState=loaded
DropInPaths=/etc/systemd/system/plain.service.d/50-MemoryHigh.conf
";

fn number_of(path: &str) -> Option<String> {
    (path == "/dev/loop8").then(|| "7:8".to_owned())
}

#[test]
fn properties_are_told_as_the_kernels_files() {
    let set = Shown::new(SET);
    assert_eq!(
        set.view("io.max", number_of),
        "# set at run time: IOWriteBandwidthMax IOReadIOPSMax\n\
         7:8 rbps=max wbps=5000000 riops=50 wiops=max\n"
    );
    assert_eq!(set.view("memory.high", number_of), "# set by the unit's files\n314572800\n");
    assert_eq!(set.view("io.weight", number_of), "# set by the unit's files\ndefault 100\n");
    let plain = Shown::new(PLAIN);
    let head = "# set by the unit's files\n# drop-ins: \
        /etc/systemd/system/plain.service.d/50-MemoryHigh.conf\n";
    assert_eq!(plain.view("io.max", number_of), head);
    assert_eq!(plain.view("memory.high", number_of), format!("{head}max\n"));
    assert_eq!(plain.view("io.weight", number_of), format!("{head}default 50\n"));
    assert_eq!(split(&plain.view("memory.high", number_of)), (Origin::UnitFiles, "max\n"));
    assert_eq!(split(&set.view("io.max", number_of)).0, Origin::RunTime);
    assert_eq!(set.node_of("7:8", number_of), Some("/dev/loop8"));
    assert_eq!(set.node_of("8:0", number_of), None);
}

#[test]
fn a_drop_in_of_a_unit_whose_name_is_escaped_is_known() {
    let shown =
        "DropInPaths=\"/run/systemd/system.control/system-a\\\\x2db.slice.d/50-MemoryHigh.conf\"";
    assert_eq!(Shown::new(shown).at_run_time("memory.high"), ["MemoryHigh"]);
    assert!(Shown::new(shown).at_run_time("io.max").is_empty());
    let path = "/run/systemd/system.control/system-a\\x2db.slice.d/50-MemoryHigh.conf";
    assert_eq!(Shown::new(shown).drop_ins().collect::<Vec<_>>(), [path]);
}

#[test]
fn a_drop_in_of_several_devices_is_known() {
    let of = |text: &str| {
        limits_another(&format!("# by systemctl\n[Service]\n{text}"), "7:8", number_of)
    };
    assert!(!of("IOWriteBandwidthMax=\nIOWriteBandwidthMax=/dev/loop8 5\n"));
    assert!(!of("MemoryHigh=1\n") && !of("IOWriteBandwidthMax=\n"));
    assert!(of(
        "IOWriteBandwidthMax=\nIOWriteBandwidthMax=/dev/loop8 5\nIOWriteBandwidthMax=/dev/sda 5\n"
    ));
}

#[test]
fn a_drop_in_that_is_read_later_is_stronger() {
    let found = |path: &str, text: &str| {
        stronger([path].into_iter(), |_| text.to_owned(), drop_in, &["MemoryHigh"])
    };
    let etc = "/etc/systemd/system";
    let high = "[Service]\n MemoryHigh = 1G\n";
    // A drop-in of all services too.
    let all = format!("{etc}/service.d/zz.conf");
    assert_eq!(found(&all, high), Some(format!("{all} sets MemoryHigh=")));
    assert!(found("/etc/systemd/system.control/b.service.d/50-MemoryHigh.conf", high).is_some());
    assert_eq!(found(&format!("{etc}/b.service.d/50-MemoryHigh.conf"), high), None);
    assert_eq!(found(&format!("{etc}/b.service.d/49-floodwall.conf"), high), None);
    assert_eq!(found(&all, "[Service]\n#MemoryHigh=1G\nMemoryHighest=1\n"), None);
}

#[test]
fn only_what_differs_is_assigned() {
    let view = Shown::new(SET).view("io.max", number_of);
    let all = |value: &str| assignments("io.max", &view, value, "/dev/loop8");
    assert_eq!(all("7:8 rbps=max wbps=5000000 riops=50 wiops=max"), []);
    assert_eq!(
        all("7:8 rbps=max wbps=max riops=50 wiops=3"),
        [
            ("IOWriteBandwidthMax", "/dev/loop8 infinity".to_owned()),
            ("IOWriteIOPSMax", "/dev/loop8 3".to_owned())
        ]
    );
    assert_eq!(
        assignments("io.max", "", "8:0 rbps=1 wbps=max", "/dev/sda"),
        [("IOReadBandwidthMax", "/dev/sda 1".to_owned())]
    );
    assert_eq!(assignments("memory.high", "", "max", ""), [("MemoryHigh", "infinity".to_owned())]);
    assert_eq!(assignments("io.weight", "", "default 50", ""), [("IOWeight", "50".to_owned())]);
}

#[test]
fn a_path_names_a_limit_or_nothing() {
    let path = "/run/systemd/system.control/a.slice/b.service/io.max";
    let limit = Limit::parse(path).unwrap();
    assert_eq!((limit.group, limit.unit, limit.file), ("a.slice/b.service", "b.service", "io.max"));
    assert_eq!(limit.at(Origin::UnitFiles), "/run/systemd/system/a.slice/b.service/io.max");
    assert_eq!(limit.kernel_file(), "/sys/fs/cgroup/a.slice/b.service/io.max");
    for other in [
        "/sys/fs/cgroup/a.slice/b.service/io.max",
        "/run/systemd/system.control/b.service.d/50-MemoryHigh.conf",
        "/run/systemd/system/b.service/io.latency",
        "/run/systemd/system/b/io.max",
        "/run/systemd/system/b c.service/io.max",
        "/run/systemd/system/.service/io.max",
    ] {
        assert_eq!(Limit::parse(other), None, "{other}");
    }
    // A weight of a device can't be taken back through systemd.
    assert!(sets("io.weight", false) && !sets("io.weight", true) && !sets("io.latency", true));
}

#[test]
fn a_change_of_a_captured_tree_is_made_in_its_files() {
    let mut tree = crate::testing::machine();
    tree.insert("/run/systemd/system/keep".into(), "\n".into());
    tree.insert("/sys/fs/cgroup/a.slice/memory.high".into(), "max\n".into());
    let (dir, files) = files_of(&tree);
    let root = floodwall_host::SysRoot::new(dir.path()).unwrap();
    let change = crate::Change::parse(&root, None, "a.slice:memory.high=max").unwrap();
    assert!(matches!(change.target, crate::Target::Group { systemd: false, .. }));
    assert_eq!(files.read(&change.target.path(change.knob)).unwrap(), "max\n");
}
