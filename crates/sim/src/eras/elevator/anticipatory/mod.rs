//! anticipatory: batches of synchronous and of asynchronous requests. It waits a short time for the
//! next read of the process that was just served (`block/as-iosched.c`, 2.6.18 and 2.6.32; removed
//! in 2.6.33).
//!
//! ```text
//! insert ─▶ by sector and by age, synchronous (reads, O_DIRECT writes) and asynchronous apart
//! dispatch: anticipating, or the last batch still in the device? nothing
//!           batch goes on? its next sector, or the oldest once per expire interval,
//!             or nothing yet: wait for the same process (antic_expire)
//!           else the other class; a write batch has as many requests
//!             as took write_batch_expire last time
//! ```
//!
//! Anticipation:
//!
//! ```text
//! OFF ─ no better request ─▶ WAIT_REQ (the last read is in the device)
//!   ─ it completes ─▶ WAIT_NEXT (timer)
//!   ─ good request or timeout ─▶ FINISHED ─ any dispatch ─▶ OFF
//! ```
//!
//! 2.6.32 differs in three points. A close request's distance grows in jiffies, not in ms. Write
//! batches start with the oldest request. A batch is timed from the moment when the old one has
//! left the device. Linux 2.6.18 lacks this timing: a read batch that expires with reads in the
//! device hands over to a write batch that has expired already. So writes wait until the device
//! runs empty of reads. In 2.6.32 the timing has another effect: the time at which a write batch
//! should have ended is gone when its length is judged. So every batch that was used up seems to
//! have taken no time, and the next is twice as long.
//!
//! Left out: `as_may_queue` (which lets the anticipated process past the slot limit) and the
//! exchange of contexts between merged requests.

mod batches;
#[cfg(test)]
mod tests;
mod wait;

use std::collections::VecDeque;

use floodwall_device::{Nanos, Op};

use crate::elevator::history::{SeekDistance, ThinkTime};
use crate::elevator::id_map::IdMap;
use crate::elevator::jiffies::Clock;
use crate::elevator::pool::Handle;
use crate::elevator::sorted::{Leaving, Reach, Rules, SortedQueues, direction_of};
use crate::elevator::tunable::tunables;
use crate::elevator::{Dispatch, Elevator, Merge, TunableError};
use crate::request::{IoRequest, ProcessId};

tunables! {
    /// `queue/iosched/` of anticipatory. (`est_time`, which can only be read, is left out.)
    pub struct AnticipatoryTunables of "anticipatory" {
        /// How long a synchronous request may wait, ms; looked at once in that time.
        read_expire_ms: u32 = "read_expire" in [0, i32::MAX];
        /// How long an asynchronous request may wait, ms.
        write_expire_ms: u32 = "write_expire" in [0, i32::MAX];
        /// How long to wait for the next request of a process, ms; 0: never.
        antic_expire_ms: u32 = "antic_expire" in [0, i32::MAX];
        /// How long a batch of reads lasts while writes wait, ms.
        read_batch_expire_ms: u32 = "read_batch_expire" in [0, i32::MAX];
        /// How long a batch of writes should last, ms; the number of requests in it is steered
        /// there.
        write_batch_expire_ms: u32 = "write_batch_expire" in [0, i32::MAX];
    }
}

impl AnticipatoryTunables {
    /// The defaults, which are fractions of a second in ticks (`HZ / 150` for `antic_expire`).
    #[must_use]
    pub const fn new(hz: u32) -> Self {
        let clock = Clock::new(hz);
        let antic_expire = if clock.hz() < 150 { 1 } else { clock.hz() / 150 };
        Self {
            read_expire_ms: clock.to_ms(clock.hz() / 8) as u32,
            write_expire_ms: clock.to_ms(clock.hz() / 4) as u32,
            antic_expire_ms: clock.to_ms(antic_expire) as u32,
            read_batch_expire_ms: clock.to_ms(clock.hz() / 2) as u32,
            write_batch_expire_ms: clock.to_ms(clock.hz() / 8) as u32,
        }
    }
}

const ASYNC: usize = 0;
const SYNC: usize = 1;

