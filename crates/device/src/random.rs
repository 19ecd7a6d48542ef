//! Seeded random numbers: the only source of chance in a model.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A stream of random numbers that depends on nothing but its seed.
pub(crate) struct Random(Pcg64Mcg);

impl Random {
    /// `part` tells the streams of a device's parts apart.
    pub(crate) fn new(seed: u64, part: u64) -> Self {
        // The constant is 2^64 / golden ratio: neighbouring part numbers land far apart.
        Self(Pcg64Mcg::seed_from_u64(
            seed ^ part.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ))
    }

    /// Evenly spread over [0, 1), 53 bits.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Normally distributed with mean 0 and deviation 1 (Box and Muller 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_has_mean_0_and_deviation_1() {
        let mut random = Random::new(7, 0);
        let draws: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn parts_of_a_device_draw_differently() {
        assert_ne!(Random::new(1, 0).uniform(), Random::new(1, 1).uniform());
        assert_eq!(Random::new(1, 0).uniform(), Random::new(1, 0).uniform());
    }
}
