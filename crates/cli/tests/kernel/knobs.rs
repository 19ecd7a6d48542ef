//! What `apply`, `diff`, `rollback` and `apply --for` do to a real kernel: the own knobs of a loop
//! device and of a lab's, and no others.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use floodwall_testing::disk::{Loop, Saved, read};
use floodwall_testing::process::{Process, done, run};
use floodwall_testing::{ensure, said, until};

use crate::{FLOODWALL, FUSE, Test};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a change on a device is shown, made and put back",
        needs: &[],
        body: || change_and_back(&Device::new()?),
    },
    Test {
        name: "a change on several devices is one change, and a killed one is put back on all",
        needs: &[],
        body: || several(&Device::new()?, &Device::new()?),
    },
    Test {
        name: "a change for a time is put back without a terminal",
        needs: &[],
        body: || for_a_time(&Device::new()?),
    },
    Test {
        name: "a timer ends with a change that was put back by hand",
        needs: &[],
        body: || put_back_by_hand(&Device::new()?),
    },
    Test {
        name: "rollback ends a change whose timer was killed",
        needs: &[],
        body: || killed_timer(&Device::new()?),
    },
    Test {
        name: "a killed apply is put back by its timer",
        needs: &[],
        body: || killed_apply(&Device::new()?),
    },
    Test {
        name: "a change is put back though its journal has become read-only",
        needs: &[],
        body: || read_only_journal(&Device::new()?),
    },
    Test {
        name: "a change on a lab device is shown, made and put back",
        needs: &[FUSE],
        body: || change_and_back(&Device::lab("fw-change")?),
    },
    Test {
        name: "a change for a time on a lab device is put back without a terminal",
        needs: &[FUSE],
        body: || for_a_time(&Device::lab("fw-time")?),
    },
    Test {
        name: "rollback puts back what a killed apply did to a lab device",
        needs: &[FUSE],
        body: || killed_without_timer(&Device::lab("fw-kill")?),
    },
];

/// How long something that takes no time may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// The knobs that are changed here, with their new values.
const CHANGES: [&str; 3] = ["scheduler=none", "read_ahead_kb=64", "bdi.strict_limit=1"];

/// A loop device without a filesystem, over a file or over a lab's model, and a separate journal.
/// Its parts are dropped in this order.
pub(crate) struct Device {
    node: String,
    _found: Option<Saved>,
    _attached: Attached,
    directory: tempfile::TempDir,
}

/// What a device is there by.
enum Attached {
    File(#[expect(dead_code, reason = "dropping it detaches it")] Loop),
    Lab(String),
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Self::Lab(name) = self {
            let _ = lab_down(name);
        }
    }
}

impl Device {
    fn new() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(said("a directory"))?;
        let device = Loop::over(&directory.path().join("image"), 64)?;
        Self::at(directory, device.node().to_owned(), Attached::File(device))
    }

    /// A lab's device, which answers at once.
    pub(crate) fn lab(name: &str) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(said("a directory"))?;
        let name = format!("{name}-{}", std::process::id());
        let node = lab_up(&name)?;
        Self::at(directory, node, Attached::Lab(name))
    }

    fn at(directory: tempfile::TempDir, node: String, by: Attached) -> Result<Self, String> {
        let mut device = Self { node, _found: None, _attached: by, directory };
        // Different from what the tests set, whatever an earlier user of the device left.
        device._found = Some(Saved::of(device.knobs().into_iter().map(|(path, _)| path)));
        device.write("queue/read_ahead_kb", "128")?;
        let offered = device.read("queue/scheduler").replace(['[', ']'], " ");
        let other = offered.split_whitespace().find(|name| *name != "none");
        device.write("queue/scheduler", other.ok_or("the kernel has no elevator besides none")?)?;
        Ok(device)
    }

    pub(crate) fn name(&self) -> &str {
        self.node.trim_start_matches("/dev/")
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        PathBuf::from("/sys/block").join(self.name()).join(file)
    }

    pub(crate) fn read(&self, file: &str) -> String {
        read(&self.path(file))
    }

    pub(crate) fn write(&self, file: &str, value: &str) -> Result<(), String> {
        fs::write(self.path(file), value).map_err(|e| format!("{file}: {e}"))
    }

    /// Every knob that the tests change, and those that the kernel changes with them.
    pub(crate) fn knobs(&self) -> Vec<(PathBuf, String)> {
        let files =
            ["queue/scheduler", "queue/nr_requests", "queue/read_ahead_kb", "bdi/strict_limit"];
        files.iter().map(|file| (self.path(file), self.read(file))).collect()
    }

    fn floodwall(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(FLOODWALL);
        let journal = self.directory.path().canonicalize().unwrap_or_default().join("journal");
        command.args(arguments).arg("--journal").arg(journal).stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed, and gives what it printed.
    pub(crate) fn done(&self, arguments: &[&str]) -> Result<String, String> {
        done(&mut self.floodwall(arguments))
    }

    fn apply(&self, more: &[&str]) -> Result<String, String> {
        let device = ["apply", "--yes", "--device", self.name()];
        self.done(&[&device, CHANGES.as_slice(), more].concat())
    }

    /// The process that is to put things back: the one with this test's journal on its command
    /// line.
    fn timer(&self) -> Option<u32> {
        let ours = self.directory.path().canonicalize().ok()?;
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let mut numbers =
            processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        numbers.find(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            line.contains("settings-timer") && line.contains(&*ours.to_string_lossy())
        })
    }

    pub(crate) fn until(&self, what: &str, holds: impl Fn() -> bool) -> Result<(), String> {
        until(PATIENCE, what, holds).map_err(|e| format!("{e}; {:?}", self.knobs()))
    }

    /// Starts an `apply` and kills it so long after. Whether it had ended before.
    fn killed_after(&self, arguments: &[&str], delay_ms: u64) -> Result<bool, String> {
        let mut command = self.floodwall(arguments);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut process = Process(child.map_err(said("floodwall"))?);
        std::thread::sleep(Duration::from_millis(delay_ms));
        Ok(process.0.try_wait().map_err(said("wait"))?.is_some())
    }
}

