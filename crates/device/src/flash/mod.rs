//! A solid-state drive: dies behind a buffer in RAM, an SLC area, garbage collection.
//!
//! ```text
//! write ─ command ─ link ─▶ buffer (waits while full) ─▶ done (FUA: when programmed)
//!                             │ in order, a program unit at a time
//!                             ▼
//!                          a free die: SLC program while that area lasts, else the slow one,
//!                                      plus garbage collection when erased space is short
//! read  ─ command ─▶ the dies that hold its pages ─▶ link ─▶ done
//! ```
//!
//! - A program occupies one die for `program` (`slc_program` in the SLC area) and covers
//!   `program_unit` bytes: all planes of the die. Steady write rate without garbage collection:
//!   `dies × program_unit / program`.
//! - A read occupies its die for `read` per page group. Reads overtake waiting programs, but not
//!   the one under way: they wait for its end, or for `suspend` if the drive can suspend programs.
//!   This is the read that stands behind a write. A program is suspended a few times only: reads
//!   without end would keep a FLUSH waiting for ever.
//! - Pages lie on dies by address (`page mod dies`). Programs go to any free die.
//! - The SLC area takes `slc_size` bytes. It is emptied while the drive is idle, at the slow
//!   program rate.
//! - `wear.rs` has garbage collection and utilisation. It works in bursts of `gc_burst` on one die.
//! - Firmware pauses for `stall` after every `stall_every` written bytes. It accepts nothing then.
//! - Without power-loss protection the buffer is volatile. It is written out in order,
//!   so the stable part is always a prefix of the accepted data (the drive's mapping journal is in
//!   order). A FLUSH waits until the prefix reaches everything accepted before it.

mod device;
mod wear;

use std::collections::VecDeque;

use wear::Wear;

use crate::device::{Completion, DeviceStats, LostExtent, Op, Request};
use crate::events::EventQueue;
use crate::lane::Lane;
use crate::time::Nanos;

/// What a solid-state drive is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashParams {
    /// Bytes that it exposes.
    pub capacity: u64,
    /// Firmware and host interface per read; any number at a time.
    pub read_latency: Nanos,
    /// The same per write.
    pub write_latency: Nanos,
    /// Firmware per command, one at a time: bounds the IOPS.
    pub command: Nanos,
    /// Link to the host, in bytes per second and direction.
    pub link_rate: f64,
    /// Dies that work at once.
    pub dies: u32,
    /// Bytes that one read of a die brings.
    pub page: u64,
    /// Time of it (tR).
    pub read: Nanos,
    /// Bytes that one program of a die takes (all planes).
    pub program_unit: u64,
    /// Time of it in the main area (tPROG).
    pub program: Nanos,
    /// Time of it in the SLC area.
    pub slc_program: Nanos,
    /// Bytes of the SLC area; 0 for none.
    pub slc_size: u64,
    /// Bytes of an erase block of one die (all planes).
    pub block: u64,
    /// Time to erase it (tBERS).
    pub erase: Nanos,
    /// How soon a program yields to a read; `None` if it never does.
    pub suspend: Option<Nanos>,
    /// Buffer in RAM, in bytes.
    pub buffer: u64,
    /// Whether the buffer survives a power cut.
    pub protected: bool,
    /// Flash beyond the capacity, as a share of it.
    pub spare: f64,
    /// Share of the drive that holds data at first.
    pub filled: f64,
    /// Whether it starts without erased space, as after months of use.
    pub worn: bool,
    /// Garbage collection is done in pieces of this length.
    pub gc_burst: Nanos,
    /// Time without commands after which background work begins.
    pub idle: Nanos,
    /// Bytes written between two firmware pauses; 0 for none.
    pub stall_every: u64,
    /// Length of a pause.
    pub stall: Nanos,
}

enum Event {
    Accept(Request),
    Done(Completion),
    /// A die may have finished its program.
    Programmed(usize),
}

/// A program under way: which bytes of the stream of accepted bytes it covers.
struct Program {
    start: u64,
    bytes: u64,
    until: Nanos,
    suspended: u32,
}

/// How often a program is suspended at most. Chips bound it; data sheets keep the number to
/// themselves. With this one a program takes at worst some 10 ms longer than alone. Only a read
/// beside a hundred others meets a program that may not be suspended again.
const SUSPENSIONS_MAX: u32 = 32;

