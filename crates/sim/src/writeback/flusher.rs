//! The flusher's thread: when it wakes, what it has to write, when it sleeps again.

use floodwall_device::Nanos;

use super::lists::{Pass, Progress, Why};
use crate::event::Event;
use crate::limits::flush;
use crate::machine::Machine;
use crate::page_cache::{InodeId, List};

/// How long pdflush waits for a queue to leave congestion (`blk_congestion_wait(WRITE, HZ/10)`).
const CONGESTION_WAIT: Nanos = Nanos::from_millis(100);

impl Machine {
    /// A file's first page became dirty (`__mark_inode_dirty`).
    pub(crate) fn inode_dirtied(&mut self, id: InodeId) {
        let inode = self.cache.inode_mut(id);
        if inode.list != List::None {
            return;
        }
        inode.list = List::Dirty;
        let wb = inode.wb();
        self.wbs[wb].flusher.b_dirty.push_back(id);
        self.arm_flusher(wb);
    }

    /// A task found the machine, or the context's group, over the background limit.
    pub(crate) fn start_background(&mut self, wb: usize) {
        self.wbs[wb].flusher.background = true;
        self.wake_flusher(wb);
    }

    pub(crate) fn flusher_timer(&mut self, wb: usize) {
        self.wbs[wb].flusher.armed = false;
        self.wake_flusher(wb);
    }

    fn wake_flusher(&mut self, wb: usize) {
        let flusher = &mut self.wbs[wb].flusher;
        if flusher.idle {
            flusher.idle = false;
            let process = flusher.process;
            self.wake(process);
        }
    }

    fn arm_flusher(&mut self, wb: usize) {
        let flusher = &mut self.wbs[wb].flusher;
        if flusher.armed {
            return;
        }
        let at = match self.generation.has_pdflush() {
            true => self.knobs.writeback_interval().map(|_| flusher.next_kupdate),
            false => flusher.periodic.next_wakeup(self.now, &self.knobs),
        };
        if let Some(at) = at {
            flusher.armed = true;
            self.at(at.max(Nanos(self.now.0 + 1)), Event::Flusher { wb: wb as u32 });
        }
    }

    /// The flusher goes on (`wb_do_writeback`, `background_writeout`).
    pub(crate) fn flusher_step(&mut self, wb: usize) {
        loop {
            let Some(mut pass) = self.wbs[wb].flusher.pass.take() else {
                match self.next_work(wb) {
                    Some(pass) => {
                        self.wbs[wb].flusher.pass_began = self.now;
                        self.wbs[wb].flusher.pass = Some(pass);
                        continue;
                    }
                    None => {
                        self.wbs[wb].flusher.idle = true;
                        if self.wbs[wb].flusher.has_dirty() {
                            self.arm_flusher(wb);
                        }
                        return;
                    }
                }
            };
            let progress = self.advance_pass(self.wbs[wb].flusher.process, &mut pass);
            match progress {
                Progress::Blocked => {
                    self.wbs[wb].flusher.pass = Some(pass);
                    return;
                }
                Progress::Congested => {
                    self.wbs[wb].flusher.pass = Some(pass);
                    return self.wait_for_congestion(
                        self.wbs[wb].flusher.process,
                        self.now + CONGESTION_WAIT,
                    );
                }
                Progress::Finished => {
                    if pass.why == Why::Periodic
                        && let Some(next) = flush::next_kupdate(
                            self.wbs[wb].flusher.pass_began,
                            self.now,
                            &self.knobs,
                        )
                    {
                        self.wbs[wb].flusher.next_kupdate = next;
                    }
                    if pass.why == Why::Background && pass.written == 0 {
                        // Too much is dirty, and none of it can be written now: the flusher sleeps
                        // until it is asked again or the timer goes off (`wb_workfn`).
                        self.wbs[wb].flusher.idle = true;
                        return self.arm_flusher(wb);
                    }
                }
            }
        }
    }

    fn next_work(&mut self, wb: usize) -> Option<Pass> {
        if !self.wbs[wb].flusher.has_dirty() {
            self.wbs[wb].flusher.background = false;
            return None;
        }
        let due = match self.generation.has_pdflush() {
            true => {
                self.knobs.writeback_interval().is_some()
                    && self.now >= self.wbs[wb].flusher.next_kupdate
            }
            false => self.wbs[wb].flusher.periodic.due(self.now, &self.knobs),
        };
        if due && let Some(next) = flush::next_kupdate(self.now, self.now, &self.knobs) {
            self.wbs[wb].flusher.next_kupdate = next;
        }
        if due && let Some(older_than) = flush::old_since(self.now, &self.knobs) {
            return Some(Pass::new(wb, Why::Periodic, self.cache.dirty, Some(older_than)));
        }
        let asked = std::mem::take(&mut self.wbs[wb].flusher.background);
        if self.generation.asks_flushers() && !asked {
            return None;
        }
        let seen = self.seen(wb);
        self.throttle
            .over_background(self.wbs[wb].id, self.now, &seen)
            .then(|| Pass::new(wb, Why::Background, u64::MAX, None))
    }

    /// `queue_io`: the rest of the last round, then files that are old enough.
    pub(super) fn queue_io(&mut self, wb: usize, older_than: Option<Nanos>) {
        let f = &mut self.wbs[wb].flusher;
        while let Some(id) = f.b_more_io.pop_front() {
            self.cache.inode_mut(id).list = List::Io;
            f.b_io.push_back(id);
        }
        while let Some(id) = f.b_dirty.front().copied() {
            let inode = self.cache.inode_mut(id);
            if older_than.is_some_and(|limit| inode.dirtied_when > limit) {
                break;
            }
            inode.list = List::Io;
            f.b_dirty.pop_front();
            f.b_io.push_back(id);
        }
    }

    /// `requeue_inode`: where a file goes after a visit.
    pub(super) fn requeue_inode(&mut self, id: InodeId, used_up: bool) {
        let now = self.now;
        let inode = self.cache.inode_mut(id);
        let flusher = &mut self.wbs[inode.wb()].flusher;
        if inode.dirty.is_empty() {
            inode.list = List::None;
        } else if used_up {
            inode.list = List::MoreIo;
            flusher.b_more_io.push_back(id);
        } else {
            // redirty_tail: as if it had just become dirty, so that the list stays in order.
            inode.list = List::Dirty;
            inode.dirtied_when = now;
            flusher.b_dirty.push_back(id);
        }
    }

    pub(super) fn next_inode(&mut self, wb: usize) -> Option<InodeId> {
        self.wbs[wb].flusher.b_io.pop_front()
    }
}
