//! The parts of one operation's time.
//!
//! ```text
//! latency = throttled + gate + slot + elevator + device + journal + flush + other
//! ```
//!
//! The last thing that a process waits for decides: of the pages that an fsync waits for, those
//! that arrived last are looked at. *Other* is CPU time, the wait for its turn (open loop) and for
//! its group's `io.max`. It also holds pages of the same file that another process had sent before
//! the operation began.

use std::fmt;

use floodwall_device::Nanos;
use floodwall_model::units::human_duration;

/// One operation's time, in nanoseconds each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// When it was over, since the phase's measured part began.
    pub at: Nanos,
    /// From when it fell due or began to its end.
    pub latency: Nanos,
    /// Asleep in `balance_dirty_pages`.
    pub throttled: Nanos,
    /// At the wbt gate.
    pub gate: Nanos,
    /// For a request slot or tag.
    pub slot: Nanos,
    /// In the plug and in the elevator.
    pub elevator: Nanos,
    /// In the device.
    pub device: Nanos,
    /// For a commit of metadata.
    pub journal: Nanos,
    /// For a flush of the device's cache.
    pub flush: Nanos,
}

impl Explained {
    /// What the parts do not account for.
    #[must_use]
    pub fn other(&self) -> Nanos {
        let parts = [
            self.throttled,
            self.gate,
            self.slot,
            self.elevator,
            self.device,
            self.journal,
            self.flush,
        ];
        self.latency.since(Nanos(parts.iter().map(|p| p.0).sum()))
    }

    /// The parts with their names, in the order of the write path.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, Nanos); 8] {
        [
            ("throttled", self.throttled),
            ("wbt", self.gate),
            ("slot", self.slot),
            ("elevator", self.elevator),
            ("device", self.device),
            ("journal", self.journal),
            ("flush", self.flush),
            ("other", self.other()),
        ]
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", human_duration(self.latency.into()))?;
        let mut parts: Vec<_> =
            self.parts().into_iter().filter(|(_, time)| time.0 * 200 >= self.latency.0).collect();
        parts.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        for (i, (name, time)) in parts.iter().enumerate() {
            let separator = if i == 0 { ": " } else { ", " };
            let percent = 100.0 * time.0 as f64 / self.latency.0.max(1) as f64;
            write!(f, "{separator}{name} {} ({percent:.0} %)", human_duration((*time).into()))?;
        }
        Ok(())
    }
}

/// Keeps every operation's account while it is asked to.
#[derive(Debug, Default)]
pub(crate) struct Explainer {
    /// When the measured part began; `None` outside of it.
    pub(crate) since: Option<Nanos>,
    pub(crate) operations: Vec<Explained>,
}

/// The operation at a percentile (0 to 100) of latency; the slowest at 100. `None` without
/// operations.
#[must_use]
pub fn at_percentile(operations: &[Explained], percentile: f64) -> Option<Explained> {
    let mut sorted: Vec<&Explained> = operations.iter().collect();
    sorted.sort_by_key(|o| o.latency);
    let rank = (percentile / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).map(|o| **o)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_adds_up_and_names_the_largest_first() {
        let ms = Nanos::from_millis;
        let slow = Explained {
            latency: ms(900),
            throttled: ms(100),
            device: ms(600),
            journal: ms(150),
            ..Explained::default()
        };
        assert_eq!(slow.other(), ms(50));
        assert_eq!(
            slow.to_string(),
            "900 ms: device 600 ms (67 %), journal 150 ms (17 %), throttled 100 ms (11 %), other \
             50.0 ms (6 %)"
        );
        let quick = Explained { latency: ms(1), ..Explained::default() };
        assert_eq!(at_percentile(&[slow, quick], 100.0), Some(slow));
        assert_eq!(at_percentile(&[slow, quick], 50.0), Some(quick));
        assert_eq!(at_percentile(&[], 50.0), None);
    }
}
