//! `persist` on a real machine: a device that goes and comes back has its settings again. A disk
//! that is full or read-only leaves the old files.
//!
//! The hot-plug test writes the machine's own rules file and removes it again. It needs a running
//! udev; without one it is reported as left out. `make test` runs it in a separate namespace
//! (scripts/with-udev), where neither rules nor udev are the machine's.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use floodwall_testing::disk::{Mount, read};
use floodwall_testing::ensure;
use floodwall_testing::process::{install, output, run, told};
use floodwall_testing::tree::copy_host;

use crate::knobs::{Device, floodwall, lab_down, lab_up};
use crate::{FLOODWALL, FUSE, Test, UDEV};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a lab device that goes and comes back has its persisted settings again",
        needs: &[FUSE, UDEV],
        body: hot_plug,
    },
    Test {
        name: "a removable disk that goes and comes back has its limit again",
        needs: &[FUSE, UDEV],
        body: removable,
    },
    Test {
        name: "persist on a full disk leaves both files as they were",
        needs: &[],
        body: full_disk,
    },
    Test { name: "persist on a read-only /etc writes nothing", needs: &[], body: read_only },
    Test { name: "persist without the privilege writes nothing", needs: &[], body: unprivileged },
];

const SYSCTL: &str = "etc/sysctl.d/99-zz-floodwall.conf";
const RULES: &str = "etc/udev/rules.d/99-zz-floodwall.rules";
const NOBODY: u32 = 65_534;

/// Why the hot-plug test can't run here.
pub(crate) fn missing() -> Option<String> {
    if run("udevadm", &["control", "--ping"]).is_err() {
        return Some(
            "needs udev to be running; scripts/with-udev has one for a while, as make test does"
                .into(),
        );
    }
    let kept = [SYSCTL, RULES].into_iter().find(|path| Path::new("/").join(path).exists());
    kept.map(|path| format!("this machine keeps settings of its own in /{path}"))
}

/// The knobs that are kept, in an order that the kernel would not take, and what their files read
/// then.
const KEPT: [(&str, &str, &str); 6] = [
    ("iosched.fifo_batch=8", "queue/iosched/fifo_batch", "8"),
    ("bdi.strict_limit=1", "bdi/strict_limit", "1"),
    ("nr_requests=48", "queue/nr_requests", "48"),
    ("bdi.max_ratio_fine=400000", "bdi/max_ratio_fine", "400000"),
    ("scheduler=mq-deadline", "queue/scheduler", "[mq-deadline]"),
    ("read_ahead_kb=64", "queue/read_ahead_kb", "64"),
];

/// What a device is before, and what the kernel does not do by itself.
const OTHERWISE: [(&str, &str); 4] = [
    ("queue/scheduler", "none"),
    ("queue/read_ahead_kb", "128"),
    ("bdi/strict_limit", "0"),
    ("bdi/max_ratio_fine", "1000000"),
];

/// A lab that comes and goes. When dropped it removes the machine's rules file and leaves its loop
/// devices as they were. The kernel keeps an elevator and shares for the next device with that
/// number.
struct Plugged {
    name: String,
    nodes: Vec<String>,
}

impl Plugged {
    fn new() -> Self {
        Self { name: format!("fw-plug-{}", std::process::id()), nodes: Vec::new() }
    }

    /// Brings it up; gives its node.
    fn up(&mut self) -> Result<String, String> {
        let node = lab_up(&self.name)?;
        self.nodes.push(node.clone());
        Ok(node)
    }

    fn down(&self) -> Result<(), String> {
        lab_down(&self.name).map(drop)
    }

    /// Resets every number that it has had, and that is free now, to the kernel's defaults.
    fn as_before(&self) {
        let is_free = |node: &&String| {
            let directory = Path::new("/sys/block").join(node.trim_start_matches("/dev/"));
            !directory.join("loop/backing_file").exists()
        };
        for node in self.nodes.iter().filter(is_free) {
            for (file, value) in OTHERWISE {
                let _ = write(node, file, value);
            }
        }
    }
}

impl Drop for Plugged {
    fn drop(&mut self) {
        let _ = floodwall(&["unpersist", "--yes"]);
        let _ = self.down();
        self.as_before();
    }
}

fn write(node: &str, file: &str, value: &str) -> Result<(), String> {
    let path = Path::new("/sys/block").join(node.trim_start_matches("/dev/")).join(file);
    // Linux 6.18 does not wait for a process that changes an elevator meanwhile, as udev may.
    let busy = |e: &std::io::Error| e.kind() == std::io::ErrorKind::ResourceBusy;
    for _ in 0..100 {
        match fs::write(&path, value) {
            Err(e) if busy(&e) => std::thread::sleep(Duration::from_millis(20)),
            other => return other.map_err(|e| format!("{}: {e}", path.display())),
        }
    }
    Err(format!("{} stays busy", path.display()))
}

