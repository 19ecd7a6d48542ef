//! The law on this machine: its sensors, a clock, and the admission of pieces.
//!
//! ```text
//! Writeback::push ─▶ take_turn: waits for the piece's turn ─▶ sync_file_range, started
//!                 ─▶ the oldest piece is waited for while too much is under way ─▶ written
//! /sys/dev/block/ID/stat, bytes written ─▶ law ─▶ rate, piece, window      (every 10 ms at most)
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_host::diskstats::Requests;
use floodwall_host::locate::LocateError;
use floodwall_host::memory::read_thresholds;
use floodwall_load::sleep_until;
use floodwall_model::DeviceId;
use rustix::time::{ClockId, clock_gettime};

use crate::disk::{Disk, difference};
use crate::law::{Allowance, Goal, Law, Seen, State, Waits};
use crate::turn::Turn;

/// Time between two steps of the law, at least.
const TICK: Duration = Duration::from_millis(10);
/// Longest time of one piece, in seconds, at whatever rate.
const LONGEST_S: f64 = 86_400.0;
/// Most dirty data while no other program waits, in bytes. …
const MOST_AHEAD: u64 = 128 << 20;
/// … The kernel's flusher starts at `vm.dirty_background_ratio`, and writes without a pace. So much
/// may be dirty as one part of that in so many.
const BACKGROUND_PART: u64 = 4;
/// Longest sleep between two looks at the disk.
const NAP: Duration = Duration::from_millis(10);

/// The limits of the data under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Bytes of one piece, which is started and waited for as a whole.
    pub piece: u64,
    /// Bytes under way at most, at least a piece.
    pub under_way: u64,
    /// Bytes dirty or under way at most, at least two pieces.
    pub in_flight: u64,
}

/// The reasons for the speed of a paced command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Status {
    /// What the law does now.
    pub state: State,
    /// The allowed rate in bytes per second; none for no limit.
    pub rate: Option<f64>,
    /// The rate at which the disk takes the command's data while no other program waits, in bytes
    /// per second.
    pub capacity: f64,
    /// How long others wait, as a multiple of their wait without the command; none if not known.
    pub wait_ratio: Option<f64>,
    /// Time in which others waited for the disk.
    pub yielded: Duration,
}

/// Paces writes to one disk. Threads share it.
#[derive(Debug)]
pub struct Pacer {
    root: SysRoot,
    /// The disks that may be paced; none for a filesystem without a block device.
    disks: Vec<Option<Disk>>,
    /// The one among them that is paced.
    paced: AtomicUsize,
    goal: Goal,
    most: Option<f64>,
    most_ahead: u64,
    /// Bytes whose writeback was started, and bytes that reached the disk.
    started: AtomicU64,
    written: AtomicU64,
    /// Ranges of pieces that reached the disk since the last step, and the sum of their times in
    /// microseconds. A piece of small files has a range for each of them.
    pieces: AtomicU64,
    pieces_us: AtomicU64,
    /// Bytes of pieces whose time is not known.
    untimed: AtomicU64,
    /// Bytes of ours that were read from this disk since the last step.
    read: AtomicI64,
    /// Whether nothing was under way at some moment since the last step.
    was_idle: AtomicBool,
    others_reported: AtomicBool,
    steps: Mutex<Steps>,
}

/// The state that changes from step to step.
#[derive(Debug)]
struct Steps {
    law: Law,
    allowance: Allowance,
    at: Instant,
    counters: Option<Requests>,
    written: u64,
    turn: Turn,
}

impl Steps {
    /// Before the first step.
    fn begin(goal: Goal, most: Option<f64>, most_ahead: u64) -> Self {
        let mut law = Law::new(goal, most, most_ahead, since_boot());
        let (allowance, at) = (law.step(&Seen::default()), Instant::now());
        Self { law, allowance, at, counters: None, written: 0, turn: Turn::new(at) }
    }
}

