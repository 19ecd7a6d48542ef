//! Stops all processes of a command for a moment.
//!
//! Parents are stopped before their children and continued after them, so a shell with job control
//! never sees a stopped child. A process that is stopped already is left alone.
//!
//! A watchdog ends a stop that lasts too long: a system call of the pacing thread may wait for a
//! process that is stopped, such as the server of a FUSE filesystem.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgid, getpgrp, kill_process};

use super::guardian::Guardian;
use super::sys::default_effect;
use super::tree::{Id, Tree};

/// Rounds of a stop, at most. Each finds the children that were made in the round before. A command
/// that needs more forks faster than it can be stopped.
const MOST_ROUNDS: u32 = 100;
/// The watchdog ends a stop after this time, which is longer than any that the pacing thread ends.
const OVERDUE: Duration = Duration::from_millis(2500);
/// Time between two looks of the watchdog.
const WATCH: Duration = Duration::from_millis(250);

/// Stops and continues the processes of a command.
#[derive(Debug)]
pub(super) struct Hold {
    tree: Tree,
    /// Without a guardian no process is ever stopped.
    guardian: Option<Guardian>,
    /// In the order in which they were stopped.
    stopped: Vec<Id>,
    since: Option<Instant>,
    /// Sum of the stops before this one.
    before: Duration,
}

/// Locks a hold that the watchdog shares.
pub(super) fn lock(hold: &Mutex<Hold>) -> MutexGuard<'_, Hold> {
    hold.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The watchdog: continues a command that is stopped for too long, and when `ended` is closed.
pub(super) fn watch(hold: &Mutex<Hold>, ended: &Receiver<()>) {
    while matches!(ended.recv_timeout(WATCH), Err(RecvTimeoutError::Timeout)) {
        let mut hold = lock(hold);
        if hold.elapsed().is_some_and(|elapsed| elapsed >= OVERDUE) {
            hold.release();
        }
    }
    lock(hold).release();
}

impl Hold {
    pub(super) fn new(tree: &Tree, guardian: Option<Guardian>) -> Self {
        let (stopped, before) = (Vec::new(), Duration::ZERO);
        Self { tree: tree.clone(), guardian, stopped, since: None, before }
    }

    pub(super) fn is_guarded(&self) -> bool {
        self.guardian.is_some()
    }

    /// How long the command has been stopped, if it is.
    pub(super) fn elapsed(&self) -> Option<Duration> {
        self.since.map(|since| since.elapsed())
    }

    /// How long it was stopped in all.
    pub(super) fn total(&self) -> Duration {
        self.before + self.elapsed().unwrap_or_default()
    }

    /// Stops all processes that run, also new ones since the last call.
    pub(super) fn stop(&mut self) {
        let Some(guardian) = &mut self.guardian else { return };
        let mut tried: BTreeSet<Id> = self.stopped.iter().copied().collect();
        for _ in 0..MOST_ROUNDS {
            let mut found: Vec<Id> = Vec::new();
            for process in self.tree.processes() {
                let runs = !process.is_stopped() && !process.has_ended();
                if runs && tried.insert(process.id) {
                    found.push(process.id);
                }
            }
            if found.is_empty() {
                break;
            }
            let pids: Vec<i32> = found.iter().map(|id| id.pid).collect();
            if guardian.hold(&pids).is_err() {
                // No guardian would continue them if this process died.
                self.guardian = None;
                self.release();
                return;
            }
            self.since.get_or_insert_with(Instant::now);
            // A process of another user can't be stopped (EPERM), and one may have ended.
            self.stopped.extend(found.into_iter().filter(|id| signal(*id, Signal::STOP)));
        }
    }

    /// Continues the stopped processes.
    pub(super) fn release(&mut self) {
        let Some(since) = self.since.take() else { return };
        for id in self.stopped.drain(..).rev() {
            if !self.tree.is_gone(id) {
                signal(id, Signal::CONT);
            }
        }
        self.before += since.elapsed();
        if let Some(guardian) = &mut self.guardian
            && guardian.run().is_err()
        {
            self.guardian = None;
        }
    }

