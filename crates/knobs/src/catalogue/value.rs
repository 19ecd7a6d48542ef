//! Values: from people's text to the text for the kernel's file, checked against the catalogue.
//!
//! ```text
//! person  "15MB"  "2ms"  "off"  "wbps=50MB"     → units required where a bare number is a guess
//! kernel  "15000000" "2000" "0" "wbps=50000000" → as read from a file or a stored setting
//! both    → one checked text in the file's own unit
//! ```

use floodwall_model::units::{UnitError, parse_duration};
use floodwall_model::{Bytes, Setting};

use crate::catalogue::priority::{Priorities, Priority};
use crate::catalogue::{Knob, Unit, knobs};

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A person: bare numbers of bytes are refused.
    Person,
    /// A kernel file, or a setting that was read from one.
    Kernel,
}

/// A value can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// A size without its unit, or not a size.
    #[error("{knob}: {source}")]
    Size {
        /// The knob.
        knob: &'static str,
        /// The defect.
        source: UnitError,
    },
    /// Not a number or a duration.
    #[error("{knob}: '{text}' is not a number{}", of_unit(unit))]
    NotANumber {
        /// The knob.
        knob: &'static str,
        /// The given text.
        text: String,
        /// The knob's unit.
        unit: &'static str,
    },
    /// A duration or size that the knob's unit can't express.
    #[error("{knob}: '{text}' is not a whole number of {unit}")]
    NotWhole {
        /// The knob.
        knob: &'static str,
        /// The given text.
        text: String,
        /// The knob's unit.
        unit: &'static str,
    },
    /// Below zero, where no value is.
    #[error("{knob}: {text} is negative; give {range}")]
    Negative {
        /// The knob.
        knob: &'static str,
        /// The given text.
        text: String,
        /// The range, in words.
        range: String,
    },
    /// Outside the catalogue's range.
    #[error("{knob}: {text} is out of range; give {range}")]
    OutOfRange {
        /// The knob.
        knob: &'static str,
        /// The given text.
        text: String,
        /// The range, in words.
        range: String,
    },
    /// Byte mode is not left by a zero.
    #[error(
        "{bytes}=0 is refused by the kernel; to leave byte mode set {ratio}, such as \
         {ratio}={default}"
    )]
    ZeroBytes {
        /// The knob.
        bytes: &'static str,
        /// Its partner.
        ratio: &'static str,
        /// The partner's value at boot.
        default: &'static str,
    },
    /// Neither on nor off.
    #[error("{knob}: '{text}' is neither 0 (off) nor 1 (on)")]
    NotAFlag {
        /// The knob.
        knob: &'static str,
        /// The given text.
        text: String,
    },
    /// Not an I/O priority.
    #[error(
        "{knob}: '{text}' is not an I/O priority; give none, be/0 to be/7 (0 goes first), rt/0 to \
         rt/7 or idle"
    )]
    NotAPriority {
        /// The knob.
        knob: &'static str,
        /// The given text.
        text: String,
    },
    /// Not the shape of an elevator's name.
    #[error("{knob}: '{text}' is not the name of an elevator, such as mq-deadline, bfq or none")]
    NotAName {
        /// The knob.
        knob: &'static str,
        /// The given text.
        text: String,
    },
    /// Not one of a choice's words.
    #[error("{knob}: '{text}' can't be set; give {words}")]
    NotAWord {
        /// The knob.
        knob: &'static str,
        /// The given text.
        text: String,
        /// The words that may be written.
        words: String,
    },
    /// A key that the file does not have, or a value that the key does not take.
    #[error("{knob}: '{text}' is not understood; give {keys}")]
    Keys {
        /// The knob.
        knob: &'static str,
        /// The given text.
        text: String,
        /// The keys, in words.
        keys: String,
    },
}

