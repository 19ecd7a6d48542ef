//! A job at work: which request is next and when, what is counted of it, and its end.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use floodwall_model::KeptRequest;
use rustix::thread::gettid;

use super::counts::{JobCounts, one_more};
use super::order::{Kind, Op, Order};
use super::pace::Pace;
use super::plan::JobPlan;
use crate::buffer::{AlignedBuf, Blocks, rng};
use crate::error::LoadError;
use crate::file::NamedFile;
use crate::pace::{nanoseconds, sleep_until};
use crate::sys::{Usage, thread_usage};

/// Keeps the generator of data apart from that of offsets.
const DATA_PURPOSE: u64 = 1 << 32;
/// Requests that a job keeps at most: 900 MiB of memory.
const MOST_KEPT: usize = 16 << 20;

/// What the controller sees of a running job.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// When figures begin.
    pub(super) counted_from: OnceLock<Instant>,
    pub(super) bytes: [AtomicU64; 2],
    pub(super) requests: [AtomicU64; 2],
    pub(super) is_done: AtomicBool,
}

/// A job at work.
pub(super) struct Session<'a> {
    pub(super) plan: &'a JobPlan,
    pub(super) files: Vec<NamedFile>,
    pub(super) order: Order<'a>,
    pub(super) counts: JobCounts,
    pub(super) stop: &'a AtomicBool,
    live: &'a Live,
    pace: Pace,
    /// When figures begin, and whether they have.
    counted_from: Instant,
    is_counting: bool,
    /// When the time is up.
    end: Option<Instant>,
    /// When this pass began, or the figures in it.
    pass_begin: Instant,
    before: Usage,
}

/// What to do next.
pub(super) enum Next {
    /// This, now.
    Go(Op),
    /// A request of this direction is due then.
    At(bool, Instant),
    /// The pass is over.
    Over,
}

impl<'a> Session<'a> {
    pub(super) fn new(plan: &'a JobPlan, live: &'a Live, stop: &'a AtomicBool) -> Self {
        let begin = Instant::now();
        let counted_from = begin + plan.ramp;
        let mut session = Self {
            plan,
            files: Vec::new(),
            order: Order::new(plan),
            counts: JobCounts::default(),
            stop,
            live,
            pace: Pace::new(plan.rate, begin),
            counted_from,
            is_counting: false,
            end: plan.time.map(|time| counted_from + time),
            pass_begin: begin,
            before: thread_usage(),
        };
        session.look(begin);
        session
    }

    /// Begins a pass.
    pub(super) fn begin_pass(&mut self) {
        self.pass_begin = Instant::now();
        self.order.begin_pass();
    }

    /// Adds the pass to the time of the directions that had requests.
    pub(super) fn count_time(&mut self) {
        let us = self.pass_begin.elapsed().as_micros() as u64;
        for direction in &mut self.counts.directions {
            if direction.requests > 0 && self.is_counting {
                direction.time_us += us;
            }
        }
    }

    /// What the kernel counted of the thread.
    pub(super) fn close(&mut self) {
        let now = thread_usage();
        let since = |now: u64, before: u64| now.saturating_sub(before);
        for at in 0..2 {
            self.counts.cpu_us[at] = since(now.cpu_us[at], self.before.cpu_us[at]);
            self.counts.faults[at] = since(now.faults[at], self.before.faults[at]);
        }
        self.counts.switches = since(now.switches, self.before.switches);
        self.counts.thread = gettid().as_raw_nonzero().get().cast_unsigned();
        if self.is_counting {
            self.counts.run_us = self.counted_from.elapsed().as_micros() as u64;
        }
    }

