//! How fast the device is at its best, as far as is known.

/// Estimates how fast the device is at its best, from the requests sent to it
/// (`bfq_update_peak_rate`).
#[derive(Clone, Copy, Debug)]
pub(super) struct PeakRate {
    /// Sectors per µs, `<< 16`.
    pub(super) rate: u64,
    /// Where the last request ended, bytes.
    pub(super) last_position: u64,
    pub(super) samples: u64,
    pub(super) sequential: u64,
    pub(super) sectors: u64,
    pub(super) greatest_sectors: u64,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) last_completion: u64,
    pub(super) interval: u64,
}

impl PeakRate {
    pub(super) const fn new(rotational: bool) -> Self {
        Self {
            rate: reference_rate(rotational) * 2 / 3,
            last_position: 0,
            samples: 0,
            sequential: 0,
            sectors: 0,
            greatest_sectors: 0,
            first: 0,
            last: 0,
            last_completion: 0,
            interval: 0,
        }
    }

    /// Starts counting again (`bfq_reset_rate_computation`).
    pub(super) const fn restart(&mut self, first: Option<u64>, now_ns: u64) {
        let Some(sectors) = first else {
            self.samples = 0;
            return;
        };
        self.first = now_ns;
        self.last = now_ns;
        self.samples = 1;
        self.sequential = 0;
        self.sectors = sectors;
        self.greatest_sectors = sectors;
    }
}

/// Rate of the device against which weight raising was tuned (`ref_rate`), sectors per µs `<< 16`.
pub(super) const fn reference_rate(rotational: bool) -> u64 {
    if rotational { 14_000 } else { 33_000 }
}
