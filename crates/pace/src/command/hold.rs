//! Stops all processes of a command for a moment.
//!
//! Parents are stopped before their children and continued after them, so a shell with job control
//! never sees a stopped child. A process that is stopped already is left alone.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::guardian::Guardian;
use super::tree::{Id, Tree};

/// Rounds of a stop, at most. Each finds the children that were made in the round before. A command
/// that needs more forks faster than it can be stopped.
const MOST_ROUNDS: u32 = 100;

/// Stops and continues the processes of a command.
#[derive(Debug)]
pub(super) struct Hold<'a> {
    tree: &'a Tree,
    /// Without a guardian no process is ever stopped.
    guardian: Option<Guardian>,
    /// In the order in which they were stopped.
    stopped: Vec<Id>,
    since: Option<Instant>,
    /// Sum of the stops before this one.
    before: Duration,
}

impl<'a> Hold<'a> {
    pub(super) fn new(tree: &'a Tree, guardian: Option<Guardian>) -> Self {
        Self { tree, guardian, stopped: Vec::new(), since: None, before: Duration::ZERO }
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
            if self.tree.lives(id) {
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
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.release();
        if let Some(guardian) = self.guardian.take() {
            guardian.dismiss();
        }
    }
}

fn signal(id: Id, signal: Signal) -> bool {
    Pid::from_raw(id.pid).is_some_and(|pid| kill_process(pid, signal).is_ok())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use floodwall_host::SysRoot;
    use floodwall_testing::until;

    use super::*;

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