const SECTOR: u64 = 512;
/// How far the head goes back for a request (`MAXBACK`, 1 Mi sectors), and what that costs
/// (`BACK_PENALTY`).
const REACH: Reach = Reach { back_max: 1024 * 1024 * SECTOR, penalty: 2 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anticipation {
    Off,
    /// The request after which to wait is still in the device.
    WaitRequest,
    /// Waiting, until this jiffy at the latest.
    WaitNext(u64),
    /// Waited enough: the next request goes, whatever it is.
    Finished,
}

/// The history of a process (`struct as_io_context`).
#[derive(Clone, Copy, Debug, Default)]
struct Context {
    exited: bool,
    /// It has submitted a synchronous request.
    started: bool,
    /// One has completed.
    running: bool,
    queued: u32,
    last_end: u64,
    last_position: u64,
    think: ThinkTime,
    seek: SeekDistance,
}

/// How processes in general behave, for those about which nothing is known yet. Fixed point: 256
/// is 1.
#[derive(Clone, Copy, Debug, Default)]
struct Newcomers {
    /// How likely a process ends while it is waited for.
    exit_probability: u64,
    /// The probability that no other process continues where a process ended.
    exit_no_cooperation: u64,
    think_total: u64,
    think_mean: u64,
    seek_total: u64,
    seek_mean: u64,
}

/// The anticipatory elevator.
#[derive(Clone, Debug)]
pub struct Anticipatory {
    /// Queue 0 asynchronous, queue 1 synchronous.
    queues: SortedQueues,
    flushes: VecDeque<IoRequest>,
    clock: Clock,
    tunables: AnticipatoryTunables,
    /// Behaves as in 2.6.18.
    old: bool,
    next: [Option<Handle>; 2],
    /// Where the last request of each class ended, bytes.
    last_end: [u64; 2],
    last_fifo_check: [u64; 2],
    batch_class: usize,
    batch_expires: u64,
    /// The old batch is still in the device.
    changed_batch: bool,
    /// The new read batch starts counting with its first completion.
    new_batch: bool,
    /// Requests in a write batch, tuned.
    write_batch_count: i32,
    /// How many of them are left.
    write_batch_left: i32,
    /// The write batch was not the only reason for how long it took.
    write_batch_idled: bool,
    anticipation: Anticipation,
    antic_start: u64,
    /// The process to wait for; none after a write.
    anticipated: Option<ProcessId>,
    /// Whether that process's request has completed.
    anticipated_done: bool,
    in_device: u32,
    contexts: IdMap<u32>,
    context_list: Vec<Context>,
    newcomers: Newcomers,
}

impl Anticipatory {
    /// `old`: as in 2.6.18; else as in 2.6.32. `hz`: ticks a second.
    #[must_use]
    pub fn new(old: bool, hz: u32, tunables: AnticipatoryTunables) -> Self {
        let clock = Clock::new(hz);
        let start = clock.jiffies(Nanos::ZERO);
        Self {
            queues: SortedQueues::new(2),
            flushes: VecDeque::new(),
            clock,
            tunables,
            old,
            next: [None; 2],
            last_end: [0; 2],
            last_fifo_check: [0; 2],
            batch_class: ASYNC,
            batch_expires: start + clock.ticks(tunables.read_batch_expire_ms.into()),
            changed_batch: false,
            new_batch: false,
            write_batch_count: (clock.ticks(tunables.write_batch_expire_ms.into()) / 10).max(2)
                as i32,
            write_batch_left: 0,
            write_batch_idled: false,
            anticipation: Anticipation::Off,
            antic_start: 0,
            anticipated: None,
            anticipated_done: false,
            in_device: 0,
            contexts: IdMap::new(),
            context_list: Vec::new(),
            newcomers: Newcomers::default(),
        }
    }

    /// Number of requests that the next write batch will have.
    #[must_use]
    pub const fn write_batch_count(&self) -> i32 {
        self.write_batch_count
    }

    fn antic_expire(&self) -> u64 {
        self.clock.ticks(self.tunables.antic_expire_ms.into())
    }

    fn fifo_expire(&self, class: usize) -> u64 {
        let ms = if class == SYNC {
            self.tunables.read_expire_ms
        } else {
            self.tunables.write_expire_ms
        };
        self.clock.ticks(ms.into())
    }

    fn batch_expire(&self, class: usize) -> u64 {
        let ms = if class == SYNC {
            self.tunables.read_batch_expire_ms
        } else {
            self.tunables.write_batch_expire_ms
        };
        self.clock.ticks(ms.into())
    }

    fn context(&mut self, process: ProcessId) -> usize {
        if let Some(at) = self.contexts.get(process.0.into()) {
            return at as usize;
        }
        let at = self.context_list.len();
        self.contexts.insert(process.0.into(), at as u32);
        self.context_list.push(Context::default());
        at
    }
}

const fn is_sync(request: &IoRequest) -> bool {
    request.is_read() || request.flags.sync
}

const fn class_of(request: &IoRequest) -> usize {
    if is_sync(request) { SYNC } else { ASYNC }
}

impl Elevator for Anticipatory {
    fn name(&self) -> &'static str {
        "anticipatory"
    }

    fn merge(&mut self, _now: Nanos, bio: &IoRequest, max_bytes: u64) -> Option<Merge> {
        // `as_merge` takes the data direction (read 0, write 1) for the class (asynchronous 0,
        // synchronous 1) when it looks for a front merge. So it finds synchronous writes only.
        let rules = Rules { max_bytes, front: Some(direction_of(bio) as u32), same_class: false };
        let Self { queues, next, last_end, contexts, context_list, .. } = self;
        queues.merge(
            bio,
            rules,
            |_| true,
            |queues, handle, leaving| {
                if leaving == Leaving::Absorbed {
                    let request = queues.request(handle);
                    let class = queues.entry(handle).queue as usize;
                    if next[class] == Some(handle) {
                        next[class] = queues.next_for_head(handle, last_end[class], REACH);
                    }
                    if let Some(at) = contexts.get(request.process.0.into()) {
                        let context = &mut context_list[at as usize];
                        context.queued = context.queued.saturating_sub(1);
                    }
                }
            },
        )
    }

    /// `as_add_request`.
    fn insert(&mut self, now: Nanos, request: IoRequest) {
        if request.op == Op::Flush {
            self.flushes.push_back(request);
            return;
        }
        let now = self.clock.jiffies(now);
        self.run_timer(now);
        let class = class_of(&request);
        let at = self.context(request.process);
        self.update_history(at, &request, now);
        self.context_list[at].queued += 1;
        let handle = self.queues.insert(class as u32, request, now + self.fifo_expire(class));
        self.next[class] =
            self.queues.better(Some(handle), self.next[class], self.last_end[class], REACH);
        if matches!(self.anticipation, Anticipation::WaitRequest | Anticipation::WaitNext(_)) {
            let over = self
                .anticipated
                .is_none_or(|process| self.can_break_anticipation(process, Some(handle), now));
            if over {
                self.stop_anticipating();
            }
        }
    }

    fn dispatch(&mut self, now: Nanos, _in_flight: u32) -> Dispatch {
        if let Some(flush) = self.flushes.pop_front() {
            return Dispatch::Request(flush);
        }
        let now = self.clock.jiffies(now);
        self.run_timer(now);
        if let Some(handle) = self.choose(now) {
            return Dispatch::Request(self.send(handle));
        }
        if self.queues.len() == 0 {
            return Dispatch::Empty;
        }
        match self.anticipation {
            Anticipation::WaitNext(expires) => Dispatch::Hold(self.clock.at(expires)),
            _ => Dispatch::Wait,
        }
    }

    /// `as_completed_request`.
    fn completed(&mut self, now: Nanos, request: &IoRequest) {
        if request.op == Op::Flush {
            return;
        }
        let now = self.clock.jiffies(now);
        self.run_timer(now);
        let class = class_of(request);
        if self.changed_batch && self.in_device == 1 {
            if !self.old {
                self.batch_expires = now + self.batch_expire(self.batch_class);
            }
            self.changed_batch = false;
            self.new_batch |= self.batch_class == SYNC;
        }
        self.in_device = self.in_device.saturating_sub(1);
        if self.new_batch && self.batch_class == class {
            self.update_write_batch(now);
            self.batch_expires = now + self.batch_expire(SYNC);
            self.new_batch = false;
        }
        if self.anticipated == Some(request.process) {
            self.antic_start = now;
            self.anticipated_done = true;
            if self.anticipation == Anticipation::WaitRequest {
                self.anticipation = Anticipation::WaitNext(now + self.antic_expire());
            }
        }
        if class == SYNC {
            let at = self.context(request.process);
            let context = &mut self.context_list[at];
            context.running = true;
            context.last_end = now;
        }
    }

    fn process_exited(&mut self, _now: Nanos, process: ProcessId) {
        let at = self.context(process);
        self.context_list[at].exited = true;
    }

    fn len(&self) -> usize {
        self.queues.len() + self.flushes.len()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
        self.tunables.set(name, value)
    }

    fn tunables(&self) -> Vec<(&'static str, String)> {
        self.tunables.list()
    }
}
