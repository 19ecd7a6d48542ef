//! The worker's start, and its end when it hangs.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::child::{Worker, WorkerEnd, this_program};
use super::{Event, HANG, NAP, Supervisor};
use crate::error::{DaemonError, Doing};
use crate::log::Priority;
use crate::pipe::{Begin, Order, Pause};
use crate::worker;

impl Supervisor<'_> {
    pub(super) fn start(&mut self) -> Result<Worker, DaemonError> {
        self.stuck.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        let mut child = this_program()
            .arg(worker::COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // systemd's variables are for the supervisor.
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .env_remove("WATCHDOG_PID")
            // A terminal's Ctrl-C is for us.
            .process_group(0)
            .spawn()
            .doing(|| "can't start the worker".into())?;
        if let Some(out) = child.stdout.take() {
            let (sender, pid) = (self.sender.clone(), child.id());
            thread::spawn(move || {
                for line in BufReader::new(out).lines() {
                    let Ok(line) = line else { break };
                    if let Ok(sign) = serde_json::from_str(&line) {
                        let _ = sender.send(Event::Sign(pid, sign));
                    }
                }
                let _ = sender.send(Event::Gone(pid));
            });
        }
        let stdin = child.stdin.take();
        let mut worker =
            Worker { child, stdin, heard: Instant::now(), ready: false, ending: false };
        let paused = match self.pause {
            None => Pause::None,
            Some((Pause::For(time), since)) => match time.checked_sub(since.elapsed()) {
                Some(left) if !left.is_zero() => Pause::For(left),
                _ => Pause::None,
            },
            Some((pause, _)) => pause,
        };
        let begin = Begin {
            settings: self.settings.clone(),
            age: self.started.elapsed(),
            parent_pid: std::process::id(),
            restarts: self.restarts,
            paused,
        };
        worker.order(&Order::Begin(Box::new(begin)));
        Ok(worker)
    }

    /// Ends a worker that hangs.
    pub(super) fn kill(&mut self, worker: &mut Worker) -> WorkerEnd {
        worker.signal(Signal::KILL);
        let status = self.wait_for(&mut worker.child, HANG);
        if status.is_none() {
            self.log.say(
                Priority::Warning,
                "the worker was killed and still waits in the kernel; what it held is put back \
                 without waiting for its end",
            );
        }
        if self.stopping { WorkerEnd::Stopped(status) } else { WorkerEnd::Hung }
    }

    /// Waits for a process's end and handles signals meanwhile. `None` if it has not ended by then:
    /// a process blocked in the kernel may never end.
    pub(super) fn wait_for(&mut self, child: &mut Child, patience: Duration) -> Option<ExitStatus> {
        let begin = Instant::now();
        loop {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(status);
            }
            if begin.elapsed() >= patience {
                return None;
            }
            self.nap();
        }
    }

    /// Lets a moment pass in a wait for a process, in which signals are handled.
    pub(super) fn nap(&mut self) {
        self.notifier.alive();
        match self.events.recv_timeout(NAP) {
            Ok(Event::Signal(SIGINT | SIGTERM)) => self.stopping = true,
            Err(RecvTimeoutError::Disconnected) => thread::sleep(NAP),
            _ => {}
        }
    }

    /// A worker that was killed and did not end is waited for later, so that it does not stay in
    /// the list of processes when it has. Its threads that wait in the kernel keep its socket open,
    /// too, which the next worker would take for another guard's.
    pub(super) fn keep_stuck(&mut self, mut worker: Worker) {
        if let Ok(None) = worker.child.try_wait() {
            if worker.ready {
                let _ = std::fs::remove_file(&self.settings.socket);
            }
            self.stuck.push(worker.child);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc;

    use super::*;
    use crate::config::{Flags, Settings};
    use crate::log::Log;

    #[test]
    fn a_process_that_does_not_end_is_not_waited_for_and_forgotten_once_it_has() {
        let args = Flags { sim: Some("hdd-7200".into()), ..Flags::default() };
        let (sender, events) = mpsc::channel();
        let settings = Settings::read(&args).unwrap();
        let mut supervisor = Supervisor::new(&args, settings, Log::open(), (sender, events));
        // In the place of one that the kernel does not let go: it was sent no signal.
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        assert_eq!(supervisor.wait_for(&mut child, Duration::from_millis(10)), None);
        let mut worker =
            Worker { child, stdin: None, heard: Instant::now(), ready: false, ending: false };
        assert_eq!(worker.child.try_wait().unwrap(), None);
        supervisor.keep_stuck(worker);
        assert_eq!(supervisor.stuck.len(), 1);
        let mut child = supervisor.stuck.remove(0);
        child.kill().unwrap();
        assert!(supervisor.wait_for(&mut child, Duration::from_secs(60)).is_some());
        worker = Worker { child, stdin: None, heard: Instant::now(), ready: false, ending: false };
        supervisor.keep_stuck(worker);
        assert!(supervisor.stuck.is_empty());
    }
}
