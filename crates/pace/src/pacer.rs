//! The law on this machine: its sensors, a clock, and the admission of pieces.
//!
//! ```text
//! Writeback::push ─▶ admit: sleeps until the piece's turn ─▶ sync_file_range, started
//!                 ─▶ the oldest piece is waited for while too much is under way ─▶ written
//! /sys/dev/block/ID/stat, bytes written ─▶ law ─▶ rate, piece, window      (every 10 ms at most)
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_host::block::{self, Kind};
use floodwall_host::diskstats::{self, Requests};
use floodwall_host::locate::{LocateError, locate};
use floodwall_host::mounts::charges_writeback;
use floodwall_load::sleep_until;
use floodwall_model::DeviceId;
use rustix::time::{ClockId, clock_gettime};

use crate::law::{Allowance, Goal, Law, Seen, State, Waits};
use crate::turn::Turn;

/// Time between two steps of the law, at least.
const TICK: Duration = Duration::from_millis(10);
/// Longest time of one piece, in seconds, at whatever rate.
const LONGEST_S: f64 = 86_400.0;
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
    /// Whether others wait for the disk.
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
    disk: Option<Disk>,
    /// Bytes whose writeback was started, and bytes that reached the disk.
    started: AtomicU64,
    written: AtomicU64,
    /// Pieces that reached the disk since the last step, and the sum of their times in
    /// microseconds.
    pieces: AtomicU64,
    pieces_us: AtomicU64,
    /// Bytes of ours that were read from this disk since the last step.
    read: AtomicI64,
    /// Whether nothing was under way at some moment since the last step.
    was_idle: AtomicBool,
    others_reported: Arc<AtomicBool>,
    steps: Mutex<Steps>,
}

