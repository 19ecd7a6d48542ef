//! Processes of a command that are stopped by signals.
//!
//! Parents are stopped before their children and continued after them, so a shell with job control
//! never sees a stopped child. A process that is stopped already is left alone.

use std::collections::BTreeSet;
use std::io;
use std::time::Instant;

use rustix::process::{Pid, Signal, getpgid, getpgrp, kill_process};

use super::guardian::Guardian;
use super::tree::{Id, Tree};

/// Rounds of a stop, at most. Each finds the children that were made in the round before. A command
/// that needs more forks faster than it can be stopped.
const MOST_ROUNDS: u32 = 100;

/// Processes that got SIGSTOP, in that order.
#[derive(Debug, Default)]
pub(super) struct Stopped(Vec<Id>);

impl Stopped {
    /// Stops all processes that run, also new ones since the last call. `since` is set with the
    /// first.
    ///
    /// # Errors
    /// The guardian has ended. No other process has been stopped then.
    pub(super) fn stop(
        &mut self,
        tree: &Tree,
        guardian: &mut Guardian,
        since: &mut Option<Instant>,
    ) -> io::Result<()> {
        let mut tried: BTreeSet<Id> = self.0.iter().copied().collect();
        for _ in 0..MOST_ROUNDS {
            let mut found: Vec<Id> = Vec::new();
            for process in tree.processes() {
                let runs = !process.is_stopped() && !process.has_ended();
                if runs && tried.insert(process.id) {
                    found.push(process.id);
                }
            }
            if found.is_empty() {
                break;
            }
            let pids: Vec<i32> = found.iter().map(|id| id.pid).collect();
            guardian.hold(&pids)?;
            since.get_or_insert_with(Instant::now);
            // A process of another user can't be stopped (EPERM), and one may have ended.
            for id in found.into_iter().filter(|id| signal(*id, Signal::STOP)) {
                if tree.is_gone(id) {
                    // Another process has got its number.
                    signal(id, Signal::CONT);
                } else {
                    self.0.push(id);
                }
            }
        }
        Ok(())
    }

    /// Continues them.
    pub(super) fn go_on(&mut self, tree: &Tree) {
        for id in self.0.drain(..).rev().filter(|id| !tree.is_gone(*id)) {
            signal(id, Signal::CONT);
        }
    }

    /// Sends them a signal.
    pub(super) fn send(&self, tree: &Tree, which: Signal) {
        for id in self.0.iter().filter(|id| !tree.is_gone(**id)) {
            signal(*id, which);
        }
    }

    /// Those in the process group of this process.
    pub(super) fn of_this_group(&self) -> Self {
        let group = getpgrp();
        let is_ours = |id: &Id| pid(*id).is_some_and(|pid| getpgid(Some(pid)) == Ok(group));
        Self(self.0.iter().copied().filter(is_ours).collect())
    }
}

fn pid(id: Id) -> Option<Pid> {
    Pid::from_raw(id.pid)
}

/// Sends a process a signal. Returns whether that was possible.
pub(super) fn signal(id: Id, signal: Signal) -> bool {
    pid(id).is_some_and(|pid| kill_process(pid, signal).is_ok())
}
