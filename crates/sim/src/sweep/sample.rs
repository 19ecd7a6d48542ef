//! A random sample of a grid, without replacement: the same seed draws the same cells on every
//! machine.

use std::collections::BTreeSet;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// `count` different numbers below `below`, ascending; all of them if there are no more.
///
/// Floyd's algorithm (Bentley & Floyd 1987): every subset of that size is as likely as any other,
/// and the grid is never listed.
pub(crate) fn draw(below: u64, count: u64, seed: u64) -> Vec<u64> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut chosen = BTreeSet::new();
    for last in below.saturating_sub(count)..below {
        // By multiplication (Lemire 2019) without rejection: the bias is below n / 2^64.
        let drawn = ((u128::from(random.next_u64()) * u128::from(last + 1)) >> 64) as u64;
        if !chosen.insert(drawn) {
            chosen.insert(last);
        }
    }
    chosen.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_cell_comes_up_equally_often() {
        let mut seen = [0u32; 10];
        for seed in 0..5_000 {
            draw(10, 3, seed).iter().for_each(|n| seen[*n as usize] += 1);
        }
        // 1,500 each; four standard deviations are 130.
        assert!(seen.iter().all(|n| (1_370..=1_630).contains(n)), "{seen:?}");
    }

    proptest! {
        #[test]
        fn a_sample_has_its_size_and_no_cell_twice(below in 1u64..10_000, count in 0u64..200, seed: u64) {
            let sample = draw(below, count, seed);
            prop_assert_eq!(sample.len() as u64, count.min(below));
            prop_assert!(sample.windows(2).all(|w| w[0] < w[1]) && sample.iter().all(|n| *n < below));
            prop_assert_eq!(draw(below, count, seed), sample);
        }
    }
}
