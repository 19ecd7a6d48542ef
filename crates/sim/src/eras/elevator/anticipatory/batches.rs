//! Batches: whose turn it is, with which request it begins, and when it is over.

use super::{ASYNC, Anticipation, Anticipatory, REACH, SYNC, class_of};
use crate::elevator::pool::Handle;
use crate::request::IoRequest;

impl Anticipatory {
    /// `as_dispatch_request`.
    pub(super) fn choose(&mut self, now: u64) -> Option<Handle> {
        let reads = !self.queues.queue_is_empty(SYNC as u32);
        let writes = !self.queues.queue_is_empty(ASYNC as u32);
        if self.batch_class == ASYNC && !reads && (self.write_batch_left == 0 || !writes) {
            self.write_batch_idled = true;
        }
        let waiting =
            matches!(self.anticipation, Anticipation::WaitRequest | Anticipation::WaitNext(_));
        if !(reads || writes) || waiting || self.changed_batch {
            return None;
        }
        let mut chosen = None;
        if !(reads && writes && self.batch_expired(now)) {
            let next = self.next[self.batch_class];
            if self.batch_class == SYNC && self.antic_expire() > 0 {
                if self.fifo_expired(SYNC, now) {
                    return self.queues.oldest(SYNC as u32);
                }
                if self.can_anticipate(next, now) {
                    self.anticipate();
                    return None;
                }
            }
            if next.is_some() && reads && !writes {
                self.batch_expires = now + self.batch_expire(SYNC);
            }
            chosen = next;
        }
        let chosen = match chosen {
            Some(next) => next,
            None => self.start_batch(reads, writes, now)?,
        };
        let expired = self.fifo_expired(self.batch_class, now);
        let chosen = if expired { self.queues.oldest(self.batch_class as u32)? } else { chosen };
        if self.changed_batch {
            if self.in_device > 0 {
                return None;
            }
            if self.batch_class == ASYNC {
                self.batch_expires = now + self.batch_expire(ASYNC);
            } else {
                self.new_batch = true;
            }
            self.changed_batch = false;
        }
        Some(chosen)
    }

    /// Decides on the class of the next batch and where it starts.
    fn start_batch(&mut self, reads: bool, writes: bool, now: u64) -> Option<Handle> {
        if reads && !(writes && self.batch_class == SYNC) {
            self.changed_batch |= self.batch_class == ASYNC;
            self.batch_class = SYNC;
            self.last_fifo_check[SYNC] = now;
            return self.queues.oldest(SYNC as u32);
        }
        if self.batch_class == SYNC {
            self.changed_batch = true;
            self.new_batch = false;
        }
        self.batch_class = ASYNC;
        self.write_batch_left = self.write_batch_count;
        self.write_batch_idled = false;
        if self.old {
            return self.next[ASYNC];
        }
        self.last_fifo_check[ASYNC] = now;
        self.queues.oldest(ASYNC as u32)
    }

    /// `as_batch_expired`.
    const fn batch_expired(&self, now: u64) -> bool {
        if self.changed_batch || self.new_batch {
            return false;
        }
        now > self.batch_expires || (self.batch_class == ASYNC && self.write_batch_left == 0)
    }

    /// Whether the oldest request is late (`as_fifo_expired`). Looked at once in an expire interval
    /// only, or many late requests would make a storm of seeks.
    fn fifo_expired(&mut self, class: usize, now: u64) -> bool {
        if now - self.last_fifo_check[class] < self.fifo_expire(class) {
            return false;
        }
        self.last_fifo_check[class] = now;
        let oldest = self.queues.oldest(class as u32);
        oldest.is_some_and(|oldest| now > self.queues.entry(oldest).stamp)
    }

    /// `as_move_to_dispatch`.
    pub(super) fn send(&mut self, handle: Handle) -> IoRequest {
        self.anticipation = Anticipation::Off;
        let request = *self.queues.request(handle);
        let class = class_of(&request);
        self.last_end[class] = request.end();
        if class == SYNC {
            self.anticipated = Some(request.process);
        } else {
            self.anticipated = None;
            self.write_batch_left = (self.write_batch_left - 1).max(0);
        }
        self.anticipated_done = false;
        self.next[class] = self.queues.next_for_head(handle, self.last_end[class], REACH);
        self.queues.remove(handle);
        let at = self.context(request.process);
        let context = &mut self.context_list[at];
        context.queued = context.queued.saturating_sub(1);
        self.in_device += 1;
        request
    }

    /// Steers the length of write batches (`update_write_batch`), when the first read after one
    /// completes.
    pub(super) fn update_write_batch(&mut self, now: u64) {
        let target = self.batch_expire(ASYNC);
        let took = (now + target).saturating_sub(self.batch_expires);
        if took > target && !self.write_batch_idled {
            if took > target * 3 {
                self.write_batch_count /= 2;
            } else {
                self.write_batch_count -= 1;
            }
        } else if took < target && self.write_batch_left == 0 {
            if target > took * 3 {
                // Wraps, and is one then.
                self.write_batch_count = self.write_batch_count.wrapping_mul(2);
            } else {
                self.write_batch_count = self.write_batch_count.wrapping_add(1);
            }
        }
        if self.write_batch_count < 1 {
            self.write_batch_count = 1;
        }
    }
}
