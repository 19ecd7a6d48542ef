//! What a run or an interval of it counted, and its rates.

/// Transfers of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many.
    pub transfers: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Counts {
    /// The growth.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            transfers: self.transfers.saturating_sub(before.transfers),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }
}

/// A run, or an interval of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Its length in whole seconds: the tool counts them by a timer.
    pub seconds: u64,
    /// Reads.
    pub reads: Counts,
    /// Writes.
    pub writes: Counts,
}

/// The seconds that one direction is given: its share of all in percent, without the fraction.
pub(super) fn seconds(all: u64, percent: u32) -> u64 {
    (all * u64::from(percent) / 100).max(1)
}

/// Bytes and transfers a second: `135529813.3B/s (129.25MB/s), IOPS 33088.3/s.`
pub(super) fn rates(counts: Counts, seconds: u64) -> String {
    let rate = |count: u64| count as f64 / seconds as f64;
    let bytes = rate(counts.bytes);
    let mib = bytes / 1_048_576.0;
    format!("{bytes:.1}B/s ({mib:.2}MB/s), IOPS {:.1}/s.", rate(counts.transfers))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Transfers of 4 KiB.
    fn rates_of(transfers: u64, seconds: u64) -> String {
        rates(Counts { transfers, bytes: transfers * 4096 }, seconds)
    }

    #[test]
    fn rates_are_those_that_were_printed() {
        // Of 2007, deadline, sequential reads for 30 s.
        assert_eq!(rates_of(332_180, 30), "45353642.7B/s (43.25MB/s), IOPS 11072.7/s.");
        // Of runs of the original.
        assert_eq!(rates_of(99_265, 3), "135529813.3B/s (129.25MB/s), IOPS 33088.3/s.");
        assert_eq!(rates_of(32_777, 1), "134254592.0B/s (128.04MB/s), IOPS 32777.0/s.");
    }

    #[test]
    fn a_direction_is_divided_by_its_share_of_the_seconds() {
        // As strace and the output of `-D 30:70 -T 3` showed.
        assert_eq!([seconds(3, 30), seconds(3, 70)], [1, 2]);
        assert_eq!([seconds(30, 100), seconds(3, 50), seconds(0, 100)], [30, 1, 1]);
    }
}
