//! Sizes: as the tool reads them, and as its dialects print them.

/// Letters of the units, by powers of 1,024.
const UNITS: [char; 5] = ['K', 'M', 'G', 'T', 'P'];
/// From unit to unit.
const STEP: u64 = 1024;
/// Digits of a printed size.
const DIGITS: usize = 5;

/// `2G`: digits and a letter of either case. What follows is ignored by the tool (`2GB`); here it
/// may be a `B` alone.
pub(super) fn parse(word: &str) -> Option<u64> {
    let end = word.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = word.split_at(end);
    let number: u64 = digits.parse().ok()?;
    let mut letters = unit.chars();
    let power = match letters.next() {
        None => 0,
        Some(letter) => 1 + UNITS.iter().position(|u| *u == letter.to_ascii_uppercase())?,
    };
    let is_whole = matches!(letters.as_str(), "" | "B" | "b");
    is_whole.then(|| number.checked_mul(STEP.pow(power as u32)))?
}

/// In the largest unit of which there is one, with five digits: `2.861` and `M`.
fn in_units(bytes: f64) -> (String, Option<char>) {
    let (mut value, mut unit) = (bytes, None);
    let last = STEP as f64;
    for letter in &UNITS[..4] {
        if value < last {
            break;
        }
        (value, unit) = (value / last, Some(*letter));
    }
    (rounded(value), unit)
}

/// `16KiB`.
pub(super) fn binary(bytes: u64) -> String {
    let (value, unit) = in_units(bytes as f64);
    unit.map_or_else(|| format!("{value}B"), |unit| format!("{value}{unit}iB"))
}

/// `16Kb`.
pub(super) fn short(bytes: f64) -> String {
    let (value, unit) = in_units(bytes);
    unit.map_or_else(|| format!("{value}b"), |unit| format!("{value}{unit}b"))
}

/// With five digits, without zeros at the end.
fn rounded(value: f64) -> String {
    let before = if value >= 1.0 { value.log10().floor() as usize + 1 } else { 1 };
    let text = format!("{value:.*}", DIGITS.saturating_sub(before));
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_tool_reads_them() {
        let (k, g) = (1 << 10, 1 << 30);
        let read = |words: &[&str]| words.iter().map(|word| parse(word)).collect::<Vec<_>>();
        assert_eq!(
            read(&["2G", "2g", "4k", "8KB", "512"]),
            [2 * g, 2 * g, 4 * k, 8 * k, 512].map(Some)
        );
        for wrong in ["", "G", "8X", "1.5G", "-8M", "8MBq", "8 M", "99999999999P"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_are_printed_with_five_digits() {
        let sizes = [0, 99, 5000, 16 << 10, 750_000, 3_000_000, 7_777_776, 3 << 30, 2 << 40];
        let texts = sizes.map(binary).join(" ");
        assert_eq!(texts, "0B 99B 4.8828KiB 16KiB 732.42KiB 2.861MiB 7.4175MiB 3GiB 2TiB");
        assert_eq!([0.0, 98_435_072.0, 8_589_934_592.0].map(short), ["0b", "93.875Mb", "8Gb"]);
    }
}
