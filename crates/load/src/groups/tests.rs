use floodwall_testing::tree::put;

use super::*;

/// Files in place of the kernel's: a write of `-io` replaces a file's text.
fn switched_off(sibling: &[(&str, &str)]) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| put(&dir.path().join(path), text);
    put("cgroup.subtree_control", "io memory\n");
    for (file, text) in [("io.max", ""), ("io.weight", "default 100\n"), ("memory.low", "0\n")] {
        put(&format!("a.slice/{file}"), text);
    }
    for (file, text) in sibling {
        put(&format!("a.slice/{file}"), text);
    }
    switch_off(dir.path(), "floodwall.7.4026.io");
    fs::read_to_string(dir.path().join("cgroup.subtree_control")).unwrap().starts_with("-io")
}

#[test]
fn a_controller_is_switched_off_unless_another_group_uses_it() {
    assert!(switched_off(&[]));
    assert!(switched_off(&[("memory.high", "5000000\n"), ("cgroup.subtree_control", "memory\n")]));
    assert!(!switched_off(&[("io.max", "8:0 rbps=max wbps=5000000 riops=max wiops=max\n")]));
    assert!(!switched_off(&[("io.weight", "default 50\n")]));
    assert!(!switched_off(&[("cgroup.subtree_control", "memory io\n")]));
}

#[test]
fn no_write_waits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.high");
    let (kind, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
    rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
    let (done, written) = std::sync::mpsc::channel();
    // A pipe without a reader: open(2) waits unless O_NONBLOCK is given.
    std::thread::spawn(move || done.send(write(&path, "max")));
    let error = written.recv_timeout(Duration::from_secs(20)).unwrap().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENXIO));
}

#[test]
fn a_move_that_fails_is_an_error_there_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let division = Division {
        name: format!("{PREFIX}7.4026"),
        mount: dir.path().to_owned(),
        parent: dir.path().to_owned(),
        before: dir.path().to_owned(),
        controllers: Vec::new(),
        has_moved: false,
        patience: Duration::ZERO,
        made: Vec::new(),
    };
    assert_eq!(division.path_of("there"), "floodwall.7.4026/there");
    let procs = |name: &str| division.group(name).join("cgroup.procs");
    for name in ["there", "back"] {
        put(&procs(name), "");
    }
    let me = std::process::id().to_string();
    let is_in = |name: &str| fs::read_to_string(procs(name)).unwrap() == me;
    assert!(division.within("there", "back", || is_in("there") && !is_in("back")).unwrap());
    assert!(is_in("back"));
    let back = division.within("there", "back", || fs::remove_file(procs("back")).unwrap());
    assert_eq!(back.unwrap_err().kind(), io::ErrorKind::NotFound);
    fs::remove_file(procs("there")).unwrap();
    let acted = std::cell::Cell::new(false);
    assert!(division.within("there", "back", || acted.set(true)).is_err() && !acted.get());
}

#[test]
fn after_an_error_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let procs = dir.path().join("cgroup.procs");
    put(&procs, "");
    // A directory here has no cgroup.procs by itself.
    let order = Order {
        parent: dir.path(),
        before: dir.path(),
        mount: dir.path(),
        controllers: &["memory"],
        names: &["a", "b"],
        home: Some("a"),
        patience: Duration::ZERO,
    };
    let (what, error) = Division::make(&order).unwrap_err();
    assert!(what.starts_with("enter the control group ") && what.ends_with("/a"), "{what}");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(&procs).unwrap(), std::process::id().to_string());
    let (what, _) = Division::make(&Order { home: None, ..order }).unwrap_err();
    assert!(what.starts_with("switch the controller 'memory' on in "), "{what}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_group_of_a_killed_process_is_removed_once_it_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let of = |pid: u32| dir.path().join(format!("floodwall.{pid}.{}", pid_namespace()));
    // No process has the highest number that there is.
    let (gone, lives, busy) = (of(1 << 22), of(1), of((1 << 22) + 1));
    for group in [&gone, &lives, &busy] {
        fs::create_dir_all(group.join("command")).unwrap();
    }
    put(&busy.join("command/process"), "");
    remove_stale(dir.path(), &pid_namespace());
    assert!(!gone.exists() && lives.exists() && busy.exists());
}

#[test]
fn processes_of_a_killed_process_go_on_without_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    // No process has the highest number that there is.
    let group = dir.path().join(format!("floodwall.{}.{}/command", 1 << 22, pid_namespace()));
    let limits = "8:16 rbps=max wbps=5000000 riops=max wiops=max\n";
    for (file, text) in [("cgroup.freeze", "1"), ("memory.high", "999"), ("io.max", limits)] {
        put(&group.join(file), text);
    }
    remove_stale(dir.path(), &pid_namespace());
    for (file, text) in
        [("cgroup.freeze", "0"), ("memory.high", "max"), ("io.max", "8:16 rbps=max wbps=max ")]
    {
        assert!(fs::read_to_string(group.join(file)).unwrap().starts_with(text), "{file}");
    }
}
