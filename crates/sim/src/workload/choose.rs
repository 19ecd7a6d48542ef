//! Which block an operation touches: the same ways as those of the loads on a real host.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// How a victim goes through its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Uniformly at random over all blocks of all files, with replacement; this share of them
    /// reads.
    Random { read_percent: u64 },
    /// In order through `begin..end` of all blocks of all files, over and over.
    Sequential { next: u64, begin: u64, end: u64 },
    /// In order through all blocks, with a cursor that all threads share (disktest); reads or
    /// writes.
    Shared { reads: bool },
    /// Reads of so many streams in turn, each in order through its part of all blocks; threads
    /// share the turn and the streams' cursors.
    Streams { count: u64 },
    /// The next record of a file's log.
    Append { file: usize },
}

/// One operation's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Index of the file.
    pub(crate) file: usize,
    /// Number of the block in it.
    pub(crate) slot: u64,
    pub(crate) is_read: bool,
}

/// Chooses one thread's operations.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    pub(crate) way: Way,
    /// Blocks in each file.
    pub(crate) slots: u64,
    pub(crate) files: u64,
}

impl Chooser {
    /// The next place. `cursors`: where each log, or the shared cursor, goes on.
    pub(crate) fn next(&mut self, rng: &mut Pcg64Mcg, cursors: &mut [u64]) -> Target {
        let total = self.slots * self.files;
        let (slot, is_read) = match &mut self.way {
            Way::Random { read_percent } => {
                let is_read = match *read_percent {
                    0 => false,
                    percent => (u64::from(rng.next_u32()) * 100) >> 32 < percent,
                };
                (((u128::from(rng.next_u64()) * u128::from(total)) >> 64) as u64, is_read)
            }
            Way::Sequential { next, begin, end } => {
                let slot = *next;
                *next = if slot + 1 >= *end { *begin } else { slot + 1 };
                (slot, true)
            }
            Way::Shared { reads } => {
                let slot = cursors.first().map_or(0, |c| *c % total.max(1));
                if let Some(c) = cursors.first_mut() {
                    *c += 1;
                }
                (slot, *reads)
            }
            Way::Streams { count } => {
                let count = (*count).max(1);
                let part = (total / count).max(1);
                let turn = cursors[0] % count;
                cursors[0] += 1;
                let at = &mut cursors[1 + turn as usize];
                let slot = turn * part + *at % part;
                *at += 1;
                (slot, true)
            }
            Way::Append { file } => {
                let file = *file;
                let slot = cursors[file] % self.slots.max(1);
                cursors[file] += 1;
                return Target { file, slot, is_read: false };
            }
        };
        Target {
            file: (slot / self.slots.max(1)) as usize,
            slot: slot % self.slots.max(1),
            is_read,
        }
    }
}

/// A stream of random numbers; `part` tells streams of one seed apart.
pub(crate) fn seeded(seed: u64, part: u64) -> Pcg64Mcg {
    // 2^64 / golden ratio: neighbouring numbers land far apart.
    Pcg64Mcg::seed_from_u64(seed ^ part.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_blocks_are_uniform_and_shared_cursors_shared() {
        let mut rng = seeded(1, 0);
        let mut chooser = Chooser { way: Way::Random { read_percent: 25 }, slots: 16, files: 3 };
        let (mut seen, mut reads) = ([0u32; 48], 0);
        for _ in 0..48_000 {
            let target = chooser.next(&mut rng, &mut []);
            seen[target.file * 16 + target.slot as usize] += 1;
            reads += u32::from(target.is_read);
        }
        // 1,000 expected in each of 48 cells: chi-squared with 47 degrees of freedom is under 82.7
        // in 999 of 1,000 cases.
        let chi_squared: f64 = seen.iter().map(|n| (f64::from(*n) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi_squared < 82.7, "{chi_squared}");
        assert!((11_500..12_500).contains(&reads), "{reads}");
        let mut cursors = [0; 3];
        let mut streams = Chooser { way: Way::Streams { count: 2 }, slots: 8, files: 1 };
        let order: Vec<u64> = (0..9).map(|_| streams.next(&mut rng, &mut cursors).slot).collect();
        assert_eq!(order, [0, 4, 1, 5, 2, 6, 3, 7, 0]);
        let mut cursors = [0];
        let mut a = Chooser { way: Way::Shared { reads: true }, slots: 4, files: 1 };
        let mut b = a.clone();
        let order: Vec<u64> = (0..3)
            .flat_map(|_| {
                [a.next(&mut rng, &mut cursors).slot, b.next(&mut rng, &mut cursors).slot]
            })
            .collect();
        assert_eq!(order, [0, 1, 2, 3, 0, 1]);
    }
}
