//! Writeback throttling (wbt): how many writes may be in flight so that reads stay fast
//! (block/blk-wbt.c of 6.x).
//!
//! ```text
//! write ─▶ may_start? ─ no ─▶ waits, in order of arrival ◀──────────────┐
//!             └ yes ─▶ request slot ─▶ elevator ─▶ device ─▶ completed ─┤ wakes
//! reads ─▶ issued … completed ─▶ least latency in the window            │
//! every 100 ms/√(step+1): least read latency > target: half the depth;  │
//!                         good, or only writes: twice the depth ────────┘
//! ```
//!
//! Pure: it has neither queue nor clock. The block layer keeps the waiters and calls [`Wbt::timer`]
//! at [`Wbt::next_timer`]. Times are [`Nanos`]; whatever the kernel counts in jiffies is counted in
//! jiffies.

mod depth;

use floodwall_device::{Nanos, Op};

pub use depth::{Depth, Limits};

use crate::request::IoRequest;
use crate::throttle::jiffies::Clock;

/// The window over which read latencies are looked at (`RWB_WINDOW_NSEC`).
const WINDOW: Nanos = Nanos::from_millis(100);
/// Windows with fewer writes than this say nothing of the mix (`RWB_MIN_WRITE_SAMPLES`).
const MIN_WRITE_SAMPLES: u32 = 3;
/// So many windows that say nothing end a boost or a cut step by step (`RWB_UNKNOWN_BUMP`).
const UNKNOWN_BUMP: u32 = 5;

/// Which of its two queues a throttled request counts in. Its waiters wait apart, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Writes.
    Write,
    /// Discards.
    Discard,
}

/// What wbt makes of a request. Decide once, when it is submitted, and keep it with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// Neither counted nor watched.
    No,
    /// A read: watched.
    Read,
    /// Counted, and held back if too many are in flight.
    Throttled(Lane),
}

/// Whether it is on, and by default or by hand (`WBT_STATE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    OnDefault,
    OnManual,
    OffDefault,
    OffManual,
}

/// One device's writeback throttling.
#[derive(Clone, Debug)]
pub struct Wbt {
    clock: Clock,
    state: State,
    /// Target for the least read latency in a window; 0: off.
    target: Nanos,
    default_target: Nanos,
    /// The device has a volatile write cache, as far as the kernel knows.
    write_cache: bool,
    depth: Depth,
    limits: Limits,
    unknown_windows: u32,
    window: Nanos,
    timer: Option<Nanos>,
    /// Tick at which a read was last submitted.
    last_issue: u64,
    /// Tick at which a read was last completed.
    last_completion: u64,
    in_flight: [u32; 2],
    /// The read that is watched in case that it takes very long, and when it was sent to the
    /// device.
    watched: Option<(u64, Nanos)>,
    reads: Samples,
    writes: u32,
}

/// Latencies in the device, of the current window.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    count: u32,
    least: Nanos,
}

/// What a window said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    Good,
    Unknown,
    OnlyWrites,
    Exceeded,
}

impl Wbt {
    /// On by default, with the default target: 75 ms for rotating disks, else 2 ms (`wbt_init`,
    /// `wbt_default_latency_nsec`).
    ///
    /// `queue_depth`: what the device takes at once if the driver says so (SCSI), else
    /// `nr_requests`.
    #[must_use]
    pub fn new(hz: u32, queue_depth: u32, rotational: bool, write_cache: bool) -> Self {
        let default_target = Nanos::from_millis(if rotational { 75 } else { 2 });
        let depth = Depth::new(queue_depth);
        Self {
            clock: Clock::new(hz, true),
            state: State::OnDefault,
            target: default_target,
            default_target,
            write_cache,
            depth,
            limits: depth.limits(true),
            unknown_windows: 0,
            window: Nanos::ZERO,
            timer: None,
            last_issue: 0,
            last_completion: 0,
            in_flight: [0; 2],
            watched: None,
            reads: Samples::default(),
            writes: 0,
        }
    }

    /// Whether it is on.
    #[must_use]
    pub const fn enabled(&self) -> bool {
        matches!(self.state, State::OnDefault | State::OnManual)
    }

    /// What `queue/wbt_lat_usec` reads (6.5 and later: 0 while it is off).
    #[must_use]
    pub const fn latency_us(&self) -> u64 {
        if self.enabled() { self.target.0 / 1000 } else { 0 }
    }

