//! The probe itself: a source of events, what counts them, and the counters of /proc beside.
//!
//! ```text
//! open ─▶ bpf, else perf, else proc            what the one can't do is said,
//!                                              and what the next can't see
//! wait ─▶ rings drained into the aggregator    as often as they fill
//! snapshot ─▶ aggregator + /proc/PID/io + /proc/diskstats + PSI ─▶ Snapshot
//! open_following, follow ─▶ … ─▶ followed      the same for one thread's children and theirs,
//!                                              and nothing else
//! open_sparing, pause ⇄ resume                 as little as a controller needs,
//!                                              and only while it needs it
//! ```

mod amounts;
mod open;
mod source;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use floodwall_host::diskstats::between;
use floodwall_host::memory::read_io_pressure;
use floodwall_host::{SysRoot, block};
use floodwall_model::DeviceId;
use floodwall_model::trial::DeviceSample;
use rustix::time::{ClockId, clock_gettime};

use crate::aggregator::Aggregator;
use crate::beyond::Beyond;
use crate::closer::{Closer, Piece};
use crate::disks::{Disks, in_flight};
use crate::error::ProbeError;
use crate::files::OpenFiles;
use crate::samples::{Samples, scale};
use crate::snapshot::{
    Blind, Counted, DeviceUse, FollowedWindow, OTHERS, ProcessUse, Snapshot, SourceKind,
};
use crate::sync_writers::SyncWriters;
use crate::threads::Threads;
use crate::under_way::Committers;
use crate::writers::Writers;
pub(crate) use source::Source;

/// A call that is under way longer than this is checked to be still there: its end may have been
/// among lost events.
const CHECKED_AFTER: Duration = Duration::from_secs(5);
/// Calls checked in one window, in turn; each takes some 10 µs.
const CHECKED: usize = 256;
/// How long threads that write synchronously are looked for before a look that lasts for one
/// window: a database commits within it.
const WARM_UP: Duration = Duration::from_millis(250);
/// The calls that stay unseen while threads' writes can't be watched.
const SYNC_WRITES: &str = "writes to O_SYNC files";

/// Sees processes that wait and processes that flood.
#[derive(Debug)]
pub struct Probe {
    pub(crate) root: SysRoot,
    pub(crate) source: Source,
    blind: Vec<Blind>,
    pub(crate) aggregator: Aggregator,
    pub(crate) files: OpenFiles,
    writers: Writers,
    beyond: Beyond,
    threads: Threads,
    origin_ns: u64,
    since_ns: u64,
    lost: u64,
    windows: u32,
    disks: Disks,
    counters: BTreeMap<DeviceId, DeviceSample>,
    pressure_us: Option<u64>,
    pub(crate) sync_writers: SyncWriters,
    /// Threads that write synchronously and are too many to be watched.
    unwatched: u32,
    /// Processes are numbered otherwise here than by the kernel itself.
    pub(crate) own_numbers: bool,
    /// The thread at which the next check of long calls begins.
    check_turn: u32,
    sparing: bool,
    pub(crate) samples: Samples,
    pub(crate) committers: Committers,
    pub(crate) closer: Closer<Piece>,
}

