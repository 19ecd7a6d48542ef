//! Floods in separate processes, so that they can have another control group and priority.
//!
//! ```text
//! this process                                   floodwall, hidden command
//!   files: made, discarded                         inherits their descriptors
//!   spawn ─▶ into the group ─▶ order (a line) ──▶  threads begin ──▶ "begun" or why not
//!   sample: reads the counters   ◀── memory ────   writes the counters, every 10 ms
//!   end of the pipe ───────────────────────────▶   threads end ──▶ how it ended (a line)
//! ```
//!
//! The counters are in a file in memory (memfd_create(2)) whose page this process has filled. So a
//! process throttled by its group's memory limit can still write them without allocating. The pipe
//! also ends when this process dies, and the flood with it.
//!
//! Files are reached through inherited descriptors, never by a path. So the content of `/proc` does
//! not matter.

mod child;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use floodwall_stats::recorder::Delta;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::LoadError;
use crate::finished::Finished;
use crate::flood::order::Order;
use crate::lock::lock;

pub use child::serve;

/// The start of floods in separate processes.
#[derive(Clone, Debug)]
pub struct Apart {
    /// The program and its arguments; it calls [`serve`].
    pub command: Vec<PathBuf>,
    /// `cgroup.procs` of the group that they are put into, open for writing; none if they stay in
    /// the caller's.
    pub group: Option<Arc<File>>,
}

/// What a load in another process has done since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Operations.
    pub ops: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Counters {
    /// Bytes of the file that holds them.
    const LEN: usize = 16;

    fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.ops.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.bytes.to_ne_bytes());
        bytes
    }

    fn of_bytes(bytes: [u8; Self::LEN]) -> Self {
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(number)
        };
        Self { ops: number(0), bytes: number(8) }
    }

    /// Writes them into the file that holds them.
    ///
    /// # Errors
    /// Those of pwrite(2).
    pub fn write(self, file: impl AsFd) -> Result<(), Errno> {
        rustix::io::pwrite(file, &self.to_bytes(), 0).map(drop)
    }

    /// Reads them there.
    ///
    /// # Errors
    /// Those of pread(2).
    pub fn read(file: impl AsFd) -> Result<Self, Errno> {
        let mut bytes = [0; Self::LEN];
        rustix::io::pread(file, &mut bytes, 0).map(|_| Self::of_bytes(bytes))
    }

    /// The growth from earlier ones on.
    #[must_use]
    pub fn since(self, before: Self) -> Delta {
        Delta {
            ops: self.ops.saturating_sub(before.ops),
            bytes: self.bytes.saturating_sub(before.bytes),
            ..Delta::default()
        }
    }
}

/// The order to a flood's process: its first line of input.
#[derive(Debug, Serialize, Deserialize)]
struct Begin {
    flood: Order,
    /// The descriptor of the counters.
    counters: RawFd,
}

/// What the process says: once when its threads have begun, or have not; once when they have ended.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Said {
    /// Why it failed, in words.
    failure: Option<String>,
    /// CPU time of its threads, in microseconds; none if it is not known.
    cpu_us: Option<u64>,
}

/// A flood that runs in a separate process. Dropping it ends it and waits for it.
#[derive(Debug)]
pub(crate) struct FloodProcess {
    child: Child,
    input: Option<ChildStdin>,
    output: Mutex<BufReader<ChildStdout>>,
    counters: OwnedFd,
    sampled: Counters,
    begin: Instant,
    /// Why it ended before it was asked to.
    failure: OnceLock<LoadError>,
}

