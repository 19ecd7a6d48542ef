//! A stall in a sentence: when, who waited for what, who flooded, how much was dirty.

use floodwall_model::printable::printable;
use floodwall_model::stall::{Flood, Stall, Victim};
use floodwall_model::units::{Bytes, Rate};
use floodwall_model::workload::Workload;
use jiff::tz::TimeZone;

use crate::local_time::{date_time, length};
use crate::numbers::{duration_us, percent};

/// Mount points that are named; a disk may have dozens.
const MOUNTS: usize = 2;

/// A stall in one line without unsafe characters and without a full stop.
///
/// ```text
/// 2026-11-27 03:10:12, for 41.0 s: postgres (812, postgresql.service) waited up to 3.20 s for
/// fsync on sda (/srv), because cp (4711, backup.service) dirtied 12.0 GB; 4.10 GB were dirty,
/// 34.0 s of draining at 120 MB/s
/// ```
#[must_use]
pub fn sentence(stall: &Stall, zone: &TimeZone) -> String {
    let lasted = length(stall.lasted_ms());
    let sentence = format!(
        "{}, for {}{lasted}: {}, {}{}",
        date_time(stall.began_unix_ms, zone),
        if stall.end_unseen { "at least " } else { "" },
        waited(stall),
        because(stall),
        backlog(stall),
    );
    printable(&sentence).into_owned()
}

fn waited(stall: &Stall) -> String {
    let on = place(stall);
    match stall.victims.first() {
        Some(victim) => {
            let call = victim.call.as_deref().map(|call| format!("{} on ", what(call)));
            let more = more(stall.victims.iter().skip(1).map(|victim| victim.pid));
            format!(
                "{}{more} waited up to {} for {}{on}",
                who(victim.pid, &victim.name, &victim.workload),
                duration_us(victim.slowest_us as f64),
                call.unwrap_or_default(),
            )
        }
        None => format!("processes waited for {on}"),
    }
}

fn because(stall: &Stall) -> String {
    let Some(flood) = stall.floods.first() else { return "and no flood was seen".to_owned() };
    let rest = stall.floods.get(1..).unwrap_or_default();
    let others = rest.iter().map(|flood| flood.dirtied_bytes).fold(0, u64::saturating_add);
    let more = match others {
        0 => String::new(),
        bytes => format!(" and others dirtied {}", Bytes(bytes).decimal()),
    };
    format!("because {}{more}", dirtied(flood, stall.victims.first(), stall.backlog_bytes))
}

fn dirtied(flood: &Flood, victim: Option<&Victim>, backlog_bytes: Option<u64>) -> String {
    // All victims flooded it: the first one waited for its own data, or its threads did.
    let is_own = victim.is_some_and(|victim| victim.pid == flood.pid && flood.pid != 0);
    let (who, itself) = match is_own {
        true => ("it".to_owned(), " itself"),
        false => (who(flood.pid, &flood.name, &flood.workload), ""),
    };
    match share_before(flood, backlog_bytes) {
        Some(share) => format!("{who} wrote {} % of the backlog{itself}", percent(share)),
        None => format!("{who} dirtied {}{itself}", Bytes(flood.dirtied_bytes).decimal()),
    }
}

/// The share of the backlog that a flood wrote, where it wrote more than half of that before the
/// first victim waited.
pub(super) fn share_before(flood: &Flood, backlog_bytes: Option<u64>) -> Option<f64> {
    let share = f64::from(flood.backlog_percent?) / 100.0;
    let part = share * backlog_bytes.unwrap_or(0) as f64;
    (flood.dirtied_bytes == 0 || part > 2.0 * flood.dirtied_bytes as f64).then_some(share)
}

fn backlog(stall: &Stall) -> String {
    let Some(bytes) = stall.backlog_bytes else { return String::new() };
    let drained = match (stall.drain_ms, stall.drain_bytes_per_s) {
        (Some(ms), Some(rate)) => {
            format!(", {} of draining at {}", length(ms), Rate(rate as f64))
        }
        (Some(ms), None) => format!(", {} of draining", length(ms)),
        _ => String::new(),
    };
    format!("; {} were dirty{drained}", Bytes(bytes).decimal())
}

/// `sda (/srv, /home, ...)`.
fn place(stall: &Stall) -> String {
    let mut mounts: Vec<&str> = stall.mounts.iter().take(MOUNTS).map(String::as_str).collect();
    if stall.mounts.len() > MOUNTS {
        mounts.push("...");
    }
    match mounts.is_empty() {
        true => stall.disk.clone(),
        false => format!("{} ({})", stall.disk, mounts.join(", ")),
    }
}

/// `fsync`, or reads.
pub(crate) fn what(call: &str) -> &str {
    if call == "read" { "reads" } else { call }
}

/// `postgres (812, postgresql.service)`; of all that are not told apart the name alone.
pub(super) fn who(pid: u32, name: &str, workload: &Workload) -> String {
    if pid == 0 {
        return name.to_owned();
    }
    let workload = workload.label().map_or_else(String::new, |label| format!(", {label}"));
    format!("{name} ({pid}{workload})")
}

/// ` and 3 more`; nothing if there are no more.
pub(super) fn more(pids: impl Iterator<Item = u32>) -> String {
    let (mut told_apart, mut are_all) = (0, true);
    for pid in pids {
        told_apart += usize::from(pid != 0);
        are_all &= pid != 0;
    }
    match (told_apart, are_all) {
        (0, true) => String::new(),
        (more, true) => format!(" and {more} more"),
        (more, false) => format!(" and more than {more} others"),
    }
}