    /// The limits in force.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// The scaling step: above 0 fewer writes than by default, below 0 more.
    #[must_use]
    pub const fn step(&self) -> i32 {
        self.depth.step()
    }

    /// A write to `queue/wbt_lat_usec`: `None` (-1) is the default, 0 switches it off. The target
    /// that it has already is ignored, even while it is off (`queue_wb_lat_store`). Returns whether
    /// all waiters may try again.
    pub fn set_latency_us(&mut self, us: Option<u64>) -> bool {
        let target = us.map_or(self.default_target, Nanos::from_micros);
        if target == self.target {
            return false;
        }
        self.target = target;
        self.state = if target == Nanos::ZERO { State::OffManual } else { State::OnManual };
        self.reset();
        true
    }

    /// bfq or iocost has come: a default gives way, an administrator's setting does not
    /// (`wbt_disable_default`).
    pub fn disable_default(&mut self) {
        if self.state == State::OnDefault {
            self.timer = None;
            self.state = State::OffDefault;
        }
    }

    /// bfq or iocost has gone (`wbt_enable_default`).
    pub fn enable_default(&mut self) {
        if self.state == State::OffDefault {
            self.state = State::OnDefault;
        }
    }

    fn reset(&mut self) {
        self.depth.restart();
        self.limits = self.depth.limits(self.target > Nanos::ZERO);
    }

    /// The treatment of a request (`bio_to_wbt_flags`): every write is counted, unless it is sync
    /// *and* idle (O_DIRECT, journals). A discard is counted too. The data of fsync is sync only,
    /// so it is counted.
    #[must_use]
    pub fn track(&self, request: &IoRequest) -> Track {
        if !self.enabled() {
            return Track::No;
        }
        match request.op {
            Op::Read => Track::Read,
            Op::Write { .. } if request.flags.sync && request.flags.idle => Track::No,
            Op::Write { .. } => Track::Throttled(Lane::Write),
            Op::Discard => Track::Throttled(Lane::Discard),
            Op::Flush | Op::WriteZeroes => Track::No,
        }
    }

    /// Whether a request may go on to take a request slot (`wbt_wait`); if so it counts as in
    /// flight. Only the first in its lane may ask: if others wait, a newcomer waits behind them.
    ///
    /// `slept_recently`: a writer to this device was throttled within the last second.
    pub fn may_start(
        &mut self,
        now: Nanos,
        request: &IoRequest,
        track: Track,
        slept_recently: bool,
    ) -> bool {
        let lane = match track {
            Track::No => return true,
            Track::Read => {
                self.last_issue = self.clock.jiffies(now);
                return true;
            }
            Track::Throttled(lane) => lane,
        };
        let limit = self.limit(now, request, slept_recently);
        let in_flight = &mut self.in_flight[lane as usize];
        if *in_flight >= limit {
            return false;
        }
        *in_flight += 1;
        if self.timer.is_none() {
            self.arm(now);
        }
        true
    }

    /// How many such requests may be in flight (`get_limit`).
    fn limit(&self, now: Nanos, request: &IoRequest, slept_recently: bool) -> u32 {
        if request.op == Op::Discard {
            self.limits.background
        } else if request.flags.sync || request.flags.meta || slept_recently {
            self.limits.max
        } else if request.flags.background || self.reads_recently(now) {
            self.limits.background
        } else {
            self.limits.normal
        }
    }

    /// A read was submitted or completed within the last 100 ms (`close_io`).
    fn reads_recently(&self, now: Nanos) -> bool {
        let tenth = self.clock.hz() / 10;
        self.clock.jiffies(now) < self.last_issue.max(self.last_completion) + tenth
    }

    /// A request has been sent to the device. One read at a time is watched (`wbt_issue`).
    pub fn issued(&mut self, now: Nanos, id: u64, track: Track) {
        if track == Track::Read && self.watched.is_none() && self.enabled() {
            self.watched = Some((id, now));
        }
    }

    /// A request is done: `in_device` after it was sent to the device. Returns whether the waiters
    /// of its lane may now try [`Wbt::may_start`], in order of arrival until the first that may
    /// not.
    pub fn completed(
        &mut self,
        now: Nanos,
        request: &IoRequest,
        track: Track,
        in_device: Nanos,
        slept_recently: bool,
    ) -> bool {
        // blk_stat_add: only while a window is open.
        if self.timer.is_some() {
            match request.op {
                Op::Read => self.reads.add(in_device),
                Op::Write { .. } | Op::Discard | Op::WriteZeroes => self.writes += 1,
                Op::Flush => {}
            }
        }
        self.released(now, request.id, track, slept_recently)
    }

