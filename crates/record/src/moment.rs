//! What people write as a moment, or as a time before now.
//!
//! ```text
//! 03:10   2026-11-26 03:10   2026-11-26T03:10:00Z   yesterday 03:10   10 minutes ago   10m   now
//!    └─ parse, with now and its time zone ─▶ milliseconds since 1970
//! 7d ─ span ─▶ milliseconds since 1970, so long before now
//! ```
//!
//! A time without a zone is one of the given time zone. In an hour that a clock skips or repeats,
//! it is what the clock before the change would show.

use jiff::civil::{DateTime, Time};
use jiff::fmt::friendly::SpanParser;
use jiff::{Timestamp, Zoned};

/// Why a text is not a moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MomentError {
    /// None of the forms.
    #[error(
        "'{0}' is not a moment; write 03:10, '2026-11-26 03:10', 2026-11-26T03:10:00Z, \
        'yesterday 03:10', '10 minutes ago', 10m or now"
    )]
    Form(String),
    /// No time span.
    #[error("'{0}' is not a time span; write 90s, 10m, 2h, 7d or 1w")]
    Span(String),
    /// Before 1970, or after 9999.
    #[error("'{0}' is before 1970 or after 9999; write a later or an earlier one")]
    Range(String),
}

/// A moment in milliseconds since 1970. `now` brings the time zone.
///
/// # Errors
/// [`MomentError`], with the forms that there are.
pub fn parse(text: &str, now: &Zoned) -> Result<u64, MomentError> {
    let words = text.trim();
    let form = || MomentError::Form(text.to_owned());
    let range = || MomentError::Range(text.to_owned());
    if words == "now" {
        return unix_ms(now.timestamp()).ok_or_else(range);
    }
    if let Ok(moment) = words.parse::<Timestamp>() {
        return unix_ms(moment).ok_or_else(range);
    }
    let local = |at: DateTime| at.to_zoned(now.time_zone().clone()).map_err(|_| range());
    let moment = if let Some(time) = clock(words) {
        let today = local(now.date().to_datetime(time))?;
        if today <= *now {
            today
        } else {
            local(now.date().yesterday().map_err(|_| range())?.to_datetime(time))?
        }
    } else if let Some((day, time)) = words.split_once(' ').filter(|(day, _)| is_day(day)) {
        let date = if day == "today" { Ok(now.date()) } else { now.date().yesterday() };
        local(date.map_err(|_| range())?.to_datetime(clock(time.trim()).ok_or_else(form)?))?
    } else if words.starts_with(|c: char| c.is_ascii_digit()) && words.contains('-') {
        local(words.parse::<DateTime>().map_err(|_| form())?)?
    } else {
        return ago(words, now).ok_or_else(form)?.ok_or_else(range);
    };
    unix_ms(moment.timestamp()).ok_or_else(range)
}

/// The moment that a time span (`7d`) before now was, in milliseconds since 1970.
///
/// # Errors
/// [`MomentError`], with the forms that there are.
pub fn span(text: &str, now: &Zoned) -> Result<u64, MomentError> {
    let moment = ago(text.trim(), now).ok_or_else(|| MomentError::Span(text.to_owned()))?;
    moment.ok_or_else(|| MomentError::Range(text.to_owned()))
}

/// `10m`, `-10m` and `10 minutes ago` are the same. The inner `None` is out of range.
fn ago(words: &str, now: &Zoned) -> Option<Option<u64>> {
    let span = SpanParser::new().parse_span(words).ok()?;
    let moment = now.checked_sub(span.abs()).ok();
    Some(moment.and_then(|moment| unix_ms(moment.timestamp())))
}

/// `03:10` or `03:10:05`.
fn clock(words: &str) -> Option<Time> {
    let is_clock = |c: char| c.is_ascii_digit() || matches!(c, ':' | '.');
    let is_one = words.contains(':') && words.chars().all(is_clock);
    words.parse().ok().filter(|_| is_one)
}

fn is_day(word: &str) -> bool {
    matches!(word, "today" | "yesterday")
}

