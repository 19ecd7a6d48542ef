//! Data to write: buffers whose blocks are never alike, without making random bytes for each of
//! them.
//!
//! ```text
//! pool of random bytes:  |······················|   the next block is the next piece of the pool …
//! block:                     |S···|S···|S···|       … with a stamp S in every 4 KiB
//!                                                   that was never used before
//! ```
//!
//! Deduplicating and compressing filesystems and drives must not profit: the stamp makes every 4
//! KiB unique, the pool makes it incompressible.

use floodwall_model::scenario::Data;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// Alignment of every buffer in memory: the largest that direct I/O asks for on common devices
/// (`stx_dio_mem_align`).
pub(crate) const ALIGN: usize = 4096;
/// Distance of the stamps: the block size of filesystems and of deduplication.
const STAMP_EVERY: usize = 4096;
/// Length of a stamp: 64 random bits that tell writers apart and 64 bits of a mixed counter.
const STAMP: usize = 16;

/// Bytes in memory that begin at a multiple of [`ALIGN`].
pub(crate) struct AlignedBuf {
    raw: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuf {
    pub(crate) fn zeroed(len: usize) -> Self {
        let raw = vec![0; len + ALIGN];
        let start = raw.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self { raw, start, len }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.raw[self.start..self.start + self.len]
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.raw[self.start..self.start + self.len]
    }
}

/// An endless supply of blocks.
pub(crate) struct Blocks {
    pool: AlignedBuf,
    block: usize,
    /// Where in the pool the next block begins.
    cursor: usize,
    step: usize,
    data: Data,
    /// Tells this supply's stamps from any other's.
    salt: u64,
    stamps: u64,
}

impl Blocks {
    /// Blocks of `block` bytes from a pool that is at least `variety` bytes longer than one.
    pub(crate) fn new(block: usize, variety: usize, data: Data, rng: &mut Pcg64Mcg) -> Self {
        // A block that is longer than the variety moves through it page by page, so that two in a
        // row still differ throughout.
        let step = if block < variety { block } else { STAMP_EVERY };
        let mut pool = AlignedBuf::zeroed(block + variety);
        match data {
            Data::Random => rng.fill_bytes(pool.bytes_mut()),
            Data::Zero => {}
            Data::Compressible => {
                for piece in pool.bytes_mut().chunks_mut(STAMP_EVERY) {
                    let half = piece.len().min(STAMP_EVERY / 2);
                    rng.fill_bytes(&mut piece[..half]);
                }
            }
        }
        Self { pool, block, cursor: 0, step, data, salt: rng.next_u64(), stamps: 0 }
    }

    /// The next block: `len` ≤ `block` bytes, aligned in memory as the block size is.
    #[inline]
    pub(crate) fn next(&mut self, len: usize) -> &[u8] {
        let len = len.min(self.block);
        let from = self.cursor;
        self.cursor += self.step;
        if self.cursor + self.block > self.pool.len {
            self.cursor = 0;
        }
        let (salt, data) = (self.salt, self.data);
        let piece = &mut self.pool.bytes_mut()[from..from + len];
        if data != Data::Zero {
            for place in piece.chunks_mut(STAMP_EVERY) {
                self.stamps += 1;
                let stamp = u128::from(salt) | u128::from(mix(self.stamps)) << 64;
                match place.first_chunk_mut::<STAMP>() {
                    Some(whole) => *whole = stamp.to_le_bytes(),
                    // Blocks under 16 bytes get the part of the stamp that changes most.
                    None => {
                        let bytes = (stamp >> 64).to_le_bytes();
                        let n = place.len();
                        place.copy_from_slice(&bytes[..n]);
                    }
                }
            }
        }
        piece
    }
}

/// A permutation of the 64-bit numbers (the finaliser of SplitMix64): counters that look random and
/// stay different.
#[inline]
pub(crate) fn mix(n: u64) -> u64 {
    let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// The bytes by which each stream's pool exceeds a block: 16 MiB over all streams, but between 64
/// KiB and 1 MiB each. (A window of common compressors is 32 to 128 KiB.)
pub(crate) fn variety(streams: u32) -> usize {
    ((16 << 20) / streams.max(1) as usize).clamp(64 << 10, 1 << 20) / ALIGN * ALIGN
}

/// One generator for each purpose, from one seed.
pub(crate) fn rng(seed: u64, purpose: u64) -> Pcg64Mcg {
    // The state must be odd in its lowest bits to be on the long cycle; `new` sees to that.
    Pcg64Mcg::new(
        u128::from(mix(seed ^ mix(purpose))) << 64
            | u128::from(mix(seed.wrapping_add(purpose) | 1)),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn pieces(blocks: &mut Blocks, count: usize, len: usize) -> Vec<Vec<u8>> {
        (0..count).map(|_| blocks.next(len).to_vec()).collect()
    }

    #[test]
    fn no_two_4_kib_are_alike_even_across_writers() {
        let mut seen = HashSet::new();
        for writer in 0..3 {
            let mut blocks = Blocks::new(16 << 10, 64 << 10, Data::Random, &mut rng(7, writer));
            for block in pieces(&mut blocks, 200, 16 << 10) {
                for piece in block.chunks(4096) {
                    assert!(seen.insert(piece.to_vec()));
                }
            }
        }
    }

    #[test]
    fn blocks_smaller_than_a_page_differ_too() {
        for block in [100, 512, 1024, 5000] {
            let mut blocks = Blocks::new(block, 64 << 10, Data::Compressible, &mut rng(1, 2));
            let seen: HashSet<_> = pieces(&mut blocks, 5_000, block).into_iter().collect();
            assert_eq!(seen.len(), 5_000, "{block}");
        }
    }

    #[test]
    fn blocks_are_aligned_in_memory() {
        for block in [4096, 16384, 1 << 20, 2 << 20] {
            let mut blocks = Blocks::new(block, 1 << 20, Data::Random, &mut rng(1, 2));
            for _ in 0..600 {
                assert_eq!(blocks.next(block).as_ptr().align_offset(4096), 0);
            }
        }
    }

    #[test]
    fn zero_is_zero_and_compressible_is_half_zero() {
        let mut zero = Blocks::new(8192, 65536, Data::Zero, &mut rng(1, 2));
        assert!(zero.next(8192).iter().all(|b| *b == 0));
        let mut half = Blocks::new(8192, 65536, Data::Compressible, &mut rng(1, 2));
        for piece in pieces(&mut half, 50, 8192).iter().flat_map(|b| b.chunks(4096)) {
            let zeros = piece.iter().filter(|b| **b == 0).count();
            assert!((2048..2048 + 64).contains(&zeros), "{zeros}");
        }
    }
}
