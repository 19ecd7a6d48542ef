//! One look at a command: reads its counters, hands files over to writeback, stops or continues it.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, WaitStatus};
use rustix::time::{ClockId, clock_gettime};

use super::allowed::Allowed;
use super::backlog::{Backlog, bytes_in};
use super::decide::{BUSY, Doing, FASTEST, Pace, Wish, decide, pause, speed};
use super::dirtied::Dirtied;
use super::drain::Drain;
use super::files::{Files, Key};
use super::group::Group;
use super::hold::{Hold, lock};
use super::look::{Ended, Look};
use super::notified::{Below, Notified};
use super::opens::Opens;
use super::progress::Pressure;
use super::range::{Range, Span};
use super::regular::open_regular;
use super::roots::Root;
use super::start::Reach;
use super::strict::Strict;
use super::sys::default_effect;
use super::tree::{Process, Tree};
use crate::pacer::Pacer;

/// Ranges of closed files that wait at once, at most. Each has a descriptor.
const MOST_WAITING: usize = 256;
/// The window divided by this may be dirty before all known files are written back.
const SLACK: u64 = 4;
/// The pause before the first look.
const FIRST: Duration = Duration::from_millis(5);

/// The parts that an engine works with.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) root: &'a SysRoot,
    pub(super) own: Pid,
    pub(super) tree: &'a Tree,
    pub(super) pacer: &'a Pacer,
    pub(super) drain: &'a Drain,
    pub(super) reach: Reach<'a>,
    /// What intercepts its calls, if they are.
    pub(super) strict: Option<&'a Strict>,
    /// The command's control group, or why it has none.
    pub(super) group: Result<&'a Group, &'a str>,
}

