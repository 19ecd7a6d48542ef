//! Any command as a victim or a flood.
//!
//! ```text
//! supervisor thread: spawn /bin/sh -c COMMAND in a group of its own ─▶ wait
//!                    ─▶ end what is left of the group ─┬─▶ status 0: again
//!                                                      └─▶ else, or asked to stop: end
//! sampling thread:   sum of /proc/PID/io over the group ─▶ Meter ─▶ Delta
//! guardian:          a shell that waits on a pipe; if floodwall dies, the pipe closes
//!                    and the guardian kills the group
//! ```
//!
//! Operations are its read and write system calls. Bytes are those that they moved, into or out of
//! the page cache: read and written for a victim, written for a flood. What leaves the group
//! (`setsid`) can be neither counted nor ended.

mod group;
mod start;

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use floodwall_model::printable::printable;
use floodwall_model::trial::OpLatencies;
use floodwall_stats::recorder::Delta;
use rustix::fs::{Mode, OFlags, fchmod, fchown};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::dir::Dir;
use crate::error::{LoadError, MAKE_DIRECTORY};
use crate::file::{NamedFile, retry};
use crate::finished::Finished;
use crate::lock::lock;
use crate::user::User;
use group::{Io, Meter, members, read_io};
pub(crate) use start::start;

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// How long processes are waited for after SIGKILL. They end when the I/O is done that they wait
/// for in the kernel.
const SURVIVAL: Duration = Duration::from_secs(300);
/// How often an ending group is looked at.
const POLL: Duration = Duration::from_millis(10);
/// How much of a command's output is searched for its last line, in bytes.
const TAIL: u64 = 4096;
/// The directory of commands that run as another user. No load's directory has this name: those
/// have no dot.
const COMMANDS: &str = ".commands";
/// Remembers the last group that it was told; kills it when its input ends without an empty line,
/// that is when floodwall has died.
const GUARDIAN: &str = r#"group=; while read -r line; do group=$line; done; [ -z "$group" ] || kill -s KILL -- "-$group""#;

/// What a command is in its scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Victim,
    Flood,
}

/// A command that can be started.
#[derive(Clone, Debug)]
pub(crate) struct CommandLoad {
    command: String,
    user: Option<User>,
    /// Where it runs.
    cwd: Arc<Dir>,
    stdout: Arc<Output>,
    stderr: Arc<Output>,
    role: Role,
}

/// A file that a command writes to. It stays open, so that a command can't put another in its
/// place.
#[derive(Debug)]
struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    fn create(dir: &Dir, name: &str, user: Option<&User>) -> Result<Arc<Self>, LoadError> {
        let made = NamedFile::create(dir, name, OFlags::RDWR | OFlags::APPEND)?;
        if let Some(user) = user {
            // For commands that open /dev/stdout or /dev/stderr.
            let (uid, gid) = user.ids();
            fchown(&made.fd, Some(uid), Some(gid))
                .map_err(|e| made.failed("change the owner of", e))?;
        }
        Ok(Arc::new(Self { path: made.path, file: made.fd.into() }))
    }

    /// What a command gets, emptied.
    fn begin(&self) -> Result<Stdio, LoadError> {
        let begun = self.file.set_len(0).and_then(|()| self.file.try_clone());
        begun.map(Stdio::from).map_err(|e| LoadError::io("empty", &self.path, e))
    }
}

impl CommandLoad {
    /// A command that runs in `dir`, as the caller. Of another user the commands run in a directory
    /// of that user in `dir`. `own` is a directory for its output.
    pub(crate) fn new(
        command: &str,
        dir: &Dir,
        own: &Dir,
        role: Role,
        user: Option<&User>,
    ) -> Result<Self, LoadError> {
        let cwd = match user {
            Some(user) => directory_of(user, dir)?,
            None => dir.try_clone().map_err(|e| LoadError::io("open", dir.path(), e))?,
        };
        Ok(Self {
            command: command.into(),
            user: user.cloned(),
            cwd: Arc::new(cwd),
            stdout: Output::create(own, "stdout.log", user)?,
            stderr: Output::create(own, "stderr.log", user)?,
            role,
        })
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        vec![self.stdout.path.clone(), self.stderr.path.clone()]
    }

    fn spawn_error(&self, error: &std::io::Error) -> LoadError {
        LoadError::Spawn {
            command: self.command.clone(),
            errno: Errno::from_io_error(error).unwrap_or(Errno::IO),
        }
    }