#[derive(Default)]
struct Die {
    read_free: Nanos,
    program: Option<Program>,
    /// Garbage collection that it owes.
    debt: Nanos,
}

/// An accepted write, until it is stable.
struct Held {
    /// Position in the stream of accepted bytes at which it ends.
    end: u64,
    extent: LostExtent,
}

/// See the [module](self).
pub struct Flash {
    p: FlashParams,
    events: EventQueue<Event>,
    /// Completions of the event that is being handled.
    ready: Vec<Completion>,
    command_free: Nanos,
    /// The link from the host.
    inward: Lane,
    /// The link to it.
    outward: Lane,
    dies: Vec<Die>,
    free_dies: VecDeque<usize>,
    held: VecDeque<Held>,
    waiting: VecDeque<Request>,
    /// Stream positions: bytes accepted, given to programs, and stable.
    accepted: u64,
    assigned: u64,
    stable: u64,
    /// Bytes in the buffer.
    fill: u64,
    /// Flushes and FUA writes with the position that they wait for, ascending.
    barriers: VecDeque<(u64, u64)>,
    wear: Wear,
    slc_used: u64,
    since_stall: u64,
    last_activity: Nanos,
    stats: DeviceStats,
}

impl Flash {
    /// A drive in the state that its parameters give.
    #[must_use]
    pub fn new(p: FlashParams) -> Self {
        Self {
            events: EventQueue::new(),
            ready: Vec::new(),
            command_free: Nanos::ZERO,
            inward: Lane::new(p.link_rate),
            outward: Lane::new(p.link_rate),
            dies: (0..p.dies).map(|_| Die::default()).collect(),
            free_dies: (0..p.dies as usize).collect(),
            held: VecDeque::new(),
            waiting: VecDeque::new(),
            accepted: 0,
            assigned: 0,
            stable: 0,
            fill: 0,
            barriers: VecDeque::new(),
            wear: Wear::new(p.capacity, p.spare, p.filled, p.worn),
            slc_used: 0,
            since_stall: 0,
            last_activity: Nanos::ZERO,
            stats: DeviceStats { cache_size_bytes: p.buffer, ..DeviceStats::default() },
            p,
        }
    }

    /// Done at this moment: no need to go through the events.
    fn done(&mut self, at: Nanos, id: u64) {
        self.ready.push(Completion { id, at, result: Ok(()) });
    }

    /// What the drive has done since it was last heard of, if that was long enough ago.
    fn catch_up(&mut self, now: Nanos) {
        let idle = now.since(self.last_activity + self.p.idle).as_secs_f64();
        if idle > 0.0 && self.fill == 0 {
            let program =
                self.p.dies as f64 * self.p.program_unit as f64 / self.p.program.as_secs_f64();
            self.slc_used = self.slc_used.saturating_sub((idle * program) as u64);
            self.wear.reclaim(idle * program / self.wear.amplification());
        }
        self.last_activity = now;
    }

    /// Reads its pages, each from its die; returns when the data is across the link.
    fn read(&mut self, ready: Nanos, request: &Request) -> Nanos {
        let first = request.offset / self.p.page;
        let pages = request.end().div_ceil(self.p.page).max(first + 1) - first;
        let dies = self.dies.len() as u64;
        let mut all = ready;
        for i in 0..pages.min(dies) {
            // Every `dies`th page is on the same die; the planes of a die read together.
            let here = (pages - i).div_ceil(dies);
            let groups = here.div_ceil((self.p.program_unit / self.p.page).max(1));
            let took = Nanos(self.p.read.0 * groups);
            let die = &mut self.dies[((first + i) % dies) as usize];
            let mut start = ready.max(die.read_free);
            if let Some(program) = die.program.as_mut().filter(|p| p.until > start) {
                match self.p.suspend {
                    Some(suspend) if program.suspended < SUSPENSIONS_MAX => {
                        start = program.until.min(start + suspend);
                        program.until = program.until + took + suspend;
                        program.suspended += 1;
                    }
                    _ => start = program.until,
                }
            }
            die.read_free = start + took;
            all = all.max(die.read_free);
            self.stats.media_busy_ns += took.0;
        }
        self.stats.media_read_bytes += request.len;
        self.outward.send(all, request.len)
    }

