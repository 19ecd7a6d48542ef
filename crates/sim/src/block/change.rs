//! Changing a queue while it is in use.
//!
//! ```text
//! write ─▶ frozen: who comes now waits outside ─▶ what is inside runs dry ─▶ changed
//!   ─▶ all who wait outside come in
//! ```
//!
//! Since blk-mq a queue is frozen while its elevator, `nr_requests`, a limit such as
//! `max_sectors_kb`, or wbt's target changes. In a frozen queue (`blk_mq_freeze_queue`) no bio
//! enters, and `q_usage_counter` falls to zero. Processes that sleep inside for a slot or at the
//! gate are served first.
//!
//! Earlier kernels never freeze a queue: `nr_requests` and limits are in force at once. There a new
//! elevator waits until the old one's requests are gone while new ones bypass it
//! (`elevator_switch`, 2.6). Here that is modelled as a freeze.
//!
//! A bio that was made before `max_sectors_kb` became smaller keeps its length.

use floodwall_device::Nanos;

use super::bio::{Bio, Done};
use super::state::{BlockLayer, Change, Submitted};
use crate::elevator::{Elevator, TunableError};
use crate::request::ProcessIndex;
use crate::wbt::Wbt;

impl BlockLayer {
    /// Submits a bio. `woken`: the process waited and was named.
    pub(crate) fn submit(
        &mut self,
        now: Nanos,
        process: ProcessIndex,
        bio: &mut Bio,
        woken: bool,
        out: &mut Vec<Done>,
    ) -> Submitted {
        // A software RAID's thread submits what others have asked for.
        if !woken && bio.times.asked == Nanos::ZERO {
            bio.times.asked = now;
        }
        let inside = woken && !std::mem::take(&mut self.freezer.let_in[process.0 as usize]);
        if !inside && self.freezer.change.is_some() {
            self.freezer.outside.push(process);
            self.flush_plug(now, process);
            return Submitted::Wait;
        }
        let submitted = self.submit_inside(now, process, bio, inside, out);
        match submitted {
            Submitted::Wait => self.freezer.inside += u32::from(!inside),
            Submitted::Taken => self.freezer.inside -= u32::from(inside),
        }
        submitted
    }

    /// Whether a change waits for the queue to run dry.
    pub(crate) fn is_changing(&self) -> bool {
        self.freezer.change.is_some()
    }

    /// The elevator that is there once a change that waits is made.
    pub(crate) fn coming_elevator(&self) -> &dyn Elevator {
        let coming = self.freezer.change.as_ref().and_then(|change| change.elevator.as_ref());
        coming.map_or(self.elevator(), |(elevator, ..)| elevator.as_ref())
    }

    /// Begins a change; it is made as soon as nothing is inside. One at a time: a second before
    /// that is merged into the first, the later value counts.
    pub(crate) fn change(&mut self, now: Nanos, change: Change) {
        let pending = self.freezer.change.get_or_insert_default();
        if change.elevator.is_some() {
            // It brings its own.
            pending.nr_requests = None;
            pending.elevator = change.elevator;
            pending.tunables.clear();
        }
        if change.nr_requests.is_some() {
            // It resets those that depend on it.
            pending.tunables.clear();
        }
        pending.nr_requests = change.nr_requests.or(pending.nr_requests.take());
        pending.max_bytes = change.max_bytes.or(pending.max_bytes.take());
        pending.wbt_us = change.wbt_us.or(pending.wbt_us.take());
        let freezes = self.generation.is_multiqueue() || pending.elevator.is_some();
        if freezes {
            self.thaw(now);
        } else if let Some(change) = self.freezer.change.take() {
            self.make(change);
        }
    }

    /// Sets one of the elevator's tunables, which freezes nothing. While another elevator waits for
    /// the queue to run dry it is that one's: the kernel keeps the write back until the switch is
    /// made. One that is written behind a number of requests that still waits outlasts it.
    pub(crate) fn set_tunable(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
        let Some(pending) = self.freezer.change.as_mut() else {
            return self.elevator.set(name, value);
        };
        match pending.elevator.as_mut() {
            Some((coming, ..)) => coming.set(name, value),
            None => self.elevator.set(name, value),
        }?;
        if pending.nr_requests.is_some() {
            pending.tunables.push((name.to_owned(), value.to_owned()));
        }
        Ok(())
    }

    /// Makes the change if nothing is inside, and lets the waiting processes in.
    pub(super) fn thaw(&mut self, _now: Nanos) {
        let dry = self.freezer.inside == 0 && self.outstanding == 0 && self.flush.is_idle();
        if !dry {
            return;
        }
        let Some(change) = self.freezer.change.take() else { return };
        self.make(change);
        for process in self.freezer.outside.drain(..) {
            self.freezer.let_in[process.0 as usize] = true;
            self.woken.push(process);
        }
    }

    fn make(&mut self, change: Change) {
        if let Some((elevator, slots, wbt_yields)) = change.elevator {
            self.elevator = elevator;
            self.hold = None;
            self.queues.resize(slots, &mut self.woken);
            for gate in self.queues.gates() {
                if wbt_yields { gate.wbt().disable_default() } else { gate.wbt().enable_default() }
            }
        }
        if let Some(slots) = change.nr_requests {
            let each = self.queues.resize(slots, &mut self.woken);
            self.elevator.depth_updated(each);
        }
        for (name, value) in change.tunables {
            // It was accepted when it was written.
            let _ = self.elevator.set(&name, &value);
        }
        if let Some(bytes) = change.max_bytes {
            self.max_bytes = bytes;
        }
        if let Some(us) = change.wbt_us {
            for gate in self.queues.gates() {
                gate.wbt().set_latency_us(us);
            }
        }
    }

    /// The value of `queue/wbt_lat_usec`; `None` without that file.
    pub(crate) fn wbt_latency_us(&self) -> Option<u64> {
        self.queues.wbt().map(Wbt::latency_us)
    }

    /// The value of `nr_requests`, summed over the member queues.
    pub(crate) fn slots(&self) -> u32 {
        self.queues.slots()
    }

    /// The elevator's name and its tunables.
    pub(crate) fn elevator(&self) -> &dyn Elevator {
        self.elevator.as_ref()
    }
}
