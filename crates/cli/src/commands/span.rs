//! The time that a command is asked about, in milliseconds since 1970: `--last SPAN`, or
//! `--from MOMENT --to MOMENT`.

use floodwall_record::moment::{parse, span};
use jiff::Zoned;

use crate::exit::UsageError;

/// The time that was asked for; `None` if none was.
///
/// # Errors
/// [`UsageError`] if a moment or the span is none, or if the moments are in the wrong order.
pub(super) fn asked(
    span: Option<&str>,
    from: Option<&str>,
    to: Option<&str>,
    now: &Zoned,
) -> Result<Option<(u64, u64)>, UsageError> {
    match (from, span) {
        (Some(from), _) => between(from, to, now).map(Some),
        (None, Some(span)) => last(span, now).map(Some),
        (None, None) => Ok(None),
    }
}

/// So long before now.
///
/// # Errors
/// [`UsageError`] if it is no time span.
pub(super) fn last(text: &str, now: &Zoned) -> Result<(u64, u64), UsageError> {
    let wrong = |why| UsageError(format!("--last: {why}"));
    Ok((span(text, now).map_err(wrong)?, parse("now", now).map_err(wrong)?))
}

/// From a moment to another one, or to now.
fn between(from: &str, to: Option<&str>, now: &Zoned) -> Result<(u64, u64), UsageError> {
    let moment = |option: &str, text: &str| {
        parse(text, now).map_err(|why| UsageError(format!("{option}: {why}")))
    };
    let begin = moment("--from", from)?;
    let end = moment("--to", to.unwrap_or("now"))?;
    if begin < end {
        return Ok((begin, end));
    }
    Err(UsageError(match to {
        Some(to) => format!("--to: '{to}' is not after '{from}'; name a later moment"),
        None => format!("--from: '{from}' is not before now; name an earlier moment"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_ends_after_its_beginning() {
        let now: Zoned = "2026-11-27T08:30:00[UTC]".parse().unwrap();
        let hours = |from, to| between(from, to, &now).map(|(from, to)| (to - from) / 3_600_000);
        assert_eq!(hours("yesterday 22:30", Some("06:30")).unwrap(), 8);
        assert_eq!(hours("07:30", None).unwrap(), 1);
        let (from, to) = last("24h", &now).unwrap();
        assert_eq!(to - from, 86_400_000);
        for (from, to, part) in [
            ("06:30", Some("05:30"), "--to: '05:30' is not after '06:30'"),
            ("2027-01-01", None, "--from: '2027-01-01' is not before now"),
            ("noon", None, "--from: 'noon' is not a moment"),
            ("05:30", Some("noon"), "--to: 'noon' is not a moment"),
        ] {
            let UsageError(said) = hours(from, to).unwrap_err();
            assert!(said.starts_with(part), "{said}");
        }
    }
}
