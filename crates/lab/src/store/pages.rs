//! Pages, their sectors, and ranges of bytes as pieces of pages.

use std::ops::Range;

/// Size of a page and of a frame, in bytes.
pub(super) const PAGE: usize = 4096;
/// A sector, the smallest piece that a device writes whole, in bytes.
pub(super) const SECTOR: usize = 512;

/// A range as pieces of pages: page number, offset in it, range of the caller's buffer.
pub(super) fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let end = offset + len;
    let mut from = offset;
    std::iter::from_fn(move || {
        (from < end).then(|| {
            let page = from / PAGE as u64;
            let to = end.min((page + 1) * PAGE as u64);
            let piece = (
                page,
                (from % PAGE as u64) as usize,
                (from - offset) as usize..(to - offset) as usize,
            );
            from = to;
            piece
        })
    })
}

/// The sectors of a page that a range touches, one bit each.
pub(super) fn sectors(at: usize, len: usize) -> u8 {
    let (first, end) = (at / SECTOR, (at + len).div_ceil(SECTOR));
    (((1u16 << end) - 1) & !((1u16 << first) - 1)) as u8
}