    fn spawn(&self, guardian: &Guardian, cgroup: Option<&Arc<File>>) -> Result<Child, LoadError> {
        let mut shell = Command::new("/bin/sh");
        shell
            .arg("-c")
            .arg(&self.command)
            .stdin(Stdio::null())
            .stdout(self.stdout.begin()?)
            .stderr(self.stderr.begin()?);
        enter(&mut shell, Arc::clone(&self.cwd));
        if let Some(cgroup) = cgroup {
            join(&mut shell, Arc::clone(cgroup));
        }
        match &self.user {
            Some(user) => {
                leave_session(&mut shell);
                user.runs(&mut shell);
            }
            None => drop(shell.process_group(0)),
        }
        let pipe = guardian.pipe().map_err(|e| self.spawn_error(&e))?;
        // After the change of user, which takes the signal at the parent's death back (prctl(2)).
        die_with_floodwall(&mut shell, pipe);
        shell.spawn().map_err(|e| self.spawn_error(&e))
    }

    /// Why the command is a failure; `None` if it isn't.
    fn judge(&self, status: ExitStatus) -> Option<LoadError> {
        let outcome = match (status.code(), status.signal()) {
            (Some(0), _) => return None,
            (Some(126), _) => "exited with status 126 (can't be executed)".into(),
            (Some(127), _) => "exited with status 127 (not found)".into(),
            (Some(code), _) => format!("exited with status {code}"),
            (None, Some(signal)) => format!("was killed by signal {signal}"),
            (None, None) => "ended in a way that the kernel does not tell".into(),
        };
        let last_line = last_line(&self.stderr.file).or_else(|| last_line(&self.stdout.file));
        Some(LoadError::Command { command: self.command.clone(), outcome, last_line })
    }
}

/// The directory in `dir` in which a user's commands run, and that belongs to that user. It is made
/// for the first.
fn directory_of(user: &User, dir: &Dir) -> Result<Dir, LoadError> {
    let failed = |e| LoadError::io(MAKE_DIRECTORY, dir.path().join(COMMANDS), e);
    let own = match dir.make_dir(COMMANDS) {
        Err(Errno::EXIST) => return dir.open_dir(COMMANDS).map_err(failed),
        made => made.map_err(failed)?,
    };
    let (uid, gid) = user.ids();
    fchown(&own, Some(uid), Some(gid)).map_err(failed)?;
    // The user must get through `dir` to it by its path, and nothing else.
    fchmod(dir, Mode::RWXU | Mode::XGRP | Mode::XOTH).map_err(failed)?;
    Ok(own)
}

/// Makes a command begin in an open directory, whatever has become of its path.
#[expect(unsafe_code, reason = "code between fork and exec")]
fn enter(command: &mut Command, dir: Arc<Dir>) {
    // SAFETY: the closure makes one system call on an open descriptor, allocates nothing and takes
    // no lock.
    unsafe {
        command.pre_exec(move || rustix::process::fchdir(&*dir).map_err(std::io::Error::from));
    }
}

/// Makes a command begin in a control group, by its `cgroup.procs`.
#[expect(unsafe_code, reason = "code between fork and exec")]
fn join(command: &mut Command, cgroup: Arc<File>) {
    // SAFETY: the closure makes one system call on an open descriptor, allocates nothing and takes
    // no lock.
    unsafe {
        // 0 is the process that writes (kernel/cgroup/cgroup.c cgroup_procs_write_start).
        command.pre_exec(move || {
            rustix::io::write(&*cgroup, b"0").map(drop).map_err(std::io::Error::from)
        });
    }
}

/// Makes a command begin in another session, and so in another group. It has no terminal:
/// another user's command must not type into the caller's (TIOCSTI).
#[expect(unsafe_code, reason = "code between fork and exec")]
fn leave_session(command: &mut Command) {
    // SAFETY: the closure makes one system call, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(drop).map_err(std::io::Error::from));
    }
}

/// The shell tells the guardian its group before it becomes the command, so that there is always a
/// process that would end it. It gets SIGKILL itself when the thread that started it ends; that
/// thread ends first only if floodwall dies.
#[expect(unsafe_code, reason = "code between fork and exec")]
fn die_with_floodwall(command: &mut Command, guardian: OwnedFd) {
    let tell_and_tie = move || {
        // Ten digits and a line feed, written from the end: nothing may be allocated here.
        let mut line = [b'\n'; 11];
        let mut pid = rustix::process::getpid().as_raw_nonzero().get();
        let mut begin = line.len() - 1;
        while pid > 0 && begin > 0 {
            begin -= 1;
            line[begin] = b'0' + (pid % 10) as u8;
            pid /= 10;
        }
        // A guardian that is gone guards nothing; the load goes on.
        let _ = rustix::io::write(&guardian, &line[begin..]);
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(std::io::Error::from)
    };
    // SAFETY: the closure makes three system calls on its own stack and an open descriptor,
    // allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(tell_and_tie);
    }
}

