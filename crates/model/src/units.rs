//! Sizes, rates, durations and device numbers, parsed from and printed with their units.
//!
//! Powers of 1000 are written `kB MB GB TB`, powers of 1024 `KiB MiB GiB TiB` (IEC 80000-13). A
//! single letter (`K M G T`) is a power of 1024, as in fio, sysbench and coreutils. A bare number
//! is refused: half of the published `vm.dirty_bytes` recipes are off by a factor of 1,000 or 1,024
//! because of a guessed unit. Everything that is printed here is read here too.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A number of bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// 2^10 bytes.
pub const KIB: u64 = 1 << 10;
/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;
/// 2^30 bytes.
pub const GIB: u64 = 1 << 30;

/// Longest unit first, so that `KiB` is not read as `K` + `iB`.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("kib", KIB),
    ("mib", MIB),
    ("gib", GIB),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", KIB),
    ("m", MIB),
    ("g", GIB),
    ("t", 1 << 40),
    ("b", 1),
];

const DURATION_UNITS: &[(&str, f64)] = &[
    ("ms", 1e-3),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ns", 1e-9),
    ("s", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("h", 3600.0),
];

/// Why a text is not a size, rate or duration. The message says how to write it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// A number without its unit.
    #[error("'{text}' needs a unit: {text}B is {as_bytes}, {text}MiB is {as_mib}")]
    Bare {
        /// The given text.
        text: String,
        /// The first reading it might have meant.
        as_bytes: Bytes,
        /// The second reading it might have meant.
        as_mib: Bytes,
    },
    /// Not a size at all.
    #[error("'{0}' is not a size: write a number and a unit, such as 15MB, 64MiB or 16KiB")]
    NotASize(String),
    /// Not a rate at all.
    #[error("'{0}' is not a rate: write bytes or bits per second, such as 66MB/s or 1Gbit/s")]
    NotARate(String),
    /// Not a duration at all.
    #[error("'{0}' is not a duration: write a number and a unit, such as 250ms, 30s or 5m")]
    NotADuration(String),
    /// A number below zero.
    #[error("'{text}' is negative; no {what} is below zero")]
    Negative {
        /// The given text.
        text: String,
        /// What it was to be.
        what: &'static str,
    },
    /// More than 2^64 - 1 bytes.
    #[error("'{0}' is more than 16 EiB")]
    TooLarge(String),
}

impl Bytes {
    /// `n` × 1024.
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n * KIB)
    }

    /// `n` × 1024².
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n * MIB)
    }

    /// `n` × 1024³.
    #[must_use]
    pub const fn gib(n: u64) -> Self {
        Self(n * GIB)
    }

    /// As it can be given to an option or written in a file: exact, one word, the shortest of its
    /// units (`560MiB`, `15MB`, `1567000001B`).
    #[must_use]
    pub fn as_argument(self) -> String {
        let units = [
            ("TiB", 1 << 40),
            ("GiB", GIB),
            ("MiB", MIB),
            ("KiB", KIB),
            ("TB", 1_000_000_000_000),
            ("GB", 1_000_000_000),
            ("MB", 1_000_000),
            ("kB", 1_000),
        ];
        let exact =
            units.into_iter().filter(|(_, unit)| self.0 > 0 && self.0.is_multiple_of(*unit));
        exact
            .map(|(name, unit)| format!("{}{name}", self.0 / unit))
            .min_by_key(String::len)
            .unwrap_or_else(|| format!("{}B", self.0))
    }

    /// In powers of 1000 with three digits, as a [`Rate`] is printed (`4.10 GB`): of data that a
    /// disk writes at a rate beside it.
    #[must_use]
    pub fn decimal(self) -> String {
        decimal(self.as_f64(), "B")
    }

    /// As a float, for arithmetic with rates.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

/// Refuses a number below zero by its sign.
fn refuse_negative(text: &str, what: &'static str) -> Result<(), UnitError> {
    match text.trim_start().strip_prefix('-') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
            Err(UnitError::Negative { text: text.into(), what })
        }
        _ => Ok(()),
    }
}

