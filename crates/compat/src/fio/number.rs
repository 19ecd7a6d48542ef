//! Numbers with a unit in a few digits: `304k`, `27.7k`, `1.2MiB/s`.

/// The unit of a number, and the powers of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A number alone, by 1,000.
    None,
    /// Bytes by 1,000 or, `true`, by 1,024.
    Bytes(bool),
    /// Bytes a second.
    Rate(bool),
}

/// Digits of most numbers.
pub(super) const DIGITS: usize = 4;

/// A number of at most so many characters before its unit, rounded.
pub(super) fn scaled(mut number: u64, characters: usize, unit: Unit) -> String {
    let (is_binary, suffix) = match unit {
        Unit::None => (false, ""),
        Unit::Bytes(is_binary) => (is_binary, "B"),
        Unit::Rate(is_binary) => (is_binary, "B/s"),
    };
    let (base, prefixes) = if is_binary {
        (1_024, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
    } else {
        (1_000, ["", "k", "M", "G", "T", "P", "E"])
    };
    let length = |number: u64| number.to_string().len();
    let (mut rest, mut power) = (None, 0);
    while length(number) > characters && power + 1 < prefixes.len() {
        rest = Some(number % base);
        number /= base;
        power += 1;
    }
    let prefix = prefixes.get(power).copied().unwrap_or_default();
    let Some(rest) = rest else { return format!("{number}{prefix}{suffix}") };
    // The point takes one of the characters.
    let decimals = characters.saturating_sub(length(number) + 1);
    if decimals == 0 {
        let rounded = number + u64::from(rest >= base / 2);
        return format!("{rounded}{prefix}{suffix}");
    }
    let fraction = format!("{:.decimals$}", rest as f64 / base as f64);
    let (carry, digits) = fraction.split_once('.').unwrap_or(("0", ""));
    let whole = number + u64::from(carry == "1");
    format!("{whole}.{digits}{prefix}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Left: figures of fio 3.33's JSON. Right: the same runs' texts.
    #[test]
    fn numbers_are_those_of_recorded_runs() {
        for (number, characters, unit, text) in [
            (303_666, DIGITS, Unit::None, "304k"),
            (27_706, DIGITS, Unit::None, "27.7k"),
            (99, DIGITS, Unit::None, "99"),
            (698_433_333, DIGITS, Unit::Rate(true), "666MiB/s"),
            (698_433_333, DIGITS, Unit::Rate(false), "698MB/s"),
            (2_095_300, DIGITS, Unit::Bytes(true), "2046KiB"),
            (2_095_300, DIGITS, Unit::Bytes(false), "2095kB"),
            (408_783, DIGITS, Unit::Rate(false), "409kB/s"),
            (4_743_204, 6, Unit::None, "4743.2k"),
            (13_592, 6, Unit::None, "13592"),
            (4_096, DIGITS, Unit::Bytes(true), "4096B"),
            (16_384, DIGITS, Unit::Bytes(true), "16.0KiB"),
            (1_048_576, DIGITS, Unit::Bytes(true), "1024KiB"),
            (9_999_999, DIGITS, Unit::None, "10000k"),
        ] {
            assert_eq!(scaled(number, characters, unit), text);
        }
    }
}
