//! A disk: zones, seeks, rotation, read-ahead, native command queueing, a volatile write cache,
//! optionally shingled tracks.
//!
//! ```text
//! submit ─ command overhead ─ link ─▶ arrive ─┬─ read in the buffer ─────────────▶ link ─▶ done
//!                                             ├─ read ──────────▶ queue ─┐
//!                                             ├─ write, no cache ▶ queue ─┼─▶ head ─▶ done
//!                                             └─ write ▶ cache ▶ done     │
//!                                                          └─ dirty ranges┘
//! ```
//!
//! The head does one thing at a time: `service = seek + rotation + transfer` (`geometry.rs`). When
//! it is free it chooses from the queue's first `queue_depth` commands and the dirty ranges near
//! it. It takes the one that it can reach soonest, unless something has waited longer than
//! `age_limit`. This is shortest positioning time first (Seltzer, Chen and Ousterhout, "Disk
//! scheduling revisited", 1990; Jacobson and Wilkes, HPL-CSP-91-7, 1991). Dirty ranges take part
//! when the head is idle or the cache is over half full. They also do when a writer waits for
//! space, or a FLUSH or FUA write waits for them. Mean of a random read at depth 1:
//! `command + average seek + half a turn + transfer`.
//!
//! A FLUSH is complete when every range that became dirty before it is on the platter. As long as
//! one waits, only the ranges that it covers are written back. Later writes stand behind it:
//! otherwise an endless stream would keep it waiting for ever. A FUA write goes through the cache
//! and is complete when no byte of its range is dirty. Writers that find the cache full wait in the
//! order in which they came. A command, a FLUSH or a FUA write that has waited longer than
//! `age_limit` comes before everything younger.

pub(crate) mod geometry;

mod device;
mod read_buffer;
mod shingle;
mod state;

use geometry::Spot;
use read_buffer::Hit;
use shingle::Route;
use state::{Begun, Choice, Flush, Forced, Overdue, Queued, Work};

use crate::device::{Completion, Op, Request};
use crate::time::Nanos;

pub use geometry::Mechanics as DiskMechanics;
pub use shingle::ShingleParams as DiskShingles;
pub use state::{Disk, DiskParams};

/// How many dirty ranges on either side of the head are considered: as many as a command queue has.
const NEIGHBOURS: usize = 16;
/// Longest single write-back, so that a read does not wait for more than about 10 ms of it.
const DESTAGE_MAX: u64 = 1 << 20;

impl Disk {
    /// A command is done at `at`.
    fn done(&mut self, now: Nanos, at: Nanos, id: u64) {
        let completion = Completion { id, at, result: Ok(()) };
        if at <= now && self.done.due() > now {
            self.ready.push(completion);
        } else {
            self.done.push(at, completion);
        }
    }

    /// Whether a command is a write that goes to the platters: nothing comes of its arrival while
    /// the head is at work.
    fn goes_through(&self, request: &Request) -> bool {
        request.op.is_write() && request.len > self.p.write_cache
    }

    /// Begins a command that will arrive at `at`, later than now, if it is certain that the head
    /// will then be free for it; says whether it did.
    ///
    /// That saves an event. It is certain if nothing is under way and nothing can arrive before.
    /// Later commands arrive later, except that a command without data overtakes a write that is
    /// still on the link. Then the write is taken back ([`Self::take_back`]), which is why it is
    /// begun only while the read buffer, which it would invalidate, is empty.
    fn begin(&mut self, now: Nanos, at: Nanos, request: Request) -> bool {
        let waits =
            self.work.is_some() || self.arrivals.due() < Nanos::MAX || !self.queue.is_empty();
        if waits
            || at <= now
            || request.len == 0
            || !self.has_nothing_to_write()
            || self.shingle.is_some()
        {
            return false;
        }
        let hit = match request.op {
            Op::Read => self.hit(at, &request),
            _ if self.goes_through(&request) && self.buffer.is_empty() => Hit::Miss,
            _ => return false,
        };
        if hit == Hit::Buffered {
            return false;
        }
        let (head, head_offset, counts) = (self.head, self.head_offset, self.counts);
        self.begun = Some(Begun { at, request, head, head_offset, counts });
        let spot = self.geometry.locate(request.offset);
        self.start_request(at, &Queued { request, spot, arrived: at }, hit);
        true
    }

