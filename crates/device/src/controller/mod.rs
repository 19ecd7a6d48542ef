//! A controller's write cache in front of any device: a RAID card with a battery, or a file server's memory.
//!
//! ```text
//! write ─ command ─ link ─ latency ─▶ admission (first come, first served) ─▶ dirty ─▶ done
//!                                          ▲ waits while the cache is full    │ destage, one direction
//!                                          └───────────── space ──────────────┴──▶ backing device
//! read  ─ command ─ latency ─▶ all dirty? ─ yes ─▶ link ─▶ done;  no ─▶ backing device ─▶ link ─▶ done
//! ```
//!
//! - A write takes `len × copies` bytes of the cache (`copies = 2`: software RAID above the card writes everything twice), rewrites of dirty ranges none.
//!   It is done once it is in. When the cache is full it waits, in the order of arrival, for the destage to free space. This queue is where a small
//!   synchronous write stands behind a flood: with `q` bytes before it and a destage rate `r` it waits `q / r`, and it is this that makes loaded
//!   arrays bistable: a cache with room answers in microseconds, a full one in `q / r`.
//! - Destage goes over the offsets in one direction (an elevator, "C-SCAN"), joins neighbours up to `destage_max`, and keeps at most `destage_depth` writes
//!   with the backing device. It runs while the cache is above `high` (until below `low`), while somebody waits for space or stability, and when no
//!   command has come for `idle`. `backing_rate` bounds what passes between cache and disks, `copies` counted.
//! - *Protected* (battery or flash behind it): FLUSH costs nothing and a power cut takes nothing. *Volatile*: FLUSH waits until everything acknowledged
//!   before is on the backing device, then flushes that. *Write-through*: every write is done when it is on the backing device. A battery that
//!   fails (`battery_until`) turns protected into write-through; what is dirty at that moment is at risk until it is destaged.
//! - Reads of ranges that are dirty in full are hits. There is no cache of clean data: in the scenarios here the host's memory is larger than the card's.

mod device;

use std::collections::VecDeque;

use crate::device::{Completion, Device, DeviceStats, Op, Request};
use crate::dirty::{DirtyMap, Run};
use crate::events::EventQueue;
use crate::slab::Slab;
use crate::time::Nanos;

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
    Read(Request),
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
    /// Whether a destaged range can still be lost behind us.
    backing_volatile: bool,
    events: EventQueue<Event>,
    command_free: Nanos,
    up_free: Nanos,
    down_free: Nanos,
    pipe_free: Nanos,
    last_command: Nanos,
    /// The next pump that is already planned.
    pump_at: Option<Nanos>,
    cache: DirtyMap,
    cursor: u64,
    /// Above the high mark and not yet below the low one.
    draining: bool,
    destaging: u32,
    waiting: VecDeque<Request>,
    forced: VecDeque<Forced>,
    flushes: VecDeque<(u64, u64)>,
    subs: Slab<Sub>,
    scratch: Vec<Completion>,
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
            backing,
            events,
            command_free: Nanos::ZERO,
            up_free: Nanos::ZERO,
            down_free: Nanos::ZERO,
            pipe_free: Nanos::ZERO,
            last_command: Nanos::ZERO,
            pump_at: None,
            cache: DirtyMap::new(),
            cursor: 0,
            draining: false,
            destaging: 0,
            waiting: VecDeque::new(),
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

    fn done(&mut self, at: Nanos, id: u64) {
        self.events.push(at, Event::Done(Completion { id, at, result: Ok(()) }));
    }

    fn send_up(&mut self, ready: Nanos, len: u64) -> Nanos {
        self.up_free = self.up_free.max(ready) + Nanos::for_bytes(len, self.p.link_rate);
        self.up_free
    }

    fn send_down(&mut self, ready: Nanos, len: u64) -> Nanos {
        self.down_free = self.down_free.max(ready) + Nanos::for_bytes(len, self.p.link_rate);
        self.down_free
    }

    fn arrive(&mut self, now: Nanos, request: Request) {
        match request.op {
            Op::Read if self.cache.covers(request.offset, request.len) => {
                let at = self.send_down(now, request.len);
                self.done(at, request.id);
            }
            Op::Read => {
                let slot = self.subs.insert(Sub::Read(request));
                self.backing.submit(now, Request { id: slot as u64, ..request });
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

    /// Lets writers in, in order, while there is space. One larger than the whole cache gets it to itself.
    fn admit(&mut self, now: Nanos) {
        while let Some(w) = self.waiting.front().copied() {
            let growth = self.cache.growth(w.offset, w.len) * u64::from(self.p.copies);
            if self.fill() + growth > self.p.size && self.cache.bytes() > 0 {
                return;
            }
            self.waiting.pop_front();
            self.cache.insert(w.offset, w.len, w.version);
            let through = match self.mode {
                CacheMode::Protected => false,
                CacheMode::Volatile => w.op == (Op::Write { fua: true }),
                CacheMode::WriteThrough => true,
            };
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
                let slot = self.subs.insert(Sub::Flush(id));
                self.backing.submit(now, Request::flush(slot as u64));
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
        let fill = self.fill() as f64 / self.p.size as f64;
        self.draining = fill > if self.draining { self.p.low } else { self.p.high };
        if self.draining || !self.waiting.is_empty() || !self.forced.is_empty() || !self.flushes.is_empty() {
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
            if self.pipe_free > now {
                return self.plan_pump(self.pipe_free);
            }
            let urgent = self.forced.iter().find_map(|f| self.cache.first_in(f.offset, f.len));
            let start = urgent.or_else(|| self.cache.at_or_after(self.cursor)).or_else(|| self.cache.first());
            let Some(start) = start else { return };
            let Some(run) = self.cache.take(start, self.p.destage_max, !self.backing_volatile) else {
                return;
            };
            if urgent.is_none() {
                self.cursor = run.offset + run.len;
            }
            let bytes = run.len * u64::from(self.p.copies);
            self.pipe_free = now + Nanos::for_bytes(bytes, self.p.backing_rate);
            self.destaging += 1;
            // Where it must be stable and the backing device has a cache of its own, write through that.
            let fua = self.backing_volatile && self.mode != CacheMode::Volatile;
            let request = Request {
                id: 0,
                version: run.since,
                op: Op::Write { fua: fua || urgent.is_some() && self.backing_volatile },
                offset: run.offset,
                len: run.len,
                sync: false,
            };
            let slot = self.subs.insert(Sub::Destage(run));
            self.backing.submit(now, Request { id: slot as u64, ..request });
        }
    }

    fn backing_done(&mut self, c: &Completion) {
        let now = c.at;
        match self.subs.remove(c.id as usize) {
            Some(Sub::Read(r)) => {
                let at = self.send_down(now, r.len);
                self.events.push(at, Event::Done(Completion { id: r.id, at, result: c.result }));
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
