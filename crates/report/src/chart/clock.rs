//! Marks of an axis of time: round times of a clock.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::local_time::local;

/// Steps between marks, in seconds: those of clocks, then days and weeks.
const STEPS_S: [i64; 20] = [
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1_800,
    3_600,
    7_200,
    10_800,
    21_600,
    43_200,
    DAY_S,
    2 * DAY_S,
    7 * DAY_S,
];
const DAY_S: i64 = 86_400;

/// Marks between two moments (milliseconds since 1970), as seconds after the first one, each with
/// its text; about so many. At midnight the text is the date.
pub(super) fn marks(from_ms: u64, to_ms: u64, zone: &TimeZone, most: usize) -> Vec<(f64, String)> {
    let (Some(from), Some(to)) = (local(from_ms, zone), local(to_ms, zone)) else {
        return Vec::new();
    };
    let length_s = to.timestamp().as_second() - from.timestamp().as_second();
    let fits = |step: &&i64| length_s / **step <= most.max(1) as i64;
    let longest = length_s / most.max(1) as i64 / DAY_S * DAY_S + DAY_S;
    let step_s = STEPS_S.iter().find(fits).copied().unwrap_or(longest);
    let Ok(midnight) = from.start_of_day() else { return Vec::new() };
    let begin = midnight.timestamp().as_second();
    let skipped = (from.timestamp().as_second() - begin) / step_s;
    let moments = (skipped..).map(|n| begin + n * step_s);
    let inside = moments.skip_while(|second| *second * 1000 < from_ms as i64);
    let inside = inside.take_while(|second| *second * 1000 <= to_ms as i64).take(2 * most + 2);
    let marked = inside.filter_map(|second| {
        let moment = Timestamp::from_second(second).ok()?.to_zoned(zone.clone());
        let after_ms = (second * 1000).saturating_sub_unsigned(from_ms);
        Some((after_ms as f64 / 1000.0, text(&moment, step_s)))
    });
    marked.collect()
}

fn text(moment: &Zoned, step_s: i64) -> String {
    let is_midnight = (moment.hour(), moment.minute(), moment.second()) == (0, 0, 0);
    let format = match step_s {
        _ if is_midnight => "%m-%d",
        DAY_S.. => "%m-%d",
        60.. => "%H:%M",
        _ => "%H:%M:%S",
    };
    moment.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(from: &str, to: &str, most: usize) -> Vec<String> {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let ms = |text: &str| {
            let moment: Timestamp = text.parse().unwrap();
            moment.as_millisecond() as u64
        };
        marks(ms(from), ms(to), &zone, most).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn marks_are_round_times_of_the_readers_clock() {
        assert_eq!(
            texts("2026-11-26T21:17:00Z", "2026-11-27T06:00:00Z", 6),
            ["11-27", "02:00", "04:00", "06:00"]
        );
        assert_eq!(
            texts("2026-11-27T02:10:02Z", "2026-11-27T02:11:00Z", 6),
            ["03:10:10", "03:10:20", "03:10:30", "03:10:40", "03:10:50", "03:11:00"]
        );
        assert_eq!(texts("2026-11-01T00:00:00Z", "2026-11-30T00:00:00Z", 6).len(), 4);
    }

    #[test]
    fn any_time_has_few_marks() {
        for length_s in [0, 1, 59, 3_600, 100_000, 40 * 86_400, 4_000 * 86_400] {
            let from_ms = 1_795_745_412_345;
            let marks = marks(from_ms, from_ms + length_s * 1000, &TimeZone::UTC, 8);
            assert!(marks.len() <= 9, "{length_s}: {marks:?}");
            assert!(marks.iter().all(|(at, _)| (0.0..=length_s as f64).contains(at)), "{marks:?}");
        }
        assert_eq!(marks(u64::MAX, u64::MAX, &TimeZone::UTC, 8), []);
    }
}
