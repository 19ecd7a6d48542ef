//! From events to waits by process. Pure: no clock, no file.
//!
//! ```text
//! Enter … Exit          a thread's call                       ─▶ process × device × kind of call
//!   └ Queued in between tells the call's device; else its file does
//! Queued ─ Issued ─ Done  a request: queue time, device time  ─▶ device × class;
//!                                                                reads also ─▶ process × device
//! Balanced              a sleep                               ─▶ process × device
//! Forked, Ended         who is followed                       ─▶ calls and reads once more,
//!                                                                by whom they belong to
//! ```
//!
//! Memory is bounded whatever happens: beyond [`Limits`] processes are counted together, and calls
//! under way are forgotten.

mod in_flight;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use floodwall_model::DeviceId;
use floodwall_model::histogram::Histogram;

use crate::event::{Call, Class, Event, Place, Record};
use crate::follow::{FollowCounts, Lineage};
use crate::hash::Fast;
use crate::open_file::Files;
use crate::snapshot::{Counted, OTHERS, ProcessUse, Requests};
use in_flight::InFlight;

/// How much is remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Pairs of process and device told apart in one window.
    pub(crate) uses: usize,
    /// Calls under way.
    pub(crate) calls: usize,
    /// Requests under way.
    pub(crate) requests: usize,
}

impl Default for Limits {
    /// Some 1 KB a pair in use, 64 bytes a call or request: 3 MB at the worst.
    fn default() -> Self {
        Self { uses: 1024, calls: 8192, requests: 16_384 }
    }
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    pid: u32,
    /// `None`: a write, whose file will tell.
    call: Option<Call>,
    fd: Option<i32>,
    since_ns: u64,
    /// Where its thread sent a request meanwhile.
    device: Option<DeviceId>,
}

#[derive(Debug, Default)]
struct UseCounts {
    calls: BTreeMap<Call, Histogram>,
    reads: Histogram,
    read_bytes: u64,
    throttled: Duration,
}

#[derive(Debug, Default)]
struct ClassCounts {
    bytes: u64,
    queue: Histogram,
    device: Histogram,
}

type Uses = HashMap<(u32, Option<DeviceId>), UseCounts, Fast>;

/// Counts events of one window.
#[derive(Debug)]
pub(crate) struct Aggregator {
    limits: Limits,
    calls: HashMap<u32, Pending, Fast>,
    requests: InFlight,
    uses: Uses,
    devices: HashMap<(DeviceId, Class), ClassCounts, Fast>,
    folded: u64,
    /// Threads that sent synchronous writes outside of a known call.
    writers: Vec<(u32, u32)>,
    lineage: Lineage,
    followed: BTreeMap<u32, FollowCounts>,
    /// Later operations do not count for followed processes.
    until_ns: Option<u64>,
    /// See [`Self::asked_when_issued`].
    asked_when_issued: bool,
}

/// Threads remembered as possible writers to `O_SYNC` files between two looks.
const WRITERS: usize = 64;

