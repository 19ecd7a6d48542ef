//! The dirty parts of a range of a file. Pure.
//!
//! A database dirties scattered pages of a large file. The clean bytes between them should not
//! count against the rate. A range is therefore halved until its parts are clean or mostly dirty.

/// Dirty quarters from which on a range is not halved.
const QUARTERS: u64 = 3;
/// Length of the first parts, in bytes. A count of dirty pages takes longer with more pages.
const FIRST: u64 = 32 << 20;

/// A part of a file to write back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// Calls `emit` with the dirty parts of a range, in order, until it returns false. Returns false
/// then. `dirty` counts the dirty bytes of a part. Without a count, the part is dirty as a whole.
pub(super) fn dirty_parts(
    from: u64,
    to: u64,
    page: u64,
    dirty: &mut dyn FnMut(Part) -> Option<u64>,
    emit: &mut dyn FnMut(Part) -> bool,
) -> bool {
    let mut begin = from;
    while begin < to {
        let end = to.min((begin / FIRST + 1) * FIRST);
        let mut parts = vec![Part { offset: begin, len: end - begin }];
        while let Some(part) = parts.pop() {
            let bytes = dirty(part).unwrap_or(part.len).min(part.len);
            if bytes == 0 {
                continue;
            }
            // The middle, at the begin of a page.
            let middle = (part.offset + part.len / 2) / page * page;
            if bytes >= part.len / 4 * QUARTERS || middle <= part.offset {
                if !emit(part) {
                    return false;
                }
                continue;
            }
            let len = middle - part.offset;
            parts.push(Part { offset: middle, len: part.len - len });
            parts.push(Part { offset: part.offset, len });
        }
        begin = end;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    /// The parts that are found of these dirty pages, and how often was asked.
    fn found(from: u64, to: u64, pages: &[u64]) -> (Vec<(u64, u64)>, u32) {
        let mut asked = 0;
        let mut found = Vec::new();
        let mut dirty = |part: Part| {
            asked += 1;
            let last = (part.offset + part.len).div_ceil(PAGE);
            let range = part.offset / PAGE..last;
            Some(pages.iter().filter(|page| range.contains(*page)).count() as u64 * PAGE)
        };
        let whole = dirty_parts(from, to, PAGE, &mut dirty, &mut |part| {
            found.push((part.offset, part.len));
            true
        });
        assert!(whole);
        (found, asked)
    }

    #[test]
    fn a_dirty_range_is_one_part_and_a_clean_one_none() {
        let pages: Vec<u64> = (0..2048).collect();
        assert_eq!(found(0, 2048 * PAGE, &pages), (vec![(0, 2048 * PAGE)], 1));
        assert_eq!(found(100, 2048 * PAGE + 5, &pages).1, 1);
        assert_eq!(found(0, 1 << 30, &[]), (Vec::new(), 32));
        assert_eq!(found(5, 5, &[0]), (Vec::new(), 0));
    }

    #[test]
    fn single_pages_of_a_large_file_are_found() {
        let pages = [3, 70_000, 200_001];
        let (parts, asked) = found(0, 1 << 30, &pages);
        let expected: Vec<(u64, u64)> = pages.iter().map(|page| (page * PAGE, PAGE)).collect();
        assert_eq!(parts, expected);
        assert!(asked < 120, "{asked}");
    }

    #[test]
    fn where_the_kernel_does_not_tell_all_counts() {
        let mut parts = Vec::new();
        dirty_parts(10, 30, PAGE, &mut |_| None, &mut |part| {
            parts.push((part.offset, part.len));
            true
        });
        assert_eq!(parts, [(10, 20)]);
        let mut calls = 0;
        let whole = dirty_parts(0, 1 << 30, PAGE, &mut |_| None, &mut |_| {
            calls += 1;
            false
        });
        assert!(!whole && calls == 1);
    }
}