/// The disk below the directory.
#[derive(Debug)]
struct Disk {
    id: DeviceId,
    name: String,
    /// The disks below dm and md, which count no flushes themselves; none for other disks.
    below: Vec<DeviceId>,
    /// Bytes of its longest request, if the disk has no volatile cache.
    flushless: Option<u64>,
    /// Whether the filesystem charges writeback to control groups.
    is_charged: bool,
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
        let location = locate(root, directory)?;
        let disk = location.queue_device.map(|id| {
            let kind = block::read_device(root, id).into_value().map(|device| device.kind);
            let is_stacked = matches!(kind, Some(Kind::DeviceMapper { .. } | Kind::Md { .. }));
            let leaves = location.leaves.iter().map(|leaf| leaf.id);
            let below = leaves.filter(|leaf| is_stacked && *leaf != id).collect();
            let name = block::read_name(root, id).into_value().unwrap_or_else(|| id.to_string());
            let queue = format!("/sys/block/{name}/queue");
            let cache = root.read_line(&format!("{queue}/write_cache")).into_value();
            let longest = root.parse::<u64>(&format!("{queue}/max_sectors_kb")).into_value();
            let flushless = longest.map(|kib| kib << 10);
            let flushless = flushless.filter(|_| cache.is_some_and(|c| c == "write through"));
            let is_charged = charges_writeback(&location.mount.fs_type);
            Disk { id, name, below, flushless, is_charged }
        });
        let mut law = Law::new(goal, most, since_boot());
        let now = Instant::now();
        Ok(Self {
            root: root.clone(),
            started: AtomicU64::new(0),
            written: AtomicU64::new(0),
            pieces: AtomicU64::new(0),
            pieces_us: AtomicU64::new(0),
            read: AtomicI64::new(0),
            was_idle: AtomicBool::new(true),
            others_reported: Arc::default(),
            steps: Mutex::new(Steps {
                allowance: law.step(&Seen::default()),
                law,
                at: now,
                counters: disk.as_ref().and_then(|disk| disk.requests(root)),
                written: 0,
                turn: Turn::new(now),
            }),
            disk,
        })
    }

    /// The disk's name; none where there is no block device.
    #[must_use]
    pub fn disk(&self) -> Option<&str> {
        self.disk.as_ref().map(|disk| disk.name.as_str())
    }

    /// The disk's number; none where there is no block device.
    #[must_use]
    pub fn device(&self) -> Option<DeviceId> {
        self.disk.as_ref().map(|disk| disk.id)
    }

    /// The disk's number, if writeback to it is charged to control groups.
    pub(crate) fn charged(&self) -> Option<DeviceId> {
        self.disk.as_ref().filter(|disk| disk.is_charged).map(|disk| disk.id)
    }

    /// To be set while a guard reports that others wait for the disk.
    #[must_use]
    pub fn others_reported(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.others_reported)
    }

    /// The limits of the data under way now.
    pub fn window(&self) -> Window {
        let Allowance { piece, under_way, in_flight, .. } = self.stepped().allowance;
        Window { piece, under_way, in_flight }
    }

    /// The reasons for the command's speed now.
    pub fn status(&self) -> Status {
        let steps = self.stepped();
        Status {
            state: steps.law.state(),
            rate: steps.allowance.rate,
            capacity: steps.law.capacity(),
            wait_ratio: steps.law.wait_ratio(),
            yielded: steps.law.yielded(),
        }
    }

    /// Sleeps until the turn of a piece of so many bytes. Returns false if `stop` was raised.
    pub fn admit(&self, bytes: u64, stop: &AtomicBool) -> bool {
        self.take_turn(bytes, true, stop)
    }

    /// The same for bytes that the disk has taken already: an idle disk is not waited for.
    pub(crate) fn charge(&self, bytes: u64, stop: &AtomicBool) -> bool {
        self.take_turn(bytes, false, stop)
    }

    fn take_turn(&self, bytes: u64, waits_for_idle: bool, stop: &AtomicBool) -> bool {
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
                        let busy = || idle_for.filter(|_| !self.disk.as_ref().is_none_or(idle));
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
            if !sleep_until(now + wait, stop) {
                return false;
            }
        }
    }

    /// So many bytes are read from this disk for the command, and no sign of others; negative where
    /// fewer were read than was said before.
    pub(crate) fn read(&self, bytes: i64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes whose writeback starts now.
    pub(crate) fn start(&self, bytes: u64) {
        self.started.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a piece that reached the disk, and the time since its start.
    pub(crate) fn end(&self, bytes: u64, took: Duration) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        self.pieces_us.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.started.load(Ordering::Relaxed) <= written {
            self.was_idle.store(true, Ordering::Relaxed);
        }
    }

    /// The state after a step, if one is due.
    fn stepped(&self) -> MutexGuard<'_, Steps> {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(steps.at);
        if elapsed < TICK {
            return steps;
        }
        let written = self.written.load(Ordering::Relaxed);
        let own_under_way = self.started.load(Ordering::Relaxed).saturating_sub(written);
        let counters = self.disk.as_ref().and_then(|disk| disk.requests(&self.root));
        let seen = Seen {
            elapsed,
            own_bytes: written.saturating_sub(steps.written),
            own: Waits {
                ops: self.pieces.swap(0, Ordering::Relaxed),
                wait: Duration::from_micros(self.pieces_us.swap(0, Ordering::Relaxed)),
            },
            own_under_way,
            own_read_bytes: self.read.swap(0, Ordering::Relaxed),
            backlogged: !self.was_idle.swap(own_under_way == 0, Ordering::Relaxed),
            others_reported: self.others_reported.load(Ordering::Relaxed),
            flushless: self.disk.as_ref().and_then(|disk| disk.flushless),
            ..steps.counters.zip(counters).map_or_else(Seen::default, |(a, b)| difference(&a, &b))
        };
        (steps.at, steps.written, steps.counters) = (now, written, counters);
        steps.allowance = steps.law.step(&seen);
        steps
    }
}

impl Disk {
    /// Its requests since boot; the flushes are those of the disks below it, if there are any.
    fn requests(&self, root: &SysRoot) -> Option<Requests> {
        self.read(root).map(|(requests, _)| requests)
    }

    /// The same, and whether a disk below has a request under way: dm and md do not count a flush
    /// that is under way there.
    fn read(&self, root: &SysRoot) -> Option<(Requests, bool)> {
        let of = |id| diskstats::requests_of_device(root, id).into_value();
        let (mut requests, mut busy_below) = (of(self.id)?, false);
        for below in self.below.iter().filter_map(|id| of(*id)) {
            busy_below |= below.in_flight > 0;
            if let Some(flushes) = below.flushes {
                let sum = requests.flushes.get_or_insert_default();
                (sum.ops, sum.ms) = (sum.ops + flushes.ops, sum.ms + flushes.ms);
            }
        }
        Some((requests, busy_below))
    }

