//! A night as text: its stalls, its worst minute, the gaps of its recording.

use floodwall_model::units::{Bytes, Rate};

use super::{Minute, Moment, Night};
use crate::local_time::{date_time, length, time};
use crate::numbers::{UNKNOWN, duration_us};
use crate::stalls;
use crate::status::Style;
use crate::status::table::{Column, table, wrap};

/// The columns of a minute.
pub(crate) const COLUMNS: [Column<'static>; 8] = [
    Column::words("AT", 8),
    Column::words("WHO WAITED", 40),
    Column::figures("LONGEST", 16),
    Column::words("FOR", 16).rank(2),
    Column::words("WHO DIRTIED MOST", 40),
    Column::figures("DIRTIED", 12),
    Column::figures("DRAINS IN", 16),
    Column::words("GUARD", 12).rank(3),
];

/// A night for people. Names in it are escaped.
#[must_use]
pub fn text(night: &Night<'_>, style: Style) -> String {
    let mut lines = vec![stalls::text(&night.listing, style)];
    if let Some(minute) = &night.minute {
        lines.extend(wrap(&heading(night, minute), style.prose()));
        lines.push(String::new());
        let rows: Vec<Vec<String>> =
            minute.moments.iter().map(|moment| cells(moment, night).to_vec()).collect();
        lines.extend(table(&COLUMNS, &rows, style.width));
        lines.push(String::new());
    }
    let missing = night.missing.sentences(night.zone());
    lines.extend(missing.iter().flat_map(|sentence| wrap(sentence, style.prose())));
    if !missing.is_empty() {
        lines.push(String::new());
    }
    lines.join("\n")
}

/// `The worst minute of sda, around the wait that ended at …`.
pub(crate) fn heading(night: &Night<'_>, minute: &Minute) -> String {
    let at = date_time(minute.worst_unix_ms, night.zone());
    format!("The worst minute: {}, around the wait that was seen at {at}.", minute.disk)
}

/// A row of the minute.
pub(crate) fn cells(moment: &Moment, night: &Night<'_>) -> [String; COLUMNS.len()] {
    let unknown = || UNKNOWN.to_owned();
    let waiter = moment.waiter.as_ref();
    let more = match moment.victims.saturating_sub(1) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    [
        time(moment.at_unix_ms, night.zone()),
        waiter.map_or_else(unknown, |one| one.who() + &more),
        waiter.map_or_else(unknown, |one| duration_us(one.slowest_us() as f64)),
        moment.call().map_or_else(unknown, |call| stalls::what(call).to_owned()),
        moment.writer.as_ref().map_or_else(unknown, |one| one.who()),
        moment.dirtied_bytes_per_s().map_or_else(unknown, |rate| Rate(rate).to_string()),
        drains(moment),
        moment.guard.clone().unwrap_or_default(),
    ]
}

/// What the columns are sorted by; `None` for words, and NaN for a value that is not known.
pub(crate) fn sort_keys(moment: &Moment) -> [Option<f64>; COLUMNS.len()] {
    let known = |value: Option<f64>| Some(value.unwrap_or(f64::NAN));
    let waiter = moment.waiter.as_ref();
    let drain_ms = moment.disk.as_ref().and_then(|disk| disk.drain_ms);
    [
        Some(moment.at_unix_ms as f64),
        None,
        known(waiter.map(|one| one.slowest_us() as f64)),
        None,
        None,
        known(moment.dirtied_bytes_per_s()),
        known(drain_ms.map(|ms| ms as f64)),
        None,
    ]
}

/// How long the backlog takes; the backlog where the rate is not known.
fn drains(moment: &Moment) -> String {
    let disk = moment.disk.as_ref();
    let drained = disk.and_then(|disk| disk.drain_ms).map(length);
    let backlog = disk.and_then(|disk| disk.backlog_bytes);
    drained.or(backlog.map(|bytes| Bytes(bytes).decimal())).unwrap_or_else(|| UNKNOWN.into())
}