impl Pacer {
    /// For the disk below a directory. Without a disk (tmpfs, NFS) only `most`, in bytes per
    /// second, and a rate as the goal limit the command.
    ///
    /// # Errors
    /// [`LocateError`] if the directory's filesystem can't be found.
    pub fn open(
        root: &SysRoot,
        directory: &Path,
        goal: Goal,
        most: Option<f64>,
    ) -> Result<Self, LocateError> {
        Self::open_one_of(root, &[directory], goal, most)
    }

    /// For the disk below one of several directories: the first one, until [`Self::choose`] is
    /// called.
    ///
    /// # Errors
    /// [`LocateError`] if the filesystem of a directory can't be found.
    pub fn open_one_of(
        root: &SysRoot,
        directories: &[&Path],
        goal: Goal,
        most: Option<f64>,
    ) -> Result<Self, LocateError> {
        let disks: Result<Vec<_>, _> =
            directories.iter().map(|directory| Disk::below(root, directory)).collect();
        let background = read_thresholds(root).background_bytes.into_value();
        let most_ahead =
            background.map_or(MOST_AHEAD, |bytes| MOST_AHEAD.min(bytes / BACKGROUND_PART));
        let pacer = Self {
            root: root.clone(),
            disks: disks?,
            paced: AtomicUsize::new(0),
            goal,
            most,
            most_ahead,
            started: AtomicU64::new(0),
            written: AtomicU64::new(0),
            pieces: AtomicU64::new(0),
            pieces_us: AtomicU64::new(0),
            untimed: AtomicU64::new(0),
            read: AtomicI64::new(0),
            was_idle: AtomicBool::new(true),
            others_reported: AtomicBool::new(false),
            steps: Mutex::new(Steps::begin(goal, most, most_ahead)),
        };
        pacer.choose(0);
        Ok(pacer)
    }

    /// Paces the disk below another one of the directories from now on. The law begins anew.
    pub fn choose(&self, directory: usize) {
        let mut steps = self.steps();
        self.paced.store(directory, Ordering::Relaxed);
        for counter in [&self.pieces, &self.pieces_us, &self.untimed] {
            counter.store(0, Ordering::Relaxed);
        }
        *steps = Steps {
            turn: steps.turn,
            counters: self.paced_disk().and_then(|disk| disk.requests(&self.root)),
            written: self.written.load(Ordering::Relaxed),
            ..Steps::begin(self.goal, self.most, self.most_ahead)
        };
    }

    /// The number of the directory whose disk is paced.
    #[must_use]
    pub fn chosen(&self) -> usize {
        self.paced.load(Ordering::Relaxed)
    }

    fn paced_disk(&self) -> Option<&Disk> {
        self.disks.get(self.chosen())?.as_ref()
    }

    /// The paced disk's name; none where there is no block device.
    #[must_use]
    pub fn disk(&self) -> Option<&str> {
        self.paced_disk().map(|disk| disk.name.as_str())
    }

    /// The paced disk's number; none where there is no block device.
    #[must_use]
    pub fn device(&self) -> Option<DeviceId> {
        self.paced_disk().map(|disk| disk.id)
    }

    /// The numbers of all disks that may be paced and on which writeback is charged to control
    /// groups.
    pub(crate) fn charged(&self) -> Vec<DeviceId> {
        let disks = self.disks.iter().flatten();
        disks.filter(|disk| disk.is_charged).map(|disk| disk.id).collect()
    }

    /// Most dirty data while no other program waits, in bytes.
    pub(crate) fn most_ahead(&self) -> u64 {
        self.most_ahead
    }

    /// To be set while a guard reports that others wait for the disk.
    #[must_use]
    pub fn others_reported(&self) -> &AtomicBool {
        &self.others_reported
    }

    /// The limits of the data under way now.
    pub fn window(&self) -> Window {
        self.limits().0
    }

    /// The reasons for the command's speed now.
    pub fn status(&self) -> Status {
        self.limits().1
    }

    /// Both, of the same step.
    pub(crate) fn limits(&self) -> (Window, Status) {
        let steps = self.stepped();
        let Allowance { rate, piece, under_way, in_flight, .. } = steps.allowance;
        let status = Status {
            state: steps.law.state(),
            rate,
            capacity: steps.law.capacity(),
            wait_ratio: steps.law.wait_ratio(),
            yielded: steps.law.yielded(),
        };
        (Window { piece, under_way, in_flight }, status)
    }

