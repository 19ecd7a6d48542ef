//! Orders drawn from a seed: the same seed gives the same order on every machine.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A stream of random numbers (PCG-XSL-RR 128/64, O'Neill 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(Pcg64Mcg);

impl Random {
    /// The stream of a seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// A whole number below `n` (Lemire 2019, without rejection); 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.0.next_u64()) * n as u128) >> 64) as usize
    }

    /// A number of [0, 1).
    #[cfg(test)]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Nearly normal, by the sum of twelve uniforms.
    #[cfg(test)]
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// The same items in a random order (Fisher & Yates).
    pub(crate) fn shuffled<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_comes_up_and_the_seed_decides_which() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            seen.insert(Random::seeded(seed).shuffled(vec![1, 2, 3]));
        }
        assert_eq!(seen.len(), 6);
        assert_eq!(
            Random::seeded(9).shuffled(vec![1, 2, 3, 4]),
            Random::seeded(9).shuffled(vec![1, 2, 3, 4])
        );
    }
}