/// Checks a value and gives it as the file takes it.
///
/// # Errors
/// [`ValueError`]; the message names the knob and what to write instead.
pub fn check(knob: &'static Knob, text: &str, form: Form) -> Result<String, ValueError> {
    let text = text.trim();
    match knob.unit {
        Unit::Elevator => name(knob, text),
        Unit::IoPriority => priority(knob, text, form),
        Unit::Flag => flag(knob, text),
        Unit::Word(words) => word(knob, words, text),
        Unit::Keys(keys) => pairs(knob, keys, text, form),
        Unit::BytesOrMax if text == "max" => Ok(text.to_owned()),
        _ => number(knob, text, form).and_then(|n| in_range(knob, text, n)).map(|n| n.to_string()),
    }
}

fn name(knob: &'static Knob, text: &str) -> Result<String, ValueError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    // ELV_NAME_MAX is 16 with the final zero (block/elevator.h).
    if text.is_empty() || text.len() > 15 || !text.chars().all(fits) {
        return Err(ValueError::NotAName { knob: knob.name, text: text.to_owned() });
    }
    Ok(text.to_owned())
}

/// A person gives all threads one priority; what was read may name some that differ.
fn priority(knob: &'static Knob, text: &str, form: Form) -> Result<String, ValueError> {
    let understood = match form {
        Form::Person => text.parse::<Priority>().map(|priority| priority.to_string()),
        Form::Kernel => text.parse::<Priorities>().map(|priorities| priorities.to_string()),
    };
    understood.map_err(|_| ValueError::NotAPriority { knob: knob.name, text: text.to_owned() })
}

fn flag(knob: &'static Knob, text: &str) -> Result<String, ValueError> {
    match text {
        "0" | "off" => Ok("0".to_owned()),
        "1" | "on" => Ok("1".to_owned()),
        _ => Err(ValueError::NotAFlag { knob: knob.name, text: text.to_owned() }),
    }
}

/// A command line needs no quotes with `write-back`; the file has `write back`.
fn word(
    knob: &'static Knob,
    words: &'static [&'static str],
    text: &str,
) -> Result<String, ValueError> {
    let found = words.iter().find(|word| text.replace('-', " ") == word.replace('-', " "));
    found.map(|word| (*word).to_owned()).ok_or_else(|| ValueError::NotAWord {
        knob: knob.name,
        text: text.to_owned(),
        words: words.join(" or "),
    })
}

/// The value in the file's unit, of any size.
fn number(knob: &'static Knob, text: &str, form: Form) -> Result<i128, ValueError> {
    let bare = text.parse::<i128>().ok();
    let wrong = || ValueError::NotANumber {
        knob: knob.name,
        text: text.to_owned(),
        unit: knob.unit.name(),
    };
    match (knob.unit, bare) {
        (Unit::Bytes | Unit::BytesOrMax, Some(0)) => Ok(0),
        (Unit::Bytes | Unit::BytesOrMax, Some(n)) if form == Form::Kernel || n < 0 => Ok(n),
        (Unit::Bytes | Unit::BytesOrMax, _) => size(knob, text).map(i128::from),
        (_, Some(n)) => Ok(n),
        (Unit::Kibibytes, None) => {
            let bytes = size(knob, text)?;
            whole(knob, text, u128::from(bytes), 1024)
        }
        (Unit::Percent, None) => text.trim_end_matches('%').trim_end().parse().map_err(|_| wrong()),
        (Unit::Centiseconds, None) => duration(knob, text, 10_000_000),
        (Unit::Milliseconds, None) => duration(knob, text, 1_000_000),
        (Unit::Microseconds, None) => duration(knob, text, 1_000),
        (Unit::Nanoseconds, None) => duration(knob, text, 1),
        _ => Err(wrong()),
    }
}

fn size(knob: &'static Knob, text: &str) -> Result<u64, ValueError> {
    text.parse::<Bytes>()
        .map(|bytes| bytes.0)
        .map_err(|source| ValueError::Size { knob: knob.name, source })
}

fn duration(knob: &'static Knob, text: &str, unit_ns: u128) -> Result<i128, ValueError> {
    let duration =
        parse_duration(text).map_err(|source| ValueError::Size { knob: knob.name, source })?;
    whole(knob, text, duration.as_nanos(), unit_ns)
}