/// Brings a lab of 64 MiB up, and gives its node.
pub(crate) fn lab_up(name: &str) -> Result<String, String> {
    let up = floodwall(&["lab", "up", "null", "--name", name, "--size", "64MiB", "--json"])?;
    let info: serde_json::Value = serde_json::from_str(&up).map_err(|e| format!("{e}: {up}"))?;
    info["device"].as_str().map(str::to_owned).ok_or(format!("no device: {up}"))
}

pub(crate) fn lab_down(name: &str) -> Result<String, String> {
    floodwall(&["lab", "down", name])
}

/// Runs a command that must succeed, and gives what it printed.
pub(crate) fn floodwall(arguments: &[&str]) -> Result<String, String> {
    run(FLOODWALL, arguments)
}

fn kill(pid: u32, signal: rustix::process::Signal) -> Result<(), String> {
    let pid =
        i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).ok_or("no process")?;
    rustix::process::kill_process(pid, signal).map_err(|e| e.to_string())
}

fn change_and_back(device: &Device) -> Result<(), String> {
    let before = device.knobs();
    let shown = device.apply(&[])?;
    ensure(shown.contains("read_ahead_kb: 128 -> 64"), &shown)?;
    ensure(device.read("queue/scheduler").contains("[none]"), "the scheduler was not changed")?;
    ensure(device.read("bdi/strict_limit") == "1", "the limit is not strict")?;
    let difference = device.done(&["diff"])?;
    ensure(difference.contains("bdi.strict_limit: 0 -> 1"), &difference)?;
    device.done(&["rollback"])?;
    ensure(device.knobs() == before, || format!("{:?}, not {before:?}", device.knobs()))?;
    ensure(device.done(&["diff"])? == "no difference", "a difference is left")
}

fn several(first: &Device, second: &Device) -> Result<(), String> {
    let knobs = || [first.knobs(), second.knobs()].concat();
    let before = knobs();
    let of = |device: &Device| CHANGES.map(|change| format!("{}.{change}", device.name()));
    let settings = [of(first), of(second)].concat();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let apply = [&["apply", "--yes"], settings.as_slice()].concat();
    let shown = first.done(&apply)?;
    for device in [first, second] {
        ensure(shown.contains(&format!("{}.read_ahead_kb: 128 -> 64", device.name())), &shown)?;
        ensure(device.read("bdi/strict_limit") == "1", "a limit is not strict")?;
        ensure(device.read("queue/scheduler").contains("[none]"), "a scheduler was not changed")?;
    }
    let log = first.done(&["log"])?;
    ensure(log.matches("change ").count() == 1, &log)?;
    first.done(&["rollback"])?;
    ensure(knobs() == before, || format!("{:?}, not {before:?}", knobs()))?;
    // Later and later, until it has ended before it is killed.
    for delay_ms in (0..600).step_by(2) {
        let ended = first.killed_after(&apply, delay_ms)?;
        first.done(&["rollback"])?;
        ensure(knobs() == before, || format!("{delay_ms} ms: {:?}, not {before:?}", knobs()))?;
        if ended {
            return Ok(());
        }
    }
    Err("it never ended by itself".to_owned())
}