/// The last line with something in it, made safe for a terminal: any program has written it.
fn last_line(file: &File) -> Option<String> {
    let len = file.metadata().ok()?.len();
    let tail = len.min(TAIL);
    let mut bytes = vec![0; tail as usize];
    file.read_exact_at(&mut bytes, len - tail).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(|line| printable(line).into_owned())
}

/// The process group of the current run.
#[derive(Debug, Default)]
struct Group {
    /// Its number, as long as its leader has not been waited for: till then the kernel does not
    /// use the number again.
    pid: Option<Pid>,
    meter: Meter,
}

#[derive(Debug)]
struct Shared {
    load: CommandLoad,
    /// `cgroup.procs` of the control group that it runs in; none for the caller's.
    cgroup: Option<Arc<File>>,
    proc_root: PathBuf,
    stop: AtomicBool,
    /// When the load was asked to stop.
    asked: OnceLock<Instant>,
    failure: OnceLock<LoadError>,
    group: Mutex<Group>,
    runs: AtomicU64,
    /// The kernel's number of the thread that starts the command, each time.
    supervisor: OnceLock<u32>,
}

impl Shared {
    /// Runs the command again and again. The first start is reported to `started`.
    fn supervise(&self, started: &SyncSender<Result<(), LoadError>>) {
        let _ = self.supervisor.set(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
        let mut guardian = match Guardian::spawn().map_err(|e| self.load.spawn_error(&e)) {
            Ok(guardian) => guardian,
            Err(error) => {
                let _ = started.send(Err(error));
                return;
            }
        };
        let mut first = Some(started);
        while !self.stop.load(Ordering::Relaxed) {
            let child = match self.load.spawn(&guardian, self.cgroup.as_ref()) {
                Ok(child) => child,
                Err(error) => {
                    match first.take() {
                        Some(started) => drop(started.send(Err(error))),
                        None => drop(self.failure.set(error)),
                    }
                    break;
                }
            };
            let ended = self.one_run(child, &mut guardian, || {
                if let Some(started) = first.take() {
                    let _ = started.send(Ok(()));
                }
            });
            let failure = match ended {
                _ if self.stop.load(Ordering::Relaxed) => ended.err(),
                Ok(status) => self.load.judge(status),
                Err(error) => Some(error),
            };
            if let Some(failure) = failure {
                let _ = self.failure.set(failure);
                break;
            }
            if !self.stop.load(Ordering::Relaxed) {
                self.runs.fetch_add(1, Ordering::Relaxed);
            }
        }
        guardian.dismiss();
    }

    /// One run from start to the end of its last process.
    fn one_run(
        &self,
        mut child: Child,
        guardian: &mut Guardian,
        started: impl FnOnce(),
    ) -> Result<ExitStatus, LoadError> {
        let pid = Pid::from_child(&child);
        lock(&self.group).pid = Some(pid);
        started();
        if self.stop.load(Ordering::Relaxed) {
            // The caller did not know the group yet.
            let _ = kill_process_group(pid, Signal::TERM);
        }
        // The shell stays a zombie, whose counters can be read and whose number is not used again.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let waited = retry(|| waitid(WaitId::Pid(pid), options));
        self.observe(&mut lock(&self.group));
        let survivors = self.end_group(pid);
        {
            let mut group = lock(&self.group);
            self.observe(&mut group);
            group.meter.end_run();
            group.pid = None;
        }
        guardian.forget();
        let status = child.wait().map_err(|e| self.load.spawn_error(&e));
        waited.map_err(|e| self.load.spawn_error(&e.into()))?;
        survivors?;
        status
    }

    /// Reads the group's counters. A group that can't be counted is a failure: its zeros would look
    /// like a stalled victim.
    fn observe(&self, group: &mut Group) {
        let Some(pid) = group.pid else { return };
        match read_io(&self.proc_root, pid, &mut group.meter.known) {
            Ok(io) => group.meter.observe(io),
            Err(unreadable) => {
                let _ = self.failure.set(LoadError::NoAccounting {
                    command: self.load.command.clone(),
                    path: unreadable.path,
                    errno: unreadable.errno,
                });
            }
        }
    }

    /// Ends the rest of a group whose leader has ended: SIGTERM, time, SIGKILL, more time.
    fn end_group(&self, pid: Pid) -> Result<(), LoadError> {
        let mut pause = Duration::from_micros(100);
        for (signal, patience) in [(Signal::TERM, GRACE), (Signal::KILL, SURVIVAL)] {
            let begin = Instant::now();
            let mut sent = false;
            loop {
                let left = members(&self.proc_root, pid).unwrap_or_default();
                let left: Vec<_> = left.into_iter().filter(|m| !m.zombie).collect();
                if left.is_empty() {
                    return Ok(());
                }
                if !sent {
                    let _ = kill_process_group(pid, signal);
                    sent = true;
                }
                if begin.elapsed() >= patience {
                    if signal == Signal::TERM {
                        break;
                    }
                    let pids: Vec<_> = left.iter().map(|m| m.pid.to_string()).collect();
                    return Err(LoadError::Survivors {
                        command: self.load.command.clone(),
                        seconds: SURVIVAL.as_secs(),
                        pids: pids.join(", "),
                    });
                }
                thread::sleep(pause);
                pause = (pause * 2).min(POLL);
            }
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = lock(&self.group).pid {
            // It may just have ended.
            let _ = kill_process_group(pid, signal);
        }
    }
}

/// Kills the command's group if floodwall dies without a chance to.
struct Guardian {
    shell: Child,
}

impl Guardian {
    fn spawn() -> std::io::Result<Self> {
        let shell = Command::new("/bin/sh")
            .arg("-c")
            .arg(GUARDIAN)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Out of reach of the signals that a terminal sends to floodwall's group.
            .process_group(0)
            .spawn()?;
        Ok(Self { shell })
    }

    /// Where it is told the group that it has to watch: a line with its number.
    fn pipe(&self) -> std::io::Result<OwnedFd> {
        let pipe = self.shell.stdin.as_ref().ok_or(std::io::ErrorKind::BrokenPipe)?;
        pipe.as_fd().try_clone_to_owned()
    }

    /// The group is gone; its number may be used again.
    fn forget(&mut self) {
        if let Some(pipe) = &mut self.shell.stdin {
            let _ = pipe.write_all(b"\n");
        }
    }

    fn dismiss(mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// A command that runs.
#[derive(Debug)]
pub(crate) struct CommandRun {
    shared: Arc<Shared>,
    supervisor: Option<JoinHandle<()>>,
    begin: Instant,
    /// The counts that were returned so far.
    sampled: Io,
}

impl CommandRun {
    pub(crate) fn begin(&self) -> Instant {
        self.begin
    }

    pub(crate) fn supervisor(&self) -> Option<u32> {
        self.shared.supervisor.get().copied()
    }

    pub(crate) fn sample(&mut self) -> Delta {
        let total = {
            let mut group = lock(&self.shared.group);
            self.shared.observe(&mut group);
            group.meter.total()
        };
        let new = total.since(self.sampled);
        self.sampled = total;
        let bytes = match self.shared.load.role {
            Role::Victim => new.read + new.written,
            Role::Flood => new.written,
        };
        Delta { ops: new.calls, bytes, latencies: OpLatencies::default() }
    }

    pub(crate) fn failure(&self) -> Option<LoadError> {
        self.shared.failure.get().cloned()
    }

    pub(crate) fn ask_to_stop(&self) {
        if self.shared.asked.set(Instant::now()).is_ok() {
            self.shared.stop.store(true, Ordering::Relaxed);
            self.shared.signal(Signal::TERM);
        }
    }

    pub(crate) fn finish(&mut self) -> Finished {
        self.end();
        Finished {
            last: self.sample(),
            command_runs: Some(self.shared.runs.load(Ordering::Relaxed)),
            failure: self.failure(),
            ..Finished::default()
        }
    }

    fn end(&mut self) {
        self.ask_to_stop();
        let Some(supervisor) = self.supervisor.take() else { return };
        let asked = self.shared.asked.get().copied().unwrap_or_else(Instant::now);
        let mut pause = Duration::from_micros(100);
        while !supervisor.is_finished() {
            if asked.elapsed() >= GRACE {
                self.shared.signal(Signal::KILL);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(POLL);
        }
        if supervisor.join().is_err() {
            let _ = self.shared.failure.set(LoadError::Panicked);
        }
    }
}

impl Drop for CommandRun {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_last_with_something_in_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(last_line(file.as_file()), None);
        file.as_file().write_all(b"first\nno such database\n\n  \n").unwrap();
        assert_eq!(last_line(file.as_file()).as_deref(), Some("no such database"));
        file.as_file().write_all(b"\x1b]0;root\x07 \xe2\x80\xae\n").unwrap();
        assert_eq!(last_line(file.as_file()).as_deref(), Some(r"\u{1b}]0;root\u{7} \u{202e}"));
    }

    #[test]
    fn outcomes_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let dir = Dir::open(dir.path()).unwrap();
        let load = CommandLoad::new("x", &dir, &dir, Role::Flood, None).unwrap();
        assert_eq!(load.judge(ExitStatus::from_raw(0)), None);
        for (raw, part) in
            [(127 << 8, "status 127 (not found)"), (3 << 8, "status 3"), (9, "killed by signal 9")]
        {
            let message = load.judge(ExitStatus::from_raw(raw)).unwrap().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
