//! In which order cells are written: the same for a plan and for its undoing.
//!
//! ```text
//! scheduler → nr_requests → strict_guarantees → other tunables → max_sectors_kb → read_ahead_kb
//!   → rest of the queue → io.cost → wbt → times → limits → a device's share of them → groups
//! ```
//!
//! - The elevator goes first: it resets the knobs that depend on it. Elevators and io.cost switch
//!   wbt, so wbt goes last.
//! - A hard limit that rises goes before the background limit; one that falls goes after it. The
//!   kernel silently halves a background limit that is not below the hard one.
//! - A share's lower bound is never above the upper one. A strict limit is switched on last and off
//!   first.

use crate::catalogue::cell::{Cell, State};
use crate::catalogue::files::Files;
use crate::catalogue::{Knob, Scope, Unit};
use crate::plan::dirty_limit::Memory;
use crate::plan::entry::{Entry, Step};

/// Sorts the wanted states of some entries into steps.
pub(crate) fn order(entries: &[Entry], wanted: &[(usize, State)], files: &dyn Files) -> Vec<Step> {
    let memory = Memory::read(files);
    let mut ranked: Vec<(u32, Step)> = wanted
        .iter()
        .filter_map(|(index, to)| {
            let entry = entries.get(*index)?;
            let now = entry.cell.read(files).into_value();
            let rank = rank(entry, to, now.as_ref(), entries, wanted, files, &memory);
            Some((rank, step(*index, entry, to, now.as_ref(), &memory)))
        })
        .collect();
    // Stable: what has the same rank keeps the order in which it was asked for.
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, step)| step).collect()
}

/// A hard limit that falls is lowered in steps; everything else is set.
fn step(index: usize, entry: &Entry, to: &State, now: Option<&State>, memory: &Memory) -> Step {
    let set = Step::Set { entry: index, to: to.clone() };
    if !matches!(entry.cell, Cell::Pair { hard: true, .. }) {
        return set;
    }
    match (now.and_then(|now| memory.limit_bytes(now)), memory.limit_bytes(to)) {
        (Some(now), Some(limit_bytes)) if limit_bytes < now => {
            Step::Lower { entry: index, to: to.clone(), limit_bytes }
        }
        _ => set,
    }
}

fn rank(
    entry: &Entry,
    to: &State,
    now: Option<&State>,
    entries: &[Entry],
    wanted: &[(usize, State)],
    files: &dyn Files,
    memory: &Memory,
) -> u32 {
    let knob = entry.knob;
    match knob.scope {
        Scope::Queue | Scope::Elevator(_) => queue_rank(knob),
        Scope::RootCgroup if knob.name == "io.cost.model" => 50,
        Scope::RootCgroup => 51,
        Scope::Global => match (&entry.cell, now) {
            (Cell::Pair { hard: true, .. }, Some(now)) => {
                let falls = matches!((memory.limit_bytes(to), memory.limit_bytes(now)),
                    (Some(a), Some(b)) if a < b);
                if falls { 73 } else { 71 }
            }
            (Cell::Pair { .. }, _) => 72,
            _ => 70,
        },
        Scope::Bdi => bdi_rank(entry, to, entries, wanted, files),
        Scope::Scsi => 65,
        Scope::Threads | Scope::Journal => 95,
        // The group's dirty limit before the rate: the flood's backlog must have a bound when it
        // grows.
        Scope::CgroupValue => 89,
        // A weight for all devices drops those of single ones.
        Scope::Cgroup if entry.target.device().is_none() => 90,
        Scope::Cgroup => 91,
    }
}

fn queue_rank(knob: &Knob) -> u32 {
    match knob.name {
        "scheduler" => 10,
        "nr_requests" => 20,
        "async_depth" => 21,
        "iosched.strict_guarantees" => 30,
        "max_sectors_kb" | "rotational" | "write_cache" => 40,
        "read_ahead_kb" => 41,
        "wbt_lat_usec" => 60,
        _ if matches!(knob.scope, Scope::Elevator(_)) => 31,
        _ => 42,
    }
}

/// The same order for writes to one disk's files that begin at the kernel's defaults, where a share
/// may be anything: udev's rules.
pub(crate) fn rank_from_defaults(knob: &Knob, value: &str) -> u32 {
    match knob.scope {
        Scope::Queue | Scope::Elevator(_) => queue_rank(knob),
        Scope::Bdi => match knob.name {
            "bdi.strict_limit" if value == "0" => 80,
            "bdi.strict_limit" => 84,
            name if name.starts_with("bdi.max_") => 81,
            _ => 82,
        },
        Scope::Scsi => 65,
        Scope::Global | Scope::Cgroup | Scope::CgroupValue | Scope::RootCgroup => 90,
        Scope::Threads | Scope::Journal => 95,
    }
}

fn bdi_rank(
    entry: &Entry,
    to: &State,
    entries: &[Entry],
    wanted: &[(usize, State)],
    files: &dyn Files,
) -> u32 {
    let is_max = |knob: &Knob| knob.name.starts_with("bdi.max_");
    match entry.knob.name {
        "bdi.strict_limit" => {
            if to.value == "0" {
                80
            } else {
                84
            }
        }
        _ if is_max(entry.knob) => 82,
        _ => {
            // The lower bound goes first unless it would pass the upper bound that is still in
            // force.
            let upper = wanted
                .iter()
                .filter_map(|(index, _)| entries.get(*index))
                .find(|other| is_max(other.knob) && other.target == entry.target);
            let upper_now = upper.and_then(|other| ppm(other.cell.read(files).value()?));
            match (ppm(to), upper_now) {
                (Some(lower), Some(upper)) if lower > upper => 83,
                _ => 81,
            }
        }
    }
}

/// A share in parts per million, whichever of the two files it is for.
pub(crate) fn ppm(state: &State) -> Option<u64> {
    let value: u64 = state.value.parse().ok()?;
    Some(if state.path.ends_with("_fine") { value } else { value * 10_000 })
}

/// Whether a knob's value is a share of the hard limit.
pub(crate) fn is_share(knob: &Knob) -> bool {
    knob.scope == Scope::Bdi && knob.unit != Unit::Flag
}
