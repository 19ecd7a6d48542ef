//! Moments as clocks of a time zone show them. Moments are milliseconds since 1970.

use std::time::Duration;

use floodwall_model::units::human_duration;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// `2026-11-27 03:10:12`; a moment past the year 9999 as a number.
pub(crate) fn date_time(unix_ms: u64, zone: &TimeZone) -> String {
    shown(unix_ms, zone, "%Y-%m-%d %H:%M:%S")
}

/// `03:10:12`.
pub(crate) fn time(unix_ms: u64, zone: &TimeZone) -> String {
    shown(unix_ms, zone, "%H:%M:%S")
}

/// The moment there; `None` past the year 9999.
pub(crate) fn local(unix_ms: u64, zone: &TimeZone) -> Option<Zoned> {
    let moment = Timestamp::from_millisecond(i64::try_from(unix_ms).ok()?).ok()?;
    Some(moment.to_zoned(zone.clone()))
}

/// A length of milliseconds.
pub(crate) fn length(ms: u64) -> String {
    human_duration(Duration::from_millis(ms))
}

fn shown(unix_ms: u64, zone: &TimeZone, format: &str) -> String {
    match local(unix_ms, zone) {
        Some(moment) => moment.strftime(format).to_string(),
        None => format!("{unix_ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_has_its_own_clock() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        assert_eq!(date_time(1_795_745_412_900, &berlin), "2026-11-27 03:10:12");
        assert_eq!(time(1_795_745_412_900, &TimeZone::UTC), "02:10:12");
        assert_eq!(date_time(u64::MAX, &berlin), format!("{} ms", u64::MAX));
    }
}
