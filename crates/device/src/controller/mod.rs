//! A controller's write cache in front of any device: a RAID card with a battery, or a file
//! server's memory.
//!
//! ```text
//! write ─ command ─ link ─ latency ─▶ admission (first come, first served) ─▶ dirty ─▶ done
//!                                          ▲ waits while the cache is full    │ destage,
//!                                          │                                  │ one direction
//!                                          └───────────── space ──────────────┴──▶ backing device
//! read  ─ command ─ latency ─▶ all dirty? ─┬─ yes ─▶ link ─▶ done
//!                                          └─ no ──▶ backing device ─▶ link ─▶ done
//! ```
//!
//! - A write takes `len × copies` bytes of the link and of the cache; rewrites of dirty ranges take
//!   none of the cache. With `copies = 2`, software RAID above the card writes everything twice. It
//!   is done once it is in. When the cache is full it waits, in the order of arrival, for the
//!   destage to free space. In this queue a small synchronous write stands behind a flood: with `q`
//!   bytes before it and a destage rate `r` it waits `q / r`. So a loaded array is bistable: a
//!   cache with room answers in microseconds, a full one in `q / r`.
//! - Destage goes in one direction ("C-SCAN"). It joins neighbours up to
//!   `destage_max`, and keeps at most `destage_depth` writes with the backing device. It runs while
//!   the cache is above `high` (until below `low`), while a request waits for space or stability,
//!   and when no command has come for `idle`. `backing_rate` bounds what passes between cache and
//!   disks, `copies` counted.
//! - *Protected* (battery or flash behind it): FLUSH costs nothing and a power cut takes nothing.
//!   *Volatile*: FLUSH waits until everything acknowledged before is on the backing device, then
//!   flushes that. *Write-through*: every write is done when it is on the backing device. A failing
//!   battery (`battery_until`) turns protected into write-through. Data dirty at that moment is at
//!   risk until it is destaged.
//! - Reads of ranges that are dirty in full are hits. There is no cache of clean data: in the
//!   scenarios here the host's memory is larger than the card's.

mod device;

use std::collections::VecDeque;

use crate::device::{Completion, Device, DeviceStats, Op, Request};
use crate::events::{EventQueue, or_never};
use crate::lane::Lane;
use crate::slab::Slab;
use crate::time::Nanos;
use crate::write_cache::{DirtyMap, Run};

/// What becomes of a write that the cache has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMode {
    /// Survives a power cut; FLUSH is free.
    Protected,
    /// Lost with the power; FLUSH waits for it.
    Volatile,
    /// Acknowledged only when it is on the backing device.
    WriteThrough,
}

/// What a controller is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControllerParams {
    /// Bytes of write cache.
    pub size: u64,
    /// How many times a write is held.
    pub copies: u32,
    /// What a write in it is worth.
    pub mode: CacheMode,
    /// When the battery fails, if it does.
    pub battery_until: Option<Nanos>,
    /// The controller's processor, per command, one at a time.
    pub command: Nanos,
    /// Delay of a command beyond that, any number at a time.
    pub latency: Nanos,
    /// Link to the host, in bytes per second and direction.
    pub link_rate: f64,
    /// Between cache and disks, in bytes per second with every copy counted.
    pub backing_rate: f64,
    /// Fill, 0 to 1, above which destage begins.
    pub high: f64,
    /// Fill, 0 to 1, below which destage ends again.
    pub low: f64,
    /// Time without commands after which destage begins at any fill.
    pub idle: Nanos,
    /// Writes that it keeps with the backing device.
    pub destage_depth: u32,
    /// Longest of them, in bytes.
    pub destage_max: u64,
}

enum Event {
    Arrive(Request),
    Done(Completion),
    /// Look whether destage may go on (pacing, idleness).
    Pump,
    BatteryFails,
}

/// A request with the backing device.
enum Sub {
    Read { id: u64, len: u64 },
    Destage(Run),
    Flush(u64),
}

struct Forced {
    id: u64,
    offset: u64,
    len: u64,
}