/// Splits `12.5MiB` into `12.5` and `MiB`.
fn split_number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        refuse_negative(text, "size")?;
        let text = text.trim();
        let (number, unit) = split_number(text).ok_or_else(|| UnitError::NotASize(text.into()))?;
        if unit.is_empty() {
            return Err(UnitError::Bare {
                text: text.into(),
                as_bytes: Bytes(number as u64),
                as_mib: Bytes((number * MIB as f64) as u64),
            });
        }
        let factor = SIZE_UNITS
            .iter()
            .find(|(name, _)| unit.eq_ignore_ascii_case(name))
            .ok_or_else(|| UnitError::NotASize(text.into()))?
            .1;
        // Whole numbers are multiplied exactly: a float has only 53 bits.
        let whole = &text[..text.len() - unit.len()].trim_end();
        if let Ok(n) = whole.parse::<u64>() {
            return n
                .checked_mul(factor)
                .map(Bytes)
                .ok_or_else(|| UnitError::TooLarge(text.into()));
        }
        let bytes = number * factor as f64;
        if bytes >= u64::MAX as f64 {
            return Err(UnitError::TooLarge(text.into()));
        }
        Ok(Bytes(bytes.round() as u64))
    }
}

/// Three significant digits: `1.46`, `14.6`, `146`.
fn three_digits(value: f64) -> String {
    if value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Powers of 1000, as drives and networks are sold.
fn decimal(value: f64, unit: &str) -> String {
    let powers = [("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)];
    match powers.iter().find(|(_, power)| value >= *power * 0.9995) {
        Some((name, power)) => format!("{} {name}{unit}", three_digits(value / power)),
        None => format!("{value:.0} {unit}"),
    }
}

impl fmt::Display for Bytes {
    /// Exact where a unit divides the number (`64MiB`, `15MB`), else three digits of the binary
    /// unit (`1.46 GiB`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        let iec = [("TiB", 1u64 << 40), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)];
        let si =
            [("TB", 1_000_000_000_000u64), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
        let exact = |units: &[(&'static str, u64)]| {
            units
                .iter()
                .find(|(_, u)| n >= *u && n.is_multiple_of(*u) && n / u < 10_000)
                .map(|(name, u)| (n / u, *name))
        };
        let text = if n < 1_000 {
            format!("{n} B")
        } else if let Some((count, name)) = exact(&iec).or_else(|| exact(&si)) {
            format!("{count} {name}")
        } else {
            match iec.iter().find(|(_, u)| n >= *u) {
                Some((name, u)) => format!("{} {name}", three_digits(n as f64 / *u as f64)),
                None => format!("{n} B"),
            }
        };
        f.pad(&text)
    }
}

/// Bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub f64);

impl Rate {
    /// How long this many bytes take; `None` at a rate of zero.
    #[must_use]
    pub fn time_for(self, bytes: Bytes) -> Option<Duration> {
        (self.0 > 0.0).then(|| Duration::from_secs_f64(bytes.as_f64() / self.0))
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    /// `66MB/s`, `128MiB/s`, `1Gbit/s`. A gigabit is 10^9 bits, as on Ethernet; `1Gibit/s` is 1024³
    /// bits a second.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::NotARate(text.into());
        refuse_negative(text, "rate")?;
        let per_second = text.trim().strip_suffix("/s").ok_or_else(wrong)?.trim();
        let lower = per_second.to_ascii_lowercase();
        if let Some(bits) = lower.strip_suffix("bit") {
            let (number, unit) = split_number(bits).ok_or_else(wrong)?;
            let factor = match unit {
                "" => 1.0,
                "k" => 1e3,
                "m" => 1e6,
                "g" => 1e9,
                "t" => 1e12,
                "ki" => 1024.0,
                "mi" => 1024.0 * 1024.0,
                "gi" => 1024.0 * 1024.0 * 1024.0,
                "ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
                _ => return Err(wrong()),
            };
            return Ok(Rate(number * factor / 8.0));
        }
        per_second.parse::<Bytes>().map(|b| Rate(b.as_f64())).map_err(|e| match e {
            UnitError::NotASize(_) => wrong(),
            other => other,
        })
    }
}

impl fmt::Display for Rate {
    /// Powers of 1000 with three digits: `251 MB/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&decimal(self.0, "B/s"))
    }
}

/// Parses `250ms`, `30s`, `1.5s`, `10m`, `2h`, and several of them from long to short, as
/// [`human_duration`] prints them: `4 min 10 s`, `1h30m`.
///
/// # Errors
/// [`UnitError::Negative`], and [`UnitError::NotADuration`] for anything else, a bare number
/// included.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    refuse_negative(text, "time")?;
    let wrong = || UnitError::NotADuration(text.into());
    let (mut sum, mut last) = (Duration::ZERO, f64::INFINITY);
    let mut rest = text.trim();
    loop {
        let (number, unit_and_more) = split_number(rest).ok_or_else(wrong)?;
        let is_end = |c: char| c.is_whitespace() || c.is_ascii_digit();
        let end = unit_and_more.find(is_end).unwrap_or(unit_and_more.len());
        let (unit, more) = unit_and_more.split_at(end);
        let factor = DURATION_UNITS.iter().find(|(name, _)| unit == *name).ok_or_else(wrong)?.1;
        if factor >= last {
            return Err(wrong());
        }
        let part = Duration::try_from_secs_f64(number * factor).map_err(|_| wrong())?;
        sum = sum.checked_add(part).ok_or_else(wrong)?;
        (last, rest) = (factor, more.trim_start());
        if rest.is_empty() {
            return Ok(sum);
        }
    }
}

/// A duration as people read it: `340 µs`, `21.4 ms`, `3.20 s`, `4 min 10 s`.
#[must_use]
pub fn human_duration(d: Duration) -> String {
    let s = d.as_secs_f64();
    if s >= 3599.5 {
        let minutes = (s / 60.0).round() as u64;
        format!("{} h {} min", minutes / 60, minutes % 60)
    } else if s >= 99.5 {
        let whole = s.round() as u64;
        format!("{} min {} s", whole / 60, whole % 60)
    } else if s >= 0.9995 {
        format!("{} s", three_digits(s))
    } else if s >= 0.000_999_5 {
        format!("{} ms", three_digits(s * 1e3))
    } else if s > 0.0 {
        format!("{} µs", three_digits(s * 1e6))
    } else {
        "0 s".into()
    }
}

/// A block device's number, printed as the kernel prints it: `8:1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// Major number: the driver.
    pub major: u32,
    /// Minor number: the device or partition.
    pub minor: u32,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}:{}", self.major, self.minor))
    }
}

