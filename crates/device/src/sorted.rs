//! A sorted map from offsets to values, made for sets that are swept in order: short sorted blocks,
//! and a sorted list of their first keys.
//!
//! ```text
//! order:  (first key, block) (first key, block) …    one binary search here,
//! blocks: [k k k k k · · ·]  [k k k · · · · ·]  …    one in a block; then neighbours are beside it
//! ```
//!
//! A search answers with a place ([`At`]), from which one can look to either side, insert and
//! remove without searching again. That is what it does better than `BTreeMap`, whose every
//! operation begins at the root. The blocks of the last few searches are tried first, because
//! sweeps and streams come back to where they were. Blocks are kept for later use: a map that has
//! had its greatest size allocates no more. A search costs `O(log n)`, a change moves at most a
//! block. Splitting a block moves the list of first keys, one entry for tens of values.

use std::cell::Cell;

/// Entries of a block. Smaller ones are split and emptied more often, which moves the list of first
/// keys; larger ones move more of themselves.
const BLOCK: usize = 64;

/// Places to look at before searching: one each for a sweep, a log, a stream and whatever comes
/// between them.
const RECENT: usize = 4;

struct Block<V> {
    len: usize,
    /// Beyond `len`: [`NO_KEY`].
    keys: [u64; BLOCK],
    values: [V; BLOCK],
}

/// Larger than every key: offsets end below it.
const NO_KEY: u64 = u64::MAX;

impl<V: Copy + Default> Block<V> {
    fn new() -> Self {
        Self { len: 0, keys: [NO_KEY; BLOCK], values: [V::default(); BLOCK] }
    }

    /// The first of its entries whose key is at least this, or `len`. A search without branches:
    /// where it goes can't be guessed.
    #[inline]
    fn at_or_after(&self, key: u64) -> usize {
        let mut index = 0;
        let mut step = BLOCK / 2;
        while step > 0 {
            index += if self.keys[(index + step - 1) % BLOCK] < key { step } else { 0 };
            step /= 2;
        }
        index + usize::from(self.keys[index % BLOCK] < key)
    }

    fn insert(&mut self, index: usize, key: u64, value: V) {
        self.keys.copy_within(index..self.len, index + 1);
        self.values.copy_within(index..self.len, index + 1);
        self.keys[index] = key;
        self.values[index] = value;
        self.len += 1;
    }

    fn remove(&mut self, index: usize, count: usize) {
        self.keys.copy_within(index + count..self.len, index);
        self.values.copy_within(index + count..self.len, index);
        self.keys[self.len - count..self.len].fill(NO_KEY);
        self.len -= count;
    }

    /// Moves the entries from `from` on to the end of another block, which must have room for them.
    fn move_to(&mut self, from: usize, other: &mut Self) {
        let count = self.len - from;
        let end = other.len + count;
        other.keys[other.len..end].copy_from_slice(&self.keys[from..self.len]);
        other.values[other.len..end].copy_from_slice(&self.values[from..self.len]);
        self.keys[from..self.len].fill(NO_KEY);
        other.len = end;
        self.len = from;
    }
}

/// A place in the map: an entry, or the end. Good until the map next changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    /// Number in `order`.
    slot: usize,
    index: usize,
}

impl At {
    /// The place so many entries further on, which must be in the same block.
    pub(crate) fn further(self, by: usize) -> Self {
        Self { index: self.index + by, ..self }
    }
}

/// See the [module](self).
pub(crate) struct SortedMap<V> {
    /// First key of a block and the block's number, ascending; no block in it is empty.
    order: Vec<(u64, u32)>,
    blocks: Vec<Block<V>>,
    free: Vec<u32>,
    /// Numbers in `order` where keys were found, latest first: sweeps and streams come back to
    /// where they were. They may be out of date.
    recent: Cell<[u32; RECENT]>,
}

impl<V: Copy + Default> SortedMap<V> {
    pub(crate) const fn new() -> Self {
        Self {
            order: Vec::new(),
            blocks: Vec::new(),
            free: Vec::new(),
            recent: Cell::new([0; RECENT]),
        }
    }

    fn block(&self, slot: usize) -> Option<&Block<V>> {
        self.order.get(slot).map(|(_, b)| &self.blocks[*b as usize])
    }

    /// The block that would hold a key: the last one that begins at or before it, else the first.
    fn slot_of(&self, key: u64) -> usize {
        let mut recent = self.recent.get();
        if let Some(i) = recent.iter().position(|slot| self.would_hold(*slot as usize, key)) {
            let slot = recent[i];
            recent.copy_within(0..i, 1);
            recent[0] = slot;
            self.recent.set(recent);
            return slot as usize;
        }
        let (mut slot, mut len) = (0, self.order.len());
        while len > 1 {
            let half = len / 2;
            slot += if self.order[slot + half].0 <= key { half } else { 0 };
            len -= half;
        }
        recent.copy_within(0..RECENT - 1, 1);
        recent[0] = slot as u32;
        self.recent.set(recent);
        slot
    }

