//! A command that runs: started again and again, counted, ended.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use floodwall_model::trial::OpLatencies;
use floodwall_stats::recorder::Delta;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::group::{Io, Meter, members, read_io};
use super::guardian::Guardian;
use super::load::{CommandLoad, Role};
use crate::error::LoadError;
use crate::file::retry;
use crate::finished::Finished;
use crate::lock::lock;

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// How long processes are waited for after SIGKILL. They end when the I/O is done that they wait
/// for in the kernel.
const SURVIVAL: Duration = Duration::from_secs(300);
/// How often an ending group is looked at.
const POLL: Duration = Duration::from_millis(10);

/// The process group of the current run.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Its number, as long as its leader has not been waited for: till then the kernel does not
    /// use the number again.
    pid: Option<Pid>,
    meter: Meter,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) load: CommandLoad,
    /// `cgroup.procs` of the control group that it runs in; none for the caller's.
    pub(super) cgroup: Option<Arc<File>>,
    pub(super) proc_root: PathBuf,
    pub(super) stop: AtomicBool,
    /// When the load was asked to stop.
    pub(super) asked: OnceLock<Instant>,
    pub(super) failure: OnceLock<LoadError>,
    pub(super) group: Mutex<Group>,
    pub(super) runs: AtomicU64,
    /// The kernel's number of the thread that starts the command, each time.
    pub(super) supervisor: OnceLock<u32>,
}

impl Shared {
    /// Runs the command again and again. The first start is reported to `started`.
    pub(super) fn supervise(&self, started: &SyncSender<Result<(), LoadError>>) {
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

/// A command that runs.
#[derive(Debug)]
pub(crate) struct CommandRun {
    pub(super) shared: Arc<Shared>,
    pub(super) supervisor: Option<JoinHandle<()>>,
    pub(super) begin: Instant,
    /// The counts that were returned so far.
    pub(super) sampled: Io,
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