fn unix_ms(moment: Timestamp) -> Option<u64> {
    moment.as_millisecond().try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A Friday morning in Berlin, an hour ahead of UTC.
    fn now() -> Zoned {
        "2026-11-27T08:30:00[Europe/Berlin]".parse().unwrap()
    }

    fn at(text: &str) -> String {
        let ms = parse(text, &now()).unwrap();
        Timestamp::from_millisecond(ms.try_into().unwrap()).unwrap().to_string()
    }

    #[test]
    fn every_form_is_the_moment_that_it_says() {
        for (text, moment) in [
            ("now", "2026-11-27T07:30:00Z"),
            ("03:10", "2026-11-27T02:10:00Z"),
            ("03:10:05", "2026-11-27T02:10:05Z"),
            ("23:10", "2026-11-26T22:10:00Z"),
            ("08:30", "2026-11-27T07:30:00Z"),
            ("08:31", "2026-11-26T07:31:00Z"),
            ("2026-11-26 03:10", "2026-11-26T02:10:00Z"),
            ("2026-11-26 03:10:07", "2026-11-26T02:10:07Z"),
            ("2026-11-26T03:10", "2026-11-26T02:10:00Z"),
            ("2026-11-26", "2026-11-25T23:00:00Z"),
            ("2026-11-26T03:10:00Z", "2026-11-26T03:10:00Z"),
            ("2026-11-26 03:10Z", "2026-11-26T03:10:00Z"),
            ("2026-11-26T03:10:00+05:30", "2026-11-25T21:40:00Z"),
            ("yesterday 03:10", "2026-11-26T02:10:00Z"),
            ("today 23:10", "2026-11-27T22:10:00Z"),
            ("10 minutes ago", "2026-11-27T07:20:00Z"),
            ("2 hours ago", "2026-11-27T05:30:00Z"),
            ("1h 30m ago", "2026-11-27T06:00:00Z"),
            (" 10m ", "2026-11-27T07:20:00Z"),
            ("-10m", "2026-11-27T07:20:00Z"),
            ("90s", "2026-11-27T07:28:30Z"),
            ("1d", "2026-11-26T07:30:00Z"),
            ("1w", "2026-11-20T07:30:00Z"),
        ] {
            assert_eq!(at(text), moment, "{text}");
        }
    }

    #[test]
    fn a_clock_that_was_changed_shows_the_hour_before_the_change() {
        // 02:30 of 2026-03-29 does not exist, that of 2026-10-25 exists twice.
        assert_eq!(at("2026-03-29 02:30"), "2026-03-29T01:30:00Z");
        assert_eq!(at("2026-10-25 02:30"), "2026-10-25T00:30:00Z");
        // A day before 08:30 is 08:30, also if that day had 25 hours.
        let after: Zoned = "2026-10-25T08:30:00[Europe/Berlin]".parse().unwrap();
        let before: Zoned = "2026-10-24T08:30:00[Europe/Berlin]".parse().unwrap();
        assert_eq!(span("1d", &after), Ok(before.timestamp().as_millisecond().try_into().unwrap()));
    }

    #[test]
    fn a_wrong_text_is_answered_with_the_forms() {
        for text in ["", "3", "noon", "25:00", "2026-13-01", "yesterday", "yesterday noon", "10 x"]
        {
            let error = parse(text, &now()).unwrap_err();
            assert_eq!(error, MomentError::Form(text.into()));
            assert!(error.to_string().contains("'yesterday 03:10'"), "{error}");
        }
        assert_eq!(parse("1960-01-01", &now()), Err(MomentError::Range("1960-01-01".into())));
        assert_eq!(parse("900 years ago", &now()), Err(MomentError::Range("900 years ago".into())));
        assert_eq!(span("03:10", &now()), Err(MomentError::Span("03:10".into())));
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,24}") {
            let _ = (parse(&text, &now()), span(&text, &now()));
        }

        #[test]
        fn any_moment_reads_back(ms in 0..200_000_000_000_u64) {
            let moment = Timestamp::from_millisecond(ms as i64 * 1000).unwrap();
            prop_assert_eq!(parse(&moment.to_string(), &now()), Ok(ms * 1000));
        }
    }
}
