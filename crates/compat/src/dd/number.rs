//! Numbers of operands: `512`, `4k`, `1kB`, `2x512`, `10B`.
//!
//! ```text
//! [blanks] [+] [digits] [suffix] [B] [x number]
//! ```

/// A number that can't be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberError {
    /// No number.
    Invalid,
    /// More than a file offset can be.
    TooLarge,
}

/// A number of blocks or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    /// Its value.
    pub(super) value: u64,
    /// A `B` in it: the number counts bytes where it would count blocks.
    pub(super) has_b: bool,
    /// `0x` begins it: a multiplication by zero, where hexadecimal may be meant.
    pub(super) starts_with_0x: bool,
}

/// The largest number: that of a file offset.
const MAX: u64 = i64::MAX.cast_unsigned();
/// Suffixes of the powers of 1,024, or of 1,000 with a `B` behind. `K` may be small.
const POWERS: &str = "KMGTPEZY";
/// Suffixes that stand alone: characters, words, blocks.
const UNITS: [(char, u64); 3] = [('c', 1), ('w', 2), ('b', 512)];

impl Number {
    /// From an operand's value.
    ///
    /// # Errors
    /// [`NumberError`].
    pub(super) fn parse(text: &str) -> Result<Self, NumberError> {
        let value = product(text)?;
        let value = u64::try_from(value).ok().filter(|value| *value <= MAX);
        Ok(Self {
            value: value.ok_or(NumberError::TooLarge)?,
            has_b: text.contains('B'),
            starts_with_0x: text.starts_with("0x"),
        })
    }
}

/// The factors between the `x`. A `B` for bytes stands behind the first one alone.
fn product(text: &str) -> Result<u128, NumberError> {
    let mut product: u128 = 1;
    for (at, part) in text.split('x').enumerate() {
        product = product.saturating_mul(factor(part, at == 0)?);
    }
    Ok(product)
}

fn factor(text: &str, may_count_bytes: bool) -> Result<u128, NumberError> {
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let (unit, rest) = unit(suffix);
    let bytes = may_count_bytes && rest == "B" && !suffix.ends_with("BB");
    // A suffix alone is one of its unit; nothing but a `B` is none.
    let is_empty = digits.is_empty() && rest.len() == suffix.len();
    if is_empty || !(rest.is_empty() || bytes) {
        return Err(NumberError::Invalid);
    }
    // Only digits are left: a number that is not read is too large.
    let digits = if digits.is_empty() { 1 } else { digits.parse().unwrap_or(u128::MAX) };
    Ok(digits.saturating_mul(unit))
}

/// The unit that a suffix begins with, and the rest of it.
fn unit(suffix: &str) -> (u128, &str) {
    let mut rest = suffix.chars();
    let Some(first) = rest.next() else { return (1, suffix) };
    if let Some((_, unit)) = UNITS.iter().find(|(letter, _)| *letter == first) {
        return ((*unit).into(), rest.as_str());
    }
    let upper = if first == 'k' { 'K' } else { first };
    let Some(power) = POWERS.find(upper) else { return (1, suffix) };
    let rest = rest.as_str();
    let (base, rest) = match (rest.strip_prefix("iB"), rest.strip_prefix('B')) {
        (Some(rest), _) => (1024_u128, rest),
        (None, Some(rest)) => (1000, rest),
        (None, None) => (1024, rest),
    };
    let exponent = u32::try_from(power).map_or(0, |power| power + 1);
    (base.pow(exponent), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> u64 {
        Number::parse(text).unwrap().value
    }

    #[test]
    fn suffixes_are_the_originals() {
        for (text, wanted) in [
            ("7", 7),
            ("010", 10),
            ("+5", 5),
            (" 7", 7),
            ("1c", 1),
            ("3w", 6),
            ("2b", 1024),
            ("1k", 1024),
            ("1K", 1024),
            ("1kB", 1000),
            ("1KB", 1000),
            ("1kiB", 1024),
            ("1KiB", 1024),
            ("2M", 2 << 20),
            ("2MB", 2_000_000),
            ("1E", 1 << 60),
            ("K", 1024),
            ("kB", 1000),
            ("2x512", 1024),
            ("1kx3", 3072),
            ("2x2x3", 12),
            ("2x+1", 2),
            ("10Bx2", 20),
            ("1cB", 1),
            ("0x0", 0),
            ("9223372036854775807", MAX),
        ] {
            assert_eq!(value(text), wanted, "{text}");
        }
        for text in [
            "", "B", "x", "1x", "x1", "2xx3", "1m", "1g", "1t", "1e", "1Ki", "1Kb", "1KK", "1R",
            "5B5", "1KiBB", "2xB", "2x512B", "-1", "-0", "+-1", "1.5", "1,5", "0b10", "1k5", "1z",
        ] {
            assert_eq!(Number::parse(text), Err(NumberError::Invalid), "{text}");
        }
        let digits = "9".repeat(60);
        for text in ["9223372036854775808", "1Z", "1YB", "1000000P", &digits] {
            assert_eq!(Number::parse(text), Err(NumberError::TooLarge), "{text}");
        }
    }

    #[test]
    fn a_b_counts_bytes() {
        let has_b = |text| Number::parse(text).unwrap().has_b;
        assert!(has_b("5B") && has_b("1KiB") && has_b("1KB") && has_b("10Bx2"));
        assert!(!has_b("5") && !has_b("1K") && !has_b("2b"));
        assert!(Number::parse("0x10").unwrap().starts_with_0x);
        assert!(!Number::parse("00x10").unwrap().starts_with_0x);
    }
}
