//! A guest's caller: root or an ordinary user, with a directory for the guest's memory that is
//! looked at afterwards.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use floodwall_model::Bytes;
use floodwall_testing::process::install;
use tempfile::TempDir;

/// The memory of a test's guest.
pub(crate) const RAM: Bytes = Bytes::mib(640);
/// How long something may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);
/// The ordinary user, and a group: `nobody`, a user without a home.
pub(crate) const ORDINARY: u32 = 65_534;

/// The user that starts a guest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// As the tests run.
    Caller,
    /// As a user without any privilege.
    Ordinary,
}

impl Who {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Caller => "as the caller",
            Self::Ordinary => "as an ordinary user",
        }
    }

    pub(crate) fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Caller => &[],
            Self::Ordinary => &[floodwall_testing::ROOT, "setpriv"],
        }
    }
}

/// The user that starts guests, and the place of their memory.
pub(crate) struct Bed {
    who: Who,
    /// `TMPDIR`: below /dev/shm, of this test alone.
    memory: TempDir,
    /// The program, in a place that every user may read.
    home: TempDir,
}

impl Bed {
    pub(crate) fn new(who: Who) -> Result<Self, String> {
        let memory =
            tempfile::Builder::new().prefix("fw-test-").tempdir_in("/dev/shm").map_err(text)?;
        let home = tempfile::tempdir().map_err(text)?;
        for dir in [memory.path(), home.path()] {
            fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).map_err(text)?;
        }
        let bed = Self { who, memory, home };
        if who == Who::Ordinary {
            // Root's directories may let no other user through.
            install(env!("CARGO_BIN_EXE_floodwall"), &bed.program())?;
            bed.give(bed.memory.path())?;
        }
        Ok(bed)
    }

    /// Makes a path the user's own.
    pub(crate) fn give(&self, path: &Path) -> Result<(), String> {
        match self.who {
            Who::Caller => Ok(()),
            Who::Ordinary => chown(path, Some(ORDINARY), Some(ORDINARY)).map_err(text),
        }
    }

    /// The user's id.
    pub(crate) fn uid(&self) -> u32 {
        match self.who {
            Who::Caller => rustix::process::geteuid().as_raw(),
            Who::Ordinary => ORDINARY,
        }
    }

    pub(crate) fn program(&self) -> PathBuf {
        match self.who {
            Who::Caller => env!("CARGO_BIN_EXE_floodwall").into(),
            Who::Ordinary => self.home.path().join("floodwall"),
        }
    }

    /// The directory of the guest's memory.
    pub(crate) fn memory(&self) -> &Path {
        self.memory.path()
    }

    /// `program` as the user, after the words of `before`.
    pub(crate) fn command(&self, before: &[&str], program: &Path) -> Command {
        let ids = format!("--reuid={ORDINARY} --regid={ORDINARY} --clear-groups");
        let mut words: Vec<&str> = before.to_vec();
        if self.who == Who::Ordinary {
            words.push("setpriv");
            words.extend(ids.split(' '));
        }
        let mut command = match words.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.env("TMPDIR", self.memory.path()).current_dir("/").stdin(Stdio::null());
        command
    }

    /// `floodwall lab run` of a device that takes no time, with `options` and a script for the
    /// guest's shell.
    pub(crate) fn guest(&self, options: &[&str], script: &str) -> Command {
        self.guest_after(&[], options, script)
    }

    /// The same, started by the words of `before`.
    pub(crate) fn guest_after(&self, before: &[&str], options: &[&str], script: &str) -> Command {
        let mut command = self.command(before, &self.program());
        let ram = format!("{}KiB", RAM.0 / 1024);
        command.args(["lab", "run", "null", "--size", "320MiB", "--kernel", "uml", "--ram", &ram]);
        command.args(options).args(["--", "sh", "-c", script]);
        command
    }

    /// What the guest's script prints. It has to succeed and to leave nothing behind.
    pub(crate) fn prints(&self, options: &[&str], script: &str) -> Result<String, String> {
        let output = run(&mut self.guest(options, script), &[])?;
        if !output.status.success() {
            return Err(format!(
                "{}: {}{}",
                output.status,
                said(&output.stdout),
                said(&output.stderr)
            ));
        }
        self.nothing_is_left()?;
        Ok(said(&output.stdout))
    }

    /// Processes of guests whose memory is in this test's directory.
    pub(crate) fn kernels(&self) -> Vec<i32> {
        let ours = format!("TMPDIR={}", self.memory.path().display());
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|id| {
            let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            name.trim_end() == "linux.uml"
                && environment.split(|byte| *byte == 0).any(|word| word == ours.as_bytes())
        })
        .collect()
    }

    /// The one that is the kernel: the parent of all others. Its number may be the highest, once
    /// numbers have started again.
    pub(crate) fn kernel(&self) -> Result<i32, String> {
        let all = self.kernels();
        let parent = |id: &i32| {
            let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse::<i32>().ok())
        };
        let first = all.iter().find(|id| parent(id).is_some_and(|parent| !all.contains(&parent)));
        first.copied().ok_or_else(|| format!("none of {all:?} is the kernel"))
    }

    /// Waits until no process and no file of a guest is left.
    pub(crate) fn nothing_is_left(&self) -> Result<(), String> {
        until("all kernels have ended", || self.kernels().is_empty())?;
        match fs::read_dir(self.memory.path()).map_err(text)?.flatten().next() {
            None => Ok(()),
            Some(entry) => Err(format!("'{}' is left", entry.path().display())),
        }
    }
}

/// Runs a command with `input`, at most [`PATIENCE`].
pub(crate) fn run(command: &mut Command, input: &[u8]) -> Result<Output, String> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|e| format!("{command:?}: {e}"))?;
    let (mut stdin, input) = (child.stdin.take(), input.to_vec());
    let watched = child.id() as i32;
    let (done, waits) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        // Writing fails if the command has ended. Its exit status is checked instead.
        let _ = stdin.as_mut().map(|stdin| stdin.write_all(&input));
    });
    std::thread::spawn(move || {
        if waits.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            signal(watched, rustix::process::Signal::KILL);
        }
    });
    let output = child.wait_with_output().map_err(text);
    drop(done);
    output
}

/// The end of a child, waited for at most [`PATIENCE`].
pub(crate) fn end_of(child: &mut Child) -> Result<ExitStatus, String> {
    let begin = Instant::now();
    loop {
        match child.try_wait().map_err(text)? {
            Some(status) => return Ok(status),
            None if begin.elapsed() > PATIENCE => {
                let _ = child.kill();
                return Err("floodwall does not end".into());
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: i32, signal: rustix::process::Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, is: impl Fn() -> bool) -> Result<(), String> {
    floodwall_testing::until(PATIENCE, what, is)
}

/// An error unless `told` has these words, in this order.
pub(crate) fn in_order(told: &str, words: &[&str]) -> Result<(), String> {
    let mut rest = told;
    for word in words {
        let (_, after) = rest
            .split_once(word)
            .ok_or(format!("'{word}' is missing, or not in its turn: {told}"))?;
        rest = after;
    }
    Ok(())
}

/// An error unless the two are equal.
pub(crate) fn equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    is: T,
    should: T,
) -> Result<(), String> {
    floodwall_testing::equal(is, should).map_err(|e| format!("{what}: {e}"))
}

pub(crate) fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