/// See the [module](self).
pub struct Controller {
    p: ControllerParams,
    mode: CacheMode,
    backing: Box<dyn Device>,
    /// When something next happens in it; [`Nanos::MAX`] for never.
    backing_due: Nanos,
    /// Whether a destaged range can still be lost in the backing device.
    backing_volatile: bool,
    events: EventQueue<Event>,
    /// Completions of the moment that is being handled.
    ready: Vec<Completion>,
    command_free: Nanos,
    /// The link to the host.
    up: Lane,
    /// The link from it.
    down: Lane,
    /// Between cache and disks.
    pipe: Lane,
    last_command: Nanos,
    /// The next pump that is already planned.
    pump_at: Option<Nanos>,
    cache: DirtyMap,
    /// Bytes of writes that it can hold, each as often as it is held.
    most: u64,
    /// The fewest bytes in it that are more than the shares `low` and `high`.
    low: u64,
    high: u64,
    cursor: u64,
    /// Above the high mark and not yet below the low one.
    draining: bool,
    destaging: u32,
    waiting: VecDeque<Request>,
    /// Bytes that the first of `waiting` needs at least, as far as that is known: nothing is
    /// inserted before it, so what it needs does not become less.
    refused: u64,
    forced: VecDeque<Forced>,
    flushes: VecDeque<(u64, u64)>,
    subs: Slab<Sub>,
    scratch: Vec<Completion>,
}

/// The smallest fill that is more than a share of a size.
fn fill_above(share: f64, size: u64) -> u64 {
    let is_above = |fill: u64| fill as f64 / size as f64 > share;
    let (mut below, mut above) = (0, u64::MAX);
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if is_above(middle) {
            above = middle;
        } else {
            below = middle;
        }
    }
    if is_above(below) { below } else { above }
}

impl Controller {
    /// Puts a cache in front of a device.
    #[must_use]
    pub fn new(p: ControllerParams, backing: Box<dyn Device>) -> Self {
        let mut events = EventQueue::new();
        if let Some(at) = p.battery_until.filter(|_| p.mode == CacheMode::Protected) {
            events.push(at, Event::BatteryFails);
        }
        Self {
            mode: p.mode,
            backing_volatile: backing.profile().volatile_cache,
            backing_due: or_never(backing.next_event()),
            backing,
            events,
            ready: Vec::new(),
            command_free: Nanos::ZERO,
            up: Lane::new(p.link_rate),
            down: Lane::new(p.link_rate),
            pipe: Lane::new(p.backing_rate),
            last_command: Nanos::ZERO,
            pump_at: None,
            cache: DirtyMap::new(),
            most: p.size.checked_div(u64::from(p.copies)).unwrap_or(u64::MAX),
            low: fill_above(p.low, p.size),
            high: fill_above(p.high, p.size),
            cursor: 0,
            draining: false,
            destaging: 0,
            waiting: VecDeque::new(),
            refused: 0,
            forced: VecDeque::new(),
            flushes: VecDeque::new(),
            subs: Slab::new(),
            scratch: Vec::new(),
            p,
        }
    }

    /// Bytes of the cache that are taken.
    fn fill(&self) -> u64 {
        self.cache.bytes() * u64::from(self.p.copies)
    }

    /// A request is done now. That need not go through the events, unless others are due before it.
    fn done(&mut self, now: Nanos, id: u64) {
        let completion = Completion { id, at: now, result: Ok(()) };
        if self.events.due() > now {
            self.ready.push(completion);
        } else {
            self.events.push(now, Event::Done(completion));
        }
    }

    /// Hands a request to the backing device, under a number of the controller's.
    fn send(&mut self, now: Nanos, sub: Sub, request: Request) {
        let slot = self.subs.insert(sub);
        self.backing.submit(now, Request { id: slot as u64, ..request });
        self.backing_due = or_never(self.backing.next_event());
    }

