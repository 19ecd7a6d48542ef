//! A heap of due times. Equal times come out in the order in which they went in, so that a run can be repeated exactly.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::time::Nanos;

struct Entry<T> {
    at: Nanos,
    /// Insertion epoch: breaks ties.
    epoch: u64,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// Reversed: [`BinaryHeap`] hands out the largest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.epoch).cmp(&(self.at, self.epoch))
    }
}

/// Events by due time, first in first out among equals.
pub(crate) struct EventQueue<T> {
    heap: BinaryHeap<Entry<T>>,
    epoch: u64,
}

impl<T> EventQueue<T> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), epoch: 0 }
    }

    pub(crate) fn push(&mut self, at: Nanos, event: T) {
        self.epoch += 1;
        self.heap.push(Entry { at, epoch: self.epoch, event });
    }

    /// When the first is due.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|e| e.at)
    }

    /// The first, if it is due by `to`.
    pub(crate) fn pop_due(&mut self, to: Nanos) -> Option<(Nanos, T)> {
        if self.next()? > to {
            return None;
        }
        self.heap.pop().map(|e| (e.at, e.event))
    }

    pub(crate) fn clear(&mut self) {
        self.heap.clear();
    }
}

/// The earlier of two moments that may not come.
pub(crate) fn earlier(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_their_order() {
        let mut q = EventQueue::new();
        for (at, n) in [(5, 0), (3, 1), (5, 2), (3, 3), (5, 4)] {
            q.push(Nanos(at), n);
        }
        assert_eq!(q.pop_due(Nanos(2)), None);
        let order: Vec<i32> = std::iter::from_fn(|| q.pop_due(Nanos(9)).map(|(_, n)| n)).collect();
        assert_eq!(order, [1, 3, 0, 2, 4]);
    }
}