    /// Waits for the turn of a piece of so many bytes, and for an idle disk if the law says so and
    /// `waits_for_idle`. Calls `meanwhile` in between, and sleeps where it returns false.
    ///
    /// Returns false if `stop` was raised.
    pub(crate) fn take_turn(
        &self,
        bytes: u64,
        waits_for_idle: bool,
        stop: &AtomicBool,
        mut meanwhile: impl FnMut() -> bool,
    ) -> bool {
        let (mut asked, mut look) = (Instant::now(), None);
        loop {
            let now = Instant::now();
            let wait = {
                let mut steps = self.stepped();
                let Allowance { rate, idle_for, .. } = steps.allowance;
                let idle_for = idle_for.filter(|_| waits_for_idle);
                match rate {
                    None => None,
                    Some(rate) if rate > 0.0 => {
                        let cost = Duration::from_secs_f64((bytes as f64 / rate).min(LONGEST_S));
                        let idle = |disk: &Disk| disk.is_idle(&self.root, &mut look);
                        let busy = || idle_for.filter(|_| !self.paced_disk().is_none_or(idle));
                        steps.turn.start(now, asked, cost, busy).map(|wait| wait.min(NAP))
                    }
                    // A silence: the first piece after it asks anew.
                    Some(_) => {
                        asked = now;
                        Some(NAP / 2)
                    }
                }
            };
            let Some(wait) = wait else { return !stop.load(Ordering::Relaxed) };
            let is_stopped = if meanwhile() {
                stop.load(Ordering::Relaxed)
            } else {
                !sleep_until(now + wait, stop)
            };
            if is_stopped {
                return false;
            }
        }
    }

    /// Counts bytes that are read from this disk for the command: its reads are no sign of others.
    /// A negative number takes back bytes of an earlier call that were not read.
    pub(crate) fn read(&self, bytes: i64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes whose writeback starts now.
    pub(crate) fn start(&self, bytes: u64) {
        self.started.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a range that reached the disk, and the time since its piece started, if it is known.
    pub(crate) fn end(&self, bytes: u64, took: Option<Duration>) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        match took {
            Some(took) => self.pieces_us.fetch_add(took.as_micros() as u64, Ordering::Relaxed),
            None => self.untimed.fetch_add(bytes, Ordering::Relaxed),
        };
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.started.load(Ordering::Relaxed) <= written {
            self.was_idle.store(true, Ordering::Relaxed);
        }
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state after a step, if one is due.
    fn stepped(&self) -> MutexGuard<'_, Steps> {
        let mut steps = self.steps();
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(steps.at);
        if elapsed < TICK {
            return steps;
        }
        let written = self.written.load(Ordering::Relaxed);
        let own_under_way = self.started.load(Ordering::Relaxed).saturating_sub(written);
        let counters = self.paced_disk().and_then(|disk| disk.requests(&self.root));
        let seen = Seen {
            elapsed,
            own_bytes: written.saturating_sub(steps.written),
            own: Waits {
                ops: self.pieces.swap(0, Ordering::Relaxed),
                wait: Duration::from_micros(self.pieces_us.swap(0, Ordering::Relaxed)),
            },
            own_untimed_bytes: self.untimed.swap(0, Ordering::Relaxed),
            own_under_way,
            own_read_bytes: self.read.swap(0, Ordering::Relaxed),
            backlogged: !self.was_idle.swap(own_under_way == 0, Ordering::Relaxed),
            others_reported: self.others_reported.load(Ordering::Relaxed),
            flushless: self.paced_disk().and_then(|disk| disk.flushless),
            ..steps.counters.zip(counters).map_or_else(Seen::default, |(a, b)| difference(&a, &b))
        };
        (steps.at, steps.written, steps.counters) = (now, written, counters);
        steps.allowance = steps.law.step(&seen);
        steps
    }
}

/// The time that the processes of a machine share.
fn since_boot() -> Duration {
    clock_gettime(ClockId::Monotonic).try_into().unwrap_or_default()
}
