//! A lab device with a filesystem, and a guard that steers it alone.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use floodwall_testing::process::{self, Log, run};
use rustix::process::{Pid, Signal};
use serde_json::Value;

/// A goal that no victim meets beside a flood. Without one, a guard that begins in the middle of an
/// encounter may take the victims' latencies in a pause of the flood for their usual ones.
pub(crate) const GOAL: [&str; 2] = ["--p99", "2ms"];
pub(crate) const FLOODWALL: &str = env!("CARGO_BIN_EXE_floodwall");
/// How long something that takes a moment may take on a busy machine, with a queue that has to run
/// dry.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The program that ties another one to the test's process.
pub(crate) const TIE: &str = "setpriv";

/// A program that is asked to end when the test's process ends.
pub(crate) fn tied(program: &str) -> Command {
    let mut command = Command::new(TIE);
    command.args(["--pdeathsig", "TERM", program]);
    command
}

/// Waits until something is so.
pub(crate) fn until(what: &str, is: impl Fn() -> bool) -> Result<(), String> {
    floodwall_testing::until(PATIENCE, what, is)
}

/// What `lab run` runs: it tells the device and its filesystem, and ends with its standard input.
const UNTIL_STDIN_ENDS: &str = "echo \"$FLOODWALL_LAB_DEVICE\"; pwd -P; exec cat";

/// A device; taken down when it is dropped, or the test's process ends.
pub(crate) struct Device {
    lab: Child,
    /// `loop3`.
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
}

impl Device {
    pub(crate) fn up(preset: &str) -> Result<Self, String> {
        let name = format!("guard-{}", std::process::id());
        let mut lab = Command::new(FLOODWALL)
            .args(["lab", "run", preset, "--size", "3GiB", "--memory", "900MiB", "--fs", "xfs"])
            .args(["--name", &name, "--", "sh", "-c", UNTIL_STDIN_ENDS])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let log = Log::of(lab.stderr.take());
        let mut lines = BufReader::new(lab.stdout.take().ok_or("no stdout")?).lines();
        let told = (lines.next(), lines.next());
        let (Some(Ok(device)), Some(Ok(directory))) = told else {
            return Err(format!("no lab ({:?})\n{}", lab.wait(), log.text()));
        };
        let name = device.trim_start_matches("/dev/").to_owned();
        Ok(Self { lab, name, directory: PathBuf::from(directory) })
    }

    /// Every knob of its queue and its limits, as it reads now.
    pub(crate) fn knobs(&self) -> BTreeMap<String, String> {
        let mut knobs = BTreeMap::new();
        for part in ["queue", "queue/iosched", "bdi"] {
            let directory = Path::new("/sys/block").join(&self.name).join(part);
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                // Other units of max_ratio and min_ratio: shares of limits that move with free
                // memory.
                if entry.file_name() == "max_bytes" || entry.file_name() == "min_bytes" {
                    continue;
                }
                if let Ok(value) = fs::read_to_string(entry.path()) {
                    knobs.insert(
                        format!("{part}/{}", entry.file_name().to_string_lossy()),
                        value.trim().to_owned(),
                    );
                }
            }
        }
        knobs
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // This closes its standard input first.
        let _ = self.lab.wait();
    }
}

/// Knobs that differ, in words.
pub(crate) fn differences(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<String> {
    before
        .iter()
        .filter(|(knob, value)| after.get(*knob) != Some(value))
        .map(|(knob, value)| {
            format!("{knob}: {value} → {}", after.get(knob).map_or("gone", String::as_str))
        })
        .collect()
}

/// A guard of one device, with a separate journal. It is killed when it is dropped, and puts
/// everything back when the test's process ends.
pub(crate) struct Guard {
    pub(crate) child: Child,
    dir: tempfile::TempDir,
    log: Log,
}

impl Guard {
    pub(crate) fn start(device: &str, arguments: &[&str]) -> Result<Self, String> {
        Self::start_through(&[], device, arguments)
    }

    /// The same, started by another program that becomes it.
    pub(crate) fn start_through(
        program: &[&str],
        device: &str,
        arguments: &[&str],
    ) -> Result<Self, String> {
        // A journal's directory is walked to without links, which /tmp may be.
        let dir = tempfile::tempdir_in("/var/lib").map_err(|e| e.to_string())?;
        let words = [program, &[FLOODWALL, "guard", "--device", device, "--socket"]].concat();
        let mut child = tied(words[0])
            .args(&words[1..])
            .arg(dir.path().join("guard.sock"))
            .arg("--journal")
            .arg(dir.path().join("journal"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let log = Log::of(child.stderr.take());
        let mut guard = Self { child, dir, log };
        let begin = Instant::now();
        while guard.status().is_null() {
            let ended = guard.child.try_wait().map_err(|e| e.to_string())?;
            if ended.is_some() || begin.elapsed() > PATIENCE {
                return Err(format!("it does not answer ({ended:?})\n{}", guard.log()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(guard)
    }

    pub(crate) fn until(&self, what: &str, is: impl Fn() -> bool) -> Result<(), String> {
        until(what, is).map_err(|e| format!("{e}\n{}", self.log()))
    }

    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    /// `floodwall guard …` of it.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let socket = self.dir.path().join("guard.sock");
        run(FLOODWALL, &[&["guard"], arguments, &["--socket", &socket.to_string_lossy()]].concat())
    }

    /// A command that changes settings, with the guard's journal.
    pub(crate) fn beside(&self, command: &[&str]) -> Result<String, String> {
        let journal = self.dir.path().join("journal");
        run(FLOODWALL, &[command, &["--journal", &journal.to_string_lossy()]].concat())
    }

    pub(crate) fn status(&self) -> Value {
        self.ask(&["status", "--json"])
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or(Value::Null)
    }

    pub(crate) fn worker(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.status()["pid"].as_i64()?).ok()?)
    }

    pub(crate) fn parent(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// What a dry run beside its journal says within a second.
    pub(crate) fn dry_run_for_a_second(&self, device: &str) -> Result<String, String> {
        let path = |name: &str| self.dir.path().join(name);
        let output = Command::new("timeout")
            .args(["1", FLOODWALL, "guard", "--dry-run", "--device", device, "--socket"])
            .arg(path("dry.sock"))
            .arg("--journal")
            .arg(path("journal"))
            .output()
            .map_err(|e| e.to_string())?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// `floodwall guard restore` of its journal.
    pub(crate) fn restore(&self) -> Result<String, String> {
        run(
            FLOODWALL,
            &["guard", "restore", "--journal", &self.dir.path().join("journal").to_string_lossy()],
        )
    }

    /// Tells it to stop; it has to end well.
    pub(crate) fn stop(mut self) -> Result<String, String> {
        kill(self.parent(), Signal::TERM)?;
        let begin = Instant::now();
        loop {
            match self.child.try_wait().map_err(|e| e.to_string())? {
                Some(status) if status.success() => return Ok(self.log()),
                Some(status) => return Err(format!("it ended with {status}\n{}", self.log())),
                None if begin.elapsed() > PATIENCE => {
                    return Err(format!("it does not end\n{}", self.log()));
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let worker = self.worker();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(worker) = worker {
            let _ = until("the worker is gone", || !lives(worker));
        }
    }
}

pub(crate) fn kill(pid: Pid, signal: Signal) -> Result<(), String> {
    rustix::process::kill_process(pid, signal).map_err(|e| format!("kill {pid:?}: {e}"))
}

pub(crate) fn lives(pid: Pid) -> bool {
    process::lives(pid.as_raw_nonzero().get())
}
