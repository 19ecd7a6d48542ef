//! Digests that are the same on every machine: of what a run depends on, and of a journal's lines.
//!
//! FNV-1a (Fowler, Noll & Vo; draft-eastlake-fnv). Not against forgery: against mixing up. Of a
//! million runs, two share a 128-bit key with a probability of about 10⁻²⁷.

use std::fmt;
use std::str::FromStr;

const PRIME_128: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
const BASIS_128: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME_64: u64 = 0x0000_0100_0000_01b3;
const BASIS_64: u64 = 0xcbf2_9ce4_8422_2325;

/// What identifies a run: printed as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u128);

impl Key {
    /// The digest of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(PRIME_128);
        Self(text.bytes().fold(BASIS_128, step))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Key {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

/// A checksum of 64 bits that tells a torn or damaged line from a whole one.
#[must_use]
pub fn checksum(text: &str) -> u64 {
    text.bytes().fold(BASIS_64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME_64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_reference() {
        // The vectors of draft-eastlake-fnv, appendix C: the empty text, "a" and "foobar".
        assert_eq!(checksum(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(checksum("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(checksum("foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(Key::of("a").to_string(), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(Key::of("foobar").to_string(), "343e1662793c64bf6f0d3597ba446f18");
    }

    #[test]
    fn a_key_reads_back() {
        let key = Key::of("some cell");
        assert_eq!(key.to_string().parse(), Ok(key));
    }
}
