//! Sets of pages as ranges: a gigabyte dirtied in order is one entry, not a quarter of a million.
//!
//! Ranges are half open, `begin..end` in pages, and never touch each other: neighbours are joined.

use std::collections::BTreeMap;

/// A set of pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtentSet {
    /// Begin → end.
    ranges: BTreeMap<u64, u64>,
    pages: u64,
}

impl ExtentSet {
    /// Number of pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pages == 0
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.pages = 0;
    }

    /// Adds a range. Returns how many of its pages were not in the set.
    pub(crate) fn insert(&mut self, begin: u64, end: u64) -> u64 {
        if begin >= end {
            return 0;
        }
        let (mut from, mut to, mut had) = (begin, end, 0);
        let before = self.ranges.range_mut(..=begin).next_back();
        if let Some((&b, e)) = before
            && *e >= begin
        {
            if *e >= end {
                return 0;
            }
            // The usual case, a stream that goes on: the range before grows, if it meets no other.
            let old_end = *e;
            *e = end;
            from = b;
            had += old_end - begin;
        }
        // Joins what the new range covers or touches.
        while let Some((b, e)) = self.after(from).filter(|(b, _)| *b <= to) {
            self.ranges.remove(&b);
            had += e.min(end).saturating_sub(b);
            to = to.max(e);
        }
        self.ranges.insert(from, to);
        let added = end - begin - had;
        self.pages += added;
        added
    }

    /// The first range that begins after `page`.
    fn after(&self, page: u64) -> Option<(u64, u64)> {
        self.ranges.range(page + 1..).next().map(|(b, e)| (*b, *e))
    }

    /// Takes a range out. Returns how many of its pages were in the set.
    pub(crate) fn remove(&mut self, begin: u64, end: u64) -> u64 {
        let mut removed = 0;
        while let Some((b, e)) = self.first_from(begin).filter(|(b, _)| *b < end) {
            // `first_from` clips to `begin`; the range itself may begin earlier.
            let start = self.ranges.range(..=b).next_back().map_or(b, |(start, _)| *start);
            self.ranges.remove(&start);
            if start < b {
                self.ranges.insert(start, b);
            }
            let stop = e.min(end);
            if stop < e {
                self.ranges.insert(stop, e);
            }
            removed += stop - b;
        }
        self.pages -= removed;
        removed
    }

    /// The first range at or after a page, clipped to begin there.
    pub(crate) fn first_from(&self, page: u64) -> Option<(u64, u64)> {
        if let Some((_, e)) = self.ranges.range(..=page).next_back()
            && *e > page
        {
            return Some((page, *e));
        }
        self.ranges.range(page..).next().map(|(b, e)| (*b, *e))
    }

    /// Whether any page of a range is in the set.
    pub(crate) fn touches(&self, begin: u64, end: u64) -> bool {
        self.first_from(begin).is_some_and(|(b, _)| b < end)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a set of single pages.
        #[test]
        fn ranges_behave_like_single_pages(
            ops in prop::collection::vec((any::<bool>(), 0u64..60, 1u64..20), 1..60),
            probe in 0u64..80,
        ) {
            let (mut set, mut oracle) = (ExtentSet::default(), BTreeSet::new());
            for (add, begin, len) in ops {
                let range = begin..begin + len;
                let changed = if add {
                    let changed = range.clone().filter(|p| oracle.insert(*p)).count();
                    prop_assert_eq!(set.insert(range.start, range.end), changed as u64);
                    changed
                } else {
                    let changed = range.clone().filter(|p| oracle.remove(p)).count();
                    prop_assert_eq!(set.remove(range.start, range.end), changed as u64);
                    changed
                };
                let _ = changed;
                prop_assert_eq!(set.pages(), oracle.len() as u64);
                let begins: Vec<u64> = set.ranges.keys().copied().collect();
                let ends: Vec<u64> = set.ranges.values().copied().collect();
                let mut gaps = begins.iter().skip(1).zip(&ends);
                prop_assert!(gaps.all(|(b, e)| b > e), "neighbours are joined");
            }
            let first = oracle.range(probe..).next().copied();
            prop_assert_eq!(set.first_from(probe).map(|(b, _)| b), first);
            let touches = (probe..probe + 3).any(|p| oracle.contains(&p));
            prop_assert_eq!(set.touches(probe, probe + 3), touches);
        }
    }

    #[test]
    fn a_stream_is_one_range() {
        let mut set = ExtentSet::default();
        for i in 0..10_000 {
            assert_eq!(set.insert(i * 4, i * 4 + 4), 4);
        }
        assert_eq!((set.ranges.len(), set.pages()), (1, 40_000));
    }
}
