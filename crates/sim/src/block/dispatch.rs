//! From the elevator to the device and back: what is done frees its slot.

use floodwall_device::{Completion, Nanos, Op, Request};

use super::bio::{Done, Times};
use super::flush_queue::Stage;
use super::state::{BlockLayer, Entry, NIL, Node, slot_of};
use crate::elevator::Dispatch;
use crate::wbt::Track;

impl BlockLayer {
    /// Lets time pass up to `now`; appends what is done.
    pub(crate) fn advance(&mut self, now: Nanos, out: &mut Vec<Done>) {
        if self.device_next.is_some_and(|t| t <= now) {
            let mut completions = std::mem::take(&mut self.completions);
            self.device.advance(now, &mut completions);
            for c in completions.drain(..) {
                self.complete(&c, out);
            }
            self.completions = completions;
            self.device_next = self.device.next_event();
        }
        if self.hold.is_some_and(|t| t <= now) {
            self.hold = None;
        }
        self.queues.gates().for_each(|gate| gate.tick(now, &mut self.woken));
        self.flush_kick(now, out);
        self.dispatch(now);
        self.thaw(now);
    }

    pub(super) fn dispatch(&mut self, now: Nanos) {
        let before = self.in_flight;
        while self.in_flight < self.given && !self.flushing {
            if self.flush_alone && self.in_flight > 0 && self.flush_is_next() {
                break;
            }
            if let Some(slot) = self.bypass.pop_front() {
                self.send(now, slot);
                continue;
            }
            match self.elevator.dispatch(now, self.in_flight) {
                Dispatch::Request(io) => {
                    let slot = slot_of(io.id);
                    self.requests.get_mut(slot).io = io;
                    self.hold = None;
                    self.send(now, slot);
                }
                Dispatch::Hold(until) => {
                    self.hold = Some(until.max(Nanos(now.0 + 1)));
                    break;
                }
                Dispatch::Wait | Dispatch::Empty => {
                    self.hold = None;
                    break;
                }
            }
        }
        if self.in_flight != before {
            self.device_next = self.device.next_event();
        }
    }

    fn flush_is_next(&self) -> bool {
        self.bypass.front().is_some_and(|slot| self.requests.get(*slot).io.op == Op::Flush)
    }

    fn send(&mut self, now: Nanos, slot: u32) {
        let entry = self.requests.get_mut(slot);
        entry.dispatched = now;
        let io = entry.io;
        let track = entry.track;
        self.in_flight += 1;
        self.flushing = self.flush_alone && io.op == Op::Flush;
        if let Some(gate) = &mut self.queues.of(io.offset).gate {
            gate.issued(now, io.id, track);
        }
        self.device.submit(
            now,
            Request {
                id: io.id,
                version: io.id,
                op: io.op,
                offset: io.offset,
                len: io.len,
                sync: io.flags.sync,
            },
        );
    }

    fn complete(&mut self, completion: &Completion, out: &mut Vec<Done>) {
        let now = completion.at;
        let slot = slot_of(completion.id);
        let entry = *self.requests.get(slot);
        self.in_flight -= 1;
        self.counters.errors += u64::from(completion.result.is_err());
        match entry.io.op {
            Op::Read => {
                self.counters.reads += 1;
                self.counters.read_bytes += entry.io.len;
            }
            Op::Flush => self.counters.flushes += 1,
            Op::Write { .. } | Op::WriteZeroes | Op::Discard => {
                self.counters.writes += 1;
                self.counters.write_bytes += entry.io.len;
            }
        }
        self.counters.weighted += now.since(entry.io.queued);
        if entry.io.op == Op::Flush {
            self.flushing = false;
            self.requests.remove(slot);
            self.end_outstanding(now);
            return self.flush_done(now, out);
        }
        if entry.class.is_some() {
            self.elevator.completed(now, &entry.io);
        }
        if let Some(gate) = &mut self.queues.of(entry.io.offset).gate {
            let in_device = now.since(entry.dispatched);
            gate.completed(now, &entry.io, entry.track, in_device, &mut self.woken);
        }
        let mut node = entry.first;
        while node != NIL {
            let Node { bio, next, stage } = *self.nodes.get(node);
            if stage == Stage::Data && entry.class.is_some() {
                self.nodes.remove(node);
                let times = Times { dispatched: entry.dispatched, done: now, ..bio.times };
                out.push(Done { end: bio.end, times });
            } else {
                self.sequence_data_done(now, node, entry.dispatched, out);
            }
            node = next;
        }
        // The gate has been told.
        let entry = Entry { track: Track::No, ..entry };
        self.release(now, slot, &entry);
    }

    /// A request is no more: its slot is free again.
    pub(super) fn release(&mut self, now: Nanos, slot: u32, entry: &Entry) {
        let queue = self.queues.of(entry.io.offset);
        if let Some(class) = entry.class {
            self.left_congestion |= queue.pool.give_back(usize::from(class), &mut self.woken);
        }
        if let (Some(gate), Track::Throttled(_)) = (&mut queue.gate, entry.track) {
            gate.released(now, entry.io.id, entry.track, &mut self.woken);
        }
        self.requests.remove(slot);
        self.end_outstanding(now);
    }

    fn end_outstanding(&mut self, now: Nanos) {
        self.outstanding -= 1;
        if self.outstanding == 0 {
            self.counters.busy += now.since(self.busy_since);
        }
    }
}
