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

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use floodwall_model::DeviceId;

use crate::event::{Call, Class, Event, Place, Record};
use crate::follow::{FollowTally, Lineage};
use crate::hash::Fast;
use crate::histogram::Histogram;
use crate::snapshot::{Followed, OTHERS, ProcessUse, Requests};

/// The kind of an open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFile {
    /// The device that its data goes to; `None` if not known.
    pub device: Option<DeviceId>,
    /// `O_SYNC` or `O_DSYNC`.
    pub sync: bool,
    /// `O_DIRECT`.
    pub direct: bool,
}

/// Looks up what a process has open.
pub trait Files {
    /// The file behind a descriptor; `None` if it is closed by now or may not be looked at.
    fn file(&mut self, pid: u32, fd: i32) -> Option<OpenFile>;

    /// A process did something for the first time in this window: a caller that wants its name
    /// should ask while it lives.
    fn seen(&mut self, _pid: u32) {}
}

/// How much is remembered.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Pairs of process and device told apart in one window.
    pub uses: usize,
    /// Calls under way.
    pub calls: usize,
    /// Requests under way.
    pub requests: usize,
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

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    queued_ns: Option<u64>,
    issued_ns: Option<u64>,
    class: Class,
    bytes: u64,
    /// The process and thread that asked; `None` if that was not seen.
    asker: Option<(u32, u32)>,
}

#[derive(Debug, Default)]
struct UseTally {
    calls: BTreeMap<Call, Histogram>,
    reads: Histogram,
    read_bytes: u64,
    throttled: Duration,
}

#[derive(Debug, Default)]
struct ClassTally {
    bytes: u64,
    queue: Histogram,
    device: Histogram,
}

type Uses = HashMap<(u32, Option<DeviceId>), UseTally, Fast>;

/// Counts events of one window.
#[derive(Debug, Default)]
pub struct Tally {
    limits: Limits,
    calls: HashMap<u32, Pending, Fast>,
    requests: HashMap<Place, Outstanding, Fast>,
    uses: Uses,
    devices: HashMap<(DeviceId, Class), ClassTally, Fast>,
    folded: u64,
    /// Threads that sent synchronous writes outside of a known call.
    writers: Vec<(u32, u32)>,
    lineage: Lineage,
    followed: BTreeMap<u32, FollowTally>,
    /// Later operations do not count for followed processes.
    until_ns: Option<u64>,
    /// See [`Self::asked_when_issued`].
    asked_when_issued: bool,
    /// See [`Self::reads_only`].
    reads_only: bool,
}

/// The counts of one window.
#[derive(Debug, Default)]
pub struct Counted {
    /// By process and device; without names and without dirtied bytes.
    pub processes: Vec<ProcessUse>,
    /// By device and class.
    pub devices: BTreeMap<DeviceId, BTreeMap<Class, Requests>>,
    /// Operations counted for [`OTHERS`].
    pub folded: u64,
    /// By tag, the operations of followed processes, however many they are.
    pub followed: BTreeMap<u32, Followed>,
}

/// Threads remembered as possible writers to `O_SYNC` files between two looks.
const WRITERS: usize = 64;

impl Tally {
    /// Empty, with these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// A request that goes to the device without having been queued belongs to the thread that
    /// sends it ([`crate::tracepoints::Kind::Inserted`]).
    #[must_use]
    pub fn asked_when_issued(self, asked_when_issued: bool) -> Self {
        Self { asked_when_issued, ..self }
    }

    /// Of requests only reads are counted: the ends of others are not told.
    #[must_use]
    pub fn reads_only(self, reads_only: bool) -> Self {
        Self { reads_only, ..self }
    }

    /// Forgets what is under way: its end will not be told.
    pub fn forget_all(&mut self) {
        self.calls.clear();
        self.requests.clear();
    }