    /// Whether no further request may begin.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.stop.load(Ordering::Relaxed) || self.end.is_some_and(|end| now >= end)
    }

    /// Figures begin at the end of the ramp.
    fn look(&mut self, now: Instant) {
        if self.is_counting || now < self.counted_from {
            return;
        }
        self.is_counting = true;
        self.counted_from = now;
        self.pass_begin = now;
        self.counts = JobCounts::default();
        self.before = thread_usage();
        let _ = self.live.counted_from.set(now);
    }

    /// The next request.
    pub(super) fn next(&mut self) -> Next {
        let now = Instant::now();
        self.look(now);
        if self.is_over(now) {
            return Next::Over;
        }
        if let Some(sync) = self.order.sync() {
            return Next::Go(sync);
        }
        let drawn = self.order.direction();
        let does_both = self.plan.reads && self.plan.writes;
        let (is_write, due) = self.pace.choose(drawn, does_both, now);
        match due {
            Some(due) => Next::At(is_write, due),
            None => self.take(is_write),
        }
    }

    /// Waits until a request of this direction is due.
    pub(super) fn wait(&mut self, is_write: bool, due: Instant) -> Next {
        let end = self.end.map_or(due, |end| due.min(end));
        if !sleep_until(end, self.stop) || self.is_over(Instant::now()) {
            return Next::Over;
        }
        self.look(Instant::now());
        self.take(is_write)
    }

    fn take(&mut self, is_write: bool) -> Next {
        match self.order.next(is_write) {
            Some(op) => {
                self.pace.sent(is_write, op.len);
                Next::Go(op)
            }
            None => Next::Over,
        }
    }

    /// Counts a request as submitted, with so many in flight.
    pub(super) fn submitted(&mut self, in_flight: usize) {
        one_more(&mut self.counts.depths, in_flight);
        self.counts.submissions += 1;
    }

    /// Counts a request that has ended.
    pub(super) fn ended(&mut self, op: Op, times: Times) -> Result<(), LoadError> {
        let Times { begun, submitted, ended } = times;
        self.order.ended(op.kind);
        let [slat, clat, lat] =
            [submitted - begun, ended.saturating_duration_since(submitted), ended - begun]
                .map(nanoseconds);
        let is_write = match op.kind {
            Kind::Sync | Kind::SyncData => {
                self.counts.syncs.record(clat);
                self.counts.full_syncs += u64::from(op.kind == Kind::Sync);
                return Ok(());
            }
            kind => kind == Kind::Write,
        };
        let at = usize::from(is_write);
        let direction = &mut self.counts.directions[at];
        direction.bytes += op.len;
        direction.requests += 1;
        let all = [slat, clat, lat];
        for (which, ns) in all.into_iter().enumerate() {
            if self.plan.timed[which] {
                direction.latencies[which].record(ns);
            }
        }
        if self.is_counting {
            // The thread alone writes them.
            self.live.bytes[at].store(direction.bytes, Ordering::Relaxed);
            self.live.requests[at].store(direction.requests, Ordering::Relaxed);
        }
        if let Some(keep) = self.plan.keeps.filter(|_| self.is_counting) {
            let end_ns = nanoseconds(ended.saturating_duration_since(self.counted_from));
            let request =
                KeptRequest { end_ns, requests: 1, is_write, bytes: op.len, latencies_ns: all };
            self.counts.keep(request, keep, MOST_KEPT)?;
        }
        Ok(())
    }
}

/// When a request began, was submitted, and ended.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) begun: Instant,
    pub(super) submitted: Instant,
    pub(super) ended: Instant,
}

/// The bytes that a job writes.
pub(super) fn blocks(plan: &JobPlan, supply: u64, variety: usize) -> Blocks {
    let len = if plan.writes { plan.block[1] as usize } else { 0 };
    let variety = if plan.writes { variety } else { 0 };
    Blocks::new(len, variety, plan.data, &mut rng(plan.seed, DATA_PURPOSE * (1 + supply)))
}

/// Memory for what it reads.
pub(super) fn read_buffer(plan: &JobPlan) -> AlignedBuf {
    AlignedBuf::zeroed(if plan.reads { plan.block[0] as usize } else { 0 })
}

/// A sync by a plain call.
pub(super) fn make_stable(file: &NamedFile, kind: Kind) -> Result<(), LoadError> {
    if kind == Kind::SyncData { file.sync_data() } else { file.sync() }
}
