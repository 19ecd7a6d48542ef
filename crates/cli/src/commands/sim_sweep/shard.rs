//! The cells that one job of an array does.
//!
//! With four groups or more for each shard, whole groups are dealt out in turn, so that a group's
//! default run happens once. With fewer, cells are dealt out, so that no shard stays idle. Dealing
//! in turn rather than in blocks, because neighbours have the same device and cost the same.

use std::fmt;
use std::str::FromStr;

/// With at least so many groups for each shard, whole groups are dealt out. No shard then has over
/// a quarter more than its fair share.
const GROUPS_A_SHARD: u64 = 4;

/// One of so many parts of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    /// Which, from 1.
    pub(super) number: u64,
    /// Of how many.
    pub(super) of: u64,
}

impl Shard {
    /// The whole sweep.
    pub(super) const WHOLE: Self = Self { number: 1, of: 1 };

    /// This shard's part of a sweep's cells, which ascend. `group` is the number of cells a group.
    pub(super) fn deal(self, cells: &[u64], group: u64) -> Vec<u64> {
        let groups: Vec<&[u64]> = cells.chunk_by(|a, b| a / group == b / group).collect();
        let (first, step) = (self.number as usize - 1, self.of as usize);
        if groups.len() as u64 >= GROUPS_A_SHARD.saturating_mul(self.of) {
            groups.into_iter().skip(first).step_by(step).flatten().copied().collect()
        } else {
            cells.iter().skip(first).step_by(step).copied().collect()
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |n: &str| n.trim().parse::<u64>().ok();
        let parts = text.split_once('/').and_then(|(k, n)| Some((number(k)?, number(n)?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            Some((0, 1..)) => Err(format!(
                "'{text}' is no shard: they count from 1; for an index that begins at 0, add 1"
            )),
            _ => {
                Err(format!("'{text}' is no shard; write K/N, such as 1/8 for the first of eight"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shards_are_counted_from_one() {
        assert_eq!("3/8".parse(), Ok(Shard { number: 3, of: 8 }));
        assert_eq!("1/1".parse(), Ok(Shard::WHOLE));
        for (text, part) in [
            ("0/8", "for an index that begins at 0, add 1"),
            ("9/8", "write K/N, such as 1/8 for the first of eight"),
            ("0/0", "write K/N"),
            ("3", "write K/N"),
            ("-1/3", "write K/N"),
        ] {
            let message = text.parse::<Shard>().unwrap_err();
            assert!(message.contains(&format!("'{text}' is no shard")), "{message}");
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn groups_stay_whole_where_there_are_enough() {
        let many: Vec<u64> = (0..40).collect();
        let first = Shard { number: 1, of: 2 }.deal(&many, 4);
        assert_eq!(first[..8], [0, 1, 2, 3, 8, 9, 10, 11]);
        assert_eq!(Shard { number: 2, of: 4 }.deal(&many[..8], 4), [1, 5]);
    }

    proptest! {
        #[test]
        fn every_cell_is_dealt_once(cells in 0u64..300, group in 1u64..20, of in 1u64..20) {
            let cells: Vec<u64> = (0..cells).map(|n| n * 3).collect();
            let mut all: Vec<u64> =
                (1..=of).flat_map(|number| Shard { number, of }.deal(&cells, group)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, cells);
        }
    }
}
