//! A tool's run in a process of its own, in the place of a benchmark's victims.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;

use floodwall_bench::tool::Tool;
use floodwall_load::Delta;
use floodwall_load::apart::Counters;
use floodwall_model::PhaseKind;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};

use crate::output::notice;

/// A tool's runs, one after another.
#[derive(Debug)]
pub(super) struct Runs {
    name: String,
    /// All words behind `compat`.
    words: Vec<OsString>,
    /// Whether a run beside the flood may be the one whose output is passed on.
    counts: Rc<Cell<bool>>,
    last: Last,
    running: Option<Running>,
}

/// The output of the last run that counts.
pub(super) type Last = Rc<RefCell<Option<Output>>>;

/// The output of a run.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) stdout: File,
    pub(super) stderr: File,
}

#[derive(Debug)]
struct Running {
    child: Child,
    /// Its output is passed on, if it ends well.
    is_last: bool,
    /// `None` once it has ended.
    output: Option<Output>,
    counters: OwnedFd,
    sampled: Counters,
}

impl Runs {
    pub(super) fn new(name: &str, words: Vec<OsString>, counts: Rc<Cell<bool>>) -> (Self, Last) {
        let last = Last::default();
        let of_last = Rc::clone(&last);
        (Self { name: name.to_owned(), words, counts, last, running: None }, of_last)
    }

    /// The run that has ended: its output is kept, or said if it failed.
    fn ended(&mut self, status: ExitStatus) -> Result<(), String> {
        let running = self.running.as_mut();
        let is_last = running.as_ref().is_some_and(|running| running.is_last);
        let Some(mut output) = running.and_then(|running| running.output.take()) else {
            return Ok(());
        };
        if status.success() {
            if is_last {
                *self.last.borrow_mut() = Some(output);
            }
            return Ok(());
        }
        for text in [&mut output.stdout, &mut output.stderr] {
            let text = read(text).unwrap_or_default();
            String::from_utf8_lossy(&text).lines().for_each(notice);
        }
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with status {code}"),
            (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
        };
        Err(format!("{} {how}", self.name))
    }
}

/// All that was printed.
pub(super) fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file in memory.
fn memory() -> io::Result<OwnedFd> {
    Ok(memfd_create("floodwall", MemfdFlags::CLOEXEC)?)
}

impl Tool for Runs {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&mut self, kind: PhaseKind) -> io::Result<()> {
        let output = Output { stdout: memory()?.into(), stderr: memory()?.into() };
        let counters = memory()?;
        Counters::default().write(&counters)?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["compat", "--counters"]);
        command.arg(format!("/proc/self/fd/{}", counters.as_raw_fd())).args(&self.words);
        command.stdin(Stdio::null());
        command.stdout(output.stdout.try_clone()?).stderr(output.stderr.try_clone()?);
        // Ctrl-C is this process's to answer.
        command.process_group(0);
        // Inherited by this child alone: no other one is started meanwhile.
        fcntl_setfd(&counters, FdFlags::empty())?;
        let child = command.spawn();
        fcntl_setfd(counters.as_fd(), FdFlags::CLOEXEC)?;
        let is_last = kind == PhaseKind::Both && self.counts.get();
        let (output, sampled) = (Some(output), Counters::default());
        self.running = Some(Running { child: child?, is_last, output, counters, sampled });
        Ok(())
    }

    fn sample(&mut self) -> Delta {
        let Some(running) = &mut self.running else { return Delta::default() };
        let now = Counters::read(&running.counters).unwrap_or(running.sampled);
        now.since(std::mem::replace(&mut running.sampled, now))
    }

    fn has_ended(&mut self) -> Option<Result<(), String>> {
        match self.running.as_mut()?.child.try_wait() {
            Ok(status) => status.map(|status| self.ended(status)),
            Err(error) => Some(Err(format!("can't wait for {}: {error}", self.name))),
        }
    }

    fn stop(&mut self) {
        let Some(Running { mut child, output, .. }) = self.running.take() else { return };
        if output.is_some()
            && let Some(pid) = Pid::from_raw(child.id().cast_signed())
        {
            // It may have ended.
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = child.wait();
    }
}
