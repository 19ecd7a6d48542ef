//! A day of UTC, and the names of its two files.

use std::fmt;
use std::ops::Range;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// A day of UTC, from 1970 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Day(Date);

impl Day {
    /// The day of a moment; `None` after the year 9999.
    pub(super) fn of(unix_ms: u64) -> Option<Self> {
        let moment = Timestamp::from_millisecond(i64::try_from(unix_ms).ok()?).ok()?;
        Some(Self(moment.to_zoned(TimeZone::UTC).date()))
    }

    /// The day of a moment, or the last one that a file can have.
    pub(super) fn of_any(unix_ms: u64) -> Self {
        Self::of(unix_ms).unwrap_or(Self(Date::MAX))
    }

    /// The day of a file, by its name.
    pub(super) fn of_file(name: &str) -> Option<Self> {
        let day = Self(name.split_once('.')?.0.parse().ok()?);
        // A date has other spellings too (`20261127`).
        (day.index() == name || day.frames() == name).then_some(day)
    }

    /// Its moments, in milliseconds since 1970.
    pub(super) fn moments(self) -> Range<u64> {
        let midnight = |date: Date| {
            let moment = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
            u64::try_from(moment.as_millisecond()).ok()
        };
        let end = self.0.tomorrow().ok().and_then(midnight);
        midnight(self.0).unwrap_or(0)..end.unwrap_or(u64::MAX)
    }

    /// The file of its frames.
    pub(super) fn frames(self) -> String {
        format!("{self}.frames")
    }

    /// The file of its entries.
    pub(super) fn index(self) -> String {
        format!("{self}.index")
    }

    /// Days from an earlier day to this one; negative if that is later.
    pub(super) fn days_since(self, earlier: Self) -> i32 {
        (self.0 - earlier.0).get_days()
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_midnight_of_utc() {
        // date -u -d 2026-11-27 +%s
        let midnight_ms = 1_795_737_600_000;
        assert_eq!(Day::of(midnight_ms).unwrap().index(), "2026-11-27.index");
        let before = Day::of(midnight_ms - 1).unwrap();
        assert_eq!(before.frames(), "2026-11-26.frames");
        assert_eq!(Day::of(midnight_ms).unwrap().days_since(before), 1);
        assert_eq!(Day::of(0).unwrap().to_string(), "1970-01-01");
        assert_eq!(Day::of(u64::MAX), None);
        let day = Day::of(midnight_ms).unwrap();
        assert_eq!(day.moments(), midnight_ms..midnight_ms + 86_400_000);
        assert_eq!(Day::of_any(u64::MAX).moments().end, u64::MAX);
    }

    #[test]
    fn only_names_that_are_written_are_read() {
        for name in ["2026-11-27.index", "2026-11-27.frames"] {
            assert_eq!(Day::of_file(name), Day::of(1_795_737_600_000), "{name}");
        }
        for name in ["20261127.index", "2026-11-27", "2026-11-31.index", "x.index", ".index"] {
            assert_eq!(Day::of_file(name), None, "{name}");
        }
    }
}
