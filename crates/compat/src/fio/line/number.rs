//! Numbers of options: sizes, times, counts.
//!
//! ```text
//! 4k, 4kb, 4KB     4 × 1,024 bytes; with kb_base=1000 4,000
//! 4ki, 4kib        4 × 1,000 bytes; with kb_base=1000 4,096
//! 30, 500ms, 2h    seconds without a unit
//! ```
//!
//! Units are not case sensitive. An unknown one is an error; fio ignores it.

/// Letters of the units, by powers.
const UNITS: &str = "kmgtp";
/// Microseconds of a second.
pub(super) const SECOND_US: u64 = 1_000_000;
/// Units of time, in microseconds.
const TIMES: [(&str, u64); 9] = [
    ("d", 86_400 * SECOND_US),
    ("h", 3_600 * SECOND_US),
    ("m", 60 * SECOND_US),
    ("s", SECOND_US),
    ("sec", SECOND_US),
    ("ms", 1_000),
    ("msec", 1_000),
    ("us", 1),
    ("usec", 1),
];

/// The meaning of a number's units.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    /// Bytes, with `kb_base`.
    Bytes(u64),
    /// Times in microseconds; without a unit in so many of them.
    Time(u64),
}

impl Unit {
    /// The factor of what follows a number's digits.
    fn factor(self, unit: &str) -> Option<u64> {
        let unit = unit.to_ascii_lowercase();
        match self {
            Self::Time(plain) if unit.is_empty() => Some(plain),
            Self::Time(_) => TIMES.iter().find(|(name, _)| *name == unit).map(|(_, us)| *us),
            Self::Bytes(kb_base) => {
                let rest = unit.strip_suffix('b').unwrap_or(&unit);
                let (letter, is_inverse) = match rest.strip_suffix('i') {
                    Some(letter) => (letter, true),
                    None => (rest, false),
                };
                let base: u64 = if (kb_base == 1000) == is_inverse { 1024 } else { 1000 };
                match letter {
                    "" => (!is_inverse).then_some(1),
                    _ if letter.len() > 1 => None,
                    _ => UNITS.find(letter).map(|power| base.pow(power as u32 + 1)),
                }
            }
        }
    }
}

/// A number with a unit, decimal or after `0x` hexadecimal.
pub(super) fn parse(text: &str, unit: Unit) -> Option<u64> {
    let (is_hex, digits) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) => (true, hex),
        None => (false, text),
    };
    let is_part =
        |c: char| if is_hex { c.is_ascii_hexdigit() } else { c.is_ascii_digit() || c == '.' };
    let end = digits.find(|c| !is_part(c)).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    let value = match is_hex {
        true => u64::from_str_radix(digits, 16).ok()? as f64,
        false => digits.parse().ok()?,
    };
    let value = value * unit.factor(rest)? as f64;
    (value < u64::MAX as f64).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_manual() {
        const K: u64 = 1024;
        let size = |text| parse(text, Unit::Bytes(1024));
        for text in ["4096", "4096b", "4096B", "4k", "4kb", "4kB", "4K", "4KB", "0x1000"] {
            assert_eq!(size(text), Some(4096), "{text}");
        }
        for (text, wanted) in [
            ("4ki", 4000),
            ("4KiB", 4000),
            ("1mi", 1_000_000),
            ("1m", K * K),
            ("1.5k", 1536),
            ("1t", K.pow(4)),
            ("0", 0),
        ] {
            assert_eq!(size(text), Some(wanted), "{text}");
        }
        for wrong in ["", "k", "4q", "4kk", "4kib2", "-1", "1-2", "4 k", "2*4k", "i", "4i"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
        let si = |text| parse(text, Unit::Bytes(1000));
        assert_eq!((si("4k"), si("4ki"), si("1m")), (Some(4000), Some(4096), Some(1_000_000)));
    }

    #[test]
    fn times_are_seconds_unless_they_say() {
        let time = |text| parse(text, Unit::Time(SECOND_US));
        for (text, us) in [
            ("10", 10_000_000),
            ("10s", 10_000_000),
            ("1.5", 1_500_000),
            ("500ms", 500_000),
            ("3us", 3),
            ("2h", 7_200_000_000),
            ("1D", 86_400_000_000),
        ] {
            assert_eq!(time(text), Some(us), "{text}");
        }
        assert_eq!((time("10x"), time("10min"), time("")), (None, None, None));
        assert_eq!(parse("2", Unit::Time(1)), Some(2));
    }
}