    fn arrive(&mut self, now: Nanos, request: Request) {
        match request.op {
            Op::Read if self.cache.covers(request.offset, request.len) => {
                let at = self.down.send(now, request.len);
                self.events
                    .push(at, Event::Done(Completion { id: request.id, at, result: Ok(()) }));
            }
            Op::Read => {
                self.send(now, Sub::Read { id: request.id, len: request.len }, request);
            }
            Op::Write { .. } | Op::WriteZeroes => {
                self.waiting.push_back(request);
                self.admit(now);
            }
            Op::Flush if self.mode == CacheMode::Protected => self.done(now, request.id),
            Op::Flush => {
                let epoch = self.cache.close_epoch();
                self.flushes.push_back((request.id, epoch));
                self.finish_waiters(now);
            }
            Op::Discard => self.done(now, request.id),
        }
        self.pump(now);
    }

    /// Lets writers in, in order, while there is space. One larger than the whole cache gets it to
    /// itself.
    fn admit(&mut self, now: Nanos) {
        while let Some(w) = self.waiting.front() {
            let room = match self.cache.bytes() {
                0 => Some(u64::MAX),
                taken => self.most.checked_sub(taken),
            };
            let Some(room) = room.filter(|room| *room >= self.refused) else { return };
            if let Err(growth) = self.cache.admit(w.offset, w.len, w.version, room) {
                self.refused = growth;
                return;
            }
            self.refused = 0;
            let through = match self.mode {
                CacheMode::Protected => false,
                CacheMode::Volatile => w.op == (Op::Write { fua: true }),
                CacheMode::WriteThrough => true,
            };
            let Some(w) = self.waiting.pop_front() else { return };
            if through {
                self.forced.push_back(Forced { id: w.id, offset: w.offset, len: w.len });
            } else {
                self.done(now, w.id);
            }
        }
    }

    /// Completes forced writes and starts the flushes whose data has left the cache.
    fn finish_waiters(&mut self, now: Nanos) {
        let mut i = 0;
        while i < self.forced.len() {
            let f = &self.forced[i];
            if self.cache.touches(f.offset, f.len) {
                i += 1;
            } else if let Some(f) = self.forced.remove(i) {
                self.done(now, f.id);
            }
        }
        while self.flushes.front().is_some_and(|(_, epoch)| self.cache.stable_through(*epoch)) {
            let Some((id, _)) = self.flushes.pop_front() else { break };
            if self.backing_volatile {
                self.send(now, Sub::Flush(id), Request::flush(id));
            } else {
                self.done(now, id);
            }
        }
    }

    /// Whether destage should run now.
    fn wants_destage(&mut self, now: Nanos) -> bool {
        if self.cache.dirty_bytes() == 0 {
            return false;
        }
        self.draining = self.fill() >= if self.draining { self.low } else { self.high };
        if self.draining
            || !self.waiting.is_empty()
            || !self.forced.is_empty()
            || !self.flushes.is_empty()
        {
            return true;
        }
        let idle_at = self.last_command + self.p.idle;
        if now >= idle_at {
            return true;
        }
        self.plan_pump(idle_at);
        false
    }

    fn plan_pump(&mut self, at: Nanos) {
        if self.pump_at.is_none_or(|planned| at < planned) {
            self.pump_at = Some(at);
            self.events.push(at, Event::Pump);
        }
    }

    /// Sends dirty ranges to the backing device, as many as may be under way.
    fn pump(&mut self, now: Nanos) {
        while self.destaging < self.p.destage_depth && self.wants_destage(now) {
            if self.pipe.free_at() > now {
                return self.plan_pump(self.pipe.free_at());
            }
            let urgent = self.forced.iter().find_map(|f| self.cache.first_in(f.offset, f.len));
            let (most, coalesce) = (self.p.destage_max, !self.backing_volatile);
            let run = match urgent {
                Some(start) => self.cache.take(start, most, coalesce),
                None => {
                    // Data covered by a FLUSH goes before later data, which may never end.
                    let through = self.flushes.front().map_or(u64::MAX, |(_, epoch)| *epoch);
                    self.cache.take_next(self.cursor, most, coalesce, through)
                }
            };
            let Some(run) = run else { return };
            if urgent.is_none() {
                self.cursor = run.offset + run.len;
            }
            self.pipe.send(now, run.len * u64::from(self.p.copies));
            self.destaging += 1;
            // Writes through the backing device's volatile cache where the data must be stable.
            let fua = self.backing_volatile && self.mode != CacheMode::Volatile;
            let request = Request {
                id: 0,
                version: run.since,
                op: Op::Write { fua: fua || urgent.is_some() && self.backing_volatile },
                offset: run.offset,
                len: run.len,
                sync: false,
            };
            self.send(now, Sub::Destage(run), request);
        }
    }