impl FromStr for DeviceId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a device number such as 8:0");
        let (major, minor) = text.trim().split_once(':').ok_or_else(wrong)?;
        Ok(Self {
            major: major.parse().map_err(|_| wrong())?,
            minor: minor.parse().map_err(|_| wrong())?,
        })
    }
}

impl Serialize for DeviceId {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_with_units_are_exact() {
        for (text, bytes) in [
            ("15MB", 15_000_000),
            ("64MiB", 67_108_864),
            ("16k", 16_384),
            ("4K", 4_096),
            ("1.5GiB", 1_610_612_736),
            ("512 KiB", 524_288),
            ("18446744073709551615B", u64::MAX),
        ] {
            assert_eq!(text.parse::<Bytes>(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_refused_with_both_readings() {
        let message = "15".parse::<Bytes>().unwrap_err().to_string();
        assert_eq!(message, "'15' needs a unit: 15B is 15 B, 15MiB is 15 MiB");
    }

    #[test]
    fn nonsense_is_not_a_size() {
        for text in ["", "MiB", "-1MiB", "1.2.3k", "15 parsecs", "20000000TiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_print_exactly_where_a_unit_divides_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (67_108_864, "64 MiB"),
            (15_000_000, "15 MB"),
            (1_567_000_001, "1.46 GiB"),
            (1_023, "1023 B"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn sizes_beside_rates_have_their_units() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (64 * MIB, "67.1 MB"),
            (999_600_000, "1.00 GB"),
            (4_100_000_000, "4.10 GB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(Bytes(bytes).decimal(), text);
        }
    }

    #[test]
    fn an_argument_is_one_word() {
        for (bytes, text) in [
            (0, "0B"),
            (1_023, "1023B"),
            (560 * MIB, "560MiB"),
            (15_000_000, "15MB"),
            (1_567_000_001, "1567000001B"),
            (20_000 * MIB, "20000MiB"),
        ] {
            assert_eq!(Bytes(bytes).as_argument(), text);
        }
    }

    #[test]
    fn rates_in_bits_and_bytes() {
        assert_eq!("1Gbit/s".parse::<Rate>(), Ok(Rate(125e6)));
        assert_eq!("1Gibit/s".parse::<Rate>(), Ok(Rate(134_217_728.0)));
        assert_eq!("8kibit/s".parse::<Rate>(), Ok(Rate(1024.0)));
        assert_eq!("66MB/s".parse::<Rate>(), Ok(Rate(66e6)));
        assert!("66MB".parse::<Rate>().is_err());
        assert_eq!(Rate(251e6).to_string(), "251 MB/s");
        assert_eq!(Rate(999.0).to_string(), "999 B/s");
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert!(parse_duration("30").is_err());
        assert_eq!(human_duration(Duration::from_micros(340)), "340 µs");
        assert_eq!(human_duration(Duration::from_millis(3200)), "3.20 s");
        assert_eq!(human_duration(Duration::from_secs(250)), "4 min 10 s");
        assert_eq!(human_duration(Duration::from_secs(7199)), "2 h 0 min");
    }

    #[test]
    fn durations_of_several_units_go_from_long_to_short() {
        for (text, ms) in [
            ("4 min 52 s", 292_000),
            ("5min", 300_000),
            ("28.7 ms", 29),
            ("1h30m", 5_400_000),
            ("1 h 5 min 2.5 s", 3_902_500),
        ] {
            let read = parse_duration(text).unwrap();
            assert_eq!((read.as_secs_f64() * 1e3).round() as u64, ms, "{text}");
        }
        for text in ["52 s 4 min", "1h 1h", "1m 1min", "4 min 52", "4 min s", "min", "1 s,"] {
            let said = parse_duration(text);
            assert_eq!(said, Err(UnitError::NotADuration(text.into())), "{text}");
        }
    }

    #[test]
    fn a_number_below_zero_is_called_negative() {
        let size = "-1MiB".parse::<Bytes>().unwrap_err().to_string();
        assert_eq!(size, "'-1MiB' is negative; no size is below zero");
        let rate = " -1Gbit/s".parse::<Rate>().unwrap_err().to_string();
        assert_eq!(rate, "' -1Gbit/s' is negative; no rate is below zero");
        let time = parse_duration("-5s").unwrap_err().to_string();
        assert_eq!(time, "'-5s' is negative; no time is below zero");
        assert_eq!(parse_duration("-h"), Err(UnitError::NotADuration("-h".into())));
    }

    #[test]
    fn device_numbers_round_trip() {
        assert_eq!("259:3".parse::<DeviceId>().map(|d| d.to_string()), Ok("259:3".into()));
        assert!("sda".parse::<DeviceId>().is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "\\PC{0,12}") {
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Rate>();
            let _ = parse_duration(&text);
            let _ = text.parse::<DeviceId>();
        }

        #[test]
        fn an_argument_reads_back_exactly(n in any::<u64>(), unit in 0usize..6) {
            let unit = [1, KIB, MIB, 1_000, 1_000_000, 7][unit];
            let bytes = Bytes(n / 1_000_000_000_000 * unit % u64::MAX);
            let text = bytes.as_argument();
            prop_assert!(!text.contains(' '));
            prop_assert_eq!(text.parse::<Bytes>(), Ok(bytes), "{}", text);
        }

        #[test]
        fn whole_numbers_of_a_unit_survive_printing(n in 1u64..9_999, unit in 1usize..4) {
            let bytes = Bytes(n * [1, KIB, MIB, GIB][unit]);
            let shown = bytes.to_string();
            prop_assert_eq!(shown.parse::<Bytes>(), Ok(bytes), "{}", shown);
        }

        #[test]
        fn what_is_printed_is_read_back(digits in 0_u32..16, n in any::<u64>()) {
            // Of three digits half of the last one is at most this.
            let near = |printed: f64, read: f64| (printed - read).abs() <= 0.005_1 * printed;
            let n = n % 10_u64.pow(digits);
            let bytes = Bytes(n);
            let shown = bytes.to_string();
            let read = shown.parse::<Bytes>().unwrap();
            prop_assert!(near(bytes.as_f64(), read.as_f64()), "{}", shown);
            let rate = Rate(n as f64);
            let shown = rate.to_string();
            let Rate(read) = shown.parse::<Rate>().unwrap();
            prop_assert!(near(rate.0, read), "{}", shown);
            // A hundredth of a microsecond is the least that is printed.
            let time = Duration::from_nanos(n);
            let shown = human_duration(time);
            let read = parse_duration(&shown).unwrap();
            let far = time.as_secs_f64().max(1e-6);
            let off = (time.as_secs_f64() - read.as_secs_f64()).abs();
            prop_assert!(off <= 0.009 * far, "{}", shown);
        }
    }
}
