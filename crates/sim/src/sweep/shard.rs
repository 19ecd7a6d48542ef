//! The cells that one job of an array does.
//!
//! With four groups or more for each shard, whole groups are dealt out in turn, so that a group's
//! default run happens once. With fewer, cells are dealt out, so that no shard stays idle. Dealing
//! in turn rather than in blocks, because neighbours have the same device and cost the same.

use std::fmt;
use std::str::FromStr;

/// From so many groups a shard on, dealing out whole groups leaves no shard with more than a
/// quarter above its fair share.
pub(crate) const GROUPS_A_SHARD: u64 = 4;
/// More than the arrays of cluster schedulers take (Slurm's `MaxArraySize` is 1,001 unless raised,
/// 4,000,001 at most).
const MOST: u64 = 4_000_001;

/// One of so many parts of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 1.
    number: u64,
    /// Of how many.
    of: u64,
}

/// Not a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    /// Not two numbers.
    #[error("'{0}' is no shard; write K/N, such as 1/8 for the first of eight")]
    Form(String),
    /// Counted from 0, or beyond the last.
    #[error("there is no shard {number} of {of}: shards are 1/{of} to {of}/{of}{hint}")]
    Range {
        /// Which.
        number: u64,
        /// Of how many.
        of: u64,
        /// What may have been meant.
        hint: &'static str,
    },
    /// None, or more than any scheduler has.
    #[error("a sweep can't have {0} shards; write 1 to {MOST}")]
    Count(u64),
}

impl Shard {
    /// The whole sweep.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// The part's number, from 1, and how many there are.
    #[must_use]
    pub fn parts(self) -> (u64, u64) {
        (self.number, self.of)
    }

    /// Of the chosen cells, with the group of each, ascending: those of this shard.
    pub(crate) fn deal(self, cells: &[(u64, u64)]) -> Vec<u64> {
        let groups = cells.chunk_by(|a, b| a.1 == b.1).count() as u64;
        let mine = |turn: u64| turn % self.of == self.number - 1;
        let mut group = 0;
        let mut last = None;
        let mut dealt = Vec::new();
        for (position, (cell, of_group)) in cells.iter().enumerate() {
            if last.is_some_and(|last| last != *of_group) {
                group += 1;
            }
            last = Some(*of_group);
            let turn = if groups >= GROUPS_A_SHARD * self.of { group } else { position as u64 };
            if mine(turn) {
                dealt.push(*cell);
            }
        }
        dealt
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let form = || ShardError::Form(text.to_owned());
        let (number, of) = text.split_once('/').ok_or_else(form)?;
        let number: u64 = number.trim().parse().map_err(|_| form())?;
        let of: u64 = of.trim().parse().map_err(|_| form())?;
        if !(1..=MOST).contains(&of) {
            return Err(ShardError::Count(of));
        }
        if !(1..=of).contains(&number) {
            let hint = if number == 0 { "; for an index that begins at 0, add 1" } else { "" };
            return Err(ShardError::Range { number, of, hint });
        }
        Ok(Self { number, of })
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
        for (text, message) in [
            (
                "0/8",
                "there is no shard 0 of 8: shards are 1/8 to 8/8; for an index that begins at 0, add 1",
            ),
            ("9/8", "there is no shard 9 of 8: shards are 1/8 to 8/8"),
            ("1/0", "a sweep can't have 0 shards; write 1 to 4000001"),
            ("3", "'3' is no shard; write K/N, such as 1/8 for the first of eight"),
            ("-1/3", "'-1/3' is no shard; write K/N, such as 1/8 for the first of eight"),
        ] {
            assert_eq!(text.parse::<Shard>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn groups_stay_whole_where_there_are_enough() {
        let many: Vec<(u64, u64)> = (0..40).map(|n| (n, n / 4)).collect();
        let first = Shard { number: 1, of: 2 }.deal(&many);
        assert_eq!(first[..8], [0, 1, 2, 3, 8, 9, 10, 11]);
        let few: Vec<(u64, u64)> = (0..8).map(|n| (n, n / 4)).collect();
        assert_eq!(Shard { number: 2, of: 4 }.deal(&few), [1, 5]);
    }

    proptest! {
        #[test]
        fn every_cell_is_dealt_once(cells in 0u64..300, size in 1u64..20, of in 1u64..20) {
            let cells: Vec<(u64, u64)> = (0..cells).map(|n| (n * 3, n / size)).collect();
            let mut all: Vec<u64> =
                (1..=of).flat_map(|number| Shard { number, of }.deal(&cells)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, cells.iter().map(|c| c.0).collect::<Vec<_>>());
        }
    }
}