fn whole(knob: &'static Knob, text: &str, amount: u128, unit: u128) -> Result<i128, ValueError> {
    let wrong =
        || ValueError::NotWhole { knob: knob.name, text: text.to_owned(), unit: knob.unit.name() };
    if !amount.is_multiple_of(unit) {
        return Err(wrong());
    }
    i128::try_from(amount / unit).map_err(|_| wrong())
}

fn in_range(knob: &'static Knob, text: &str, n: i128) -> Result<i128, ValueError> {
    if n == 0 && knob.min > 0 {
        let partner = match knob.name {
            "vm.dirty_bytes" => Some(("vm.dirty_ratio", "20")),
            "vm.dirty_background_bytes" => Some(("vm.dirty_background_ratio", "10")),
            _ => None,
        };
        if let Some((ratio, default)) = partner {
            return Err(ValueError::ZeroBytes { bytes: knob.name, ratio, default });
        }
    }
    if n >= i128::from(knob.min) && n <= i128::from(knob.max) {
        return Ok(n);
    }
    let (knob_name, text, range) = (knob.name, text.to_owned(), range(knob));
    Err(if n < 0 && knob.min >= 0 {
        ValueError::Negative { knob: knob_name, text, range }
    } else {
        ValueError::OutOfRange { knob: knob_name, text, range }
    })
}

fn of_unit(unit: &str) -> String {
    if unit == Unit::Count.name() { String::new() } else { format!(" of {unit}") }
}

/// A setting as people write it, `knob=value` each: sizes in bytes with their unit, also those of a
/// named device or group (`sda.bdi.max_bytes`, `flood:memory.high`).
#[must_use]
pub fn as_written(setting: &Setting) -> Vec<String> {
    let is_bytes = |name: &str| {
        knobs().any(|k| {
            matches!(k.unit, Unit::Bytes | Unit::BytesOrMax)
                && name
                    .strip_suffix(k.name)
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with(['.', ':']))
        })
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    // `wbps=8000000 wiops=max`: of the keys these two are sizes.
    let pair = |pair: &str| match pair.split_once('=') {
        Some(("rbps" | "wbps", size)) if digits(size) => format!("{pair}B"),
        _ => pair.to_owned(),
    };
    let written = |name: &str, value: &str| match value {
        keys if keys.contains('=') => keys.split(' ').map(pair).collect::<Vec<_>>().join(" "),
        size if is_bytes(name) && digits(size) => format!("{size}B"),
        other => other.to_owned(),
    };
    setting.0.iter().map(|(name, value)| format!("{name}={}", written(name, value))).collect()
}

/// A knob's range in words.
#[must_use]
pub fn range(knob: &Knob) -> String {
    let shown = |n: i64| match knob.unit {
        Unit::Bytes | Unit::BytesOrMax => Bytes(n.unsigned_abs()).to_string(),
        _ => n.to_string(),
    };
    // A size has its own unit, and a count none.
    let unit = if matches!(knob.unit, Unit::Bytes | Unit::BytesOrMax | Unit::Count) {
        ""
    } else {
        knob.unit.name()
    };
    let text = if knob.max == i64::MAX {
        format!("at least {} {unit}", shown(knob.min))
    } else {
        format!("{} to {} {unit}", shown(knob.min), shown(knob.max))
    };
    text.trim_end().to_owned()
}

fn pairs(knob: &'static Knob, keys: &[&str], text: &str, form: Form) -> Result<String, ValueError> {
    let wrong = |text: &str| ValueError::Keys {
        knob: knob.name,
        text: text.to_owned(),
        keys: keys.iter().map(|key| format!("{key}=…")).collect::<Vec<_>>().join(" "),
    };
    // Without any limit.
    if knob.name == "io.max" && text == "max" {
        return Ok(keys.iter().map(|key| format!("{key}=max")).collect::<Vec<_>>().join(" "));
    }
    let mut checked = Vec::new();
    for pair in text.split([' ', ',']).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| wrong(pair))?;
        if !keys.contains(&key) {
            return Err(wrong(pair));
        }
        checked.push(format!("{key}={}", key_value(knob, key, value, form, || wrong(pair))?));
    }
    if checked.is_empty() { Err(wrong(text)) } else { Ok(checked.join(" ")) }
}

