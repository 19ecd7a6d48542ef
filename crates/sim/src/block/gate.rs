//! The wbt gate: which processes may make another write request, and which wait (block/blk-rq-qos.c
//! `rq_qos_wait` around [`Wbt`]).
//!
//! Waiting processes are admitted in the order of arrival, up to the first that may not pass. A
//! process that arrives while others wait queues behind them. A process that passes and then finds
//! no request slot keeps its pass.

use std::collections::VecDeque;

use floodwall_device::Nanos;

use crate::request::{IoRequest, ProcessIndex};
use crate::wbt::{Track, Wbt};

/// For how long a writer's sleep in `balance_dirty_pages` counts as recent (`wb_recent_wait`).
const RECENT: Nanos = Nanos::from_secs(1);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Gate {
    wbt: Wbt,
    waiting: VecDeque<ProcessIndex>,
    /// Each process's pass.
    passes: Vec<Option<Track>>,
    /// When a writer to this device last went to sleep over the dirty limits.
    last_sleep: Option<Nanos>,
}

impl Gate {
    pub(crate) fn new(wbt: Wbt) -> Self {
        Self { wbt, waiting: VecDeque::new(), passes: Vec::new(), last_sleep: None }
    }

    /// Its limits, to be changed while no process waits.
    pub(super) fn wbt(&mut self) -> &mut Wbt {
        &mut self.wbt
    }

    pub(super) fn wbt_state(&self) -> &Wbt {
        &self.wbt
    }

    pub(super) fn add_process(&mut self) {
        self.passes.push(None);
    }

    /// A writer sleeps in `balance_dirty_pages`.
    pub(crate) fn writer_sleeps(&mut self, now: Nanos) {
        self.last_sleep = Some(now);
    }

    fn slept_recently(&self, now: Nanos) -> bool {
        self.last_sleep.is_some_and(|at| now < at + RECENT)
    }

    pub(super) fn next_event(&self) -> Option<Nanos> {
        self.wbt.next_timer()
    }

    /// Whether a process is through already.
    pub(super) fn has_pass(&self, process: ProcessIndex) -> bool {
        self.passes[process.0 as usize].is_some()
    }

    /// A process wants to make a request. If it may not, it is remembered. `woken`: it waited and
    /// was named.
    pub(super) fn ask(
        &mut self,
        now: Nanos,
        process: ProcessIndex,
        io: &IoRequest,
        asked_before: bool,
        woken: &mut Vec<ProcessIndex>,
    ) -> bool {
        let track = self.wbt.track(io);
        let counted = matches!(track, Track::Throttled(_));
        if counted && !asked_before && !self.waiting.is_empty() {
            self.waiting.push_back(process);
            return false;
        }
        let slept = self.slept_recently(now);
        if self.wbt.may_start(now, io, track, slept) {
            self.passes[process.0 as usize] = Some(track);
            if asked_before {
                // The next in line may try, too.
                woken.extend(self.waiting.pop_front());
            }
            return true;
        }
        if asked_before {
            self.waiting.push_front(process);
        } else {
            self.waiting.push_back(process);
        }
        false
    }

    /// The request of a process has been made: what it counts as.
    pub(super) fn use_pass(&mut self, process: ProcessIndex) -> Track {
        self.passes[process.0 as usize].take().unwrap_or(Track::No)
    }

    pub(super) fn issued(&mut self, now: Nanos, id: u64, track: Track) {
        self.wbt.issued(now, id, track);
    }

    pub(super) fn completed(
        &mut self,
        now: Nanos,
        io: &IoRequest,
        track: Track,
        in_device: Nanos,
        woken: &mut Vec<ProcessIndex>,
    ) {
        let slept = self.slept_recently(now);
        if self.wbt.completed(now, io, track, in_device, slept) {
            woken.extend(self.waiting.pop_front());
        }
    }

    /// A request became part of another.
    pub(super) fn released(
        &mut self,
        now: Nanos,
        id: u64,
        track: Track,
        woken: &mut Vec<ProcessIndex>,
    ) {
        let slept = self.slept_recently(now);
        if self.wbt.released(now, id, track, slept) {
            woken.extend(self.waiting.pop_front());
        }
    }

    /// Lets the window end if it is over.
    pub(super) fn tick(&mut self, now: Nanos, woken: &mut Vec<ProcessIndex>) {
        if self.wbt.next_timer().is_some_and(|t| t <= now) {
            let slept = self.slept_recently(now);
            if self.wbt.timer(now, slept) {
                woken.extend(self.waiting.pop_front());
            }
        }
    }
}