impl Aggregator {
    /// Empty, with these limits.
    #[must_use]
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            calls: HashMap::default(),
            requests: InFlight::new(limits.requests),
            uses: Uses::default(),
            devices: HashMap::default(),
            folded: 0,
            writers: Vec::new(),
            lineage: Lineage::default(),
            followed: BTreeMap::new(),
            until_ns: None,
            asked_when_issued: false,
        }
    }

    /// A request that goes to the device without having been queued belongs to the thread that
    /// sends it ([`crate::tracepoints::Kind::Inserted`]).
    #[must_use]
    pub(crate) fn asked_when_issued(self, asked_when_issued: bool) -> Self {
        Self { asked_when_issued, ..self }
    }

    /// Of requests only reads are counted: the ends of others are not told.
    #[must_use]
    pub(crate) fn reads_only(self, reads_only: bool) -> Self {
        Self { requests: self.requests.reads_only(reads_only), ..self }
    }

    /// Forgets what is under way: its end will not be told.
    pub(crate) fn forget_all(&mut self) {
        self.calls.clear();
        self.requests.clear();
    }

    /// A call that is under way and whose beginning was not counted. `None`: a write, whose file
    /// will tell. Returns whether it is new.
    pub(crate) fn is_inside(
        &mut self,
        pid: u32,
        tid: u32,
        call: Option<Call>,
        fd: Option<i32>,
        now_ns: u64,
    ) -> bool {
        let is_new = !self.calls.contains_key(&tid);
        if is_new {
            self.enter(tid, Pending::new(pid, call, fd, now_ns));
        }
        is_new
    }

    /// Whether nothing that has begun is under way.
    #[must_use]
    pub(crate) fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.requests.is_empty()
    }

    /// Counts one event. Events come in the order of their times, save for some microseconds
    /// between processors.
    pub(crate) fn count(&mut self, record: &Record, files: &mut dyn Files) {
        let Record { at_ns, pid, tid, event } = *record;
        match event {
            Event::Enter { call, fd } => self.enter(tid, Pending::new(pid, Some(call), fd, at_ns)),
            Event::EnterWrite { fd } => self.enter(tid, Pending::new(pid, None, Some(fd), at_ns)),
            Event::Exit { call, ok } => {
                // The call whose beginning was seen, not another whose beginning or end was lost.
                if let Some(pending) =
                    self.calls.remove(&tid).filter(|p| ok && p.call == Some(call))
                {
                    let device = pending.device.or_else(|| files.file(pid, pending.fd?)?.device);
                    self.returned(&pending, tid, call, device, at_ns, files);
                }
            }
            Event::ExitWrite { ok } => {
                if let Some(pending) = self.calls.remove(&tid).filter(|p| ok && p.call.is_none())
                    && let Some(file) = pending.fd.and_then(|fd| files.file(pid, fd))
                    && let Some(call) = file.write_call()
                {
                    self.returned(
                        &pending,
                        tid,
                        call,
                        pending.device.or(file.device),
                        at_ns,
                        files,
                    );
                }
            }
            Event::Queued { place, class, bytes } => self.queued(record, place, class, bytes),
            Event::Issued { place, class, bytes } => {
                if self.asked_when_issued && !self.requests.has(place) {
                    self.queued(record, place, class, bytes);
                }
                self.requests.issued(at_ns, place, class, bytes);
            }
            Event::Merged { place } => drop(self.requests.remove(place)),
            Event::Done { place } => self.done(place, at_ns, files),
            Event::Balanced { device, pause_ms } => {
                if pause_ms > 0 {
                    self.of(pid, device, files).throttled += Duration::from_millis(pause_ms);
                }
            }
            Event::Forked { child } => self.lineage.forked(pid, tid, child),
            Event::Ended => self.lineage.ended(tid),
        }
    }

    fn enter(&mut self, tid: u32, pending: Pending) {
        if self.calls.len() < self.limits.calls || self.calls.contains_key(&tid) {
            self.calls.insert(tid, pending);
        }
    }

    fn returned(
        &mut self,
        pending: &Pending,
        tid: u32,
        call: Call,
        device: Option<DeviceId>,
        at_ns: u64,
        files: &mut dyn Files,
    ) {
        let took = at_ns.saturating_sub(pending.since_ns);
        if let Some(followed) = self.followed(pending.pid, tid, pending.since_ns) {
            followed.calls.entry(call).or_default().record(took);
        }
        self.of(pending.pid, device, files).calls.entry(call).or_default().record(took);
    }

    /// The followed aggregate that an operation also counts for, if its process is followed.
    fn followed(&mut self, pid: u32, tid: u32, since_ns: u64) -> Option<&mut FollowCounts> {
        if self.lineage.is_empty() || self.until_ns.is_some_and(|until| since_ns > until) {
            return None;
        }
        Some(self.followed.entry(self.lineage.of(pid, tid)?).or_default())
    }

    /// Follows what a thread starts from now on.
    pub(crate) fn follow(&mut self, thread: u32, tag: u32) {
        self.lineage.follow(thread, tag);
    }

    /// From now on counts for followed processes only operations that began before this moment.
    pub(crate) fn follow_until(&mut self, until_ns: u64) {
        self.until_ns = Some(until_ns);
    }

    /// The tag of a process, in this window.
    #[must_use]
    pub(crate) fn tag(&self, pid: u32) -> Option<u32> {
        self.lineage.of(pid, pid)
    }

    fn queued(&mut self, record: &Record, place: Place, class: Class, bytes: u64) {
        match self.calls.get_mut(&record.tid) {
            Some(pending) => pending.device = Some(place.device),
            None if class == Class::SyncWrite
                && self.writers.len() < WRITERS
                && !self.writers.iter().any(|(_, tid)| *tid == record.tid) =>
            {
                self.writers.push((record.pid, record.tid));
            }
            None => {}
        }
        self.requests.queued(record, place, class, bytes);
    }

    fn done(&mut self, place: Place, at_ns: u64, files: &mut dyn Files) {
        // A request may report its end in parts, or have begun before the probe was opened.
        let Some(request) = self.requests.remove(place) else { return };
        let Some(issued_ns) = request.issued_ns else { return };
        let class = self.devices.entry((place.device, request.class)).or_default();
        class.bytes += request.bytes;
        class.device.record(at_ns.saturating_sub(issued_ns));
        if let Some(queued_ns) = request.queued_ns {
            class.queue.record(issued_ns.saturating_sub(queued_ns));
        }
        if let (Class::Read, Some((pid, tid))) = (request.class, request.asker) {
            let since = request.queued_ns.unwrap_or(issued_ns);
            if let Some(followed) = self.followed(pid, tid, since) {
                followed.reads.entry(place.device).or_default().record(at_ns.saturating_sub(since));
            }
            let uses = self.of(pid, Some(place.device), files);
            uses.reads.record(at_ns.saturating_sub(since));
            uses.read_bytes += request.bytes;
        }
    }

    /// A process's counters for one device, or those of all others if there is no room.
    fn of(&mut self, pid: u32, device: Option<DeviceId>, files: &mut dyn Files) -> &mut UseCounts {
        let known = self.uses.contains_key(&(pid, device));
        let key = if known || self.uses.len() < self.limits.uses {
            if !known {
                files.seen(pid);
            }
            (pid, device)
        } else {
            self.folded += 1;
            (OTHERS, device)
        };
        self.uses.entry(key).or_default()
    }

    /// Threads that may write to `O_SYNC` or `O_DIRECT` files: process and thread. Each is told
    /// once a call of this.
    pub(crate) fn take_writers(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.writers)
    }

    /// Calls under way for at least this long: process and thread.
    #[must_use]
    pub(crate) fn long_calls(&self, now_ns: u64, least: Duration) -> Vec<(u32, u32)> {
        let long = |p: &Pending| u128::from(now_ns.saturating_sub(p.since_ns)) >= least.as_nanos();
        self.calls.iter().filter(|(_, p)| long(p)).map(|(tid, p)| (p.pid, *tid)).collect()
    }

    /// Forgets a thread's call: its end was lost.
    pub(crate) fn forget(&mut self, tid: u32) {
        self.calls.remove(&tid);
    }

    /// Events were lost: ends of the calls under way may be missing. Requests are forgotten, and
    /// are counted again as they are issued.
    pub(crate) fn events_lost(&mut self) {
        self.requests.clear();
    }

    /// The devices' counts of outstanding requests: see [`InFlight::at_most`].
    pub(crate) fn in_flight(&mut self, of: impl Fn(DeviceId) -> Option<u64>) {
        self.requests.at_most(of);
    }

    /// Devices whose requests were seen in this window, or are under way.
    #[must_use]
    pub(crate) fn devices_seen(&self) -> Vec<DeviceId> {
        let mut seen: Vec<DeviceId> = self.devices.keys().map(|(device, _)| *device).collect();
        seen.extend(self.requests.iter().map(|(place, _)| place.device));
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    /// Ends the window.
    pub(crate) fn take(&mut self, now_ns: u64, files: &mut dyn Files) -> Counted {
        let mut processes: BTreeMap<(u32, Option<DeviceId>), ProcessUse> = BTreeMap::new();
        for ((pid, device), mut counts) in self.uses.drain() {
            let calls = counts.calls.iter_mut().map(|(call, h)| (*call, h.take())).collect();
            let counted = ProcessUse {
                pid,
                device,
                calls,
                reads: counts.reads.take(),
                read_bytes: counts.read_bytes,
                throttled: counts.throttled,
                ..ProcessUse::default()
            };
            processes.insert((pid, device), counted);
        }
        let limit = self.limits.uses;
        let mut waits = |pid: u32, device: Option<DeviceId>, since_ns: u64, call: &'static str| {
            let room = processes.len() < limit || processes.contains_key(&(pid, device));
            let key = (if room { pid } else { OTHERS }, device);
            let process = processes.entry(key).or_insert_with(|| ProcessUse {
                pid: key.0,
                device,
                ..ProcessUse::default()
            });
            process.waits(now_ns, since_ns, call);
        };
        for pending in self.calls.values() {
            let file = pending.fd.and_then(|fd| files.file(pending.pid, fd));
            // A write to an ordinary file is no wait for the device, however long it takes.
            if let Some(call) = pending.call.or_else(|| file?.write_call()) {
                let device = pending.device.or_else(|| file?.device);
                waits(pending.pid, device, pending.since_ns, call.name());
            }
        }
        for (place, request) in self.requests.iter() {
            if let (Class::Read, Some((pid, _)), Some(since)) =
                (request.class, request.asker, request.queued_ns)
            {
                waits(pid, Some(place.device), since, request.class.name());
            }
        }
        let mut devices: BTreeMap<DeviceId, BTreeMap<Class, Requests>> = BTreeMap::new();
        for ((device, class), mut counts) in self.devices.drain() {
            let requests = Requests {
                bytes: counts.bytes,
                queue: counts.queue.take(),
                device: counts.device.take(),
            };
            devices.entry(device).or_default().insert(class, requests);
        }
        Counted {
            processes: processes.into_values().collect(),
            devices,
            folded: std::mem::take(&mut self.folded),
            followed: self.followed.iter_mut().map(|(tag, counts)| (*tag, counts.take())).collect(),
            dirtied: None,
        }
    }

    /// The counts that the kernel kept for this window are in as well: ended processes are
    /// forgotten.
    pub(crate) fn end_window(&mut self) {
        self.lineage.forget_ended();
    }
}

impl Pending {
    fn new(pid: u32, call: Option<Call>, fd: Option<i32>, since_ns: u64) -> Self {
        Self { pid, call, fd, since_ns, device: None }
    }
}

#[cfg(test)]
mod tests;
