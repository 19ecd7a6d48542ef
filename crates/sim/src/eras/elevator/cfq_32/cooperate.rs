//! Queues of processes that read interleaved parts of the same area: found by position, merged into
//! one, and split again when that one seeks.

use super::{Cfq32, SECTOR, SEEKY_SECTORS};
use crate::elevator::history::sample_valid;
use crate::request::{IoRequest, PriorityClass, ProcessId};

impl Cfq32 {
    /// Whether a position is within what the queue seeks anyway (`cfq_rq_close`).
    pub(super) fn is_close(&self, at: u32, offset: u64) -> bool {
        let seek = &self.queues[at as usize].seek;
        let distance = if sample_valid(seek.samples) { seek.mean } else { SEEKY_SECTORS };
        self.last_position.abs_diff(offset) / SECTOR <= distance
    }

    /// Another synchronous queue whose next request is close to where the last one ended
    /// (`cfq_close_cooperator`).
    pub(super) fn close_cooperator(&self, at: u32) -> Option<u32> {
        let queue = &self.queues[at as usize];
        if !queue.sync || queue.seeks() {
            return None;
        }
        let distance = |other: u32| {
            let next = self.queues[other as usize].next?;
            Some(self.last_position.abs_diff(self.requests.request(next).offset))
        };
        let others = self.tree.iter().copied().filter(|&other| {
            let other = &self.queues[other as usize];
            other.class != PriorityClass::Idle && other.level == queue.level
        });
        let nearest = others.filter_map(|other| distance(other).map(|far| (far, other))).min()?.1;
        let next = self.queues[nearest as usize].next?;
        let close = self.is_close(at, self.requests.request(next).offset);
        let other = &self.queues[nearest as usize];
        (close && other.sync && !other.seeks()).then_some(nearest)
    }

    /// Decides which of two queues will take in the other, the one with fewer processes
    /// (`cfq_setup_merge`). It happens when its process next submits something.
    pub(super) fn plan_merge(&mut self, at: u32, other: u32) {
        if self.queues[at as usize].heir.is_some() || self.queues[other as usize].processes == 0 {
            return;
        }
        let mut other = other;
        while let Some(heir) = self.queues[other as usize].heir {
            if heir == at {
                return;
            }
            other = heir;
        }
        let (ours, theirs) =
            (self.queues[at as usize].processes, self.queues[other as usize].processes);
        if ours == 0 || theirs == 0 {
            return;
        }
        if theirs >= ours {
            self.queues[at as usize].heir = Some(other);
            self.queues[other as usize].processes += ours;
        } else {
            self.queues[other as usize].heir = Some(at);
            self.queues[at as usize].processes += theirs;
        }
    }

    /// The queue for a process's next synchronous request: its own, one it shares, or a new one if
    /// sharing does not pay any more (`cfq_set_request`).
    pub(super) fn process_queue(&mut self, request: &IoRequest, context: usize, now: u64) -> u32 {
        let class = request.class;
        let Some(at) =
            self.context_list[context].queue.filter(|&at| self.queues[at as usize].class == class)
        else {
            let at = self.add_queue(request);
            self.context_list[context].queue = Some(at);
            return at;
        };
        let split_after = self.clock.hz();
        let queue = &mut self.queues[at as usize];
        let seeks_too_long = queue.seeky_since > 0 && now > queue.seeky_since + split_after;
        if queue.shared && seeks_too_long {
            if queue.processes == 1 {
                queue.seeky_since = 0;
                queue.shared = false;
            } else {
                queue.processes -= 1;
                let own = self.add_queue(request);
                self.context_list[context].queue = Some(own);
                return own;
            }
        }
        let Some(heir) = self.queues[at as usize].heir else { return at };
        self.queues[at as usize].processes = self.queues[at as usize].processes.saturating_sub(1);
        self.queues[heir as usize].shared = true;
        self.context_list[context].queue = Some(heir);
        heir
    }

    /// A process is gone, and its place in its queue and in those that it was to be merged into
    /// (`cfq_exit_cfqq`).
    pub(super) fn exit(&mut self, process: ProcessId, now: u64) {
        let context = self.context(process, now);
        self.context_list[context].exited = true;
        let Some(at) = self.context_list[context].queue.take() else { return };
        if self.active == Some(at) {
            self.expire(at, false, now);
        }
        let mut gone = Some(at);
        while let Some(queue) = gone {
            let queue = &mut self.queues[queue as usize];
            queue.processes = queue.processes.saturating_sub(1);
            gone = queue.heir;
        }
    }
}
