//! A paced copy beside a guard, and a victim that commits too seldom for the disk's counters.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use floodwall_testing::process::Log;
use rustix::process::{Pid, Signal};

use crate::Test;
use crate::bed::{Device, FLOODWALL, Guard, kill, until};
use crate::load::Load;

pub(crate) const TESTS: &[Test] = &[Test {
    name: "a paced copy yields to a victim that the guard names",
    needs: &["mkfs.xfs"],
    kernel: true,
    body: yields,
}];

/// Slow enough that the copy lasts.
const PRESET: &str = "hdd-7200";
/// Longer than the guard and the copy need to see each other.
const WHILE: Duration = Duration::from_secs(8);

/// `pace cat` of zeros to a file on the device; ended when it is dropped.
struct Copy {
    child: Child,
    log: Log,
}

impl Copy {
    fn start(device: &Device) -> Result<Self, String> {
        let open = |file: std::io::Result<File>| file.map_err(|e| e.to_string());
        let mut child = Command::new(FLOODWALL)
            .args(["pace", "--status", "cat"])
            .stdin(open(File::open("/dev/zero"))?)
            .stdout(open(File::create(device.directory.join("copy")))?)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let log = Log::of(child.stderr.take());
        Ok(Self { child, log })
    }

    fn until(&self, what: &str, is: impl Fn() -> bool) -> Result<(), String> {
        until(what, is).map_err(|e| format!("{e}\n{}", self.log.text()))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = kill(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

fn yields() -> Result<(), String> {
    let device = Device::up(PRESET)?;
    let victim = Load::start("seldom", &device.directory)?;
    let guard = Guard::start(&device.name, &[])?;
    let copy = Copy::start(&device)?;
    let ends = format!(" ({})", victim.pid());
    let words = format!("{ends} on {}", device.name);
    let is_named = |line: &str| line.contains("yielding to ") && line.contains(&words);
    copy.until("it names the victim", || copy.log.text().lines().any(is_named))?;
    std::thread::sleep(WHILE);
    let status = guard.status();
    let disk = &status["devices"][0];
    let paced = format!("floodwall ({})", copy.child.id());
    let is_spared = disk["paced"] == serde_json::json!([paced])
        && disk["state"] == "watch"
        && disk["victims"][0].as_str().is_some_and(|name| name.ends_with(&ends))
        && disk["held"] == serde_json::json!([]);
    let said = guard.ask(&["status"])?;
    if !is_spared || !said.contains("paces itself") {
        return Err(format!("{disk}\n{said}\n{}\n{}", guard.log(), copy.log.text()));
    }
    // Once the victim has gone, the copy has the disk again.
    drop(victim);
    let last = || copy.log.text().lines().last().unwrap_or_default().to_owned();
    copy.until("nobody else waits", || last().contains("nobody else waits"))?;
    drop(copy);
    guard.until("it forgets the copy", || guard.status()["devices"][0]["paced"].is_null())?;
    guard.stop().map(drop)
}
