//! Moments as dates of the Gregorian calendar, in UTC. Moments are seconds since 1970.

/// Seconds a day.
const DAY_S: u64 = 86_400;

/// A moment as `2026-11-21 02:40:05 UTC`.
#[must_use]
pub fn moment(unix_s: u64) -> String {
    let (year, month, day) = civil(unix_s / DAY_S);
    let second = unix_s % DAY_S;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// The Gregorian date of a day since 1970-01-01. Eras of 400 years begin on 1 March, so that a leap
/// day is the last of its year.
fn civil(day: u64) -> (u64, u64, u64) {
    // Days from 0000-03-01 to 1970-01-01.
    let day = day + 719_468;
    let (era, day_of_era) = (day / 146_097, day % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months have 153 days in every five from March on.
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + carry, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates() {
        // date -u -d @N
        for (unix_s, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_700_000_000, "2023-11-14 22:13:20 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(moment(unix_s), expected);
        }
    }
}