    fn backing_done(&mut self, c: &Completion) {
        let now = c.at;
        match self.subs.remove(c.id as usize) {
            Some(Sub::Read { id, len }) => {
                let at = self.down.send(now, len);
                self.events.push(at, Event::Done(Completion { id, at, result: c.result }));
            }
            Some(Sub::Flush(id)) => {
                self.events.push(now, Event::Done(Completion { id, at: now, result: c.result }));
            }
            Some(Sub::Destage(run)) => {
                self.destaging -= 1;
                self.cache.settle(&run);
                if c.result.is_err() {
                    // The card keeps what it could not write and tries again on a later pass.
                    self.cache.insert(run.offset, run.len, run.since);
                    self.refused = 0;
                }
                self.admit(now);
                self.finish_waiters(now);
                self.pump(now);
            }
            None => {}
        }
    }

    fn handle(&mut self, now: Nanos, event: Event) {
        match event {
            Event::Arrive(request) => self.arrive(now, request),
            Event::Pump => {
                if self.pump_at == Some(now) {
                    self.pump_at = None;
                }
                self.pump(now);
            }
            Event::BatteryFails => {
                self.mode = CacheMode::WriteThrough;
                self.pump(now);
            }
            Event::Done(_) => {}
        }
    }

    fn own_stats(&self) -> DeviceStats {
        DeviceStats {
            cache_bytes: self.fill(),
            cache_size_bytes: self.p.size,
            cache_waiting: self.waiting.len() as u64,
            ..DeviceStats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::null::Null;

    #[test]
    fn the_threshold_is_the_first_fill_above_a_share() {
        for (share, size, first) in
            [(0.1, 1000, 101), (0.0, 7, 1), (1.0, 512 << 20, (512 << 20) + 1)]
        {
            assert_eq!(fill_above(share, size), first, "{share} of {size}");
        }
    }

    /// 64 KiB of cache in front of a device that takes a second for everything.
    fn small() -> Controller {
        let p = ControllerParams {
            size: 64 << 10,
            copies: 1,
            mode: CacheMode::Protected,
            battery_until: None,
            command: Nanos(10),
            latency: Nanos(0),
            link_rate: 0.0,
            backing_rate: 0.0,
            high: 0.0,
            low: 0.0,
            idle: Nanos(0),
            destage_depth: 1,
            destage_max: 16 << 10,
        };
        Controller::new(p, Box::new(Null::new(1 << 30, Nanos::from_secs(1))))
    }

    #[test]
    fn nobody_gets_into_a_cache_that_one_large_write_overfills() {
        let mut cache = small();
        cache.submit(Nanos(0), Request::write(1, 0, 100 << 10));
        // A rewrite that takes no space, at the end of what is destaged last: 36 KiB must leave
        // first, in three pieces.
        cache.submit(Nanos(0), Request::write(2, 99 << 10, 1 << 10));
        let mut out = Vec::new();
        cache.advance(Nanos::from_secs(20), &mut out);
        let done: Vec<(u64, u64)> = out.iter().map(|c| (c.id, c.at.as_secs_f64() as u64)).collect();
        assert_eq!(done, [(1, 0), (2, 3)]);
    }

    #[test]
    fn a_writer_that_was_refused_gets_in_as_soon_as_there_is_room() {
        let mut cache = small();
        cache.submit(Nanos(0), Request::write(1, 0, 64 << 10));
        cache.submit(Nanos(0), Request::write(2, 1 << 20, 32 << 10));
        cache.submit(Nanos(0), Request::write(3, 2 << 20, 16 << 10));
        let mut out = Vec::new();
        cache.advance(Nanos::from_secs(20), &mut out);
        let done: Vec<(u64, u64)> = out.iter().map(|c| (c.id, c.at.as_secs_f64() as u64)).collect();
        assert_eq!(done, [(1, 0), (2, 2), (3, 3)], "16 KiB leave each second");
    }
}
