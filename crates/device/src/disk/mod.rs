//! A disk: zones, seeks, rotation, read-ahead, native command queueing, a volatile write cache, optionally shingled tracks.
//!
//! ```text
//! submit ─ command overhead ─ link ─▶ arrive ─┬─ read in the buffer ─────────────▶ link ─▶ done
//!                                             ├─ read ──────────▶ queue ─┐
//!                                             ├─ write, no cache ▶ queue ─┼─▶ head ─▶ done
//!                                             └─ write ▶ cache ▶ done     │
//!                                                          └─ dirty ranges┘
//! ```
//!
//! The head does one thing at a time: `service = seek + rotation + transfer` (`geometry.rs`). When it is free it takes, of the queue's first
//! `queue_depth` commands and of the dirty ranges near it, the one that it can reach soonest (shortest positioning time first: Seltzer, Chen and
//! Ousterhout, "Disk scheduling revisited", 1990; Jacobson and Wilkes, HPL-CSP-91-7, 1991), unless something has waited longer than `age_limit`.
//! Dirty ranges take part when there is nothing else to do, when the cache is more than half full, when a writer waits for space and when a FLUSH or a FUA
//! write waits for them. Mean of a random read at depth 1: `command + average seek + half a turn + transfer`.
//!
//! A FLUSH is complete when every range that became dirty before it is on the platter. A FUA write goes through the cache and is complete when no byte of
//! its range is dirty. Writers that find the cache full wait in the order in which they came.

pub(crate) mod geometry;

mod buffer;
mod device;
mod shingle;

use std::collections::VecDeque;

use buffer::{Buffer, Hit};
use geometry::{Geometry, Mechanics, Spot};
use shingle::{Route, Shingle, ShingleParams};

use crate::device::{Completion, DeviceStats, Op, Request};
use crate::dirty::{DirtyMap, Run};
use crate::events::EventQueue;
use crate::time::Nanos;

pub use geometry::Mechanics as DiskMechanics;
pub use shingle::ShingleParams as DiskShingles;

/// What a disk is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskParams {
    /// Platters and arm.
    pub mechanics: Mechanics,
    /// Electronics per command.
    pub command: Nanos,
    /// Interface, in bytes per second: 300 MB/s for SATA 3 Gbit/s (8b/10b coded).
    pub link_rate: f64,
    /// Commands among which it chooses; 1 without native queueing.
    pub queue_depth: u32,
    /// How long a command may be passed over.
    pub age_limit: Nanos,
    /// Bytes that it reads ahead, at most; 0 switches the read buffer off.
    pub read_ahead: u64,
    /// Segments of the read buffer.
    pub segments: u32,
    /// Volatile write cache in bytes; 0 means that writes go through.
    pub write_cache: u64,
    /// Shingled recording, if it has it.
    pub shingles: Option<ShingleParams>,
}

/// How many dirty ranges on either side of the head are considered: as many as a command queue has.
const NEIGHBOURS: usize = 16;
/// Longest single write-back, so that a read does not wait for more than about 10 ms of it.
const DESTAGE_MAX: u64 = 1 << 20;

enum Event {
    Arrive(Request),
    Done(Completion),
}

struct Queued {
    request: Request,
    spot: Spot,
    arrived: Nanos,
}

/// What the head is doing.
enum Work {
    /// The second value is when the command arrived.
    Read(Request, Nanos),
    Write(Request),
    Destage(Run),
    /// Moving a band's data home from the media cache of a shingled drive.
    Clean,
}

struct Forced {
    id: u64,
    offset: u64,
    len: u64,
    arrived: Nanos,
}

struct Flush {
    id: u64,
    epoch: u64,
    arrived: Nanos,
}

/// What the head could do next.
#[derive(Clone, Copy)]
enum Choice {
    Queue(usize),
    Dirty(u64),
}

/// See the [module](self).
pub struct Disk {
    p: DiskParams,
    geometry: Geometry,
    /// Angle of the platters at time zero, as a time.
    phase: Nanos,
    events: EventQueue<Event>,
    command_free: Nanos,
    link_free: Nanos,
    /// The commands that it may choose from, oldest first.
    queue: Vec<Queued>,
    /// Commands beyond the queue's depth.
    backlog: VecDeque<Queued>,
    head: u64,
    /// Where the head's last transfer ended, as an offset.
    head_offset: u64,
    work: Option<(Nanos, Work)>,
    buffer: Buffer,
    cache: DirtyMap,
    /// Writers that wait for space in the cache.
    waiting: VecDeque<Request>,
    forced: Vec<Forced>,
    flushes: VecDeque<Flush>,
    shingle: Option<Shingle>,
    stats: DeviceStats,
}

