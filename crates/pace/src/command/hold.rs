//! Stops all processes of a command for a moment: freezes its control group, or signals each.
//!
//! A watchdog ends a stop that lasts too long: a system call of the pacing thread may wait for a
//! process that is stopped, such as the server of a FUSE filesystem.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::group::files::GroupFiles;
use super::group::limits::lifted;
use super::guardian::Guardian;
use super::stopped::Stopped;
use super::tree::Tree;

/// The watchdog ends a stop after this time, which is longer than any that the pacing thread ends.
const OVERDUE: Duration = Duration::from_millis(2500);
/// Time between two looks of the watchdog.
const WATCH: Duration = Duration::from_millis(250);

/// How a command is stopped.
#[derive(Debug)]
pub(super) enum Means {
    /// Its processes get SIGSTOP and SIGCONT.
    Signals(Stopped),
    /// Its control group is frozen, with the processes that it makes meanwhile.
    Freezer(GroupFiles),
}

/// Stops and continues the processes of a command.
#[derive(Debug)]
pub(super) struct Hold {
    tree: Tree,
    /// Without a guardian no process is ever stopped.
    guardian: Option<Guardian>,
    means: Means,
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
    pub(super) fn new(tree: &Tree, guardian: Option<Guardian>, group: Option<&GroupFiles>) -> Self {
        let means = match group {
            Some(files) => Means::Freezer(files.clone()),
            None => Means::Signals(Stopped::default()),
        };
        Self { tree: tree.clone(), guardian, means, since: None, before: Duration::ZERO }
    }

    pub(super) fn is_guarded(&self) -> bool {
        self.guardian.is_some()
    }

    /// Uses signals from now on: the command is in no group of its own.
    pub(super) fn use_signals(&mut self) {
        self.release();
        self.means = Means::Signals(Stopped::default());
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
        let is_lost = match (&mut self.guardian, &mut self.means) {
            (None, _) => return,
            (Some(_), Means::Freezer(_)) if self.since.is_some() => return,
            (Some(guardian), Means::Freezer(files)) => match guardian.hold(&[]) {
                Ok(()) => {
                    self.since = files.freeze(true).is_ok().then(Instant::now);
                    false
                }
                Err(_) => true,
            },
            (Some(guardian), Means::Signals(stopped)) => {
                stopped.stop(&self.tree, guardian, &mut self.since).is_err()
            }
        };
        if is_lost {
            // No guardian would continue them if this process died.
            self.guardian = None;
            self.release();
        }
    }

    /// Continues the stopped processes.
    pub(super) fn release(&mut self) {
        let Some(since) = self.since.take() else { return };
        match &mut self.means {
            Means::Freezer(files) => {
                // A group that is gone (ENODEV) has no processes. After any other error the next
                // call tries again, the watchdog's at the latest.
                if files.freeze(false).is_err_and(|e| e.raw_os_error() != Some(libc::ENODEV)) {
                    self.since = Some(since);
                    return;
                }
            }
            Means::Signals(stopped) => stopped.go_on(&self.tree),
        }
        self.before += since.elapsed();
        if let Some(guardian) = &mut self.guardian
            && guardian.run().is_err()
        {
            self.guardian = None;
        }
    }

    /// Continues the stopped processes, lifts the limits, and does what SIGTSTP does by default:
    /// `stop` stops this process until it gets SIGCONT.
    ///
    /// A terminal has sent SIGTSTP to the command as well. Frozen processes get it when they go on.
    /// SIGCONT discards it (signal(7)), so stopped processes of this group get it again. They go on
    /// with this process at the latest.
    pub(super) fn suspend(&mut self, stop: impl FnOnce()) {
        let (mut stopped, group) = match &self.means {
            Means::Signals(stopped) => (stopped.of_this_group(), None),
            Means::Freezer(files) => (Stopped::default(), Some(files.clone())),
        };
        self.release();
        stopped.send(&self.tree, Signal::TSTP);
        match group {
            Some(files) => lifted(&files, stop),
            None => stop(),
        }
        stopped.go_on(&self.tree);
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc::channel;
    use std::thread;

    use floodwall_host::SysRoot;
    use floodwall_testing::until;

    use super::*;
    use crate::command::group::limits::testing::limit;
    use crate::command::stopped::signal;
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
        let mut hold = Hold::new(tree, Some(Guardian::spawn(None).unwrap()), None);
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
        let mut hold = Hold::new(&tree, Some(Guardian::spawn(None).unwrap()), None);
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
        let hold = Mutex::new(Hold::new(tree, Some(Guardian::spawn(None).unwrap()), None));
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
        let mut hold = Hold::new(&shell.tree, None, None);
        hold.stop();
        assert!(!hold.is_guarded() && hold.elapsed().is_none());
        assert_eq!(count(&shell.tree, true), 0);
    }

