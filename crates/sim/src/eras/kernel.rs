//! The kernel generations that the simulator knows, and what each of them had.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A release that the model does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{release}' is no kernel that the model has; use 2.6.18, 2.6.32, 3.2 or 6.18")]
pub struct UnknownKernel {
    /// The requested release.
    pub release: String,
}

/// A generation of the write path. Kernels between two of them behave like the earlier one, except
/// where a module says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// Writers write out dirty pages themselves, `pdflush` beside them, limits are ratios of all
    /// RAM.
    K2_6_18,
    /// One flusher a device, limits shared by completions, writers still do I/O.
    K2_6_32,
    /// IO-less throttling: writers only sleep (3.2 to 4.9).
    K3_2,
    /// blk-mq, wbt, per-device limits, strict limits, cgroup domains.
    K6,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::K2_6_18 => "2.6.18",
            Self::K2_6_32 => "2.6.32",
            Self::K3_2 => "3.2",
            Self::K6 => "6.18",
        })
    }
}

impl FromStr for Generation {
    type Err = UnknownKernel;

    /// A release stands for its generation: any 3.2 and any 6.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || UnknownKernel { release: text.to_owned() };
        let numbers: Option<Vec<u32>> = text.split('.').map(|n| n.parse().ok()).collect();
        match numbers.ok_or_else(wrong)?.as_slice() {
            [2, 6, 18] => Ok(Self::K2_6_18),
            [2, 6, 32] => Ok(Self::K2_6_32),
            [3, 2, ..] => Ok(Self::K3_2),
            [6, ..] => Ok(Self::K6),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_as_they_are_written_and_stand_for_their_generation() {
        for generation in
            [Generation::K2_6_18, Generation::K2_6_32, Generation::K3_2, Generation::K6]
        {
            assert_eq!(generation.to_string().parse(), Ok(generation));
        }
        assert_eq!("6.1.55".parse(), Ok(Generation::K6));
        for text in ["2.4", "2.6.33", "3.3", "6.x", "", "linux"] {
            assert!(text.parse::<Generation>().is_err(), "{text}");
        }
    }
}