    /// A request has gone without having been done, because it was merged into another. As for
    /// [`Wbt::completed`].
    pub fn released(&mut self, now: Nanos, id: u64, track: Track, slept_recently: bool) -> bool {
        if self.watched.is_some_and(|(watched, _)| watched == id) {
            self.watched = None;
        }
        match track {
            Track::No => false,
            Track::Read => {
                if self.enabled() {
                    self.last_completion = self.clock.jiffies(now);
                }
                false
            }
            Track::Throttled(lane) => self.leaves(lane, slept_recently),
        }
    }

    /// `wbt_rqw_done`.
    fn leaves(&mut self, lane: Lane, slept_recently: bool) -> bool {
        let in_flight = &mut self.in_flight[lane as usize];
        *in_flight = in_flight.saturating_sub(1);
        let limit = match lane {
            Lane::Discard => self.limits.background,
            // A device with a write cache takes writes faster than it can write them: let it run
            // dry first.
            Lane::Write if self.write_cache && !slept_recently => 0,
            Lane::Write => self.limits.normal,
        };
        // Several at a time, so that their writes can be merged.
        *in_flight == 0 || (*in_flight < limit && limit - *in_flight >= self.limits.background / 2)
    }

    /// When [`Wbt::timer`] is to be called, if at all.
    #[must_use]
    pub const fn next_timer(&self) -> Option<Nanos> {
        self.timer
    }

    /// A window is over (`wb_timer_fn`). Returns whether the waiters of either lane may now try
    /// [`Wbt::may_start`].
    pub fn timer(&mut self, now: Nanos, slept_recently: bool) -> bool {
        let in_flight: u32 = self.in_flight.iter().sum();
        let window = self.judge(now, in_flight, slept_recently);
        self.reads = Samples::default();
        self.writes = 0;
        self.timer = None;
        let wake = match window {
            Window::Exceeded => self.scale_down(true),
            Window::Good | Window::OnlyWrites => self.scale_up(),
            Window::Unknown => {
                self.unknown_windows += 1;
                match self.depth.step() {
                    _ if self.unknown_windows < UNKNOWN_BUMP => false,
                    step if step > 0 => self.scale_up(),
                    step if step < 0 => self.scale_down(false),
                    _ => false,
                }
            }
        };
        if self.depth.step() != 0 || in_flight > 0 {
            self.arm(now);
        }
        wake
    }

    /// `latency_exceeded`.
    fn judge(&self, now: Nanos, in_flight: u32, slept_recently: bool) -> Window {
        let waiting = self.watched.map_or(Nanos::ZERO, |(_, since)| now.since(since));
        if waiting > self.window || (waiting > self.target && self.reads.count == 0) {
            return Window::Exceeded;
        }
        if self.reads.count == 0 || self.writes < MIN_WRITE_SAMPLES {
            let writes = self.writes > 0 || slept_recently || in_flight > 0;
            return if writes { Window::OnlyWrites } else { Window::Unknown };
        }
        if self.reads.least > self.target { Window::Exceeded } else { Window::Good }
    }

    fn scale_up(&mut self) -> bool {
        let scaled = self.depth.scale_up();
        self.scaled(scaled)
    }

    /// Fewer writes: no waiter is woken.
    fn scale_down(&mut self, hard: bool) -> bool {
        let scaled = self.depth.scale_down(hard);
        self.scaled(scaled);
        false
    }

    fn scaled(&mut self, scaled: bool) -> bool {
        if scaled {
            self.limits = self.depth.limits(self.target > Nanos::ZERO);
            self.unknown_windows = 0;
        }
        scaled
    }

    /// Opens a window: the shorter, the more the depth has been cut (`rwb_arm_timer`).
    fn arm(&mut self, now: Nanos) {
        let step = self.depth.step();
        self.window = if step > 0 {
            Nanos((WINDOW.0 << 4) / ((step as u64 + 1) << 8).isqrt())
        } else {
            WINDOW
        };
        let ticks = self.window.0 * self.clock.hz() / 1_000_000_000;
        self.timer = Some(self.clock.timer(now, ticks));
    }
}

impl Samples {
    fn add(&mut self, latency: Nanos) {
        self.least = if self.count == 0 { latency } else { self.least.min(latency) };
        self.count += 1;
    }
}

#[cfg(test)]
mod tests;
