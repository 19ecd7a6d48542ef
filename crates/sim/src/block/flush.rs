//! PREFLUSH and FUA: making what came before stable (block/blk-flush.c).
//!
//! ```text
//! no volatile cache       flags are stripped, an empty flush is done at once (`submit_bio_noacct`)
//! PREFLUSH + write        FLUSH ─▶ write
//! FUA, device has it      write with FUA
//! FUA, device has it not  write ─▶ FLUSH
//! ```
//!
//! One FLUSH is in the device at a time; requests for one meanwhile share the next. The next does
//! not start while writes of such sequences are on their way, so that they can share it too, for at
//! most 5 s (`FLUSH_PENDING_TIMEOUT`). All of it passes the elevator by.
//!
//! Before 2.6.37 a barrier did more: everything that the elevator had was sent and waited for
//! first, and what came later waited behind (block/blk-barrier.c, `QUEUE_ORDERED_DRAIN_FLUSH`).

use floodwall_device::{Nanos, Op};

use super::bio::{Bio, Done, End, Times};
use super::flush_queue::{PENDING_TIMEOUT, Stage};
use super::state::{BlockLayer, NIL, Node};
use crate::request::{Flags, ProcessIndex};
use crate::wbt::Track;

impl BlockLayer {
    /// Whether a bio takes more than one step, or none.
    pub(super) fn needs_sequence(&self, bio: &Bio) -> bool {
        let fua = matches!(bio.op, Op::Write { fua: true });
        if bio.op == Op::Flush {
            return true;
        }
        self.flush.volatile && (bio.preflush || fua && !self.flush.fua)
    }

    pub(super) fn submit_sequence(&mut self, now: Nanos, mut bio: Bio, out: &mut Vec<Done>) {
        (bio.times.gated, bio.times.queued) = (now, now);
        if !self.flush.volatile {
            // An empty flush of a device without a volatile cache is done before it began.
            let times = Times { dispatched: now, done: now, ..bio.times };
            return out.push(Done { end: bio.end, times });
        }
        let before = bio.preflush || bio.op == Op::Flush;
        let stage = if before { Stage::Before } else { Stage::Data };
        let node = self.nodes.insert(Node { bio, next: NIL, stage });
        if self.flush.drains && bio.op != Op::Flush {
            self.flush.barriers.push_back(node);
        } else if before {
            self.wait_for_flush(now, node);
        } else {
            self.send_data(now, node);
        }
        self.flush_kick(now, out);
        self.dispatch(now);
    }

    fn wait_for_flush(&mut self, now: Nanos, node: u32) {
        if self.flush.pending.is_empty() {
            self.flush.pending_since = now;
        }
        self.flush.pending.push(node);
    }

    fn send_data(&mut self, now: Nanos, node: u32) {
        let bio = self.nodes.get(node).bio;
        self.nodes.get_mut(node).stage = Stage::Data;
        let forced = matches!(bio.op, Op::Write { fua: true }) && self.flush.fua;
        let mut io = self.io_of(now, ProcessIndex(u32::MAX), &bio);
        io.op = Op::Write { fua: forced };
        let slot = self.request(now, io, node, None, Track::No);
        self.flush.data += 1;
        self.bypass.push_back(slot);
    }

    /// Starts the next FLUSH, or the next barrier, if it is time (`blk_kick_flush`,
    /// `blk_do_ordered`).
    pub(super) fn flush_kick(&mut self, now: Nanos, out: &mut Vec<Done>) {
        if !self.flush.barriers.is_empty() && !self.flush.barrier_runs {
            let drained = self.elevator.is_empty() && self.bypass.is_empty() && self.in_flight == 0;
            if drained && let Some(node) = self.flush.barriers.front().copied() {
                self.flush.barrier_runs = true;
                self.wait_for_flush(now, node);
            }
        }
        let f = &mut self.flush;
        if f.pending.is_empty()
            || f.in_device
            || f.data > 0 && now < f.pending_since + PENDING_TIMEOUT
        {
            return;
        }
        f.in_device = true;
        std::mem::swap(&mut f.pending, &mut f.running);
        let bio = Bio::new(Op::Flush, 0, 0, Flags::default(), End::Record(0));
        let io = self.io_of(now, ProcessIndex(u32::MAX), &bio);
        let slot = self.request(now, io, NIL, None, Track::No);
        self.bypass.push_back(slot);
        self.dispatch(now);
        let _ = out;
    }

    /// A FLUSH is done: every process that waited for it goes on.
    pub(super) fn flush_done(&mut self, now: Nanos, out: &mut Vec<Done>) {
        self.flush.in_device = false;
        let mut running = std::mem::take(&mut self.flush.running);
        for node in running.drain(..) {
            let Node { bio, stage, .. } = *self.nodes.get(node);
            if stage == Stage::Before && bio.len > 0 {
                self.send_data(now, node);
            } else {
                self.finish_sequence(now, node, out);
            }
        }
        self.flush.running = running;
        self.flush_kick(now, out);
    }

    /// The data of a sequence is on the device.
    pub(super) fn sequence_data_done(
        &mut self,
        now: Nanos,
        node: u32,
        sent: Nanos,
        out: &mut Vec<Done>,
    ) {
        self.flush.data -= 1;
        let bio = &mut self.nodes.get_mut(node).bio;
        bio.times.dispatched = sent;
        if matches!(bio.op, Op::Write { fua: true }) && !self.flush.fua {
            self.nodes.get_mut(node).stage = Stage::After;
            self.wait_for_flush(now, node);
        } else {
            self.finish_sequence(now, node, out);
        }
        self.flush_kick(now, out);
    }

    fn finish_sequence(&mut self, now: Nanos, node: u32, out: &mut Vec<Done>) {
        let bio = self.nodes.remove(node).bio;
        let dispatched = bio.times.dispatched.max(bio.times.queued);
        out.push(Done { end: bio.end, times: Times { dispatched, done: now, ..bio.times } });
        if self.flush.barrier_runs && self.flush.barriers.front() == Some(&node) {
            self.flush.barriers.pop_front();
            self.flush.barrier_runs = false;
            if self.flush.barriers.is_empty() {
                let mut held = std::mem::take(&mut self.flush.held);
                for slot in held.drain(..) {
                    self.insert(now, slot);
                }
                self.flush.held = held;
            }
        }
    }
}