    fn would_hold(&self, slot: usize, key: u64) -> bool {
        self.order.get(slot).is_some_and(|(first, _)| *first <= key)
            && self.order.get(slot + 1).is_none_or(|(next, _)| key < *next)
    }

    /// The first entry whose key is at least this, or the end.
    pub(crate) fn at_or_after(&self, key: u64) -> At {
        let slot = self.slot_of(key);
        let Some(block) = self.block(slot) else { return At { slot, index: 0 } };
        let index = block.at_or_after(key);
        if index == block.len { At { slot: slot + 1, index: 0 } } else { At { slot, index } }
    }

    /// The entry at a place.
    pub(crate) fn get(&self, at: At) -> Option<(u64, V)> {
        self.block(at.slot).map(|b| (b.keys[at.index], b.values[at.index]))
    }

    /// The place after one that is not the end.
    pub(crate) fn after(&self, at: At) -> At {
        match self.block(at.slot) {
            Some(block) if at.index + 1 < block.len => At { index: at.index + 1, ..at },
            _ => At { slot: at.slot + 1, index: 0 },
        }
    }

    /// Entries from a place on, ascending, up to the end of its block.
    pub(crate) fn rest_of_block(&self, from: At) -> impl Iterator<Item = (u64, V)> + '_ {
        let block = self.block(from.slot);
        let keys = block.map_or(&[][..], |b| &b.keys[from.index..b.len]);
        let values = block.map_or(&[][..], |b| &b.values[from.index..b.len]);
        keys.iter().copied().zip(values.iter().copied())
    }

    /// The place before one.
    pub(crate) fn before(&self, at: At) -> Option<At> {
        match at.index {
            0 => {
                let slot = at.slot.checked_sub(1)?;
                self.block(slot).map(|b| At { slot, index: b.len - 1 })
            }
            index => Some(At { index: index - 1, ..at }),
        }
    }

    /// Entries from a place on, ascending.
    pub(crate) fn ascending(&self, from: At) -> impl Iterator<Item = (u64, V)> + '_ {
        let mut at = from;
        std::iter::from_fn(move || {
            let entry = self.get(at)?;
            at = self.after(at);
            Some(entry)
        })
    }

    /// Entries before a place, descending.
    pub(crate) fn descending(&self, from: At) -> impl Iterator<Item = (u64, V)> + '_ {
        let mut at = from;
        std::iter::from_fn(move || {
            at = self.before(at)?;
            self.get(at)
        })
    }

    /// All entries, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, V)> + '_ {
        self.ascending(At { slot: 0, index: 0 })
    }

    /// Puts an entry before a place; its key must lie between its neighbours'.
    pub(crate) fn insert(&mut self, at: At, key: u64, value: V) {
        // Before a block's first entry is also after the last one of the block before.
        let (slot, index) = match at.index.checked_sub(1) {
            None if at.slot > 0 => (at.slot - 1, self.block(at.slot - 1).map_or(0, |b| b.len)),
            _ => (at.slot, at.index),
        };
        let Some((first, number)) = self.order.get_mut(slot) else {
            let number = self.new_block();
            self.order.push((key, number));
            return self.blocks[number as usize].insert(0, key, value);
        };
        if index == 0 {
            *first = key;
        }
        let number = *number as usize;
        if self.blocks[number].len < BLOCK {
            return self.blocks[number].insert(index, key, value);
        }
        // At the end of a full block a new one begins, so that a map filled in order is full;
        // elsewhere the upper half moves.
        let keep = if index == BLOCK { BLOCK } else { BLOCK / 2 };
        let added = self.new_block();
        let Ok([lower, upper]) = self.blocks.get_disjoint_mut([number, added as usize]) else {
            return;
        };
        lower.move_to(keep, upper);
        if index <= keep && keep < BLOCK {
            lower.insert(index, key, value);
        } else {
            upper.insert(index - keep, key, value);
        }
        let first = upper.keys[0];
        self.order.insert(slot + 1, (first, added));
    }

    /// Puts another entry in place of one; its key must lie between the neighbours'.
    pub(crate) fn replace(&mut self, at: At, key: u64, value: V) {
        let Some((first, number)) = self.order.get_mut(at.slot) else { return };
        if at.index == 0 {
            *first = key;
        }
        let block = &mut self.blocks[*number as usize];
        block.keys[at.index] = key;
        block.values[at.index] = value;
    }

    /// Takes `count` entries of one block out, from a place on; returns the place of the one after
    /// them.
    pub(crate) fn remove(&mut self, at: At, count: usize) -> At {
        let Some((first, number)) = self.order.get_mut(at.slot).filter(|_| count > 0) else {
            return at;
        };
        let number = *number;
        let block = &mut self.blocks[number as usize];
        block.remove(at.index, count);
        if block.len == 0 {
            self.order.remove(at.slot);
            self.free.push(number);
            return At { slot: at.slot, index: 0 };
        }
        if at.index == 0 {
            *first = block.keys[0];
        }
        let mut after = at;
        if block.len <= BLOCK / 4 {
            self.merge(at.slot);
            if let Some(before) = at.slot.checked_sub(1)
                && let Some(moved_by) = self.merge(before)
            {
                after = At { slot: before, index: at.index + moved_by };
            }
        }
        match self.block(after.slot) {
            Some(block) if after.index >= block.len => At { slot: after.slot + 1, index: 0 },
            _ => after,
        }
    }

    /// Moves a block's successor into it if the two are half a block at most; returns how far up
    /// its entries moved.
    fn merge(&mut self, slot: usize) -> Option<usize> {
        let (a, b) = (self.order.get(slot)?.1, self.order.get(slot + 1)?.1);
        let [into, from] = self.blocks.get_disjoint_mut([a as usize, b as usize]).ok()?;
        if into.len + from.len > BLOCK / 2 {
            return None;
        }
        let moved_by = into.len;
        from.move_to(0, into);
        self.order.remove(slot + 1);
        self.free.push(b);
        Some(moved_by)
    }

    fn new_block(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.blocks.push(Block::new());
            (self.blocks.len() - 1) as u32
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_map_filled_in_order_is_full_and_an_emptied_one_keeps_its_blocks() {
        let mut map = SortedMap::new();
        for key in 0..10 * BLOCK as u64 {
            let end = map.at_or_after(key);
            map.insert(end, key, key);
        }
        assert_eq!(map.order.len(), 10);
        for key in 0..10 * BLOCK as u64 {
            let at = map.at_or_after(0);
            assert_eq!(map.get(at), Some((key, key)));
            assert_eq!(map.remove(at, 1), at);
        }
        assert_eq!((map.order.len(), map.free.len(), map.iter().count()), (0, 10, 0));
    }

    #[test]
    fn what_is_left_of_many_blocks_moves_together() {
        let mut map = SortedMap::new();
        for key in 0..1000u64 {
            let end = map.at_or_after(key);
            map.insert(end, key, ());
        }
        for key in (0..1000).filter(|k| k % 25 != 0) {
            let at = map.at_or_after(key);
            map.remove(at, 1);
        }
        assert_eq!(
            map.iter().map(|(k, ())| k).collect::<Vec<_>>(),
            (0..40).map(|i| i * 25).collect::<Vec<_>>()
        );
        assert!(map.order.len() <= 8, "{} blocks for 40 entries", map.order.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Against `BTreeMap`: enough steps over few keys to split, merge and empty blocks.
        #[test]
        fn agrees_with_a_btree_map(steps in prop::collection::vec((0u8..8, 0u64..400), 1..2000)) {
            let mut map = SortedMap::new();
            let mut tree: BTreeMap<u64, usize> = BTreeMap::new();
            for (n, (kind, key)) in steps.into_iter().enumerate() {
                let at = map.at_or_after(key);
                let found = tree.range(key..).next().map(|(k, v)| (*k, *v));
                prop_assert_eq!(map.get(at), found);
                let before = tree.range(..key).next_back().map(|(k, v)| (*k, *v));
                prop_assert_eq!(map.before(at).and_then(|b| map.get(b)), before);
                match found {
                    // Sweeps take several at once.
                    Some((first, _)) if kind < 4 => {
                        let taken: Vec<(u64, usize)> =
                            map.rest_of_block(at).take(n % 5 + 1).collect();
                        let expected: Vec<(u64, usize)> =
                            tree.range(key..).take(taken.len()).map(|(k, v)| (*k, *v)).collect();
                        prop_assert_eq!(&taken, &expected);
                        let after = map.remove(at, taken.len());
                        tree.retain(|k, _| !taken.iter().any(|(t, _)| t == k));
                        let next = tree.range(first..).next().map(|(k, v)| (*k, *v));
                        prop_assert_eq!(map.get(after), next);
                    }
                    Some((k, v)) if kind == 4 && !tree.contains_key(&(k + 1)) => {
                        map.replace(at, k + 1, n);
                        tree.remove(&k);
                        tree.insert(k + 1, n);
                        prop_assert!(v <= n);
                    }
                    Some((k, _)) if k == key => {}
                    _ => {
                        map.insert(at, key, n);
                        tree.insert(key, n);
                    }
                }
            }
            let all: Vec<(u64, usize)> = tree.into_iter().collect();
            prop_assert_eq!(map.iter().collect::<Vec<_>>(), all.clone());
            let end = map.at_or_after(u64::MAX);
            let falling: Vec<(u64, usize)> = all.into_iter().rev().collect();
            prop_assert_eq!(map.descending(end).collect::<Vec<_>>(), falling);
        }
    }
}
