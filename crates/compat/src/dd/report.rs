//! The lines at the end, and the one of `status=progress`.
//!
//! ```text
//! 2+1 records in                                            full + partial blocks
//! 2+1 records out
//! 10000 bytes (10 kB, 9.8 KiB) copied, 5.8e-05 s, 173 MB/s
//! ```
//!
//! Amounts are rounded from the whole number, halves to even; rates as a division of doubles.

/// The counts of reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks of the input that were full.
    pub full_in: u64,
    /// Others.
    pub partial_in: u64,
    /// Blocks of the output that were full.
    pub full_out: u64,
    /// Others.
    pub partial_out: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// Letters of the powers, from the first one on.
const PREFIXES: [&str; 10] = ["k", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q"];
/// Significant digits of `%g`.
const SIGNIFICANT: i32 = 6;

/// The two lines of records.
#[must_use]
pub fn records(counts: &Counts) -> String {
    let Counts { full_in, partial_in, full_out, partial_out, .. } = counts;
    format!("{full_in}+{partial_in} records in\n{full_out}+{partial_out} records out\n")
}

/// The last line, without its end.
#[must_use]
pub fn transfer(bytes: u64, seconds: f64) -> String {
    line(bytes, seconds, &shortest(seconds))
}

/// The line of a copy that goes on: whole seconds.
#[must_use]
pub fn progress(bytes: u64, seconds: f64) -> String {
    line(bytes, seconds, &format!("{seconds:.0}"))
}

fn line(bytes: u64, seconds: f64, time: &str) -> String {
    let in_full = match (bytes, scaled(bytes, 1000), scaled(bytes, 1024)) {
        (1, ..) => "1 byte".to_owned(),
        (0..1000, ..) => format!("{bytes} bytes"),
        (1000..1024, si, _) => format!("{bytes} bytes ({si})"),
        (_, si, iec) => format!("{bytes} bytes ({si}, {iec})"),
    };
    format!("{in_full} copied, {time} s, {}/s", rate(bytes, seconds))
}

/// An amount of memory in bytes, with its size in units of 1,024.
#[must_use]
pub fn amount(bytes: u64) -> String {
    format!("{bytes} bytes ({})", scaled(bytes, 1024))
}

/// With a decimal below 10, as `9.8 KiB`, `10 kB` and `999 B`.
fn scaled(bytes: u64, base: u64) -> String {
    let (bytes, base) = (u128::from(bytes), u128::from(base));
    let (mut power, mut unit) = (0, 1);
    while bytes / unit >= base {
        unit *= base;
        power += 1;
    }
    let tenths = rounded(bytes * 10, unit);
    let mut number = format!("{}.{}", tenths / 10, tenths % 10);
    if power == 0 || tenths >= 100 {
        let mut whole = rounded(bytes, unit);
        number = whole.to_string();
        if whole == base {
            (whole, power) = (1, power + 1);
            number = format!("{whole}.0");
        }
    }
    format!("{number} {}", unit_name(power, base == 1024))
}

/// To the nearest, halves to even.
const fn rounded(amount: u128, unit: u128) -> u128 {
    let (whole, rest) = (amount / unit, amount % unit);
    let is_up = rest * 2 > unit || (rest * 2 == unit && whole % 2 == 1);
    if is_up { whole + 1 } else { whole }
}

fn unit_name(power: usize, is_binary: bool) -> String {
    let Some(prefix) = power.checked_sub(1).and_then(|at| PREFIXES.get(at)) else {
        return "B".to_owned();
    };
    if is_binary { format!("{}iB", prefix.to_uppercase()) } else { format!("{prefix}B") }
}

/// `0.5 kB`, `43.7 MB`, `271 MB`: never below kilobytes.
#[expect(clippy::cast_precision_loss, reason = "a figure of three digits")]
fn rate(bytes: u64, seconds: f64) -> String {
    if seconds <= 0.0 {
        return "Infinity B".to_owned();
    }
    let (mut value, mut power) = (bytes as f64 / seconds / 1000.0, 1);
    while value >= 1000.0 && power < PREFIXES.len() {
        value /= 1000.0;
        power += 1;
    }
    let fine = format!("{value:.1}");
    let number = if fine.len() > "99.9".len() { format!("{value:.0}") } else { fine };
    format!("{number} {}", unit_name(power, false))
}

/// As %g of printf(3).
fn shortest(value: f64) -> String {
    let digits = usize::try_from(SIGNIFICANT - 1).unwrap_or_default();
    let scientific = format!("{value:.digits$e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-4..SIGNIFICANT).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(SIGNIFICANT - 1 - exponent).unwrap_or_default();
    trimmed(&format!("{value:.decimals$}")).to_owned()
}

/// Without the zeros at the end of a fraction.
fn trimmed(number: &str) -> &str {
    if !number.contains('.') {
        return number;
    }
    number.trim_end_matches('0').trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_as_the_original_does() {
        // Lines that dd 9.1 printed.
        for (bytes, seconds, line) in [
            (0, 2.5172e-05, "0 bytes copied, 2.5172e-05 s, 0.0 kB/s"),
            (1, 0.001_351_72, "1 byte copied, 0.00135172 s, 0.7 kB/s"),
            (999, 3.0788e-05, "999 bytes copied, 3.0788e-05 s, 32.4 MB/s"),
            (1023, 3.0364e-05, "1023 bytes (1.0 kB) copied, 3.0364e-05 s, 33.7 MB/s"),
            (2500, 2.9465e-05, "2500 bytes (2.5 kB, 2.4 KiB) copied, 2.9465e-05 s, 84.8 MB/s"),
            (2650, 0.001_628_52, "2650 bytes (2.6 kB, 2.6 KiB) copied, 0.00162852 s, 1.6 MB/s"),
            (2750, 2.638e-05, "2750 bytes (2.8 kB, 2.7 KiB) copied, 2.638e-05 s, 104 MB/s"),
            (9_949_999, 0.009, "9949999 bytes (9.9 MB, 9.5 MiB) copied, 0.009 s, 1.1 GB/s"),
            (9_950_000, 0.008, "9950000 bytes (10 MB, 9.5 MiB) copied, 0.008 s, 1.2 GB/s"),
            (999_499, 0.002, "999499 bytes (999 kB, 976 KiB) copied, 0.002 s, 500 MB/s"),
            (999_500, 0.002, "999500 bytes (1.0 MB, 976 KiB) copied, 0.002 s, 500 MB/s"),
            (12_500, 2.0, "12500 bytes (12 kB, 12 KiB) copied, 2 s, 6.2 kB/s"),
        ] {
            assert_eq!(transfer(bytes, seconds), line);
        }
        let line = "8166309888 bytes (8.2 GB, 7.6 GiB) copied, 1 s, 8.2 GB/s";
        assert_eq!(progress(8_166_309_888, 1.000_2), line);
        assert!(transfer(512, 0.0).ends_with(" s, Infinity B/s"));
        assert!(transfer(u64::MAX, 597.1963).contains(" (18 EB, 16 EiB) copied, 597.196 s, 30."));
        assert_eq!(amount(1 << 40), "1099511627776 bytes (1.0 TiB)");
    }

    #[test]
    fn records_are_full_and_partial() {
        let counts = Counts { full_in: 2, partial_in: 1, full_out: 0, partial_out: 3, bytes: 9 };
        assert_eq!(records(&counts), "2+1 records in\n0+3 records out\n");
    }

    #[test]
    fn numbers_are_printed_as_percent_g() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1e-5, "1e-05"),
            (0.000_123_456_7, "0.000123457"),
            (123_456.7, "123457"),
            (999_999.5, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (2.497_55, "2.49755"),
        ] {
            assert_eq!(shortest(value), text);
        }
    }
}