/// Whether a device reads the kept values, and the values that it reads.
fn holds(node: &str) -> (bool, String) {
    let directory = Path::new("/sys/block").join(node.trim_start_matches("/dev/"));
    let read = |file: &str| read(&directory.join(file));
    let found: Vec<String> =
        KEPT.iter().map(|(_, file, _)| format!("{file}: {}", read(file))).collect();
    let all =
        KEPT.iter().all(|(_, file, wanted)| read(file).split(' ').any(|word| word == *wanted));
    (all, found.join(", "))
}

/// Waits for udev to have done everything that it knows of.
fn settle() -> Result<(), String> {
    run("udevadm", &["settle", "--timeout", "30"]).map(drop)
}

fn hot_plug() -> Result<(), String> {
    // Another one, which is there all the time and is to stay as it is; it holds the name `loopN`
    // that would match by accident.
    let other = Device::lab("fw-other")?;
    let mut plugged = Plugged::new();
    let node = plugged.up()?;
    for (file, value) in OTHERWISE {
        write(&node, file, value)?;
        other.write(file, value)?;
    }
    let settings: Vec<&str> = KEPT.iter().map(|(setting, ..)| *setting).collect();
    let device = ["persist", "--yes", "--device", node.trim_start_matches("/dev/")];
    let shown = floodwall(&[&device, settings.as_slice()].concat())?;
    ensure(
        shown.contains("is known after a boot by its backing file, /run/floodwall/lab/"),
        &shown,
    )?;
    settle()?;
    ensure(!holds(&node).0, "persist has changed the kernel")?;

    // Gone, and back under the same name: the file below it is another one, and so may be its
    // number.
    plugged.down()?;
    let node = plugged.up()?;
    other
        .until("udev's writes", || holds(&node).0)
        .map_err(|e| format!("{e}; {}", holds(&node).1))?;
    ensure(!holds(&format!("/dev/{}", other.name())).0, "another lab's device was set too")?;

    // A later change by a user survives events that are not about the device's appearance.
    write(&node, "queue/nr_requests", "24")?;
    write(&node, "uevent", "change")?;
    settle()?;
    let found = holds(&node).1;
    ensure(found.contains("nr_requests: 24"), || format!("set again without a reason: {found}"))?;
    // That it appears, as at boot, is a reason.
    write(&node, "uevent", "add")?;
    settle()?;
    ensure(holds(&node).0, || format!("not set when added: {}", holds(&node).1))?;

    floodwall(&["unpersist", "--yes"])?;
    plugged.down()?;
    settle()?;
    plugged.as_before();
    let node = plugged.up()?;
    settle()?;
    let found = holds(&node).1;
    let is_set = found.contains("strict_limit: 1") || found.contains("[mq-deadline]");
    ensure(!is_set, || format!("still set on {node} of {:?}: {found}", plugged.nodes))
}

/// Here every lab device of this name is a USB disk: no kernel without USB has another.
fn removable() -> Result<(), String> {
    const LIMIT: &str = "16777216";
    let mut plugged = Plugged::new();
    let shown = floodwall(&["persist", "--removable", "scheduler=mq-deadline", "--yes"])?;
    let said = format!("removable disks: bdi.max_bytes: not kept -> bdi.max_bytes {LIMIT}");
    ensure(shown.contains(&said), &shown)?;
    let rules = fs::read_to_string(Path::new("/").join(RULES)).map_err(|e| e.to_string())?;
    let of_lab = format!("ATTR{{loop/backing_file}}==\"/run/floodwall/lab/{}/*\"", plugged.name);
    let match_usb = "KERNEL==\"sd*\", SUBSYSTEMS==\"usb\"";
    ensure(rules.contains(match_usb), &rules)?;
    // Another file: floodwall's own has to stay as it is.
    let copy = Path::new("/etc/udev/rules.d/99-zzz-floodwall-test.rules");
    fs::write(copy, rules.replace(match_usb, &of_lab)).map_err(|e| e.to_string())?;
    let removed = Removed(copy);
    run("udevadm", &["control", "--reload"])?;
    let node = plugged.up()?;
    for (file, value) in OTHERWISE {
        write(&node, file, value)?;
    }
    write(&node, "uevent", "add")?;
    settle()?;
    let found = |file: &str| {
        read(&Path::new("/sys/block").join(node.trim_start_matches("/dev/")).join(file))
    };
    let (limit, strict) = (found("bdi/max_bytes"), found("bdi/strict_limit"));
    // The kernel keeps a share of the hard limit, which moves with free memory.
    let near = limit.parse::<u64>().is_ok_and(|bytes| (12 << 20..=20 << 20).contains(&bytes));
    ensure(near && strict == "1", || format!("max_bytes {limit}, strict_limit {strict}"))?;
    let elevator = found("queue/scheduler");
    ensure(elevator.contains("[mq-deadline]"), &elevator)?;
    drop(removed);
    floodwall(&["unpersist", "--yes"])?;
    ensure(!Path::new("/").join(RULES).exists(), "the rules are still there")
}

