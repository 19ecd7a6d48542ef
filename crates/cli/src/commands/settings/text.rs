//! What these commands say in words.

use floodwall_knobs::session::Recovery;
use floodwall_knobs::{Fate, Plan, Undone};

use crate::output::notice;

/// Seconds a day.
const DAY_S: u64 = 86_400;

/// A moment as `2026-11-21 02:40:05 UTC`.
pub(crate) fn moment(unix_s: u64) -> String {
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
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months have 153 days in every five from March on.
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + carry, month, day_of_month)
}

/// The difference, with what to know about it.
pub(super) fn difference(plan: &Plan) -> String {
    let notes: String = plan.notes.iter().map(|note| format!("note: {note}\n")).collect();
    if plan.is_empty() { format!("no difference\n{notes}") } else { format!("{plan}{notes}") }
}

/// The writes of a `--dry-run`.
pub(super) fn writes(lines: &[String]) -> String {
    if lines.is_empty() {
        return "nothing would be written\n".to_owned();
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// What became of a change that was put back.
pub(super) fn undone(undone: &Undone) -> String {
    let left = if undone.is_complete() { "" } else { "; it stays open: run floodwall rollback again" };
    format!("change {} put back{left}:\n  {}\n", undone.id, undone.to_string().replace('\n', "\n  "))
}

/// What a rehearsed rollback would not put back, and why, newest change first.
pub(super) fn would_be_left(recovery: &Recovery, undone: &[Undone]) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, why) in &recovery.set_aside {
        lines.push(format!(
            "the journal {name} is not to be believed ({why}): it would be kept aside, and what it had changed stays"
        ));
    }
    for id in &recovery.earlier_boots {
        lines.push(format!(
            "change {id} was made before the last boot, which undid it: it would only be closed"
        ));
    }
    for one in recovery.undone.iter().chain(&recovery.expired).chain(undone) {
        for (label, fate) in &one.entries {
            if matches!(
                fate,
                Fate::Foreign { .. } | Fate::Vanished { .. } | Fate::Waits { .. } | Fate::Failed { .. }
            ) {
                lines.push(format!("change {}: {}", one.id, fate.told(label)));
            }
        }
    }
    lines
}

/// Tells what had to be recovered before anything else.
pub(super) fn tell(recovery: &Recovery) {
    for id in &recovery.earlier_boots {
        notice(&format!("change {id} was made before the last boot, which undid it; its journal is closed"));
    }
    for (name, why) in &recovery.set_aside {
        notice(&format!(
            "the journal {name} is not to be believed ({why}); kept as {name}.bad, not replayed: what it had changed stays, look with floodwall diff default"
        ));
    }
    for one in &recovery.undone {
        notice(&format!("change {} had been interrupted; {}", one.id, undone(one).trim_end()));
    }
    for one in &recovery.expired {
        notice(&format!("the time of change {} was over; {}", one.id, undone(one).trim_end()));
    }
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