    /// Whether it has been idle since the last look: no request is under way, and none has ended.
    /// Nothing is to be waited for where the counters can't be read.
    fn is_idle(&self, root: &SysRoot, look: &mut Option<Requests>) -> bool {
        let read = self.read(root);
        let before = std::mem::replace(look, read.map(|(requests, _)| requests));
        let Some((now, busy_below)) = read else { return true };
        let Some(before) = before else { return false };
        let seen = difference(&before, &now);
        let requests = seen.in_flight + seen.flushes.ops + seen.reads.ops + seen.writes.ops;
        requests == 0 && !busy_below
    }
}

/// The time that the processes of a machine share.
fn since_boot() -> Duration {
    clock_gettime(ClockId::Monotonic).try_into().unwrap_or_default()
}

/// The disk's work between two readings.
fn difference(before: &Requests, after: &Requests) -> Seen {
    let waits = |of: fn(&Requests) -> diskstats::RequestTime| {
        let (before, after) = (of(before), of(after));
        Waits {
            ops: after.ops.saturating_sub(before.ops),
            wait: Duration::from_millis(after.ms.saturating_sub(before.ms)),
        }
    };
    Seen {
        flushes: waits(|r| r.flushes.unwrap_or_default()),
        reads: waits(|r| r.reads),
        writes: waits(|r| r.writes),
        read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
        written_bytes: after.written_bytes.saturating_sub(before.written_bytes),
        busy: Duration::from_millis(after.busy_ms.saturating_sub(before.busy_ms)),
        in_flight: after.in_flight,
        ..Seen::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of Documentation/block/stat.rst.
    fn stat([reads, writes, under_way, flushes]: [u32; 4]) -> String {
        format!("{reads} 0 8 1 {writes} 0 8 1 {under_way} 2 2 0 0 0 0 {flushes} 1\n")
    }

    #[test]
    fn a_disk_is_idle_that_has_no_request_between_two_looks() {
        let root = tempfile::tempdir().unwrap();
        let device = |minor| DeviceId { major: 8, minor };
        let file = |minor| {
            let directory = root.path().join(format!("sys/dev/block/8:{minor}"));
            std::fs::create_dir_all(&directory).unwrap();
            directory.join("stat")
        };
        let (array, below) = (file(0), file(16));
        let disk = Disk {
            id: device(0),
            name: "md0".into(),
            below: vec![device(16)],
            flushless: None,
            is_charged: true,
        };
        let (root, mut last) = (SysRoot::new(root.path()).unwrap(), None);
        let looks = [
            ("the first look", Some([1, 1, 0, 0]), [1, 1, 0, 1], false),
            ("nothing has happened", Some([1, 1, 0, 0]), [1, 1, 0, 1], true),
            ("a request is under way", Some([1, 1, 1, 0]), [1, 1, 0, 1], false),
            ("a read has ended", Some([2, 1, 0, 0]), [1, 1, 0, 1], false),
            ("a write has ended", Some([2, 2, 0, 0]), [1, 1, 0, 1], false),
            ("a flush is under way below", Some([2, 2, 0, 0]), [1, 1, 1, 1], false),
            ("it has ended", Some([2, 2, 0, 0]), [1, 1, 0, 2], false),
            ("nothing has happened since", Some([2, 2, 0, 0]), [1, 1, 0, 2], true),
            ("the counters can't be read", None, [1, 1, 0, 2], true),
            ("they can be read again", Some([2, 2, 0, 0]), [1, 1, 0, 2], false),
        ];
        for (what, counters, counters_below, is_idle) in looks {
            match counters {
                Some(counters) => std::fs::write(&array, stat(counters)),
                None => std::fs::remove_file(&array),
            }
            .unwrap();
            std::fs::write(&below, stat(counters_below)).unwrap();
            assert_eq!(disk.is_idle(&root, &mut last), is_idle, "{what}");
        }
    }
}