fn key_value(
    knob: &'static Knob,
    key: &str,
    value: &str,
    form: Form,
    wrong: impl Fn() -> ValueError,
) -> Result<String, ValueError> {
    let count = || value.parse::<u64>().map(|n| n.to_string()).map_err(|_| wrong());
    // The kernel refuses less than 2 a second (block/blk-throttle.c tg_set_limit).
    let is_rate = |n: &u64| *n >= 2;
    let too_slow = || ValueError::OutOfRange {
        knob: knob.name,
        text: format!("{key}={value}"),
        range: "at least 2 a second, or max for no limit".to_owned(),
    };
    match key {
        "rbps" | "wbps" if value == "max" => Ok("max".to_owned()),
        "rbps" | "wbps" if form == Form::Person => {
            let bytes = size(knob, value.strip_suffix("/s").unwrap_or(value))?;
            Some(bytes).filter(is_rate).map(|bytes| bytes.to_string()).ok_or_else(too_slow)
        }
        "riops" | "wiops" if value == "max" => Ok("max".to_owned()),
        "riops" | "wiops" if value.parse().is_ok_and(|n| !is_rate(&n)) => Err(too_slow()),
        "target" | "rlat" | "wlat" if value.parse::<u64>().is_err() => {
            duration(knob, value, 1_000).map(|us| us.to_string())
        }
        "enable" => flag(knob, value),
        "ctrl" if matches!(value, "auto" | "user") => Ok(value.to_owned()),
        "model" if value == "linear" => Ok(value.to_owned()),
        "ctrl" | "model" => Err(wrong()),
        "rpct" | "wpct" | "min" | "max" => match value.parse::<f64>() {
            Ok(percent) if (0.0..=10_000.0).contains(&percent) => Ok(value.to_owned()),
            _ => Err(wrong()),
        },
        _ => count(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalogue::find;

    #[test]
    fn what_is_written_for_people_is_read_back_as_it_was() {
        let stored = [
            ("io.max", "rbps=max wbps=217300000 riops=max wiops=9"),
            ("memory.high", "134217728"),
            ("memory.high", "max"),
            ("vm.dirty_bytes", "67108864"),
            ("nr_requests", "8"),
        ];
        for (knob, value) in stored {
            for name in [knob.to_owned(), format!("unit:backup.service:{knob}")] {
                let setting = [(name.clone(), value.to_owned())].into_iter().collect();
                let written = as_written(&setting).swap_remove(0);
                let text = written.strip_prefix(&format!("{name}=")).unwrap();
                assert_eq!(person(knob, text), Ok(value.to_owned()), "{written}");
            }
        }
    }

    fn person(knob: &str, text: &str) -> Result<String, String> {
        check(find(knob).unwrap(), text, Form::Person).map_err(|e| e.to_string())
    }

    fn refusal(knob: &str, text: &str) -> String {
        person(knob, text).unwrap_err()
    }

    #[test]
    fn units_become_the_files_own() {
        for (knob, text, expected) in [
            ("vm.dirty_bytes", "15MB", "15000000"),
            ("bdi.max_bytes", "64MiB", "67108864"),
            ("max_sectors_kb", "128KiB", "128"),
            ("max_sectors_kb", "128", "128"),
            ("vm.dirty_expire_centisecs", "30s", "3000"),
            ("vm.dirty_expire_centisecs", "3000", "3000"),
            ("wbt_lat_usec", "2ms", "2000"),
            ("wbt_lat_usec", "-1", "-1"),
            ("iosched.read_lat_nsec", "2ms", "2000000"),
            ("vm.dirty_ratio", "20%", "20"),
            ("bdi.strict_limit", "on", "1"),
            ("scheduler", "mq-deadline", "mq-deadline"),
            ("write_cache", "write-back", "write back"),
            ("write_cache", "write back", "write back"),
            ("io.max", "wbps=50MB riops=max", "wbps=50000000 riops=max"),
            ("io.max", "wbps=50MB/s", "wbps=50000000"),
            ("io.max", "max", "rbps=max wbps=max riops=max wiops=max"),
            ("io.latency", "target=25ms", "target=25000"),
            ("io.cost.qos", "enable=on,rpct=95.00,rlat=5000", "enable=1 rpct=95.00 rlat=5000"),
        ] {
            assert_eq!(person(knob, text), Ok(expected.to_owned()), "{knob}={text}");
        }
    }

    #[test]
    fn a_bare_number_of_bytes_is_refused_with_its_two_readings() {
        insta::assert_snapshot!(refusal("vm.dirty_bytes", "15"), @"vm.dirty_bytes: '15' needs a \
            unit: 15B is 15 B, 15MiB is 15 MiB");
        insta::assert_snapshot!(refusal("io.max", "wbps=5"), @"io.max: '5' needs a unit: 5B is 5 \
            B, 5MiB is 5 MiB");
        let stored = check(find("vm.dirty_bytes").unwrap(), "15000000", Form::Kernel);
        assert_eq!(stored, Ok("15000000".to_owned()));
    }

    #[test]
    fn a_rate_that_the_kernel_refuses_is_refused_with_the_least() {
        for rate in ["wbps=0B", "wbps=1B", "riops=0", "wiops=1"] {
            let expected = format!(
                "io.max: {rate} is out of range; give at least 2 a second, or max for no limit"
            );
            assert_eq!(refusal("io.max", rate), expected);
        }
        assert_eq!(person("io.max", "wbps=2B wiops=2"), Ok("wbps=2 wiops=2".to_owned()));
    }

    #[test]
    fn limits_under_a_flusher_chunk_are_refused() {
        insta::assert_snapshot!(refusal("vm.dirty_bytes", "4MB"), @"vm.dirty_bytes: 4MB is out of \
            range; give at least 4 MiB");
    }

    #[test]
    fn zero_bytes_say_how_to_leave_byte_mode() {
        insta::assert_snapshot!(refusal("vm.dirty_bytes", "0"), @"vm.dirty_bytes=0 is refused by \
            the kernel; to leave byte mode set vm.dirty_ratio, such as vm.dirty_ratio=20");
    }

    #[test]
    fn what_the_kernel_would_take_and_should_not_is_refused() {
        for (knob, text) in [
            ("vm.dirty_writeback_centisecs", "-1"),
            ("vm.dirty_ratio", "101"),
            ("nomerges", "7"),
            ("rq_affinity", "5"),
            ("iosched.writes_starved", "-5"),
            ("wbt_lat_usec", "-2"),
            ("bdi.min_ratio_fine", "1000000"),
            ("scheduler", "none\nbfq"),
            ("write_cache", "write through"),
            ("write_cache", ""),
            ("rotational", "2"),
            ("scheduler", "[bfq]"),
            ("bdi.strict_limit", "2"),
            ("wbt_lat_usec", "1500ns"),
            ("max_sectors_kb", "1000B"),
            ("io.max", "wbps"),
            ("io.max", "speed=1"),
            ("io.cost.qos", "max"),
            ("io.max", ""),
            ("io.cost.qos", "ctrl=never"),
            ("io.weight", "0"),
        ] {
            assert!(person(knob, text).is_err(), "{knob}={text}");
        }
    }

    #[test]
    fn times_are_whole() {
        insta::assert_snapshot!(refusal("vm.dirty_expire_centisecs", "15ms"), @"\
            vm.dirty_expire_centisecs: '15ms' is not a whole number of centiseconds");
        insta::assert_snapshot!(refusal("vm.dirty_ratio", "x"), @"vm.dirty_ratio: 'x' is not a \
            number of percent");
    }

    proptest! {
        /// A value for a kernel file is one short line, for any input.
        #[test]
        fn accepted_values_are_one_line(index in 0_usize..60, text in "\\PC{0,20}") {
            let knob = knobs().cycle().nth(index).unwrap();
            for form in [Form::Person, Form::Kernel] {
                if let Ok(value) = check(knob, &text, form) {
                    prop_assert!(!value.is_empty() && !value.contains('\n'));
                    // Checked values are accepted again, as the kernel's.
                    prop_assert_eq!(check(knob, &value, Form::Kernel), Ok(value.clone()));
                }
            }
        }
    }
}