    fn accept(&mut self, now: Nanos, request: Request) {
        match request.op {
            Op::Flush => {
                if self.p.protected {
                    self.done(now, request.id);
                } else {
                    self.barriers.push_back((self.accepted, request.id));
                    self.pass_barriers(now);
                }
            }
            Op::Discard => {
                self.wear.discard(request.offset, request.len);
                self.done(now, request.id);
            }
            _ => {
                self.waiting.push_back(request);
                self.admit(now);
            }
        }
        self.dispatch(now);
    }

    /// Takes writes into the buffer, in order, while there is space. One larger than the buffer
    /// gets it to itself.
    fn admit(&mut self, now: Nanos) {
        while let Some(w) = self.waiting.front().copied() {
            // Zeroes are unmapped pages: a mapping entry, no program.
            let bytes = if w.op == Op::WriteZeroes { 0 } else { w.len };
            if self.fill > 0 && self.fill + bytes > self.p.buffer {
                return;
            }
            self.waiting.pop_front();
            self.accepted += bytes;
            self.fill += bytes;
            if w.op == Op::WriteZeroes {
                self.wear.discard(w.offset, w.len);
            } else {
                self.wear.write(w.offset, w.len);
            }
            // Zeroes with nothing before them are as stable as the mapping journal.
            if !self.p.protected && self.accepted > self.stable {
                let extent = LostExtent { offset: w.offset, len: w.len, since: w.version };
                self.held.push_back(Held { end: self.accepted, extent });
            }
            if w.op == (Op::Write { fua: true }) && !self.p.protected {
                self.barriers.push_back((self.accepted, w.id));
            } else {
                self.done(now, w.id);
            }
        }
    }

    /// Gives full program units to free dies, partial ones only if a FLUSH or a write waits for
    /// them.
    fn dispatch(&mut self, now: Nanos) {
        loop {
            let left = self.accepted - self.assigned;
            let asked = self.barriers.back().is_some_and(|(to, _)| *to > self.assigned);
            let pressed = asked || !self.waiting.is_empty();
            if left == 0 || left < self.p.program_unit && !pressed {
                return;
            }
            let Some(die) = self.free_dies.pop_front() else { return };
            let bytes = left.min(self.p.program_unit);
            let took = self.program_time(die, bytes);
            let until = now.max(self.dies[die].read_free) + took;
            self.dies[die].program =
                Some(Program { start: self.assigned, bytes, until, suspended: 0 });
            self.assigned += bytes;
            self.stats.media_busy_ns += took.0;
            self.stats.media_write_bytes += bytes;
            self.events.push(until, Event::Programmed(die));
        }
    }

    /// How long a program keeps its die, garbage collection included.
    fn program_time(&mut self, die: usize, bytes: u64) -> Nanos {
        let mut took = self.p.program;
        if self.slc_used + bytes <= self.p.slc_size {
            self.slc_used += bytes;
            took = self.p.slc_program;
        }
        if self.wear.take(bytes) {
            let amplification = self.wear.amplification();
            let copies = amplification - 1.0;
            let share = bytes as f64 / self.p.program_unit as f64;
            let erasures = amplification * bytes as f64 / self.p.block as f64;
            let work = (self.p.read + self.p.program).scaled(copies * share)
                + self.p.erase.scaled(erasures);
            let copied = (copies * bytes as f64) as u64;
            self.stats.media_write_bytes += copied;
            self.stats.media_read_bytes += copied;
            self.dies[die].debt += work;
            if self.dies[die].debt >= self.p.gc_burst {
                took += std::mem::take(&mut self.dies[die].debt);
            }
        }
        took
    }

    fn programmed(&mut self, now: Nanos, die: usize) {
        let Some(program) = &self.dies[die].program else { return };
        if program.until > now {
            // Reads have pushed it back.
            let until = program.until;
            return self.events.push(until, Event::Programmed(die));
        }
        self.fill -= program.bytes;
        self.dies[die].program = None;
        self.free_dies.push_back(die);
        let under_way = self.dies.iter().filter_map(|d| d.program.as_ref().map(|p| p.start)).min();
        self.stable = under_way.unwrap_or(self.assigned);
        while self.held.front().is_some_and(|h| h.end <= self.stable) {
            self.held.pop_front();
        }
        self.last_activity = now;
        self.admit(now);
        self.pass_barriers(now);
        self.dispatch(now);
    }

    fn pass_barriers(&mut self, now: Nanos) {
        while let Some((_, id)) =
            self.barriers.front().copied().filter(|(to, _)| *to <= self.stable)
        {
            self.barriers.pop_front();
            self.done(now, id);
        }
    }
}
