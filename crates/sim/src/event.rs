//! The queue of future events: by time, and in the order of insertion among equal times, so that a
//! run can be repeated exactly.
//!
//! Events are small and plain (16 bytes), one heap entry is 32 bytes. A timer that is no longer
//! wanted stays in the queue and is known by its token when it goes off.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use floodwall_device::Nanos;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A process's timer: it goes on if it still waits with this token.
    Wake {
        /// Index of the process.
        process: u32,
        /// What its token was when the timer was set.
        token: u32,
    },
    /// A flusher's delayed work (`wb_wakeup_delayed`).
    Flusher {
        /// Number of its writeback context.
        wb: u32,
    },
    /// The journal's commit interval has passed.
    Commit,
    /// 200 ms after the last page of some inode left writeback (`wb_inode_writeback_end`).
    Bandwidth {
        /// Number of the inode's writeback context.
        wb: u32,
    },
    /// A software RAID's plug is pulled, if it still has this number.
    Unplug {
        /// Which of its plugs.
        plug: u32,
    },
    /// Bios that a group's `io.max` held back may go on, if this is still the timer's number
    /// (`throtl_pending_timer_fn`).
    IoMax {
        /// Which setting of the timer.
        timer: u32,
    },
}

struct Entry {
    /// Time in the high half, insertion epoch in the low one: one comparison decides.
    key: u128,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// Reversed: [`BinaryHeap`] hands out the largest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

/// Events by time.
#[derive(Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Entry>,
    epoch: u64,
}

impl EventQueue {
    pub(crate) fn push(&mut self, at: Nanos, event: Event) {
        self.epoch += 1;
        self.heap.push(Entry { key: u128::from(at.0) << 64 | u128::from(self.epoch), event });
    }

    /// When the first is due.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|e| Nanos((e.key >> 64) as u64))
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|e| e.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_their_order() {
        let mut queue = EventQueue::default();
        for (at, process) in [(5, 0), (3, 1), (5, 2), (3, 3), (5, 4)] {
            queue.push(Nanos(at), Event::Wake { process, token: 0 });
        }
        assert_eq!(queue.next(), Some(Nanos(3)));
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop())
            .map(|e| match e {
                Event::Wake { process, .. } => process,
                _ => u32::MAX,
            })
            .collect();
        assert_eq!(order, [1, 3, 0, 2, 4]);
    }
}
