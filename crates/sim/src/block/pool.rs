//! Request slots: how many requests may exist, and which processes wait for one.
//!
//! - blk-mq (`blk_mq_get_tag`): one pool of `nr_requests` tags; an elevator may keep some requests
//!   to a part of them.
//! - before: `nr_requests` for each of two classes, with [`Batching`].

use std::collections::VecDeque;

use floodwall_device::Nanos;

use crate::eras::batching::Batching;
use crate::request::ProcessIndex;

/// One class of requests.
#[derive(Clone, Debug, Default)]
struct Class {
    used: u32,
    waiting: VecDeque<ProcessIndex>,
}

/// All slots of a queue.
#[derive(Clone, Debug)]
pub(crate) struct RequestPool {
    size: u32,
    classes: [Class; 2],
    /// Before blk-mq only.
    batching: Option<Batching>,
}

impl RequestPool {
    /// `one`: a pool of tags (blk-mq), not of two classes.
    pub(crate) fn new(one: bool, size: u32) -> Self {
        Self {
            size,
            classes: [Class::default(), Class::default()],
            batching: (!one).then(Batching::default),
        }
    }

    pub(crate) fn add_process(&mut self) {
        if let Some(batching) = &mut self.batching {
            batching.add_process();
        }
    }

    /// Slots, of each class where there are two.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Changes the number of slots; all waiting processes may try again (`blk_update_nr_requests`).
    pub(crate) fn resize(&mut self, size: u32, woken: &mut Vec<ProcessIndex>) {
        self.size = size;
        for (number, class) in self.classes.iter_mut().enumerate() {
            if let Some(batching) = &mut self.batching {
                batching.resize(number, class.used, size);
            }
            woken.extend(class.waiting.drain(..));
        }
    }

    pub(crate) fn used(&self) -> u32 {
        self.classes.iter().map(|c| c.used).sum()
    }

    /// Whether a class is congested; never with tags.
    pub(crate) fn congested(&self, class: usize) -> bool {
        self.batching.as_ref().is_some_and(|batching| batching.congested(class))
    }

    /// Takes a slot. `limit`: how many of all tags a request of this kind may use. If no slot is
    /// free, the process is queued and has to try again when it is woken (`woken`: this is that
    /// attempt).
    pub(crate) fn take(
        &mut self,
        now: Nanos,
        class: usize,
        limit: u32,
        process: ProcessIndex,
        woken: bool,
    ) -> bool {
        let used = self.used();
        let got = match &mut self.batching {
            None => used < limit.min(self.size),
            Some(batching) => {
                if woken {
                    batching.woken(now, process);
                }
                batching.admits(now, class, process, self.classes[class].used, self.size)
            }
        };
        let class = &mut self.classes[class];
        if got {
            class.used += 1;
        } else if woken {
            class.waiting.push_front(process);
        } else {
            class.waiting.push_back(process);
        }
        got
    }

    /// Gives a slot back. Appends processes that may try again to `woken`. Returns whether the
    /// class has just left congestion.
    pub(crate) fn give_back(&mut self, class: usize, woken: &mut Vec<ProcessIndex>) -> bool {
        let c = &mut self.classes[class];
        c.used = c.used.saturating_sub(1);
        let Some(batching) = &mut self.batching else {
            // Reads and writes wait apart only so that one that an elevator keeps short does not
            // stand before the others.
            woken.extend(self.classes.iter_mut().filter_map(|c| c.waiting.pop_front()));
            return false;
        };
        if c.used < self.size {
            woken.extend(c.waiting.pop_front());
        }
        batching.freed(class, c.used, self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_queue_is_congested_at_113_full_at_128_and_over_at_192() {
        let mut pool = RequestPool::new(false, 128);
        pool.add_process();
        pool.add_process();
        let mut taken = 0;
        let mut congested_at = None;
        while pool.take(Nanos(1), 1, 128, ProcessIndex(0), false) {
            taken += 1;
            if pool.congested(1) && congested_at.is_none() {
                congested_at = Some(taken);
            }
        }
        // The first that meets a full queue becomes a batcher: 127 + 32.
        assert_eq!((congested_at, taken), (Some(113), 159));
        assert!(!pool.take(Nanos(1), 1, 128, ProcessIndex(1), false), "no batcher, no slot");
        assert!(pool.take(Nanos(1), 0, 128, ProcessIndex(1), false), "the other class has its own");
        let mut woken = Vec::new();
        let mut off_at = None;
        for i in (0..taken).rev() {
            if pool.give_back(1, &mut woken) {
                off_at = Some(i);
            }
        }
        assert_eq!(off_at, Some(102), "off below 103");
        assert_eq!(woken, [ProcessIndex(0), ProcessIndex(1)]);
    }

    #[test]
    fn tags_are_one_pool_of_which_some_requests_get_a_part() {
        let mut pool = RequestPool::new(true, 4);
        pool.add_process();
        assert!((0..3).all(|_| pool.take(Nanos(0), 1, 3, ProcessIndex(0), false)));
        assert!(!pool.take(Nanos(0), 1, 3, ProcessIndex(0), false));
        assert!(pool.take(Nanos(0), 0, 4, ProcessIndex(0), false));
        let mut woken = Vec::new();
        pool.give_back(1, &mut woken);
        assert_eq!(woken, [ProcessIndex(0)]);
    }
}
