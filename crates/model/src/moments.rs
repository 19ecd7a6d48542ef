//! Moments of values, taken one by one (Welford's method) or merged.

/// Number, extremes, mean and deviation of values, without the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// How many.
    pub n: u64,
    /// The smallest; `u64::MAX` of none.
    pub min: u64,
    /// The largest; 0 of none.
    pub max: u64,
    /// Arithmetic mean; 0 of none.
    pub mean: f64,
    /// Sum of the squared distances from the mean.
    pub squares: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Self { n: 0, min: u64::MAX, max: 0, mean: 0.0, squares: 0.0 }
    }
}

impl Moments {
    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        self.n += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let delta = value as f64 - self.mean;
        self.mean += delta / self.n as f64;
        self.squares += delta * (value as f64 - self.mean);
    }

    /// Adds another's values.
    pub fn merge(&mut self, other: &Self) {
        if other.n == 0 {
            return;
        }
        let (own, their) = (self.n as f64, other.n as f64);
        let (n, delta) = (own + their, other.mean - self.mean);
        self.mean = (self.mean * own + other.mean * their) / n;
        self.squares += other.squares + delta * delta * own * their / n;
        self.n += other.n;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Standard deviation of a sample.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        if self.n < 2 { 0.0 } else { (self.squares / (self.n - 1) as f64).sqrt() }
    }
}
