//! The tag of each process: it marks all that a thread started, and all that those started, however
//! short they live. Pure.
//!
//! ```text
//! follow(thread, tag) ─▶ Forked by it, or by one of its ─▶ tagged
//!   ─▶ Ended ─▶ forgotten a window later, for what is counted at its end
//! ```
//!
//! Every number of a process is given by a fork that is seen, so that one that is given again is
//! never taken for the one before.

use std::collections::{BTreeMap, HashMap, HashSet};

use floodwall_model::DeviceId;
use floodwall_model::histogram::Histogram;

use crate::event::Call;
use crate::hash::Fast;
use crate::snapshot::Followed;

/// Threads and processes remembered; further ones are not followed. Some 10 bytes each.
const REMEMBERED: usize = 65_536;

/// A [`Followed`] while it is counted.
#[derive(Debug, Default)]
pub(crate) struct FollowCounts {
    pub(crate) calls: BTreeMap<Call, Histogram>,
    pub(crate) reads: BTreeMap<DeviceId, Histogram>,
}

impl FollowCounts {
    pub(crate) fn take(&mut self) -> Followed {
        Followed {
            calls: self.calls.iter_mut().map(|(call, h)| (*call, h.take())).collect(),
            reads: self.reads.iter_mut().map(|(device, h)| (*device, h.take())).collect(),
        }
    }
}

/// The tag of each followed process.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    /// Threads whose children are followed, not they themselves.
    roots: HashMap<u32, u32, Fast>,
    tags: HashMap<u32, u32, Fast>,
    ended: HashSet<u32, Fast>,
    /// In the window before.
    ended_before: HashSet<u32, Fast>,
}

impl Lineage {
    /// Follows what this thread starts from now on; threads and processes; not what it does itself,
    /// nor what other threads of its process start.
    pub(crate) fn follow(&mut self, thread: u32, tag: u32) {
        self.roots.insert(thread, tag);
    }

    /// Whether any thread is followed.
    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// The tag of a thread of a process.
    pub(crate) fn of(&self, pid: u32, tid: u32) -> Option<u32> {
        self.tags.get(&tid).or_else(|| self.tags.get(&pid)).copied()
    }

    pub(crate) fn forked(&mut self, pid: u32, tid: u32, child: u32) {
        self.ended.remove(&child);
        self.ended_before.remove(&child);
        match self.roots.get(&tid).copied().or_else(|| self.of(pid, tid)) {
            Some(tag) if self.tags.len() < REMEMBERED => drop(self.tags.insert(child, tag)),
            // The number was another's.
            _ => drop(self.tags.remove(&child)),
        }
    }

    pub(crate) fn ended(&mut self, tid: u32) {
        if self.tags.contains_key(&tid) {
            self.ended.insert(tid);
        }
    }

    /// Forgets the threads that had ended before the window that is over. Those that ended
    /// during it stay for one more: the kernel's counts have windows that begin and end a moment
    /// earlier.
    pub(crate) fn forget_ended(&mut self) {
        for tid in self.ended_before.drain() {
            self.tags.remove(&tid);
        }
        std::mem::swap(&mut self.ended, &mut self.ended_before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_children_belong_to_whom_their_first_parent_does() {
        let mut lineage = Lineage::default();
        lineage.follow(50, 1);
        lineage.follow(51, 2);
        // 50 and 51 are threads of 40, which itself has no tag.
        lineage.forked(40, 50, 100);
        lineage.forked(40, 51, 200);
        lineage.forked(40, 40, 300);
        // And a first thread, whose process has others.
        lineage.follow(60, 3);
        lineage.forked(60, 60, 400);
        lineage.forked(60, 61, 500);
        lineage.forked(100, 100, 101);
        // A thread of 101, which starts a process that outlives them all.
        lineage.forked(101, 101, 102);
        lineage.forked(101, 102, 103);
        (100..=102).for_each(|tid| lineage.ended(tid));
        lineage.forget_ended();
        assert_eq!(lineage.of(101, 101), Some(1), "for what is counted late");
        lineage.forget_ended();
        lineage.forked(103, 103, 104);
        let of = |pid| lineage.of(pid, pid);
        assert_eq!([of(104), of(200), of(400)], [Some(1), Some(2), Some(3)]);
        assert_eq!([of(300), of(500), of(40), of(50), of(60), of(101)], [None; 6]);
    }

    #[test]
    fn a_number_that_is_given_again_is_another_process() {
        let mut lineage = Lineage::default();
        lineage.follow(50, 1);
        lineage.forked(40, 50, 100);
        lineage.ended(100);
        assert_eq!(lineage.of(100, 100), Some(1), "what it did in this window is still its own");
        lineage.forked(7, 7, 100);
        assert_eq!(lineage.of(100, 100), None);
        lineage.ended(100);
        lineage.forget_ended();
        lineage.forked(40, 50, 100);
        lineage.forget_ended();
        lineage.forget_ended();
        assert_eq!(lineage.of(100, 100), Some(1), "the one that ended was another");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut lineage = Lineage::default();
        lineage.follow(1, 1);
        (2..200_000).for_each(|child| lineage.forked(0, 1, child));
        assert_eq!(lineage.tags.len(), REMEMBERED);
        (2..200_000).for_each(|child| lineage.ended(child));
        lineage.forget_ended();
        lineage.forget_ended();
        assert_eq!(
            (lineage.tags.len(), lineage.ended.len(), lineage.ended_before.len()),
            (0, 0, 0)
        );
    }
}
