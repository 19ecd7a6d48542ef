//! Where a byte of an array lies on its members.
//!
//! Addresses are dealt in chunks. For RAID 0 and 10, chunk `c` is on data column `c mod n`, row
//! `c div n`. A RAID 10 column is a pair of neighbouring members (md's `near=2`). For RAID 5 and 6,
//! row `r` keeps its parity on member `(N − 1 − r) mod N`, the second parity on the next member.
//! The data is on the members after it (md's left-symmetric layout).

/// How members are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Striped, no redundancy.
    Raid0,
    /// Every member holds everything.
    Raid1,
    /// Striped over mirrored pairs.
    Raid10,
    /// Striped with one parity chunk a row.
    Raid5,
    /// Striped with two parity chunks a row.
    Raid6,
}

impl Level {
    /// Parity chunks in a row.
    #[must_use]
    pub const fn parity(self) -> usize {
        match self {
            Self::Raid5 => 1,
            Self::Raid6 => 2,
            _ => 0,
        }
    }

    /// Members whose loss never loses data.
    #[must_use]
    pub const fn spare_members(self, members: usize) -> usize {
        match self {
            Self::Raid0 => 0,
            Self::Raid1 => members.saturating_sub(1),
            Self::Raid10 | Self::Raid5 => 1,
            Self::Raid6 => 2,
        }
    }
}

/// A contiguous part of a request on one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Member, or pair of members in RAID 10.
    pub(crate) column: usize,
    /// Offset on that member.
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// Chunk arithmetic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) level: Level,
    pub(crate) members: usize,
    pub(crate) chunk: u64,
}

impl Layout {
    /// Columns that hold data in a row.
    pub(crate) fn data_columns(&self) -> usize {
        match self.level {
            Level::Raid0 => self.members,
            Level::Raid1 => 1,
            Level::Raid10 => self.members / 2,
            Level::Raid5 | Level::Raid6 => self.members - self.level.parity(),
        }
    }

    /// Bytes of the array if each member has this many.
    pub(crate) fn capacity(&self, member: u64) -> u64 {
        match self.level {
            Level::Raid1 => member,
            _ => member / self.chunk * self.chunk * self.data_columns() as u64,
        }
    }

    /// Data bytes of a row.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.chunk * self.data_columns() as u64
    }

    /// Member of the `i`th parity chunk of a row.
    pub(crate) fn parity_member(&self, row: u64, i: usize) -> usize {
        let n = self.members as u64;
        ((n - 1 - row % n + i as u64) % n) as usize
    }

    /// Member of the `i`th data chunk of a row.
    pub(crate) fn data_member(&self, row: u64, i: usize) -> usize {
        match self.level {
            Level::Raid5 | Level::Raid6 => self.parity_member(row, self.level.parity() + i),
            _ => i,
        }
    }

    /// Appends the parts of a range, those that are contiguous on a column joined, in the order of
    /// their first byte.
    pub(crate) fn parts(&self, offset: u64, len: u64, parts: &mut Vec<Part>) {
        if self.level == Level::Raid1 {
            return parts.push(Part { column: 0, offset, len });
        }
        let columns = self.data_columns() as u64;
        let end = offset + len;
        let mut at = offset;
        while at < end {
            let chunk = at / self.chunk;
            let within = at % self.chunk;
            let take = (self.chunk - within).min(end - at);
            let row = chunk / columns;
            let column = self.data_member(row, (chunk % columns) as usize);
            let on_member = row * self.chunk + within;
            match parts.iter_mut().rev().find(|p| p.column == column) {
                Some(p) if p.offset + p.len == on_member => p.len += take,
                _ => parts.push(Part { column, offset: on_member, len: take }),
            }
            at += take;
        }
    }

    /// The array's address of a byte of a data column; `None` if it is parity.
    pub(crate) fn address(&self, column: usize, on_member: u64) -> Option<u64> {
        if self.level == Level::Raid1 {
            return Some(on_member);
        }
        let row = on_member / self.chunk;
        let i = (0..self.data_columns()).find(|i| self.data_member(row, *i) == column)?;
        Some((row * self.data_columns() as u64 + i as u64) * self.chunk + on_member % self.chunk)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHUNK: u64 = 64;

    fn layout(level: Level, members: usize) -> Layout {
        Layout { level, members, chunk: CHUNK }
    }

    fn parts(layout: Layout, offset: u64, len: u64) -> Vec<Part> {
        let mut parts = Vec::new();
        layout.parts(offset, len, &mut parts);
        parts
    }

    #[test]
    fn left_symmetric_parity_moves_one_member_down_a_row() {
        let l = layout(Level::Raid5, 4);
        let row = |r| (0..3).map(|i| l.data_member(r, i)).collect::<Vec<_>>();
        assert_eq!((l.parity_member(0, 0), row(0)), (3, vec![0, 1, 2]));
        assert_eq!((l.parity_member(1, 0), row(1)), (2, vec![3, 0, 1]));
    }

    #[test]
    fn a_long_range_is_one_part_a_column() {
        let parts = parts(layout(Level::Raid10, 10), 0, 10 * 5 * CHUNK);
        assert_eq!(parts.len(), 5);
        assert!(parts.iter().all(|p| p.offset == 0 && p.len == 10 * CHUNK));
    }

    proptest! {
        #[test]
        fn parts_cover_a_range_once_and_lead_back_to_it(
            which in 0usize..5, offset in 0u64..4000, len in 1u64..2000
        ) {
            let (level, members) = [
                (Level::Raid0, 3), (Level::Raid1, 2), (Level::Raid10, 6), (Level::Raid5, 4),
                (Level::Raid6, 5)
            ][which];
            let l = layout(level, members);
            let mut addresses: Vec<u64> = Vec::new();
            for p in parts(l, offset, len) {
                for b in p.offset..p.offset + p.len {
                    addresses.extend(l.address(p.column, b));
                }
            }
            addresses.sort_unstable();
            prop_assert_eq!(addresses, (offset..offset + len).collect::<Vec<_>>());
        }
    }
}
