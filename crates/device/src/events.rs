//! Due events in the order of time. Equal times come out in the order in which they went in, so
//! that a run can be repeated exactly.
//!
//! Most events of a model are planned in the order in which they fall due, or nearly so. A sorted
//! queue takes those: an event goes in at its end or a few places before it. What would have to go
//! further forward goes onto a heap, so that no order of planning costs more than a heap would.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use crate::time::Nanos;

/// How far from the end of the sorted queue an event may still be put into it: moving this many
/// costs less than the heap.
const NEAR: usize = 8;

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
    /// In order.
    sorted: VecDeque<Entry<T>>,
    /// The others.
    heap: BinaryHeap<Entry<T>>,
    epoch: u64,
    /// The due time of the first of all; [`Nanos::MAX`] without one.
    first: Nanos,
}

impl<T> EventQueue<T> {
    pub(crate) const fn new() -> Self {
        Self { sorted: VecDeque::new(), heap: BinaryHeap::new(), epoch: 0, first: Nanos::MAX }
    }

    #[inline]
    pub(crate) fn push(&mut self, at: Nanos, event: T) {
        self.epoch += 1;
        self.first = self.first.min(at);
        let entry = Entry { at, epoch: self.epoch, event };
        if self.sorted.back().is_none_or(|last| last.at <= at) {
            self.sorted.push_back(entry);
        } else {
            self.push_before_the_last(entry);
        }
    }

    fn push_before_the_last(&mut self, entry: Entry<T>) {
        let mut place = self.sorted.len();
        let least = place.saturating_sub(NEAR);
        while place > least && self.sorted[place - 1].at > entry.at {
            place -= 1;
        }
        if place > least || place == 0 {
            self.sorted.insert(place, entry);
        } else {
            self.heap.push(entry);
        }
    }

    /// The due time of the first; [`Nanos::MAX`], which never comes, without one.
    #[inline]
    pub(crate) fn due(&self) -> Nanos {
        self.first
    }

    /// The first, if it is due by `to`.
    #[inline]
    pub(crate) fn pop_due(&mut self, to: Nanos) -> Option<(Nanos, T)> {
        if self.first > to {
            return None;
        }
        if !self.heap.is_empty() {
            return self.pop_of_both();
        }
        let first = self.sorted.pop_front()?;
        self.first = self.sorted.front().map_or(Nanos::MAX, |e| e.at);
        Some((first.at, first.event))
    }

    fn pop_of_both(&mut self) -> Option<(Nanos, T)> {
        // `Entry` compares in reverse, and nothing is less than anything: the greater is due first.
        let of_heap = self.heap.peek() > self.sorted.front();
        let first = if of_heap { self.heap.pop() } else { self.sorted.pop_front() }?;
        let (sorted, heap) = (self.sorted.front(), self.heap.peek());
        self.first = sorted.into_iter().chain(heap).map(|e| e.at).min().unwrap_or(Nanos::MAX);
        Some((first.at, first.event))
    }

    pub(crate) fn clear(&mut self) {
        self.sorted.clear();
        self.heap.clear();
        self.first = Nanos::MAX;
    }
}

/// A moment that may not come, as the [`Device`](crate::Device) trait says it.
#[inline]
pub(crate) fn if_ever(at: Nanos) -> Option<Nanos> {
    (at < Nanos::MAX).then_some(at)
}

/// The same, as the models calculate with it: never is [`Nanos::MAX`].
#[inline]
pub(crate) fn or_never(at: Option<Nanos>) -> Nanos {
    at.unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    proptest! {
        /// Against a list that is sorted anew each time. Few different times make ties, many events
        /// reach the heap.
        #[test]
        fn agrees_with_a_stable_sort(
            steps in prop::collection::vec((0u64..40, prop::bool::weighted(0.7)), 1..300)
        ) {
            let mut queue = EventQueue::new();
            let mut list: Vec<(Nanos, usize)> = Vec::new();
            for (n, (at, push)) in steps.into_iter().enumerate() {
                let at = Nanos(at);
                if push {
                    queue.push(at, n);
                    list.push((at, n));
                    list.sort_by_key(|(at, _)| *at);
                } else {
                    let due = list.first().is_some_and(|(first, _)| *first <= at);
                    let expected = due.then(|| list.remove(0));
                    prop_assert_eq!(queue.pop_due(at), expected);
                }
                prop_assert_eq!(if_ever(queue.due()), list.first().map(|(at, _)| *at));
            }
        }
    }
}