    /// A call that is under way and whose beginning was not counted.
    pub fn is_inside(&mut self, pid: u32, tid: u32, call: Call, fd: Option<i32>, now_ns: u64) {
        if !self.calls.contains_key(&tid) {
            self.enter(tid, Pending::new(pid, Some(call), fd, now_ns));
        }
    }

    /// Whether nothing that has begun is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.requests.is_empty()
    }

    /// Counts one event. Events come in the order of their times, save for some microseconds
    /// between processors.
    pub fn count(&mut self, record: &Record, files: &mut dyn Files) {
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
                if self.asked_when_issued && !self.requests.contains_key(&place) {
                    self.queued(record, place, class, bytes);
                }
                if self.reads_only && class != Class::Read {
                    return;
                }
                let room = self.requests.len() < self.limits.requests;
                match self.requests.entry(place) {
                    Entry::Occupied(mut known) => {
                        let known = known.get_mut();
                        // Requests that were merged into it made it longer.
                        (known.issued_ns, known.class, known.bytes) = (Some(at_ns), class, bytes);
                    }
                    Entry::Vacant(new) if room => {
                        let issued_ns = Some(at_ns);
                        new.insert(Outstanding {
                            queued_ns: None,
                            issued_ns,
                            class,
                            bytes,
                            asker: None,
                        });
                    }
                    Entry::Vacant(_) => {}
                }
            }
            Event::Merged { place } => {
                self.requests.remove(&place);
            }
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
    fn followed(&mut self, pid: u32, tid: u32, since_ns: u64) -> Option<&mut FollowTally> {
        if self.lineage.is_empty() || self.until_ns.is_some_and(|until| since_ns > until) {
            return None;
        }
        Some(self.followed.entry(self.lineage.of(pid, tid)?).or_default())
    }

    /// Follows what a thread starts from now on.
    pub fn follow(&mut self, thread: u32, tag: u32) {
        self.lineage.follow(thread, tag);
    }

    /// From now on counts for followed processes only operations that began before this moment.
    pub fn follow_until(&mut self, until_ns: u64) {
        self.until_ns = Some(until_ns);
    }

    /// The tag of a process, in this window.
    #[must_use]
    pub fn tag(&self, pid: u32) -> Option<u32> {
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
        if self.reads_only && class != Class::Read {
            return;
        }
        if self.requests.len() < self.limits.requests || self.requests.contains_key(&place) {
            let queued_ns = Some(record.at_ns);
            self.requests.insert(
                place,
                Outstanding {
                    queued_ns,
                    issued_ns: None,
                    class,
                    bytes,
                    asker: Some((record.pid, record.tid)),
                },
            );
        }
    }

    fn done(&mut self, place: Place, at_ns: u64, files: &mut dyn Files) {
        // A request may report its end in parts, or have begun before the probe was opened.
        let Some(request) = self.requests.remove(&place) else { return };
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
    fn of(&mut self, pid: u32, device: Option<DeviceId>, files: &mut dyn Files) -> &mut UseTally {
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
    pub fn take_writers(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.writers)
    }

    /// Calls under way for at least this long: process and thread.
    #[must_use]
    pub fn long_calls(&self, now_ns: u64, least: Duration) -> Vec<(u32, u32)> {
        let long = |p: &Pending| u128::from(now_ns.saturating_sub(p.since_ns)) >= least.as_nanos();
        self.calls.iter().filter(|(_, p)| long(p)).map(|(tid, p)| (p.pid, *tid)).collect()
    }

    /// Forgets a thread's call: its end was lost.
    pub fn forget(&mut self, tid: u32) {
        self.calls.remove(&tid);
    }

    /// Events were lost: ends of the calls under way may be missing. Requests are forgotten, and
    /// are counted again as they are issued.
    pub fn events_lost(&mut self) {
        self.requests.clear();
    }

    /// The devices' counts of outstanding requests decide: if more are known as outstanding, the
    /// ends of the oldest were lost. Devices that are not asked for are left alone.
    pub fn in_flight(&mut self, of: impl Fn(DeviceId) -> Option<u64>) {
        let mut outstanding: HashMap<DeviceId, Vec<(u64, Place)>, Fast> = HashMap::default();
        for (place, request) in &self.requests {
            let since = request.queued_ns.or(request.issued_ns).unwrap_or(0);
            outstanding.entry(place.device).or_default().push((since, *place));
        }
        for (device, mut requests) in outstanding {
            let Some(most) = of(device) else { continue };
            let lost = requests.len().saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
            requests.sort_unstable_by_key(|(since, _)| *since);
            for (_, place) in requests.into_iter().take(lost) {
                self.requests.remove(&place);
            }
        }
    }

    /// Devices whose requests were seen in this window, or are under way.
    #[must_use]
    pub fn devices_seen(&self) -> Vec<DeviceId> {
        let mut seen: Vec<DeviceId> = self.devices.keys().map(|(device, _)| *device).collect();
        seen.extend(self.requests.keys().map(|place| place.device));
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    /// Ends the window.
    pub fn take(&mut self, now_ns: u64, files: &mut dyn Files) -> Counted {
        let mut processes: BTreeMap<(u32, Option<DeviceId>), ProcessUse> = BTreeMap::new();
        for ((pid, device), mut tally) in self.uses.drain() {
            let calls = tally.calls.iter_mut().map(|(call, h)| (*call, h.take())).collect();
            let counted = ProcessUse {
                pid,
                device,
                calls,
                reads: tally.reads.take(),
                read_bytes: tally.read_bytes,
                throttled: tally.throttled,
                ..ProcessUse::default()
            };
            processes.insert((pid, device), counted);
        }
        let limit = self.limits.uses;
        let mut waits = |pid: u32, device: Option<DeviceId>, since_ns: u64| {
            let room = processes.len() < limit || processes.contains_key(&(pid, device));
            let key = (if room { pid } else { OTHERS }, device);
            let process = processes.entry(key).or_insert_with(|| ProcessUse {
                pid: key.0,
                device,
                ..ProcessUse::default()
            });
            process.waits(now_ns, since_ns);
        };
        for pending in self.calls.values() {
            let file = pending.fd.and_then(|fd| files.file(pending.pid, fd));
            // A write to an ordinary file is no wait for the device, however long it takes.
            if pending.call.is_some() || file.is_some_and(|f| f.write_call().is_some()) {
                waits(
                    pending.pid,
                    pending.device.or(file.and_then(|f| f.device)),
                    pending.since_ns,
                );
            }
        }
        for (place, request) in &self.requests {
            if let (Class::Read, Some((pid, _)), Some(since)) =
                (request.class, request.asker, request.queued_ns)
            {
                waits(pid, Some(place.device), since);
            }
        }
        let mut devices: BTreeMap<DeviceId, BTreeMap<Class, Requests>> = BTreeMap::new();
        for ((device, class), mut tally) in self.devices.drain() {
            let requests = Requests {
                bytes: tally.bytes,
                queue: tally.queue.take(),
                device: tally.device.take(),
            };
            devices.entry(device).or_default().insert(class, requests);
        }
        Counted {
            processes: processes.into_values().collect(),
            devices,
            folded: std::mem::take(&mut self.folded),
            followed: self.followed.iter_mut().map(|(tag, tally)| (*tag, tally.take())).collect(),
        }
    }

    /// The counts that the kernel kept for this window are in as well: ended processes are
    /// forgotten.
    pub fn end_window(&mut self) {
        self.lineage.forget_ended();
    }
}

impl OpenFile {
    /// What a write to it is; `None` for one that only reaches the page cache.
    fn write_call(self) -> Option<Call> {
        match self {
            Self { sync: true, .. } => Some(Call::SyncWrite),
            Self { direct: true, .. } => Some(Call::DirectWrite),
            _ => None,
        }
    }
}

impl Pending {
    fn new(pid: u32, call: Option<Call>, fd: Option<i32>, since_ns: u64) -> Self {
        Self { pid, call, fd, since_ns, device: None }
    }
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