impl Disk {
    /// `phase` is where the platters stand at time zero: disks of an array do not turn in step.
    #[must_use]
    pub fn new(p: DiskParams, phase: Nanos) -> Self {
        let geometry = Geometry::new(p.mechanics);
        Self {
            p,
            phase,
            events: EventQueue::new(),
            command_free: Nanos::ZERO,
            link_free: Nanos::ZERO,
            queue: Vec::new(),
            backlog: VecDeque::new(),
            head: 0,
            head_offset: 0,
            work: None,
            buffer: Buffer::new(p.segments as usize, p.read_ahead, p.mechanics.capacity),
            cache: DirtyMap::new(),
            waiting: VecDeque::new(),
            forced: Vec::new(),
            flushes: VecDeque::new(),
            shingle: p.shingles.map(Shingle::new),
            stats: DeviceStats { cache_size_bytes: p.write_cache, ..DeviceStats::default() },
            geometry,
        }
    }

    /// Occupies the link for `len` bytes that are ready at `ready`; returns when they are across.
    fn link(&mut self, ready: Nanos, len: u64) -> Nanos {
        self.link_free = self.link_free.max(ready) + Nanos::for_bytes(len, self.p.link_rate);
        self.link_free
    }

    fn done(&mut self, at: Nanos, id: u64) {
        self.events.push(at, Event::Done(Completion { id, at, result: Ok(()) }));
    }

    fn arrive(&mut self, now: Nanos, request: Request) {
        match request.op {
            Op::Read => {
                if self.cache.covers(request.offset, request.len)
                    || self.buffer.look_up(&self.geometry, now, request.offset, request.len) == Hit::Buffered
                {
                    self.buffer.extend(&self.geometry, now, request.end());
                    let at = self.link(now, request.len);
                    self.done(at, request.id);
                } else {
                    self.enqueue(now, request);
                }
            }
            Op::Write { .. } | Op::WriteZeroes => {
                self.buffer.invalidate(request.offset, request.len);
                if request.len > self.p.write_cache {
                    self.enqueue(now, request);
                } else {
                    self.waiting.push_back(request);
                    self.admit(now);
                }
            }
            Op::Flush => {
                let epoch = self.cache.close_epoch();
                self.flushes.push_back(Flush { id: request.id, epoch, arrived: now });
                self.finish_flushes(now);
            }
            Op::Discard => self.done(now, request.id),
        }
    }

    fn enqueue(&mut self, now: Nanos, request: Request) {
        let spot = self.geometry.locate(request.offset);
        self.backlog.push_back(Queued { request, spot, arrived: now });
    }

    /// Lets writers into the cache, in order, while there is space.
    fn admit(&mut self, now: Nanos) {
        while let Some(w) = self.waiting.front().copied() {
            if self.cache.bytes() + self.cache.growth(w.offset, w.len) > self.p.write_cache {
                return;
            }
            self.waiting.pop_front();
            self.cache.insert(w.offset, w.len, w.version);
            if w.op == (Op::Write { fua: true }) {
                self.forced.push(Forced { id: w.id, offset: w.offset, len: w.len, arrived: now });
            } else {
                self.done(now, w.id);
            }
        }
    }

    fn finish_flushes(&mut self, now: Nanos) {
        while self.flushes.front().is_some_and(|f| self.cache.stable_through(f.epoch)) {
            if let Some(f) = self.flushes.pop_front() {
                self.done(now, f.id);
            }
        }
    }

    fn finish_forced(&mut self, now: Nanos) {
        let mut i = 0;
        while i < self.forced.len() {
            let f = &self.forced[i];
            if self.cache.touches(f.offset, f.len) {
                i += 1;
            } else {
                let id = self.forced.remove(i).id;
                self.done(now, id);
            }
        }
    }

    /// Gives the head something to do, if it is free and there is something.
    fn start(&mut self, now: Nanos) {
        while self.work.is_none() {
            while self.queue.len() < self.p.queue_depth as usize {
                match self.backlog.pop_front() {
                    Some(q) => self.queue.push(q),
                    None => break,
                }
            }
            match self.choose(now) {
                Some(Choice::Queue(i)) => {
                    let q = self.queue.remove(i);
                    self.start_request(now, &q);
                }
                Some(Choice::Dirty(start)) => {
                    let Some(run) = self.cache.take(start, DESTAGE_MAX, true) else { return };
                    let end = self.write_time(now, run.offset, run.len);
                    self.work = Some((end, Work::Destage(run)));
                }
                None => return self.start_cleaning(now),
            }
        }
    }

    fn start_request(&mut self, now: Nanos, q: &Queued) {
        let r = q.request;
        if r.op.is_write() {
            let end = self.write_time(now, r.offset, r.len);
            self.work = Some((end, Work::Write(r)));
            return;
        }
        let end = match self.buffer.look_up(&self.geometry, now, r.offset, r.len) {
            Hit::Buffered => {
                self.buffer.extend(&self.geometry, now, r.end());
                let at = self.link(now, r.len);
                return self.done(at, r.id);
            }
            Hit::Riding(end) => {
                let end = end.max(now);
                self.stats.media_busy_ns += end.since(now).0;
                end
            }
            Hit::Miss => self.head_time(now, r.offset, r.len, false),
        };
        self.stats.media_read_bytes += r.len;
        self.work = Some((end, Work::Read(r, q.arrived)));
    }