    /// Undoes [`Self::begin`] for a command that has not arrived by `now`; returns it.
    fn take_back(&mut self, now: Nanos) -> Option<(Nanos, Request)> {
        let begun = self.begun.take_if(|b| b.at > now)?;
        self.work = None;
        (self.head, self.head_offset, self.counts) = (begun.head, begun.head_offset, begun.counts);
        Some((begun.at, begun.request))
    }

    /// When the head is free again, or idle enough to clean up.
    fn head_due(&self) -> Nanos {
        match &self.work {
            Some((end, _)) => *end,
            None => self.shingle.as_ref().and_then(|s| s.cleans_at()).unwrap_or(Nanos::MAX),
        }
    }

    fn arrive(&mut self, now: Nanos, request: Request) {
        match request.op {
            Op::Read => {
                let hit = match self.cache.covers(request.offset, request.len) {
                    true => Hit::Buffered,
                    false => self.buffer.look_up(&self.geometry, now, request.offset, request.len),
                };
                if hit == Hit::Buffered {
                    self.buffer.extend(&self.geometry, now, request.end());
                    let at = self.link.send(now, request.len);
                    self.done(now, at, request.id);
                } else {
                    self.enqueue(now, request, hit);
                }
            }
            Op::Write { .. } | Op::WriteZeroes => {
                self.buffer.invalidate(request.offset, request.len);
                if request.len > self.p.write_cache {
                    self.enqueue(now, request, Hit::Miss);
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
            Op::Discard => self.done(now, now, request.id),
        }
    }

    /// A command for the head; `hit` says where a read finds its data at this moment.
    fn enqueue(&mut self, now: Nanos, request: Request, hit: Hit) {
        let queued = Queued { spot: self.geometry.locate(request.offset), request, arrived: now };
        if self.work.is_none() && self.queue.is_empty() && self.has_nothing_to_write() {
            // Nothing to choose from: the head is free, and whatever else there was would have been
            // begun.
            self.start_request(now, &queued, hit);
        } else if self.backlog.is_empty() && self.queue.len() < self.p.queue_depth as usize {
            self.queue.push(queued);
        } else {
            self.backlog.push_back(queued);
        }
    }

    /// Lets writers into the cache, in order, while there is space.
    fn admit(&mut self, now: Nanos) {
        while let Some(w) = self.waiting.front().copied() {
            let room = self.p.write_cache.saturating_sub(self.cache.bytes());
            if self.cache.admit(w.offset, w.len, w.version, room).is_err() {
                return;
            }
            self.waiting.pop_front();
            if w.op == (Op::Write { fua: true }) {
                self.forced.push(Forced { id: w.id, offset: w.offset, len: w.len, arrived: now });
            } else {
                self.done(now, now, w.id);
            }
        }
    }

    fn finish_flushes(&mut self, now: Nanos) {
        while self.flushes.front().is_some_and(|f| self.cache.stable_through(f.epoch)) {
            if let Some(f) = self.flushes.pop_front() {
                self.done(now, now, f.id);
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
                self.done(now, now, id);
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
                Some(Choice::Queue(i, hit)) => {
                    let q = self.queue.remove(i);
                    let hit = hit.unwrap_or_else(|| self.hit(now, &q.request));
                    self.start_request(now, &q, hit);
                }
                Some(Choice::Dirty(start)) => {
                    let Some(run) = self.cache.take(start, DESTAGE_MAX, true) else { return };
                    let end = self.write_time(now, run.offset, run.len, None);
                    self.work = Some((end, Work::Destage(run)));
                }
                None => return self.start_cleaning(now),
            }
        }
    }

    /// Where a read finds its data at this moment.
    fn hit(&self, now: Nanos, r: &Request) -> Hit {
        match r.op {
            Op::Read => self.buffer.look_up(&self.geometry, now, r.offset, r.len),
            _ => Hit::Miss,
        }
    }

    /// Begins a command; `hit` says where a read finds its data at this moment.
    fn start_request(&mut self, now: Nanos, q: &Queued, hit: Hit) {
        let r = q.request;
        if r.op.is_write() {
            let end = self.write_time(now, r.offset, r.len, Some(&q.spot));
            self.work = Some((end, Work::Write { id: r.id, offset: r.offset, len: r.len }));
            return;
        }
        let end = match hit {
            Hit::Buffered => {
                self.buffer.extend(&self.geometry, now, r.end());
                let at = self.link.send(now, r.len);
                return self.done(now, at, r.id);
            }
            Hit::Riding(end) => {
                let end = end.max(now);
                self.counts.busy_ns += end.since(now).0;
                end
            }
            Hit::Miss => self.head_time(now, r.offset, r.len, false, Some(&q.spot)),
        };
        self.counts.read_bytes += r.len;
        self.work =
            Some((end, Work::Read { id: r.id, offset: r.offset, len: r.len, arrived: q.arrived }));
    }

    /// Moves the head to a range and over it; returns when that is done. `spot` is where the range
    /// begins, if that is known.
    fn head_time(
        &mut self,
        now: Nanos,
        offset: u64,
        len: u64,
        write: bool,
        spot: Option<&Spot>,
    ) -> Nanos {
        self.stop_reading_ahead(now);
        let spot = spot.copied().unwrap_or_else(|| self.geometry.locate(offset));
        let wait = self.geometry.position(now + self.phase, self.head, &spot, write);
        let took = wait + self.geometry.transfer(&spot.place, len);
        if self.geometry.cylinders(self.head, &spot) > 0 {
            self.counts.seeks += 1;
            self.counts.seek_bytes += offset.abs_diff(self.head_offset);
        }
        self.head_offset = offset + len;
        self.head = self.geometry.parked_after(&spot, offset, len);
        self.counts.busy_ns += took.0;
        now + took
    }

    /// Writes a range wherever this drive puts it. `spot` is where the range begins, if that is
    /// known.
    fn write_time(&mut self, now: Nanos, offset: u64, len: u64, spot: Option<&Spot>) -> Nanos {
        self.counts.write_bytes += len;
        let route = self.shingle.as_mut().map_or(Route::Home, |s| s.route(offset, len));
        match route {
            Route::Home => self.head_time(now, offset, len, true, spot),
            Route::MediaCache(at) => self.head_time(now, at, len, true, None),
            Route::CleanFirst(band) => {
                let cleaned = self.clean_time(now, band);
                let at = self.shingle.as_mut().map_or(offset, |s| s.append(offset, len));
                self.head_time(cleaned, at, len, true, None)
            }
        }
    }

    /// Reads a band, merges what the media cache holds of it and writes it back.
    fn clean_time(&mut self, now: Nanos, band: u64) -> Nanos {
        let Some(s) = self.shingle.as_mut() else { return now };
        let (offset, len) = s.clean(band);
        self.counts.read_bytes += len;
        self.counts.write_bytes += len;
        let read = self.head_time(now, offset, len, false, None);
        self.head_time(read, offset, len, true, None)
    }

    fn start_cleaning(&mut self, now: Nanos) {
        let Some(band) = self.shingle.as_ref().and_then(|s| s.idle_band(now)) else { return };
        let end = self.clean_time(now, band);
        self.work = Some((end, Work::Clean));
    }

    fn park(&mut self, end: u64) {
        self.head_offset = end;
        self.head = self.geometry.parked_at(end.saturating_sub(1));
    }

    fn stop_reading_ahead(&mut self, now: Nanos) {
        if let Some(front) = self.buffer.stop(&self.geometry, now) {
            self.park(front.max(1));
        }
    }

    /// Whether no dirty range takes part in the choice.
    fn has_nothing_to_write(&self) -> bool {
        self.cache.dirty_bytes() == 0 && self.flushes.is_empty()
    }

    /// The oldest waiting work, if it is older than the limit.
    fn overdue(&self, now: Nanos) -> Option<Overdue> {
        let oldest = [
            self.queue.first().map(|q| (q.arrived, Overdue::Command)),
            self.forced.first().map(|f| (f.arrived, Overdue::Forced)),
            self.flushes.front().map(|f| (f.arrived, Overdue::Flush)),
        ];
        let late = oldest
            .into_iter()
            .flatten()
            .filter(|(arrived, _)| now.since(*arrived) > self.p.age_limit);
        late.min_by_key(|(arrived, _)| *arrived).map(|(_, overdue)| overdue)
    }

    /// The oldest thing that has waited too long, else the one that the head can reach soonest.
    fn choose(&self, now: Nanos) -> Option<Choice> {
        if self.queue.len() <= 1 && self.has_nothing_to_write() {
            // There is no choice.
            return (!self.queue.is_empty()).then_some(Choice::Queue(0, None));
        }
        let overdue = self.overdue(now);
        match overdue {
            Some(Overdue::Command) => return Some(Choice::Queue(0, None)),
            Some(Overdue::Forced) => {
                let dirty = self.forced.first().and_then(|f| self.cache.first_in(f.offset, f.len));
                if let Some(start) = dirty {
                    return Some(Choice::Dirty(start));
                }
            }
            Some(Overdue::Flush) | None => {}
        }
        let head_now = match self.buffer.front(&self.geometry, now) {
            Some(front) => self.geometry.parked_at(front),
            None => self.head,
        };
        let turned = now + self.phase;
        // The least cost so far, and of what.
        let mut best: (Nanos, Option<Choice>) = (Nanos::MAX, None);
        let consider = |best: &mut (Nanos, Option<Choice>), spot: &Spot, write, choice| {
            let cost = self.geometry.position_within(turned, head_now, spot, write, best.0);
            if cost < best.0 {
                *best = (cost, Some(choice));
            }
        };
        if overdue.is_none() {
            for (i, q) in self.queue.iter().enumerate() {
                let hit = self.hit(now, &q.request);
                let choice = Choice::Queue(i, Some(hit));
                if hit == Hit::Miss {
                    consider(&mut best, &q.spot, q.request.op.is_write(), choice);
                } else if best.0 > Nanos::ZERO {
                    best = (Nanos::ZERO, Some(choice));
                }
            }
        }
        let write_back = self.queue.is_empty()
            || !self.waiting.is_empty()
            || !self.flushes.is_empty()
            || self.cache.bytes() * 2 > self.p.write_cache;
        if write_back {
            let through = self.flushes.front().map_or(u64::MAX, |f| f.epoch);
            for start in self.cache.near(self.head_offset, NEIGHBOURS, through) {
                consider(&mut best, &self.geometry.locate(start), true, Choice::Dirty(start));
            }
        }
        for f in &self.forced {
            if let Some(start) = self.cache.first_in(f.offset, f.len) {
                consider(&mut best, &self.geometry.locate(start), true, Choice::Dirty(start));
            }
        }
        best.1
    }

    /// Something has left the cache: there is room for writers, and less to wait for.
    fn left_the_cache(&mut self, now: Nanos) {
        self.admit(now);
        self.finish_flushes(now);
        self.finish_forced(now);
    }

    fn finish(&mut self, now: Nanos, work: Work) {
        let served = !matches!(work, Work::Clean);
        match work {
            Work::Read { id, offset, len, arrived } => {
                self.buffer.read(&self.geometry, now, offset, len);
                if self.head_offset != offset + len {
                    self.park(offset + len);
                }
                // The link runs beside the head and has at most the last sectors left to send.
                let sent_for = self.link.time(len);
                let ready = Nanos(now.0.saturating_sub(sent_for.0)).max(arrived);
                let at = self.link.send(ready, len).max(now);
                self.done(now, at, id);
            }
            Work::Write { id, offset, len } => {
                self.done(now, now, id);
                if self.cache.first_in(offset, len).is_some() {
                    self.cache.supersede(offset, len);
                    self.left_the_cache(now);
                }
            }
            Work::Destage(run) => {
                self.cache.settle(&run);
                self.left_the_cache(now);
            }
            Work::Clean => {}
        }
        if served && let Some(s) = self.shingle.as_mut() {
            s.touched(now);
        }
    }
}

#[cfg(test)]
mod tests;
