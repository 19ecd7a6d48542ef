//! Free blocks: how much of what a flash drive writes is copies.
//!
//! Utilisation is kept per [`CELL`] of address space (how many of its 4 KiB pages hold data), two
//! bytes a cell: 2 MB for a terabyte. A write of `k` pages into a cell with `m` of 256 taken is
//! expected to map `k × (1 − m/256)` new ones.
//!
//! Write amplification. With live data `L` and raw flash `R`, `ρ = (R − L) / L`. For uniformly
//! random writes `WA = (1 + ρ) / (2ρ)` (Agarwal and Marrow, "A closed-form expression for write
//! amplification in NAND flash", GLOBECOM 2010), never below 1. Sequential writes cause none.
//! Between, with `r` the recent share of bytes that were written at random,
//! `WA = 1 + (WA_random − 1) × r`.
//!
//! Erased space falls with every program. Below the low mark each program must first win back what
//! it takes: `WA − 1` copies (read and program) and `WA / block` erasures. Above it, that work
//! waits for idle time, which wins space back up to the high mark.

/// Address space per utilisation counter.
const CELL: u64 = 1 << 20;
const PAGE: u64 = 4096;
const PAGES: u64 = CELL / PAGE;
/// Bytes over which the share of random writes is averaged: about what the mapping firmware of a
/// drive looks back on.
const MEMORY: f64 = 64e6;
/// Ends of recent write streams that count as sequential: SSDs tell 8 to 16 streams apart.
const STREAMS: usize = 8;
/// Live data can't be all of raw flash: formulas stay finite.
const RHO_MIN: f64 = 0.02;

/// Utilisation, erased space and the pattern of writes.
pub(super) struct Wear {
    cells: Vec<u16>,
    used_pages: u64,
    /// All flash, in bytes.
    raw: f64,
    /// Erased flash, in bytes, and the marks between which it is kept.
    erased: f64,
    low: f64,
    high: f64,
    random_share: f64,
    ends: [u64; STREAMS],
    next_end: usize,
}

impl Wear {
    /// `filled` is the share of the drive that holds data at first, `spare` the flash beyond its
    /// capacity as a share of it. A `worn` drive starts with no more erased space than its low
    /// mark.
    pub(super) fn new(capacity: u64, spare: f64, filled: f64, worn: bool) -> Self {
        let cells = usize::try_from(capacity.div_ceil(CELL)).unwrap_or(usize::MAX);
        let each = (filled * PAGES as f64).round() as u16;
        let raw = capacity as f64 * (1.0 + spare);
        let live = capacity as f64 * filled;
        let low = 0.01 * raw;
        Self {
            cells: vec![each; cells],
            used_pages: u64::from(each) * cells as u64,
            raw,
            erased: if worn { low } else { raw - live },
            low,
            high: 0.03 * raw,
            random_share: if worn { 1.0 } else { 0.0 },
            ends: [u64::MAX; STREAMS],
            next_end: 0,
        }
    }

    /// The host has written a range.
    pub(super) fn write(&mut self, offset: u64, len: u64) {
        for (cell, pages) in cells(offset, len) {
            if let Some(used) = self.cells.get_mut(cell) {
                // Rounded up: single pages must add up to a full cell in the end.
                let fresh = (pages * (PAGES - u64::from(*used))).div_ceil(PAGES);
                *used += fresh as u16;
                self.used_pages += fresh;
            }
        }
        let stream = self.ends.iter().position(|e| *e == offset);
        let sample = if stream.is_some() || len >= CELL { 0.0 } else { 1.0 };
        let slot = stream.unwrap_or_else(|| {
            self.next_end = (self.next_end + 1) % STREAMS;
            self.next_end
        });
        self.ends[slot] = offset + len;
        self.random_share += (sample - self.random_share) * (len as f64 / MEMORY).min(1.0);
    }

    /// The host has discarded a range.
    pub(super) fn discard(&mut self, offset: u64, len: u64) {
        for (cell, pages) in cells(offset, len) {
            if let Some(used) = self.cells.get_mut(cell) {
                let gone = u64::from(*used) * pages / PAGES;
                *used -= gone as u16;
                self.used_pages -= gone;
            }
        }
    }

    /// Bytes that flash writes for each byte that the host writes, if the write must win back its
    /// space.
    pub(super) fn amplification(&self) -> f64 {
        let live = (self.used_pages * PAGE) as f64;
        let rho = ((self.raw - live) / live.max(1.0)).max(RHO_MIN);
        let random = ((1.0 + rho) / (2.0 * rho)).max(1.0);
        1.0 + (random - 1.0) * self.random_share
    }

    /// Takes erased space for a program. Returns whether it has to be won back at once.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        if self.erased - bytes as f64 >= self.low {
            self.erased -= bytes as f64;
            return false;
        }
        true
    }

    /// Space won back while the drive was idle.
    pub(super) fn reclaim(&mut self, bytes: f64) {
        let reach = self.high.min(self.raw - (self.used_pages * PAGE) as f64);
        if self.erased < reach {
            self.erased = (self.erased + bytes).min(reach);
        }
    }
}

/// The cells that a range touches, with how many pages of each.
fn cells(offset: u64, len: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = offset + len;
    let last = end.saturating_sub(1) / CELL;
    (offset / CELL..=last).filter(move |_| len > 0).map(move |cell| {
        let bytes = end.min((cell + 1) * CELL) - offset.max(cell * CELL);
        (cell as usize, bytes.div_ceil(PAGE).min(PAGES))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amplification_follows_the_published_formula() {
        // 7 % spare, full: ρ = 0.07, WA = 1.07 / 0.14 = 7.64.
        let wear = Wear::new(1 << 30, 0.07, 1.0, true);
        assert!((wear.amplification() - 7.64).abs() < 0.01, "{}", wear.amplification());
        let half = Wear::new(1 << 30, 0.07, 0.5, true);
        assert!((half.amplification() - 2.14 / 2.28).max(0.0) < 0.07, "{}", half.amplification());
    }

    #[test]
    fn sequential_writes_bring_it_down_to_one() {
        let mut wear = Wear::new(1 << 30, 0.07, 1.0, true);
        for i in 0..1000 {
            wear.write(i * (1 << 20), 1 << 20);
        }
        assert!(wear.amplification() < 1.01, "{}", wear.amplification());
    }

    #[test]
    fn a_write_fills_a_cell_and_a_discard_empties_it() {
        let mut wear = Wear::new(8 << 20, 0.07, 0.0, false);
        wear.write(0, 2 << 20);
        assert_eq!(wear.used_pages, 512);
        wear.write(0, 2 << 20);
        assert_eq!(wear.used_pages, 512);
        wear.discard(1 << 20, 1 << 20);
        assert_eq!(wear.used_pages, 256);
        wear.write(3 << 20, 4096);
        assert_eq!(wear.used_pages, 257);
    }

    #[test]
    fn erased_space_runs_out_and_idleness_brings_it_back() {
        let mut wear = Wear::new(1 << 30, 0.1, 0.9, true);
        assert!(wear.take(1 << 20));
        wear.reclaim(4e6);
        assert!(!wear.take(1 << 20));
        let mut fresh = Wear::new(1 << 30, 0.1, 0.0, false);
        assert!((0..1000).all(|_| !fresh.take(1 << 20)));
    }
}