/// Nanoseconds of CLOCK_MONOTONIC, the clock of the probe's events.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Probe {
    /// Whether processes have other numbers here than those that the kernel tells, as in a
    /// container. Then /proc/PID is another process.
    #[must_use]
    pub fn has_own_numbers(&self) -> bool {
        self.own_numbers
    }

    /// Where sight comes from.
    #[must_use]
    pub fn source(&self) -> SourceKind {
        match self.source {
            Source::Proc => SourceKind::Proc,
            Source::Perf(_) => SourceKind::Perf,
            Source::Bpf(..) => SourceKind::Bpf,
        }
    }

    /// The unseen parts, and the reasons.
    #[must_use]
    pub fn blind(&self) -> &[Blind] {
        &self.blind
    }

    /// Finds the calls under way, and the threads that write synchronously: their writes are seen
    /// from the next window on. A look that lasts for one window needs this before it.
    ///
    /// # Errors
    /// [`ProbeError`] if the source is lost.
    pub fn warm_up(&mut self, stop: &AtomicBool) -> Result<(), ProbeError> {
        self.take_in_all_calls_under_way();
        self.wait(WARM_UP, stop)?;
        self.snapshot().map(drop)
    }

    /// All that was seen since the last call, or since the probe was opened.
    ///
    /// # Errors
    /// [`ProbeError`] if the source is lost.
    pub fn snapshot(&mut self) -> Result<Snapshot, ProbeError> {
        let now = now_ns();
        self.drain(now);
        self.forget_lost_calls(now);
        let disks = self.read_disks();
        let counted = self.counted(now, &disks);
        let mut processes = counted.processes;
        let operations = |p: &ProcessUse| {
            p.reads.count()
                + p.calls.values().map(floodwall_model::LatencyCounts::count).sum::<u64>()
        };
        let was_sampling = self.samples.is_sampling();
        let covered = self.samples.end_window(now, processes.iter().map(operations).sum());
        if self.sparing {
            let commits = processes.iter().filter(|p| !p.calls.is_empty() && p.pid != OTHERS);
            self.committers.seen(self.windows, commits.map(|p| p.pid));
        }
        if was_sampling && !self.samples.is_sampling() {
            // The rate has fallen: calls that began between two samples may be the reason.
            self.take_in_calls_under_way();
        }
        if let Some(factor) = covered.factor() {
            processes.iter_mut().for_each(|process| scale(process, factor));
        }
        self.add_dirtied(&mut processes, counted.dirtied.as_ref());
        for process in &mut processes {
            process.name =
                if process.pid == OTHERS { "others" } else { self.files.name(process.pid) }
                    .to_owned();
        }
        processes.sort_by_key(|p| (p.pid, p.device));
        let mut requests = counted.devices;
        let sees_requests = self.source() != SourceKind::Proc && !self.sparing;
        let devices = disks.iter().map(|(id, after)| DeviceUse {
            id: *id,
            name: self.disks.name(*id),
            counters: self.counters.get(id).map(|before| between(before, after)),
            requests: sees_requests.then(|| requests.remove(id).unwrap_or_default()),
        });
        let devices = devices.collect();
        self.counters = disks;
        let pressure_us = read_io_pressure(&self.root).into_value().map(|p| p.some_us);
        let pressure = self
            .pressure_us
            .zip(pressure_us)
            .map(|(a, b)| Duration::from_micros(b.saturating_sub(a)));
        self.pressure_us = pressure_us;
        let snapshot = Snapshot {
            at: Duration::from_nanos(now.saturating_sub(self.origin_ns)),
            window: Duration::from_nanos(now.saturating_sub(self.since_ns)),
            attached: Duration::from_nanos(covered.attached_ns),
            sampled_by: covered.factor(),
            source: self.source(),
            lost_events: std::mem::take(&mut self.lost),
            folded_operations: counted.folded,
            unwatched_threads: self.unwatched,
            pressure,
            devices,
            processes,
        };
        self.next_window(now);
        Ok(snapshot)
    }

    /// Follows the processes that a thread of this process starts from now on, and their children.
    /// Processes started since the probe was opened are recognised too, as long as no wait or look
    /// has happened since. Only what [`Self::open_following`] opened can.
    pub fn follow(&mut self, thread: u32, tag: u32) {
        self.aggregator.follow(thread, tag);
    }

    /// The operations of followed processes, since the last call or since the probe was opened.
    pub fn followed(&mut self) -> FollowedWindow {
        let now = now_ns();
        self.drain(now);
        self.forget_lost_calls(now);
        let disks = self.read_disks();
        let counted = self.counted(now, &disks);
        let window = FollowedWindow {
            lost_events: std::mem::take(&mut self.lost),
            folded_operations: counted.folded,
            unwatched_threads: self.unwatched,
            by_tag: counted.followed,
        };
        self.next_window(now);
        window
    }

    fn read_disks(&mut self) -> BTreeMap<DeviceId, DeviceSample> {
        if self.sparing && self.disks.nothing_passed(&self.root) {
            return self.counters.clone();
        }
        let sees_requests = self.sparing || matches!(self.source, Source::Perf(_));
        let seen = sees_requests.then(|| self.aggregator.devices_seen());
        self.disks.read(&self.root, seen.as_deref())
    }

    /// From now on, only those operations of followed processes count that are under way now.
    /// (Counted in the kernel, later ones do too.)
    pub fn follow_no_further(&mut self) {
        self.aggregator.follow_until(now_ns());
    }

    fn next_window(&mut self, now: u64) {
        self.since_ns = now;
        self.windows = self.windows.wrapping_add(1);
        self.files.next_window();
        if !self.is_paused() {
            self.watch_writers();
        }
    }

    /// Something else can't be seen, from now on and again and again.
    fn is_blind(&mut self, what: &str, why: &ProbeError) {
        if !self.blind.iter().any(|blind| blind.what == what) {
            self.blind.push(Blind::new(what, why.to_string()));
        }
    }

    pub(crate) fn drain(&mut self, until_ns: u64) {
        let Self { source, aggregator, files, lost, .. } = self;
        if let Some(perf) = source.perf() {
            let had_no_room = perf.drain(until_ns, &mut |record| aggregator.count(record, files));
            if had_no_room > 0 {
                *lost += had_no_room;
                aggregator.events_lost();
            }
        }
    }

    /// The counts of this window, from the kernel and from here.
    fn counted(&mut self, now: u64, disks: &BTreeMap<DeviceId, DeviceSample>) -> Counted {
        let root = self.root.clone();
        let in_flight = |id| in_flight(&root, disks, id);
        self.aggregator.in_flight(in_flight);
        let mut counted = self.aggregator.take(now, &mut self.files);
        let is_paused = self.is_paused();
        if let Source::Bpf(bpf, _) = &mut self.source
            && !is_paused
        {
            let here = std::mem::replace(&mut counted, bpf.take(now, &mut self.files, &in_flight));
            // Processes started since the rings were read may have been counted already.
            self.drain(now_ns());
            for process in &counted.processes {
                if let Some(tag) = self.aggregator.tag(process.pid) {
                    counted.followed.entry(tag).or_default().add(process);
                }
            }
            for process in here.processes {
                let same = |p: &&mut ProcessUse| (p.pid, p.device) == (process.pid, process.device);
                match counted.processes.iter_mut().find(same) {
                    Some(known) => known.throttled = process.throttled,
                    None => counted.processes.push(process),
                }
            }
        }
        self.aggregator.end_window();
        counted
    }

    /// A call with a lost end would be waited for for ever.
    fn forget_lost_calls(&mut self, now: u64) {
        let mut long = self.calls_for(now, CHECKED_AFTER);
        long.sort_unstable_by_key(|(_, tid)| (*tid < self.check_turn, *tid));
        for (pid, tid) in long.into_iter().take(CHECKED) {
            self.check_turn = tid.wrapping_add(1);
            // `running`, or the number of the call; the thread may be gone.
            let path = format!("/proc/{pid}/task/{tid}/syscall");
            let inside = self.root.read_line(&path).into_value().is_some_and(|text| {
                text.split(' ').next().is_some_and(|n| n.parse::<i64>().is_ok_and(|n| n >= 0))
            });
            if !inside {
                self.aggregator.forget(tid);
                if let Source::Bpf(bpf, _) = &mut self.source {
                    bpf.forget(pid, tid);
                }
            }
        }
    }

    /// Calls under way for at least this long: process and thread.
    fn calls_for(&self, now: u64, least: Duration) -> Vec<(u32, u32)> {
        match &self.source {
            Source::Bpf(bpf, _) if !self.is_paused() => bpf.long_calls(now, least),
            _ => self.aggregator.long_calls(now, least),
        }
    }

    /// Follows processors, and threads that write synchronously. Those that can't be followed stay
    /// unseen; the rest is seen.
    pub(crate) fn watch_writers(&mut self) {
        let window = self.windows;
        if let Some(perf) = self.source.perf()
            && let Err(e) = perf.follow_processors(&self.root)
        {
            self.is_blind("processors that came", &e);
        }
        let Self { source, files, aggregator, sync_writers, .. } = self;
        let mut writes_synchronously = |pid| files.writes_synchronously(pid);
        let watched = match source {
            Source::Perf(perf) if !self.own_numbers => {
                let threads = sync_writers.watch(
                    window,
                    aggregator.take_writers(),
                    &mut writes_synchronously,
                );
                let watched = perf.watch_writes(&threads);
                self.unwatched = (threads.len() - perf.watched().len()) as u32;
                watched
            }
            // By process.
            Source::Bpf(bpf, _) => {
                let suspects = bpf.take_suspects().into_iter().map(|pid| (pid, pid));
                bpf.watch_writes(&sync_writers.watch(window, suspects, &mut writes_synchronously))
            }
            _ => Ok(()),
        };
        if let Err(e) = watched {
            self.is_blind(SYNC_WRITES, &e);
        }
    }
}

/// The whole disk that a name, a path below /dev or a number means.
///
/// # Errors
/// The reason why it is not a disk.
pub fn device(root: &SysRoot, text: &str) -> Result<DeviceId, String> {
    let id = match text.parse() {
        Ok(id) => id,
        Err(_) => {
            let path = if text.contains('/') { text.to_owned() } else { format!("/dev/{text}") };
            block::by_path(root, &path).into_value().ok_or_else(|| {
                format!(
                    "'{text}' is no block device; name one as in lsblk, such as sda, or by its \
                    number, such as 8:0"
                )
            })?
        }
    };
    block::whole_disk(root, id).into_value().ok_or_else(|| format!("there is no block device {id}"))
}