fn for_a_time(device: &Device) -> Result<(), String> {
    let before = device.knobs();
    device.apply(&["--for", "2s"])?;
    ensure(device.knobs() != before, "nothing was changed")?;
    // The timer ignores the signals that a closed terminal sends.
    let timer = device.timer().ok_or("nobody is there to put it back")?;
    kill(timer, rustix::process::Signal::HUP)?;
    kill(timer, rustix::process::Signal::INT)?;
    let session = fs::read_to_string(format!("/proc/{timer}/stat")).map_err(|e| e.to_string())?;
    let session = session.rsplit_once(") ").and_then(|(_, rest)| rest.split_whitespace().nth(3));
    ensure(session == Some(&timer.to_string()), "it is in somebody's session")?;
    device.until("put back", || device.knobs() == before)?;
    device.until("the timer's end", || device.timer().is_none())
}

fn put_back_by_hand(device: &Device) -> Result<(), String> {
    let before = device.knobs();
    device.apply(&["--for", "1h"])?;
    ensure(device.timer().is_some(), "nobody is there to put it back")?;
    device.done(&["rollback"])?;
    ensure(device.knobs() == before, || format!("{:?}, not {before:?}", device.knobs()))?;
    device.until("the timer's end", || device.timer().is_none())
}

fn killed_timer(device: &Device) -> Result<(), String> {
    let before = device.knobs();
    device.apply(&["--for", "1s"])?;
    kill(device.timer().ok_or("nobody is there to put it back")?, rustix::process::Signal::KILL)?;
    // The next command knows from the journal that the time is over, and does not ask.
    std::thread::sleep(Duration::from_millis(2100));
    ensure(device.knobs() != before, "somebody else has put it back")?;
    device.done(&["rollback"])?;
    ensure(device.knobs() == before, || format!("{:?}, not {before:?}", device.knobs()))
}

/// The filesystem of a journal. Its end unmounts it.
struct JournalMount(PathBuf);

impl JournalMount {
    fn of(device: &Device) -> Result<Self, String> {
        let path = device.directory.path().join("journal");
        fs::create_dir(&path).map_err(said("a directory"))?;
        let mount = Self(path);
        run("mount", &["-t", "tmpfs", "-o", "mode=700", "fw", &mount.path()])?;
        Ok(mount)
    }

    fn become_read_only(&self) -> Result<(), String> {
        run("mount", &["-o", "remount,ro", &self.path()]).map(drop)
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for JournalMount {
    fn drop(&mut self) {
        let _ = run("umount", &["--lazy", &self.path()]);
    }
}

fn read_only_journal(device: &Device) -> Result<(), String> {
    let before = device.knobs();
    let by_hand = JournalMount::of(device)?;
    device.apply(&[])?;
    by_hand.become_read_only()?;
    device.done(&["rollback"])?;
    ensure(device.knobs() == before, || format!("{:?}, not {before:?}", device.knobs()))?;
    let refused = device.apply(&[]).err().unwrap_or_default();
    ensure(refused.contains("Read-only file system"), &refused)?;
    drop(by_hand);
    fs::remove_dir(device.directory.path().join("journal")).map_err(said("the mount's end"))?;
    let by_timer = JournalMount::of(device)?;
    device.apply(&["--for", "1s"])?;
    by_timer.become_read_only()?;
    device.until("put back", || device.knobs() == before)
}

fn killed_apply(device: &Device) -> Result<(), String> {
    let before = device.knobs();
    let arguments =
        [&["apply", "--yes", "--for", "1s", "--device", device.name()], CHANGES.as_slice()]
            .concat();
    // Later and later, until it has ended before it is killed.
    for delay_ms in (0..600).step_by(3) {
        let ended = device.killed_after(&arguments, delay_ms)?;
        device.until("the timer's end", || device.timer().is_none())?;
        ensure(device.knobs() == before, || {
            format!("{delay_ms} ms: {:?}, not {before:?}", device.knobs())
        })?;
        if ended {
            return Ok(());
        }
    }
    Err("it never ended by itself".to_owned())
}

fn killed_without_timer(device: &Device) -> Result<(), String> {
    let before = device.knobs();
    let arguments = [&["apply", "--yes", "--device", device.name()], CHANGES.as_slice()].concat();
    // Later and later, until it has ended before it is killed; the last one stands and is put back
    // too.
    for delay_ms in 0..600 {
        let ended = device.killed_after(&arguments, delay_ms)?;
        device.done(&["rollback"])?;
        ensure(device.knobs() == before, || {
            format!("{delay_ms} ms: {:?}, not {before:?}", device.knobs())
        })?;
        if ended {
            return Ok(());
        }
    }
    Err("it never ended by itself".to_owned())
}