/// A file that goes when this is dropped.
struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}

/// A captured machine whose /etc is a filesystem of two pages.
struct Machine {
    etc: Mount,
    directory: tempfile::TempDir,
}

fn tree(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().canonicalize().unwrap_or_default().join("tree")
}

impl Machine {
    fn new() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
        let tree = tree(&directory);
        copy_host("vm-virtio-ext4", &tree).map_err(|e| e.to_string())?;
        fs::create_dir_all(tree.join("usr/lib/udev")).map_err(|e| e.to_string())?;
        fs::write(tree.join("sys/class/block/vda/serial"), "S1\n").map_err(|e| e.to_string())?;
        let etc =
            Mount::new(&["-t", "tmpfs", "-o", "size=8k,mode=0755", "none"], &tree.join("etc"))?;
        Ok(Self { etc, directory })
    }

    fn tree(&self) -> PathBuf {
        tree(&self.directory)
    }

    fn command(&self, command: &str) -> Command {
        let mut floodwall = Command::new(FLOODWALL);
        floodwall
            .args(command.split_whitespace())
            .arg("--root")
            .arg(self.tree())
            .stdin(Stdio::null());
        floodwall
    }

    fn run(&self, command: &str) -> Result<Output, String> {
        output(&mut self.command(command))
    }

    /// Both files and everything else in /etc.
    fn files(&self) -> Result<Vec<(PathBuf, String)>, String> {
        let found = run("find", &[&self.etc.path().to_string_lossy(), "-type", "f"])?;
        let mut files: Vec<(PathBuf, String)> = found
            .lines()
            .filter(|path| !path.ends_with("/filler"))
            .map(|path| (path.into(), fs::read_to_string(path).unwrap_or_default()))
            .collect();
        files.sort();
        Ok(files)
    }
}

/// Runs a command that must fail with this status and this message and change nothing.
fn refused(
    machine: &Machine,
    mut command: Command,
    status: i32,
    message: &str,
) -> Result<(), String> {
    let before = machine.files()?;
    let output = output(&mut command)?;
    let is_told = told(&output).contains(message);
    ensure(output.status.code() == Some(status) && is_told, || told(&output))?;
    let after = machine.files()?;
    ensure(before == after, || format!("{before:?} became {after:?}"))
}

fn full_disk() -> Result<(), String> {
    let machine = Machine::new()?;
    let output = machine.run("persist vm.dirty_ratio=5 --yes")?;
    ensure(output.status.success(), || told(&output))?;
    // One page is left: the first temporary file fits, the second does not.
    let both = "persist vm.dirty_ratio=6 vda.nr_requests=32 --yes";
    refused(&machine, machine.command(both), 1, "nothing was written: can't write")?;
    fs::write(machine.etc.path().join("filler"), "x").map_err(|e| e.to_string())?;
    refused(&machine, machine.command(both), 1, "No space left on device")?;
    fs::remove_file(machine.etc.path().join("filler")).map_err(|e| e.to_string())?;
    // Removing needs no room.
    let output = machine.run("unpersist --yes")?;
    ensure(output.status.success() && machine.files()?.is_empty(), "not removed")
}

fn read_only() -> Result<(), String> {
    let machine = Machine::new()?;
    let output = machine.run("persist vm.dirty_ratio=5 --yes")?;
    ensure(output.status.success(), || told(&output))?;
    machine.etc.remount("ro")?;
    let command = "persist vm.dirty_ratio=6 --yes";
    refused(
        &machine,
        machine.command(command),
        4,
        "where /etc can be written: nothing was written: can't write",
    )?;
    refused(&machine, machine.command("unpersist --yes"), 4, "can't remove")
}

fn unprivileged() -> Result<(), String> {
    let machine = Machine::new()?;
    run("chmod", &["-R", "a+rX", &machine.directory.path().to_string_lossy()])?;
    // The unprivileged user may not reach the program where it was built.
    let program = machine.directory.path().join("floodwall");
    install(FLOODWALL, &program)?;
    let mut command = Command::new(program);
    command
        .args(["persist", "vm.dirty_ratio=5", "--yes", "--root"])
        .arg(machine.tree())
        .uid(NOBODY);
    refused(&machine, command, 4, "run this as root")?;
    ensure(!machine.tree().join(SYSCTL).exists(), "written")
}
