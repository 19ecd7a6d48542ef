//! A process that paces a command: this binary, started with [`PACED`] as its first argument.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Write, stderr, stdin};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_pace::command::{OUTER, Paced, Reach, keep, run};
use floodwall_pace::{Goal, Pacer};
use floodwall_testing::process::Log;
use floodwall_testing::until;
use rustix::process::{Pid, Signal, kill_process};

/// The first argument of a process that paces; a rate in bytes per second, a directory on the disk
/// and the command follow.
pub(crate) const PACED: &str = "paced";
/// The same for a process that intercepts system calls.
pub(crate) const PACED_STRICTLY: &str = "paced-strictly";
/// The first argument of the process that lets calls go on.
pub(crate) const KEEPER: &str = "keeper";
/// The longest wait for steps that take some tenths of a second.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes per second: no limit.
pub(crate) const FAST: &str = "1e12";
/// Bytes per second: a flood is stopped nearly all the time.
pub(crate) const SLOW: &str = "1e5";

/// A directory on the disk that holds the build, since pages dirtied on tmpfs are not counted.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Paces the command in its arguments, and reports on stderr.
pub(crate) fn paced_process(is_strict: bool) -> ExitCode {
    match pace(&std::env::args_os().skip(2).collect::<Vec<_>>(), is_strict) {
        Ok(status) => status.into(),
        Err(message) => {
            let _ = writeln!(stderr(), "{message}");
            ExitCode::FAILURE
        }
    }
}

/// Lets calls go on while the pacing process can't.
pub(crate) fn keeper_process() -> ExitCode {
    keep(stdin().as_fd()).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

fn pace(words: &[OsString], is_strict: bool) -> Result<u8, String> {
    let [rate, directory, program, arguments @ ..] = words else {
        return Err("give a rate, a directory and a command".into());
    };
    let rate: f64 =
        rate.to_str().and_then(|rate| rate.parse().ok()).ok_or("the rate is no number")?;
    let root = SysRoot::live().map_err(|e| e.to_string())?;
    let pacer = Pacer::open(&root, Path::new(directory), Goal::Rate(rate), None);
    let pacer = Arc::new(pacer.map_err(|e| e.to_string())?);
    let outer = std::env::var_os(OUTER);
    let strict = is_strict.then_some(OsStr::new(KEEPER));
    let outer = outer.as_deref();
    let paced = Paced { program, arguments, outer, strict, runtime_directory: None };
    let (mut was_held, mut most, mut left, mut window, mut looks) = (false, 0, 0, 0, 0);
    let all = |_| true;
    let reach = Reach { paced: &all, known: &all };
    let ended = run(&paced, &pacer, &root, reach, &mut |look| {
        looks += 1;
        (most, left) = (look.backlog.max(most), look.backlog);
        window = pacer.window().in_flight.max(window);
        if look.is_held != was_held {
            let _ = writeln!(stderr(), "{}", if look.is_held { "held" } else { "runs" });
            was_held = look.is_held;
        }
    });
    let status = ended.as_ref().map_or_else(|error| error.status(), |ended| ended.status);
    let _ = match ended {
        Ok(ended) => writeln!(
            stderr(),
            "paced {} guarded {} rest {} dirtied {} held {} found {} refused {} unfound {} \
             calls {} most {} looks {} \
             left {} window {} \
             behind {} seconds {}",
            ended.is_paced,
            ended.is_guarded,
            if ended.left_bytes > 0 { "left" } else { "written" },
            ended.dirtied,
            ended.held.as_millis(),
            ended.found_files,
            ended.refused_files,
            ended.unfound_bytes,
            ended.held_calls,
            most,
            looks,
            left,
            window,
            ended.left_processes,
            ended.seconds,
        ),
        Err(error) => writeln!(stderr(), "{error}"),
    };
    Ok(status)
}

/// A command, paced in a directory.
pub(crate) fn paced(rate: &str, at: &Path, words: &[&str]) -> Command {
    process(PACED, rate, at, words)
}

/// A process of this binary that paces a command.
pub(crate) fn process(how: &str, rate: &str, at: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([how, rate]).arg(at).args(words).current_dir(at).process_group(0);
    command
}

/// The same for a shell script that has to succeed. Returns the numbers of its report.
pub(crate) fn figures(rate: &str, at: &Path, script: &str) -> Figures {
    figures_of(paced(rate, at, &["/bin/sh", "-c", script]))
}

/// The same of a process that paces.
pub(crate) fn figures_of(mut process: Command) -> Figures {
    let output = process.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    Figures(said(&output))
}

pub(crate) struct Figures(pub(crate) String);

impl Figures {
    pub(crate) fn of(&self, name: &str) -> u64 {
        let last = self.0.lines().last().unwrap_or_default();
        let mut words = last.split_whitespace();
        words.find(|word| *word == name).unwrap_or_else(|| panic!("no {name}: {}", self.0));
        words.next().unwrap().parse().unwrap()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.0.trim_end().rsplit(' ').next().unwrap().parse().unwrap()
    }
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The pacing process. Dropping this kills it and all its descendants.
pub(crate) struct Pacing {
    pub(crate) child: Child,
    pub(crate) log: Log,
    /// Processes that may have lost their parent.
    pub(crate) left: Vec<i32>,
}

impl Pacing {
    pub(crate) fn start(rate: &str, at: &Path, script: &str) -> Self {
        Self::of(paced(rate, at, &["/bin/sh", "-c", script]))
    }

    pub(crate) fn of(mut process: Command) -> Self {
        let mut child = process
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let log = Log::of(child.stderr.take());
        Self { child, log, left: Vec::new() }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its command's processes.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let is_helper = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            line.contains("held=") || line.split('\0').nth(1) == Some(KEEPER)
        };
        descendants(self.child.id().cast_signed()).into_iter().filter(|p| !is_helper(p)).collect()
    }

    pub(crate) fn waits_for(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let held = until(PATIENCE, what, || holds(self));
        held.unwrap_or_else(|e| panic!("{e}\n{}", self.log.text()));
    }
}

impl Drop for Pacing {
    fn drop(&mut self) {
        let all = self.processes();
        let _ = self.child.kill();
        for pid in all.into_iter().chain(self.left.drain(..)) {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

pub(crate) fn descendants(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for thread in threads {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().map(|child| child.parse().unwrap()) {
            found.push(child);
            found.extend(descendants(child));
        }
    }
    found
}

/// Whether a process is in state T.
pub(crate) fn is_stopped(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().unwrap().starts_with('T')
}