/// Lets a command's process inherit descriptors. They are open until it is spawned.
#[expect(unsafe_code, reason = "code between fork and exec")]
fn inherit(command: &mut Command, descriptors: Vec<RawFd>) {
    let keep = move || {
        for fd in &descriptors {
            // SAFETY: the call takes numbers alone; a number that is not open is an error.
            if unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls on open descriptors, allocates nothing and takes no
    // lock.
    unsafe {
        command.pre_exec(keep);
    }
}

fn failed(what: &'static str, error: impl Into<std::io::Error>) -> LoadError {
    let errno = Errno::from_io_error(&error.into()).unwrap_or(Errno::IO);
    LoadError::Apart { what: format!("can't {what}: {errno}") }
}

impl FloodProcess {
    pub(crate) fn start(apart: &Apart, flood: Order) -> Result<Self, LoadError> {
        let (program, arguments) =
            apart.command.split_first().ok_or_else(|| failed("start it", Errno::NOENT))?;
        let counters = memfd_create("floodwall", MemfdFlags::CLOEXEC)
            .map_err(|e| failed("make its counters", e))?;
        Counters::default().write(&counters).map_err(|e| failed("make its counters", e))?;
        let mut command = Command::new(program);
        // Ctrl-C is the caller's to answer.
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut descriptors = flood.descriptors();
        descriptors.push(counters.as_raw_fd());
        inherit(&mut command, descriptors);
        let mut child = command.spawn().map_err(|e| failed("start it", e))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("start it", Errno::PIPE));
        };
        let mut process = Self {
            child,
            input: Some(input),
            output: Mutex::new(BufReader::new(output)),
            counters,
            sampled: Counters::default(),
            begin: Instant::now(),
            failure: OnceLock::new(),
        };
        // It has allocated nothing for the flood yet: all that it dirties is its group's.
        if let Some(mut group) = apart.group.as_deref() {
            // Kernel files take a value in one write(2).
            let moved = group.write_all(process.child.id().to_string().as_bytes());
            moved.map_err(|e| failed("put it into its control group", e))?;
        }
        let order = Begin { flood, counters: process.counters.as_raw_fd() };
        process.tell(&order).map_err(|e| failed("give it its order", e))?;
        match process.listen() {
            Some(Said { failure: None, .. }) => {
                process.begin = Instant::now();
                Ok(process)
            }
            Some(Said { failure: Some(what), .. }) => Err(LoadError::Apart { what }),
            None => Err(process.ended()),
        }
    }

    fn tell(&mut self, order: &Begin) -> std::io::Result<()> {
        let line = serde_json::to_string(order)?;
        match &mut self.input {
            Some(input) => writeln!(input, "{line}"),
            None => Ok(()),
        }
    }

    /// The next line of its output; `None` without one.
    fn listen(&self) -> Option<Said> {
        let mut line = String::new();
        lock(&self.output).read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// Why it ended without a word.
    fn ended(&mut self) -> LoadError {
        let _ = self.child.kill();
        let how = self.child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
        LoadError::Apart { what: format!("it exited early ({how})") }
    }

    pub(crate) fn begin(&self) -> Instant {
        self.begin
    }

    pub(crate) fn sample(&mut self) -> Delta {
        let now = Counters::read(&self.counters).unwrap_or(self.sampled);
        now.since(std::mem::replace(&mut self.sampled, now))
    }

    /// Why it ended before it was asked to, once it has.
    pub(crate) fn failure(&self) -> Option<LoadError> {
        if self.failure.get().is_none()
            && let Some(how) = end_of(&self.child)
        {
            // Its last words are there already: nothing is waited for.
            let said = self.listen().and_then(|said| said.failure);
            let what = said.unwrap_or_else(|| format!("it exited early ({how})"));
            let _ = self.failure.set(LoadError::Apart { what });
        }
        self.failure.get().cloned()
    }

    /// Closes its input, at which it ends.
    pub(crate) fn ask_to_stop(&mut self) {
        self.input = None;
    }

    pub(crate) fn finish(&mut self) -> Finished {
        self.ask_to_stop();
        let said = if self.failure.get().is_none() { self.listen() } else { None };
        let (cpu_us, failure) = match (self.failure.get().cloned(), said) {
            (Some(failure), _) => (None, Some(failure)),
            (None, Some(Said { failure, cpu_us })) => {
                (cpu_us, failure.map(|what| LoadError::Apart { what }))
            }
            (None, None) => (None, Some(self.ended())),
        };
        let _ = self.child.wait();
        let last = self.sample();
        Finished { last, cpu_us, failure, ..Finished::default() }
    }
}

/// How a child has ended, which is not waited for here; `None` while it runs.
fn end_of(child: &Child) -> Option<String> {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw)?;
    let status = waitid(WaitId::Pid(pid), options).ok()??;
    Some(match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit status: {code}"),
        (None, Some(signal)) => format!("signal: {signal}"),
        (None, None) => "how is not known".to_owned(),
    })
}

impl Drop for FloodProcess {
    fn drop(&mut self) {
        self.ask_to_stop();
        let _ = self.child.wait();
    }
}

/// The group's file that takes processes, opened.
///
/// # Errors
/// That of open(2).
pub fn open_group(directory: &Path) -> std::io::Result<Arc<File>> {
    File::options().write(true).open(directory.join("cgroup.procs")).map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_as_they_were_written() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        let counters = Counters { ops: 3, bytes: u64::MAX - 1 };
        counters.write(&file).unwrap();
        assert_eq!(Counters::read(&file), Ok(counters));
    }

    #[test]
    fn a_program_that_is_none_is_said() {
        let apart = Apart { command: vec!["/nowhere/floodwall".into()], group: None };
        let error =
            FloodProcess::start(&apart, Order::default()).map(drop).unwrap_err().to_string();
        assert!(error.contains("can't start it") && error.contains("No such file"), "{error}");
        let apart = Apart { command: vec!["/bin/true".into()], group: None };
        let error =
            FloodProcess::start(&apart, Order::default()).map(drop).unwrap_err().to_string();
        assert!(error.contains("exited early") || error.contains("order"), "{error}");
    }
}
