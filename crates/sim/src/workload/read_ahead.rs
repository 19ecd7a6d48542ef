//! One descriptor's read-ahead: which pages are read when a page is wanted.

use floodwall_device::Nanos;

use crate::page_cache::InodeId;

/// One descriptor's read-ahead (`struct file_ra_state`), in pages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadAhead {
    start: u64,
    size: u64,
    /// The next window is read when this many pages of the current one are left.
    ahead: u64,
    /// The page after the last that was read.
    pub(super) previous: u64,
    /// What to do when the pages are there; `None`: a victim's read.
    pub(super) then: Option<(Nanos, u64, u64, u64)>,
    /// The file that is read for a copy.
    pub(super) source: Option<InodeId>,
}

impl ReadAhead {
    /// The first window for a read of `wanted` pages (`get_init_ra_size`).
    fn first_size(wanted: u64, most: u64) -> u64 {
        let size = wanted.next_power_of_two();
        if size <= most / 32 {
            size * 4
        } else if size <= most / 4 {
            size * 2
        } else {
            most
        }
    }

    /// The window after one of `size` pages (`get_next_ra_size`).
    fn next_size(size: u64, most: u64) -> u64 {
        if size < most / 16 {
            size * 4
        } else if size <= most / 2 {
            size * 2
        } else {
            most
        }
    }

    /// The pages to read when `page` is not there and `wanted` pages are asked for.
    pub(super) fn missed(&mut self, page: u64, wanted: u64, most: u64) -> (u64, u64) {
        let goes_on = page == self.start + self.size && self.size > 0;
        if goes_on {
            self.start += self.size;
            self.size = Self::next_size(self.size, most);
            self.ahead = self.size;
        } else if page == 0 || page == self.previous || wanted > most {
            self.start = page;
            self.size = Self::first_size(wanted, most).max(wanted.min(most));
            self.ahead = if self.size > wanted { self.size - wanted } else { self.size };
        } else {
            // Random: only the requested block.
            return (page, page + wanted);
        }
        (self.start, self.start + self.size)
    }

    /// The next window, if this page is where it is to be read.
    pub(super) fn marker(&mut self, page: u64, most: u64) -> Option<(u64, u64)> {
        if self.size == 0 || self.ahead == 0 || page != self.start + self.size - self.ahead {
            return None;
        }
        self.start += self.size;
        self.size = Self::next_size(self.size, most);
        self.ahead = self.size;
        Some((self.start, self.start + self.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_while_reads_go_on_in_order() {
        let mut ra = ReadAhead::default();
        // 4 pages at a time, at most 32: 8, then 16, then 32, each read when the one before it
        // begins.
        assert_eq!(ra.missed(0, 4, 32), (0, 8));
        assert_eq!(ra.marker(4, 32), Some((8, 24)));
        assert_eq!(ra.marker(5, 32), None);
        assert_eq!(ra.marker(8, 32), Some((24, 56)));
        ra.previous = 56;
        assert_eq!(ra.missed(1_000, 4, 32), (1_000, 1_004), "a jump reads what it asks for");
    }
}
