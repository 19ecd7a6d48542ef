//! The largest, smallest or middle value of a window.
//!
//! The window is in time of the caller's clock. That counts only time that says something:
//! backlogged time, or time with quiet victims. So a value stays known while nothing can be learnt.
//! Memory: at most one value a sample in the window.

use std::collections::VecDeque;
use std::time::Duration;

/// Whether the largest or the smallest value is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Largest,
    Smallest,
}

/// A windowed maximum or minimum.
#[derive(Clone, Debug)]
pub(crate) struct Windowed {
    end: End,
    window: Duration,
    clock: Duration,
    /// Candidates, from the best to the latest.
    samples: VecDeque<(Duration, f64)>,
}

impl Windowed {
    pub(crate) fn largest(window: Duration) -> Self {
        Self { end: End::Largest, window, clock: Duration::ZERO, samples: VecDeque::new() }
    }

    pub(crate) fn smallest(window: Duration) -> Self {
        Self { end: End::Smallest, ..Self::largest(window) }
    }

    /// Adds a value that stands for the time `lasted` since the value before. It is forgotten
    /// `window` later.
    pub(crate) fn add(&mut self, lasted: Duration, value: f64) {
        self.clock += lasted;
        let beats = |old: f64| match self.end {
            End::Largest => value >= old,
            End::Smallest => value <= old,
        };
        while self.samples.back().is_some_and(|(_, old)| beats(*old)) {
            self.samples.pop_back();
        }
        self.samples.push_back((self.clock, value));
        while self.samples.front().is_some_and(|(at, _)| *at + self.window <= self.clock) {
            self.samples.pop_front();
        }
    }

    /// Multiplies the values.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.samples.iter_mut().for_each(|(_, value)| *value *= factor);
    }

    /// The largest or smallest value of the window; `None` before the first value.
    pub(crate) fn get(&self) -> Option<f64> {
        self.samples.front().map(|(_, value)| *value)
    }
}

/// A windowed median. Every sample counts once, however many operations it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Typical {
    window: Duration,
    clock: Duration,
    samples: VecDeque<(Duration, f64)>,
}

impl Typical {
    /// Fewer samples than this give no median.
    pub(crate) const LEAST: usize = 4;

    pub(crate) fn new(window: Duration) -> Self {
        Self { window, clock: Duration::ZERO, samples: VecDeque::new() }
    }

    /// As [`Windowed::add`].
    pub(crate) fn add(&mut self, lasted: Duration, value: f64) {
        self.clock += lasted;
        self.samples.push_back((self.clock, value));
        while self.samples.front().is_some_and(|(at, _)| *at + self.window <= self.clock) {
            self.samples.pop_front();
        }
    }

    /// The median of the window, the lower one of two.
    pub(crate) fn get(&self) -> Option<f64> {
        let mut values: Vec<f64> = self.samples.iter().map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        (values.len() >= Self::LEAST).then(|| values[(values.len() - 1) / 2])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_best_of_what_is_not_older_than_the_window(
            samples in prop::collection::vec((1u64..40, 0u32..1000), 1..60),
            window in 1u64..100,
        ) {
            let window = Duration::from_millis(window);
            let (mut most, mut least) = (Windowed::largest(window), Windowed::smallest(window));
            let mut typical = Typical::new(window);
            let (mut clock, mut all) = (Duration::ZERO, Vec::new());
            for (ms, value) in samples {
                let lasted = Duration::from_millis(ms);
                clock += lasted;
                all.push((clock, f64::from(value)));
                most.add(lasted, f64::from(value));
                least.add(lasted, f64::from(value));
                let alive = || all.iter().filter(|(at, _)| *at + window > clock).map(|(_, v)| *v);
                prop_assert_eq!(most.get(), alive().reduce(f64::max));
                prop_assert_eq!(least.get(), alive().reduce(f64::min));
                typical.add(lasted, f64::from(value));
                let (count, below) = (alive().count(), |m: f64| alive().filter(|v| *v < m).count());
                match typical.get() {
                    None => prop_assert!(count < Typical::LEAST),
                    Some(m) => prop_assert!(
                        below(m) <= (count - 1) / 2
                            && alive().filter(|v| *v <= m).count() > (count - 1) / 2
                    ),
                }
            }
        }
    }
}