    /// A group without processes, in a directory of its own.
    struct Frozen {
        dir: tempfile::TempDir,
        tree: Tree,
    }

    impl Frozen {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("cgroup.freeze"), "0").unwrap();
            process(dir.path(), 1, 0, 'S', "");
            let tree = Tree::below(&SysRoot::new(dir.path()).unwrap(), 1);
            Self { dir, tree }
        }

        fn hold(&self, guardian: Option<Guardian>) -> Hold {
            let files = GroupFiles::of(&SysRoot::new(self.dir.path()).unwrap(), "/", &[]);
            Hold::new(&self.tree, guardian, Some(&files))
        }

        fn is_frozen(&self) -> bool {
            fs::read_to_string(self.dir.path().join("cgroup.freeze")).unwrap() == "1"
        }
    }

    #[test]
    fn a_group_is_frozen_in_place_of_signals() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let number = child.id().cast_signed();
        let group = Frozen::new();
        process(group.dir.path(), 1, 0, 'S', &format!("{number} "));
        process(group.dir.path(), number, 1, 'S', "");
        let mut hold = group.hold(Some(Guardian::spawn(None).unwrap()));
        hold.stop();
        let was_frozen = group.is_frozen() && hold.elapsed().is_some();
        hold.stop();
        hold.release();
        let runs = !group.is_frozen() && hold.elapsed().is_none();
        hold.stop();
        hold.use_signals();
        let thawed = !group.is_frozen();
        let state = || fs::read_to_string(format!("/proc/{number}/stat")).unwrap();
        let had_signal = state().contains(") T ");
        hold.stop();
        let patience = Duration::from_secs(20);
        let stopped = until(patience, "it is stopped", || state().contains(") T "));
        drop(hold);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(was_frozen && runs && thawed && !had_signal && !group.is_frozen());
        stopped.unwrap();
    }

    #[test]
    fn the_watchdog_thaws_a_group() {
        let group = Frozen::new();
        let hold = Mutex::new(group.hold(Some(Guardian::spawn(None).unwrap())));
        let (working, ended) = channel();
        thread::scope(|scope| {
            let hold = &hold;
            scope.spawn(move || watch(hold, &ended));
            lock(hold).stop();
            assert!(group.is_frozen());
            until(Duration::from_secs(20), "it is thawed", || !group.is_frozen()).unwrap();
            drop(working);
        });
    }

    #[test]
    fn a_stop_of_this_process_leaves_no_group_frozen_or_limited() {
        let group = Frozen::new();
        let memory = group.dir.path().join("memory.high");
        fs::write(&memory, "").unwrap();
        let mut hold = group.hold(Some(Guardian::spawn(None).unwrap()));
        let Means::Freezer(files) = &hold.means else { panic!() };
        limit(files, 5);
        hold.stop();
        assert!(group.is_frozen() && fs::read_to_string(&memory).unwrap() == "5");
        let mut stops = 0;
        hold.suspend(|| {
            stops += 1;
            assert!(!group.is_frozen() && fs::read_to_string(&memory).unwrap() == "max");
        });
        assert_eq!(stops, 1);
    }

    #[test]
    fn no_group_is_frozen_without_a_guardian() {
        let group = Frozen::new();
        let mut hold = group.hold(None);
        hold.stop();
        assert!(!group.is_frozen() && hold.elapsed().is_none());
    }
}
