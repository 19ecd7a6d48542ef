//! Numbers: `4k` and `4K`, `2h`, and several with colons.

/// Multipliers of sizes and counts: small letters are powers of 1,024, capitals of 1,000.
const SIZES: [(char, u64); 6] = [
    ('k', 1 << 10),
    ('m', 1 << 20),
    ('g', 1 << 30),
    ('K', 1_000),
    ('M', 1_000_000),
    ('G', 1_000_000_000),
];
/// Multipliers of seconds.
const TIMES: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)];

/// The longest pause: a day.
const MOST_PAUSE_MS: u64 = 86_400_000;

fn scaled(text: &str, units: &[(char, u64)]) -> Option<u64> {
    let (digits, unit) = match text.chars().last().filter(|last| !last.is_ascii_digit()) {
        Some(last) => {
            let unit = units.iter().find(|(letter, _)| *letter == last)?.1;
            (&text[..text.len() - last.len_utf8()], unit)
        }
        None => (text, 1),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse::<u64>().ok()?.checked_mul(unit))?
}

/// A size or a count.
pub(super) fn size(text: &str) -> Option<u64> {
    scaled(text, &SIZES)
}

/// Seconds.
pub(super) fn seconds(text: &str) -> Option<u32> {
    u32::try_from(scaled(text, &TIMES)?).ok()
}

/// `10` or `10:15`, the second one not below the first.
pub(super) fn range(text: &str) -> Option<(u64, Option<u64>)> {
    let Some((first, last)) = text.split_once(':') else { return Some((size(text)?, None)) };
    let (first, last) = (size(first)?, size(last)?);
    (first <= last).then_some((first, Some(last)))
}

/// `30:70`, percent of reads and of writes. The missing percent are split. If one is 0, the
/// other has all.
pub(super) fn shares(text: &str) -> Option<(u32, u32)> {
    let (reads, writes) = text.split_once(':')?;
    let share = |text: &str| u32::try_from(scaled(text, &[])?).ok();
    let (reads, writes) = (share(reads)?, share(writes)?);
    let missing = 100_u32.checked_sub(reads.checked_add(writes)?)?;
    match (reads, writes) {
        (0, 0) => None,
        (0, _) => Some((0, 100)),
        (_, 0) => Some((100, 0)),
        _ => Some((reads + missing / 2, 100 - reads - missing / 2)),
    }
}

/// The shortest and the longest pause in milliseconds, and a timeout in seconds: `30`, `0:2h`,
/// `300:1000:1m`.
pub(super) fn pauses(text: &str) -> Option<((u64, u64), Option<u32>)> {
    let parts: Vec<&str> = text.split(':').collect();
    let (least, most, timeout) = match parts.as_slice() {
        [pause] => (pause, pause, None),
        [pause, timeout] => (pause, pause, Some(timeout)),
        [least, most, timeout] => (least, most, Some(timeout)),
        _ => return None,
    };
    let pause = |text: &str| size(text).filter(|ms| *ms <= MOST_PAUSE_MS);
    let (least, most) = (pause(least)?, pause(most)?);
    let timeout = match timeout {
        Some(timeout) => Some(seconds(timeout)?),
        None => None,
    };
    (least <= most).then_some(((least, most), timeout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_letters_are_binary_and_capitals_decimal() {
        let read = |words: &[&str]| words.iter().map(|word| size(word)).collect::<Vec<_>>();
        let wanted = [4096, 4000, 1 << 20, 1_000_000, 1 << 30, 1_000_000_000, 7].map(Some);
        assert_eq!(read(&["4k", "4K", "1m", "1M", "1g", "1G", "7"]), wanted);
        for wrong in ["", "k", "4kb", "-1", "+1", "1.5k", "99999999999g", "4 k", "4µ", "2h"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
        let times = ["90", "90s", "2m", "3h", "1d"].map(seconds);
        assert_eq!(times, [90, 90, 120, 10_800, 86_400].map(Some));
        assert_eq!(seconds("2k"), None);
    }

    #[test]
    fn pauses_have_an_end() {
        assert_eq!(pauses("300:1000:1m"), Some(((300, 1000), Some(60))));
        assert_eq!(pauses("0:0"), Some(((0, 0), Some(0))));
        for wrong in ["", "86400001", "9:1:1", "1:2:3:4", "1:x", "-1"] {
            assert_eq!(pauses(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ranges_go_upwards() {
        assert_eq!(range("10"), Some((10, None)));
        assert_eq!(range("10:1k"), Some((10, Some(1024))));
        for wrong in ["15:10", ":", "1:", ":1", "1:2:3"] {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }
}
