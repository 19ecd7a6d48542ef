//! A small map from numbers to values, deterministic and without an allocation per entry.
//!
//! Open addressing with linear probing over a power of two; removal shifts followers back, so that
//! no tombstones pile up. Elevators keep in it what they must remember about requests in the device
//! (by request) and about processes (by process). Never iterated.

/// A map from `u64` to `V`.
#[derive(Clone, Debug)]
pub(crate) struct IdMap<V> {
    slots: Vec<Option<(u64, V)>>,
    len: usize,
}

impl<V: Copy> IdMap<V> {
    const INITIAL_SLOTS: usize = 64;

    pub(crate) fn new() -> Self {
        Self { slots: vec![None; Self::INITIAL_SLOTS], len: 0 }
    }

    pub(crate) fn get(&self, key: u64) -> Option<V> {
        let mask = self.slots.len() - 1;
        let mut at = home(key, mask);
        while let Some((found, value)) = self.slots[at] {
            if found == key {
                return Some(value);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Stores a value, replacing what the key had.
    pub(crate) fn insert(&mut self, key: u64, value: V) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = home(key, mask);
        while let Some((found, _)) = self.slots[at] {
            if found == key {
                self.slots[at] = Some((key, value));
                return;
            }
            at = (at + 1) & mask;
        }
        self.slots[at] = Some((key, value));
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, key: u64) -> Option<V> {
        let mask = self.slots.len() - 1;
        let mut at = home(key, mask);
        loop {
            match self.slots[at] {
                None => return None,
                Some((found, _)) if found == key => break,
                Some(_) => at = (at + 1) & mask,
            }
        }
        let removed = self.slots[at].take();
        self.len -= 1;
        // An entry that a collision pushed past this slot moves back into it.
        let mut hole = at;
        let mut next = (hole + 1) & mask;
        while let Some((key, _)) = self.slots[next] {
            let home = home(key, mask);
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.slots[hole] = self.slots[next].take();
                hole = next;
            }
            next = (next + 1) & mask;
        }
        removed.map(|(_, value)| value)
    }

    fn grow(&mut self) {
        let doubled = self.slots.len() * 2;
        let old = std::mem::replace(&mut self.slots, vec![None; doubled]);
        self.len = 0;
        for (key, value) in old.into_iter().flatten() {
            self.insert(key, value);
        }
    }
}

/// Fibonacci hashing.
const fn home(key: u64, mask: usize) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & mask
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_map(
            steps in prop::collection::vec((0_u64..200, any::<u32>(), prop::bool::ANY), 0..600)
        ) {
            let mut map = IdMap::new();
            let mut oracle = BTreeMap::new();
            for (key, value, insert) in steps {
                if insert {
                    map.insert(key, value);
                    oracle.insert(key, value);
                } else {
                    prop_assert_eq!(map.remove(key), oracle.remove(&key));
                }
                prop_assert_eq!(map.get(key), oracle.get(&key).copied());
            }
            for key in 0..200 {
                prop_assert_eq!(map.get(key), oracle.get(&key).copied());
            }
        }
    }
}
