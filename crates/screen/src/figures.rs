//! Numbers as the screen shows them, in the form of Floodwall's other commands.

use std::time::Duration;

use floodwall_model::counts::percent;
use floodwall_model::frame::Process;
use floodwall_model::units::human_duration;
use floodwall_model::{Bytes, Rate};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Microseconds as people read them: `3.20 s`.
pub(crate) fn micros(us: u64) -> String {
    human_duration(Duration::from_micros(us))
}

/// Milliseconds as people read them.
pub(crate) fn millis(ms: u64) -> String {
    human_duration(Duration::from_millis(ms))
}

/// Seconds as people read them.
pub(crate) fn seconds(s: u64) -> String {
    human_duration(Duration::from_secs(s))
}

/// Data that waits to be written, or a limit of it: in the units of rates, which drain it.
pub(crate) fn bytes(bytes: u64) -> String {
    Bytes(bytes).decimal()
}

/// A size in powers of 1024, as memory and requests have it.
pub(crate) fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// Bytes a second.
pub(crate) fn rate(bytes_per_s: u64) -> String {
    Rate(bytes_per_s as f64).to_string()
}

/// What happened in a window, a second. A window without a length counts as a second.
pub(crate) fn per_second(count: u64, window_ms: u64) -> u64 {
    if window_ms == 0 {
        return count;
    }
    u64::try_from(u128::from(count) * 1000 / u128::from(window_ms)).unwrap_or(u64::MAX)
}

/// A share in percent with its sign.
pub(crate) fn share(value: f32) -> String {
    let value = if value.is_finite() { f64::from(value.clamp(0.0, 1e6)) } else { 0.0 };
    format!("{} %", percent(value / 100.0))
}

/// Time that a process was throttled, of a window. Its threads together may have more; text ends
/// at 100 %.
pub(crate) fn throttled(process: &Process, window_ms: u64) -> String {
    let window = window_ms.max(1);
    share((process.throttled_ms.min(window) as f64 / window as f64 * 100.0) as f32)
}

/// A moment as date and time of a zone: `2026-11-21 03:00:05`.
pub(crate) fn moment(unix_ms: u64, zone: &TimeZone) -> String {
    let at = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    at.map_or_else(String::new, |at| {
        at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
    })
}

/// A figure that fits a column: of a long duration (`12 min 5 s`) the smaller unit goes first.
pub(crate) fn fitting(mut figure: String, width: usize) -> String {
    if figure.chars().count() > width
        && let Some((at, _)) = figure.match_indices(' ').nth(1)
    {
        figure.truncate(at);
    }
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_window() {
        assert_eq!(per_second(400, 500), 800);
        assert_eq!(per_second(7, 0), 7);
        assert_eq!(per_second(u64::MAX, 1), u64::MAX);
        assert_eq!(share(f32::NAN), "0 %");
        assert_eq!(share(97.34), "97.3 %");
        let process = Process { throttled_ms: 4_000, ..Process::default() };
        assert_eq!(throttled(&process, 1_000), "100 %");
    }

    #[test]
    fn moments_are_of_the_zone() {
        // TZ=Europe/Berlin date -d @1700000000
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(moment(1_700_000_000_999, &zone), "2023-11-14 23:13:20");
        assert_eq!(moment(u64::MAX, &zone), "");
    }

    #[test]
    fn a_long_duration_loses_its_smaller_unit_where_it_does_not_fit() {
        assert_eq!(fitting(micros(725_000_000), 8), "12 min");
        assert_eq!(fitting(micros(725_000_000), 10), "12 min 5 s");
        assert_eq!(fitting("1.42 GiB".into(), 7), "1.42 GiB", "nothing to leave out");
    }
}
