//! The worker as the supervisor's child process, and the orders to it.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus};
use std::time::Instant;

use rustix::process::{Pid, Signal};

use crate::pipe::{self, Order};

/// A running worker.
pub(super) struct Worker {
    pub(super) child: Child,
    pub(super) stdin: Option<ChildStdin>,
    /// Of the last sign, or of the start.
    pub(super) heard: Instant,
    pub(super) ready: bool,
    /// It ends by itself.
    pub(super) ending: bool,
}

/// How a worker ended.
pub(super) enum WorkerEnd {
    /// By itself or killed by another process.
    Died(ExitStatus),
    /// It hung, and was killed.
    Hung,
    /// The supervisor told it to stop. No status: it was then killed, and the kernel does not let
    /// it go.
    Stopped(Option<ExitStatus>),
}

/// This very program, even if a package's upgrade has replaced its file: then it has no path any
/// more (proc_pid_exe(5)). Parent and worker must speak the same protocol.
pub(super) fn this_program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("floodwall");
    command
}

impl Worker {
    /// Tells it something; one that is gone is noticed elsewhere.
    pub(super) fn order(&mut self, order: &Order) {
        if let (Some(stdin), Ok(line)) = (&mut self.stdin, pipe::line(order)) {
            let _ = stdin.write_all(&line);
        }
    }

    /// No other process has its number until it has been waited for.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), signal);
    }
}
