//! Size classes: disks of one model name but of different sizes have different speeds.

use std::fmt;
use std::str::FromStr;

use crate::refused::Refused;

/// The largest class: 512 × 2^10 TB.
const LARGEST: u32 = 19;

/// The power of two of gigabytes that is nearest on a logarithmic scale: 480, 500 and 512 GB are
/// one class, `512GB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(u32);

impl SizeClass {
    /// The class of a size; everything below 1.4 GB is in `1GB`.
    #[must_use]
    pub fn of(size_bytes: u64) -> Self {
        let octave = (size_bytes as f64 / 1e9).log2().round();
        Self(octave.clamp(0.0, f64::from(LARGEST)) as u32)
    }
}

impl fmt::Display for SizeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            octave @ ..10 => write!(f, "{}GB", 1u32 << octave),
            octave => write!(f, "{}TB", 1u32 << (octave - 10)),
        }
    }
}

impl FromStr for SizeClass {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        (0..=LARGEST).map(Self).find(|class| class.to_string() == text).ok_or_else(|| {
            Refused::field("size_class", text, "write a power of two and its unit, such as 512GB")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_are_sold_as_one_are_one_class() {
        for (bytes, class) in [
            (0, "1GB"),
            (31_914_983_424, "32GB"),
            (240_057_409_536, "256GB"),
            (480_103_981_056, "512GB"),
            (500_107_862_016, "512GB"),
            (512_110_190_592, "512GB"),
            (960_197_124_096, "1TB"),
            (1_000_204_886_016, "1TB"),
            (2_000_398_934_016, "2TB"),
            (3_840_755_982_336, "4TB"),
            (u64::MAX, "512TB"),
        ] {
            let found = SizeClass::of(bytes);
            assert_eq!(found.to_string(), class, "{bytes}");
            assert_eq!(class.parse::<SizeClass>().unwrap(), found);
        }
        for text in ["", "500GB", "512", "512gb", "0GB", "*", "512GB\n", "1024GB"] {
            assert!(text.parse::<SizeClass>().is_err(), "{text:?}");
        }
    }
}