    /// Continues the stopped processes, and does what SIGTSTP does by default: this process is
    /// stopped until it gets SIGCONT.
    ///
    /// A terminal has sent SIGTSTP to the command as well, and SIGCONT discards it (signal(7)). So
    /// the processes of this group get it again. They go on with this process at the latest.
    pub(super) fn suspend(&mut self) {
        let group = getpgrp();
        let is_ours = |id: &Id| pid(*id).is_some_and(|pid| getpgid(Some(pid)) == Ok(group));
        let stopped: Vec<Id> = self.stopped.iter().copied().filter(is_ours).collect();
        self.release();
        for id in stopped.iter().filter(|id| !self.tree.is_gone(**id)) {
            signal(*id, Signal::TSTP);
        }
        default_effect(libc::SIGTSTP);
        for id in stopped.iter().rev().filter(|id| !self.tree.is_gone(**id)) {
            signal(*id, Signal::CONT);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
        if let Some(guardian) = self.guardian.take() {
            guardian.dismiss();
        }
    }
}

fn pid(id: Id) -> Option<Pid> {
    Pid::from_raw(id.pid)
}

fn signal(id: Id, signal: Signal) -> bool {
    pid(id).is_some_and(|pid| kill_process(pid, signal).is_ok())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc::channel;
    use std::thread;

    use floodwall_host::SysRoot;
    use floodwall_testing::until;

    use super::*;
    use crate::command::tree::testing::process;

    /// A shell that waits until it is told to go on, and the processes below it.
    struct Shell {
        child: Child,
        tree: Tree,
    }

    impl Shell {
        fn new(script: &str) -> Self {
            let script = format!("read -r go; {script}");
            let mut shell = Command::new("/bin/sh");
            let child = shell.arg("-c").arg(script).stdin(Stdio::piped()).spawn().unwrap();
            let tree = Tree::below(&SysRoot::live().unwrap(), child.id().cast_signed());
            Self { child, tree }
        }

        fn go(&mut self) {
            drop(self.child.stdin.take());
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            let processes = self.tree.processes();
            let _ = self.child.kill();
            for process in processes {
                signal(process.id, Signal::KILL);
            }
            let _ = self.child.wait();
        }
    }

    fn count(tree: &Tree, stopped: bool) -> usize {
        tree.processes().iter().filter(|process| process.is_stopped() == stopped).count()
    }

    #[test]
    fn all_are_stopped_but_those_that_were_and_continued_again() {
        let mut shell = Shell::new("sleep 1000 & sleep 1000 & sleep 1000 & wait");
        shell.go();
        let tree = &shell.tree;
        let patience = Duration::from_secs(20);
        until(patience, "three children", || tree.processes().len() == 3).unwrap();
        let first = tree.processes()[0].id;
        assert!(signal(first, Signal::STOP));
        until(patience, "one is stopped", || count(tree, true) == 1).unwrap();
        let mut hold = Hold::new(tree, Some(Guardian::spawn().unwrap()));
        assert!(hold.is_guarded() && hold.elapsed().is_none());
        hold.stop();
        until(patience, "all are stopped", || count(tree, true) == 3).unwrap();
        assert!(hold.elapsed().is_some());
        hold.release();
        until(patience, "two go on", || count(tree, false) == 2).unwrap();
        assert!(tree.processes().iter().any(|p| p.id == first && p.is_stopped()));
        assert!(hold.elapsed().is_none() && hold.total() > Duration::ZERO);
        // Its end is a release.
        hold.stop();
        drop(hold);
        until(patience, "two go on", || count(tree, false) == 2).unwrap();
    }

    #[test]
    fn a_process_goes_on_though_its_state_can_not_be_read() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let number = child.id().cast_signed();
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 1, 0, 'S', "");
        let tree = Tree::below(&SysRoot::new(dir.path()).unwrap(), 1);
        process(dir.path(), 1, 0, 'S', &format!("{number} "));
        process(dir.path(), number, 1, 'S', "");
        let state = || fs::read_to_string(format!("/proc/{number}/stat")).unwrap();
        let is_stopped = || state().contains(") T ");
        let mut hold = Hold::new(&tree, Some(Guardian::spawn().unwrap()));
        hold.stop();
        let patience = Duration::from_secs(20);
        let stopped = until(patience, "it is stopped", is_stopped);
        // EISDIR, in place of EMFILE.
        let stat = dir.path().join(format!("proc/{number}/stat"));
        fs::remove_file(&stat).unwrap();
        fs::create_dir(&stat).unwrap();
        hold.release();
        let runs = until(patience, "it goes on", || !is_stopped());
        child.kill().unwrap();
        child.wait().unwrap();
        stopped.and(runs).unwrap();
    }

    #[test]
    fn the_watchdog_ends_a_stop_that_nobody_ends() {
        let mut shell = Shell::new("sleep 1000 & wait");
        shell.go();
        let tree = &shell.tree;
        let patience = Duration::from_secs(20);
        until(patience, "a child", || tree.processes().len() == 1).unwrap();
        let hold = Mutex::new(Hold::new(tree, Some(Guardian::spawn().unwrap())));
        let (working, ended) = channel();
        thread::scope(|scope| {
            let hold = &hold;
            scope.spawn(move || watch(hold, &ended));
            lock(hold).stop();
            until(patience, "it is stopped", || count(tree, true) == 1).unwrap();
            until(patience, "it goes on", || count(tree, false) == 1).unwrap();
            let total = lock(hold).total();
            assert!(total >= OVERDUE && total < OVERDUE * 2, "{total:?}");
            lock(hold).stop();
            drop(working);
        });
        until(patience, "it goes on", || count(tree, false) == 1).unwrap();
    }

    #[test]
    fn nothing_is_stopped_without_a_guardian() {
        let mut shell = Shell::new("sleep 1000 & wait");
        shell.go();
        let patience = Duration::from_secs(20);
        until(patience, "a child", || shell.tree.processes().len() == 1).unwrap();
        let mut hold = Hold::new(&shell.tree, None);
        hold.stop();
        assert!(!hold.is_guarded() && hold.elapsed().is_none());
        assert_eq!(count(&shell.tree, true), 0);
    }
}
