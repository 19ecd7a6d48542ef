//! Stalls as a table that fits a terminal, and a line of sums.

use super::{COLUMNS, Listing, Totals, cells};
use crate::local_time::{date_time, length};
use crate::night::holes_in_words;
use crate::numbers::{duration_us, whole};
use crate::status::Style;
use crate::status::table::{table, wrap};

/// A recording that begins so soon after the time that was asked for, or ends so soon before its
/// end, has all of it, in milliseconds.
const SOON_MS: u64 = 60_000;

/// Stalls for people. Names in it are escaped.
#[must_use]
pub fn text(listing: &Listing<'_>, style: Style) -> String {
    let mut lines = Vec::new();
    if listing.stalls.is_empty() {
        lines.extend(wrap(&none(listing), style.prose()));
    } else {
        let rows = listing.stalls.iter().map(|stall| cells(stall, listing.zone).to_vec());
        lines.extend(table(&COLUMNS, &rows.collect::<Vec<_>>(), style.width));
        lines.push(String::new());
        lines.extend(wrap(&sums(&Totals::of(listing.stalls), listing), style.prose()));
    }
    if let Some(since) = since(listing) {
        lines.extend(wrap(&since, style.prose()));
    }
    if listing.stalls.is_empty() && !listing.gaps.is_empty() {
        lines.extend(wrap(&holes_in_words(listing.gaps, listing.zone), style.prose()));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// `3 stalls, 2 min 10 s in all. The longest wait was …`.
pub(crate) fn sums(totals: &Totals, listing: &Listing<'_>) -> String {
    let stalls = match totals.stalls {
        1 => "1 stall".to_owned(),
        many => format!("{} stalls", whole(many)),
    };
    let mut told = format!("{stalls}, {} in all.", length(totals.stalled_ms));
    if let (Some(victim), Some(worst_ms)) = (&totals.slowest_victim, totals.worst_unix_ms) {
        told.push_str(&format!(
            " The longest wait: {}, {victim}, {}.",
            duration_us(totals.slowest_us as f64),
            date_time(worst_ms, listing.zone)
        ));
    }
    if let Some(flood) = &totals.most_frequent_flood {
        let (times, of) = (totals.most_frequent_flood_stalls, totals.stalls);
        let workload = totals.most_frequent_flood_workload.as_ref();
        let workload = workload.map_or_else(String::new, |label| format!(" ({label})"));
        told.push_str(&format!(
            " The most frequent flood: {flood}{workload}, in {} of {}.",
            whole(times),
            whole(of)
        ));
    }
    told
}

fn none(listing: &Listing<'_>) -> String {
    let of = listing.disk.map_or_else(String::new, |disk| format!(" of {disk}"));
    format!(
        "No stall{of} from {} to {}.",
        date_time(listing.from_unix_ms, listing.zone),
        date_time(listing.to_unix_ms, listing.zone)
    )
}

/// The recorded time, if it is not all that was asked for, or if no stall is in it.
fn since(listing: &Listing<'_>) -> Option<String> {
    let (first, last) = listing.known?;
    let is_part = first > listing.from_unix_ms.saturating_add(SOON_MS)
        || last.saturating_add(SOON_MS) < listing.to_unix_ms;
    (is_part || listing.stalls.is_empty()).then(|| {
        let (first, last) = (date_time(first, listing.zone), date_time(last, listing.zone));
        format!("Recordings exist from {first} to {last}.")
    })
}