    /// Moves the head to a range and over it; returns when that is done.
    fn head_time(&mut self, now: Nanos, offset: u64, len: u64, write: bool) -> Nanos {
        self.stop_reading_ahead(now);
        let spot = self.geometry.locate(offset);
        let (wait, cylinders) = self.geometry.position(now + self.phase, self.head, &spot, write);
        let took = wait + self.geometry.transfer(offset, len);
        if cylinders > 0 {
            self.stats.seeks += 1;
            self.stats.seek_bytes += offset.abs_diff(self.head_offset);
        }
        self.park(offset + len);
        self.stats.media_busy_ns += took.0;
        now + took
    }

    /// Writes a range wherever this drive puts it.
    fn write_time(&mut self, now: Nanos, offset: u64, len: u64) -> Nanos {
        self.stats.media_write_bytes += len;
        let route = self.shingle.as_mut().map_or(Route::Home, |s| s.route(offset, len));
        match route {
            Route::Home => self.head_time(now, offset, len, true),
            Route::MediaCache(at) => self.head_time(now, at, len, true),
            Route::CleanFirst(band) => {
                let cleaned = self.clean_time(now, band);
                let at = self.shingle.as_mut().map_or(offset, |s| s.append(offset, len));
                self.head_time(cleaned, at, len, true)
            }
        }
    }

    /// Reads a band, merges what the media cache holds of it and writes it back.
    fn clean_time(&mut self, now: Nanos, band: u64) -> Nanos {
        let Some(s) = self.shingle.as_mut() else { return now };
        let (offset, len) = s.clean(band);
        self.stats.media_read_bytes += len;
        self.stats.media_write_bytes += len;
        let read = self.head_time(now, offset, len, false);
        self.head_time(read, offset, len, true)
    }

    fn start_cleaning(&mut self, now: Nanos) {
        let Some(band) = self.shingle.as_ref().and_then(|s| s.idle_band(now)) else { return };
        let end = self.clean_time(now, band);
        self.work = Some((end, Work::Clean));
    }

    fn park(&mut self, end: u64) {
        self.head_offset = end;
        self.head = self.geometry.locate(end.saturating_sub(1)).track;
    }

    fn stop_reading_ahead(&mut self, now: Nanos) {
        if let Some(front) = self.buffer.stop(&self.geometry, now) {
            self.park(front.max(1));
        }
    }

    /// The oldest thing that has waited too long, else the one that the head can reach soonest.
    fn choose(&mut self, now: Nanos) -> Option<Choice> {
        let late = |arrived: Nanos| now.since(arrived) > self.p.age_limit;
        if self.queue.first().is_some_and(|q| late(q.arrived)) {
            return Some(Choice::Queue(0));
        }
        let overdue = self.forced.first().filter(|f| late(f.arrived));
        if let Some(start) = overdue.and_then(|f| self.cache.first_in(f.offset, f.len)) {
            return Some(Choice::Dirty(start));
        }
        let flush_late = self.flushes.front().is_some_and(|f| late(f.arrived));
        let head_now = match self.buffer.front(&self.geometry, now) {
            Some(front) => self.geometry.locate(front).track,
            None => self.head,
        };
        let cost = |spot: &Spot, write| self.geometry.position(now + self.phase, head_now, spot, write).0;
        let mut best: Option<(Nanos, Choice)> = None;
        let mut consider = |cost: Nanos, choice| {
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, choice));
            }
        };
        if !flush_late {
            for (i, q) in self.queue.iter().enumerate() {
                let r = &q.request;
                let rides = r.op == Op::Read
                    && self.buffer.look_up(&self.geometry, now, r.offset, r.len) != Hit::Miss;
                consider(if rides { Nanos::ZERO } else { cost(&q.spot, r.op.is_write()) }, Choice::Queue(i));
            }
        }
        let write_back = self.queue.is_empty()
            || !self.waiting.is_empty()
            || !self.flushes.is_empty()
            || self.cache.bytes() * 2 > self.p.write_cache;
        if write_back {
            for start in self.cache.near(self.head_offset, NEIGHBOURS) {
                consider(cost(&self.geometry.locate(start), true), Choice::Dirty(start));
            }
        }
        for f in &self.forced {
            if let Some(start) = self.cache.first_in(f.offset, f.len) {
                consider(cost(&self.geometry.locate(start), true), Choice::Dirty(start));
            }
        }
        best.map(|(_, choice)| choice)
    }

    fn finish(&mut self, now: Nanos, work: Work) {
        let served = !matches!(work, Work::Clean);
        match work {
            Work::Read(r, arrived) => {
                self.buffer.read(now, r.offset, r.len);
                self.park(r.end());
                // The link runs beside the head and has at most the last sectors left to send.
                let sent_for = Nanos::for_bytes(r.len, self.p.link_rate);
                let ready = Nanos(now.0.saturating_sub(sent_for.0)).max(arrived);
                let at = self.link(ready, r.len).max(now);
                self.done(at, r.id);
            }
            Work::Write(r) => self.done(now, r.id),
            Work::Destage(run) => {
                self.cache.settle(&run);
                self.admit(now);
                self.finish_flushes(now);
                self.finish_forced(now);
            }
            Work::Clean => {}
        }
        if served && let Some(s) = self.shingle.as_mut() {
            s.touched(now);
        }
    }
}