/// A command that is paced.
pub(super) struct Engine<'a> {
    parts: Parts<'a>,
    ranges: Sender<Range>,
    /// The watchdog shares it.
    hold: &'a Mutex<Hold>,
    /// Whether the command is stopped, as this engine knows.
    is_held: bool,
    dirtied: Dirtied,
    files: Files,
    notified: Notified,
    opens: Opens,
    /// Whether a file was opened since the last look.
    has_opened: bool,
    /// Whether the next opened file makes a look due: the command runs, the next look is not soon,
    /// and no file was opened before this one.
    is_quiet: bool,
    /// Closed files that were found by their names.
    found: u64,
    backlog: Backlog,
    /// Bytes that were written back or are under way, by filesystem, at the last look.
    by_filesystem: BTreeMap<u64, u64>,
    /// The means that hold it, for people.
    means: String,
    /// The backlog of the last look.
    left: u64,
    /// Bytes that it dirties per second while it runs.
    speed: f64,
    at: Instant,
    /// The time when it last began to run, and the bytes that it had dirtied by then.
    runs_since: (Instant, u64),
    pause: Duration,
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        parts: Parts<'a>,
        ranges: Sender<Range>,
        hold: &'a Mutex<Hold>,
        roots: &[Root],
    ) -> Self {
        let (mut notified, mut opens) = (Notified::new(), Opens::new());
        for Root { path, is_deep } in roots {
            let below = if *is_deep { Below::Existing } else { Below::New };
            notified.watch(path, below, parts.reach.paced);
            opens.watch(path, parts.reach.paced);
        }
        let now = Instant::now();
        Self {
            parts,
            ranges,
            hold,
            is_held: false,
            dirtied: Dirtied::default(),
            files: Files::new(parts.pacer.most_ahead()),
            notified,
            opens,
            has_opened: false,
            is_quiet: true,
            found: 0,
            backlog: Backlog::default(),
            by_filesystem: BTreeMap::new(),
            means: String::new(),
            left: 0,
            speed: 0.0,
            at: now,
            runs_since: (now, 0),
            pause: FIRST,
        }
    }

    /// The file through which the command goes into its group.
    pub(super) fn entrance(&self) -> Option<Arc<OwnedFd>> {
        self.parts.group.ok()?.entrance().ok()
    }

    /// Takes note of the command's start.
    pub(super) fn begin(&mut self, command: Pid) {
        self.means = match self.parts.group {
            Ok(group) if group.has(self.parts.root, command.as_raw_pid()) => {
                group.means(self.parts.pacer.device())
            }
            Ok(_) => {
                lock(self.hold).use_signals();
                "no control group: the command has left it".to_owned()
            }
            Err(why) => format!("no control group: {why}"),
        };
    }

    /// The time until the next look.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Becomes readable when a file is opened near a command that dirties little.
    pub(super) fn next_open(&self) -> Option<BorrowedFd<'_>> {
        self.opens.events().filter(|_| self.is_quiet)
    }

    /// Takes note of that. A look is due, and the next ones follow as if the command wrote.
    pub(super) fn note_open(&mut self) {
        self.opens.forget();
        self.has_opened = true;
        self.speed = FASTEST;
    }

    /// Whether calls have begun to wait, which makes a look due.
    pub(super) fn is_wanted(&self) -> bool {
        self.parts.strict.is_some_and(Strict::wants_a_look)
    }

    /// Lets the command run, if it is stopped.
    pub(super) fn release(&mut self) {
        lock(self.hold).release();
        self.note();
    }

    /// Lets the command run, and stops this process as SIGTSTP does. Returns when it goes on.
    pub(super) fn suspend(&mut self) {
        let suspend = || lock(self.hold).suspend(|| default_effect(libc::SIGTSTP));
        match self.parts.strict {
            Some(strict) => strict.while_kept(suspend),
            None => suspend(),
        }
        self.note();
    }

    /// Notes whether the command is stopped. The watchdog may have continued it.
    fn note(&mut self) {
        let is_held = lock(self.hold).elapsed().is_some();
        if std::mem::replace(&mut self.is_held, is_held) && !is_held {
            self.runs_since = (Instant::now(), self.dirtied.written());
        }
    }

    /// Waits for the command if it has ended.
    ///
    /// # Errors
    /// The kernel's answer to waitpid(2).
    pub(super) fn wait_for(&mut self, command: Pid) -> Result<Option<WaitStatus>, Errno> {
        self.dirtied.wait_for(self.parts.root, self.parts.own.as_raw_pid(), command)
    }

    /// Looks at the command, and stops or continues it.
    pub(super) fn look(&mut self, command: Pid) -> Look<'_> {
        let (begin, worked) = (Instant::now(), processor_time());
        let elapsed = begin - std::mem::replace(&mut self.at, begin);
        self.note();
        let processes = self.parts.tree.processes();
        self.reap(&processes, command);
        let Allowed { piece, in_flight, written_per_s, is_silent } = Allowed::now(self.parts.pacer);
        let mark = self.parts.strict.map(Strict::mark);
        let before = self.dirtied.written();
        self.dirtied.look(self.parts.root, &processes);
        let rise = self.dirtied.written() - before;
        if !self.is_held {
            self.speed = speed(self.speed, rise as f64 / elapsed.as_secs_f64().max(0.001));
        }
        let pressure = Pressure {
            rose: rise > 0,
            // The bytes of this look count: a stopped command's files are not looked at again.
            press: self.left_bytes() > in_flight / SLACK,
            idle: self.parts.drain.is_idle(),
            piece,
        };
        self.hand_over(&processes, pressure);
        // Ranges under way explain the backlog.
        let is_unexplained = pressure.press && self.parts.drain.is_idle();
        let drain = if is_unexplained { bytes_in(elapsed, written_per_s) } else { 0 };
        let (written, deleted) = (self.parts.drain.written(), self.files.deleted_bytes());
        self.by_filesystem = self.parts.drain.by_filesystem();
        self.left = self.backlog.step(self.dirtied.net(), written, deleted, drain);
        if let Ok(group) = self.parts.group {
            group.files().note_known_dirty(self.left + deleted);
        }
        // Calls that were let through explain a part of the backlog: their threads wait already.
        let explained = self.parts.strict.zip(mark).map_or(0, |(strict, mark)| {
            strict.looked(mark, self.left, written);
            strict.overhang(in_flight)
        });
        // Strictly paced calls wait in a silence.
        let is_silent = is_silent && self.parts.strict.is_none();
        self.act(self.left.saturating_sub(explained), in_flight, is_silent);
        self.pause = pause(&Pace {
            backlog: self.left,
            in_flight,
            // A call that waits goes on at a smaller backlog, as a stopped command does.
            is_held: self.is_held || self.parts.strict.is_some_and(Strict::holds),
            may_hold: lock(self.hold).is_guarded(),
            dirtied_per_s: self.speed,
            written_per_s,
            took: processor_time().saturating_sub(worked),
        });
        // Another program may open files all the time: a long pause without this sign lies between
        // two looks that it makes due.
        let has_opened = std::mem::take(&mut self.has_opened);
        self.is_quiet = self.pause >= BUSY[1] && !has_opened && !self.is_held;
        Look {
            means: &self.means,
            dirtied: self.dirtied.net(),
            backlog: self.left,
            is_held: self.is_held,
            by_filesystem: &self.by_filesystem,
        }
    }

    /// Hands over what the ended command left dirty.
    pub(super) fn hand_over_rest(&mut self) {
        self.release();
        self.parts.drain.command_ended();
        self.dirtied.look(self.parts.root, &self.parts.tree.processes());
        let piece = self.parts.pacer.window().piece;
        self.hand_over(&[], Pressure { rose: true, press: true, idle: true, piece });
    }

    /// Hands over closed files as far as there is room. Returns whether the data of the ended
    /// command that was found is written. Other programs may have closed files in its directories:
    /// no more is written than it has dirtied.
    pub(super) fn has_written_rest(&mut self) -> bool {
        // Once all is found, files that others close from now on are not looked for.
        if self.notified.has_more() {
            self.notified.look(self.parts.reach.paced, true);
        }
        self.hand_over_closed();
        self.by_filesystem = self.parts.drain.by_filesystem();
        self.left_bytes() == 0 || self.notified.is_empty() && self.parts.drain.is_idle()
    }

    /// Bytes that it dirtied, that have to reach the disk, and that are not written yet.
    fn left_bytes(&self) -> u64 {
        let (written, deleted) = (self.parts.drain.written(), self.files.deleted_bytes());
        self.backlog.left(self.dirtied.net(), written, deleted)
    }

    /// The command after its end.
    pub(super) fn rest(&self) -> Look<'_> {
        Look {
            means: &self.means,
            dirtied: self.dirtied.net(),
            backlog: self.left_bytes(),
            is_held: false,
            by_filesystem: &self.by_filesystem,
        }
    }

    /// Ends the pacing. The command has ended, and processes that it left behind run on.
    pub(super) fn end(mut self) -> Ended {
        let processes = self.parts.tree.processes();
        self.dirtied.look(self.parts.root, &processes);
        let hold = lock(self.hold);
        Ended {
            is_paced: true,
            is_guarded: hold.is_guarded(),
            dirtied: self.dirtied.net(),
            // Nothing of its deleted files is left.
            left_bytes: self.backlog.left(self.dirtied.net(), self.parts.drain.written(), 0),
            held: hold.total(),
            found_files: self.files.found() + self.found,
            refused_files: self.files.refused(),
            unfound_bytes: self.backlog.unfound,
            held_calls: self.parts.strict.map_or(0, Strict::held),
            unread_processes: self.dirtied.unread(),
            is_incomplete: self.notified.is_incomplete(),
            left_processes: processes.iter().filter(|process| !process.has_ended()).count(),
            ..Ended::default()
        }
    }

    /// Waits for ended orphans of the command. The caller waits for the command itself.
    fn reap(&mut self, processes: &[Process], command: Pid) {
        let own = self.parts.own.as_raw_pid();
        for process in processes.iter().filter(|p| p.has_ended() && p.parent == own) {
            if let Some(pid) = Pid::from_raw(process.id.pid).filter(|pid| *pid != command) {
                let _ = self.wait_for(pid);
            }
        }
    }

    /// Finds files, and hands their dirty ranges over.
    ///
    /// While the command is stopped, no file is looked for: the server of a filesystem may be one
    /// of its processes. Only closed files are opened, which lie in directories of the paced disk.
    fn hand_over(&mut self, processes: &[Process], pressure: Pressure) {
        let Parts { root, reach: Reach { paced, known }, .. } = self.parts;
        let ranges = if self.is_held {
            self.files.again(pressure)
        } else {
            self.files.look(root, processes, known, pressure)
        };
        for range in ranges {
            self.send(range);
        }
        if !self.is_held {
            for directory in self.files.take_directories() {
                self.notified.watch(&directory, Below::New, paced);
                self.opens.watch(&directory, paced);
            }
            self.notified.look(paced, pressure.rose || self.left > 0);
        }
        self.hand_over_closed();
    }

    fn hand_over_closed(&mut self) {
        let room = MOST_WAITING.saturating_sub(self.parts.drain.waiting());
        for path in self.notified.take(room) {
            self.send_closed(&path);
        }
    }

    /// Hands over a file that was closed.
    fn send_closed(&mut self, path: &Path) {
        let Ok((file, stat)) = open_regular(path, OFlags::NOFOLLOW) else { return };
        let is_wanted = stat.st_size > 0
            && (self.parts.reach.paced)(stat.st_dev)
            && !self.files.has(Key::of(&stat));
        if is_wanted {
            self.found += 1;
            let span = Span::Dirty { to: stat.st_size.cast_unsigned() };
            self.send(Range { file: Arc::new(file), span });
        }
    }

    fn send(&mut self, range: Range) {
        self.parts.drain.announce();
        // The thread ends after this engine.
        let _ = self.ranges.send(range);
    }

    fn act(&mut self, backlog: u64, in_flight: u64, is_silent: bool) {
        self.note();
        let mut hold = lock(self.hold);
        let doing = match hold.elapsed() {
            Some(elapsed) => Doing::Held { elapsed },
            None => Doing::Running {
                elapsed: self.runs_since.0.elapsed(),
                dirtied: self.dirtied.written() - self.runs_since.1,
            },
        };
        match decide(backlog, in_flight, is_silent, doing) {
            Wish::Hold => hold.stop(),
            Wish::Run => hold.release(),
        }
        drop(hold);
        self.note();
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
