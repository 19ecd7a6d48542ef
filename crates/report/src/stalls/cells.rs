//! A stall as a row of a table, on a terminal and in a page.

use floodwall_model::counts::percent;
use floodwall_model::stall::{Flood, Stall};
use floodwall_model::units::Bytes;
use floodwall_model::workload::Workload;
use jiff::tz::TimeZone;

use super::sentence::{more, share_before, what, who};
use crate::local_time::{date_time, length};
use crate::numbers::{UNKNOWN, duration_us};
use crate::status::table::Column;

/// The columns. On a narrow terminal those of the highest rank go first.
pub(crate) const COLUMNS: [Column<'static>; 13] = [
    Column::words("WHEN", 19),
    Column::figures("LASTED", 16),
    Column::words("DISK", 16),
    Column::words("WHO WAITED", 40),
    Column::words("OF", 40).rank(4),
    Column::figures("LONGEST", 16),
    Column::words("FOR", 16).rank(3),
    Column::words("WHO FLOODED", 40),
    Column::words("OF", 40).rank(4),
    Column::figures("DIRTIED", 14).rank(1),
    Column::figures("BACKLOG", 12).rank(2),
    Column::figures("DRAINS IN", 16).rank(2),
    Column::words("GUARD", 12).rank(5),
];

/// Columns that tell more of the one before. A page shows them below it.
pub(crate) const BELOW: [usize; 4] = [4, 6, 8, 11];

/// One row. Its names are as they are: a table or page escapes them.
pub(crate) fn cells(stall: &Stall, zone: &TimeZone) -> [String; COLUMNS.len()] {
    let victim = stall.victims.first();
    let flood = stall.floods.first();
    let unknown = || UNKNOWN.to_owned();
    let alone = Workload::default();
    let victims = stall.victims.iter().skip(1).map(|victim| victim.pid);
    let floods = stall.floods.iter().skip(1).map(|flood| flood.pid);
    [
        date_time(stall.began_unix_ms, zone),
        format!("{}{}", if stall.end_unseen { "≥ " } else { "" }, length(stall.lasted_ms())),
        stall.disk.clone(),
        victim.map_or_else(unknown, |one| who(one.pid, &one.name, &alone) + &more(victims)),
        victim.and_then(|one| one.workload.label()).unwrap_or_default(),
        duration_us(stall.slowest_us() as f64),
        victim.and_then(|one| one.call.as_deref()).map_or_else(unknown, |call| what(call).into()),
        flood.map_or_else(unknown, |one| who(one.pid, &one.name, &alone) + &more(floods)),
        flood.and_then(|one| one.workload.label()).unwrap_or_default(),
        flood.and_then(|one| dirtied(stall, one)).unwrap_or_else(unknown),
        stall.backlog_bytes.map_or_else(unknown, |bytes| Bytes(bytes).decimal()),
        stall.drain_ms.map_or_else(unknown, length),
        stall.guard.clone().unwrap_or_default(),
    ]
}

/// What a column of figures is sorted by; `None` for words, and NaN for a value that is not known.
pub(crate) fn sort_key(stall: &Stall, column: usize) -> Option<f64> {
    let known = |value: Option<u64>| value.map_or(f64::NAN, |value| value as f64);
    match column {
        0 => Some(stall.began_unix_ms as f64),
        1 => Some(stall.lasted_ms() as f64),
        5 => Some(stall.slowest_us() as f64),
        9 => Some(known(stall.floods.first().map(|_| dirtied_bytes(stall)))),
        10 => Some(known(stall.backlog_bytes)),
        11 => Some(known(stall.drain_ms)),
        _ => None,
    }
}

/// What all floods dirtied within a stall. A flood that had written the backlog before is told by
/// its share.
fn dirtied(stall: &Stall, flood: &Flood) -> Option<String> {
    match share_before(flood, stall.backlog_bytes) {
        Some(share) => Some(format!("before: {} %", percent(share))),
        None => Some(dirtied_bytes(stall)).filter(|n| *n > 0).map(|n| Bytes(n).decimal()),
    }
}

/// Of all floods together.
fn dirtied_bytes(stall: &Stall) -> u64 {
    stall.floods.iter().map(|flood| flood.dirtied_bytes).fold(0, u64::saturating_add)
}
