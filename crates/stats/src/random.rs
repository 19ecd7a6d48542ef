//! Seeded random numbers: the same seed gives the same numbers on every machine.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A stream of random numbers (PCG-XSL-RR 128/64, O'Neill 2014).
#[derive(Clone, Debug)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// A whole number below `n`; 0 if `n` is 0. By multiplication (Lemire 2019) without rejection:
    /// the bias is below n / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// A number of [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Nearly normal, by the sum of twelve uniforms.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// The same items in a random order (Fisher & Yates).
    pub fn shuffled<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_cover_their_range_evenly() {
        let mut random = Random::seeded(7);
        let mut seen = [0u32; 6];
        for _ in 0..6_000 {
            seen[random.below(6) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (880..=1120).contains(n)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = || {
            let mut random = Random::seeded(42);
            (0..5).map(|_| random.below(1_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(), draw());
        assert_eq!(draw()[..2], draw()[..2]);
    }

    #[test]
    fn every_order_comes_up_and_the_seed_decides_which() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            seen.insert(Random::seeded(seed).shuffled(vec![1, 2, 3]));
        }
        assert_eq!(seen.len(), 6);
        let order = |seed| Random::seeded(seed).shuffled(vec![1, 2, 3, 4]);
        assert_eq!(order(9), order(9));
    }
}
