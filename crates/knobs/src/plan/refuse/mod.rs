//! Refusals of plans and of a hold's writes, and notes about accepted plans.

use floodwall_host::mounts;
use floodwall_model::printable::printable;
use floodwall_model::{Bytes, DeviceId, Reading};

use crate::catalogue::Scope;
use crate::catalogue::cell::{Cell, State};
use crate::catalogue::files::{Files, read_line, read_number};
use crate::plan::change::Change;
use crate::plan::dirty_limit::{FLUSHER_CHUNK_BYTES, Memory, background_limit, hard_limit};
use crate::plan::entry::Entry;
use crate::plan::error::PlanError;
use crate::plan::order::{is_share, ppm};

mod group;
mod priority;
pub(crate) mod servers;

/// `bdi.max_bytes` as the ratio that the kernel would make of it.
pub(crate) fn share_of(
    change: &Change,
    asked: &[Entry],
    files: &dyn Files,
    memory: &Memory,
) -> Result<State, PlanError> {
    let refused = |why: String| PlanError::Refused { label: change.target.label(change.knob), why };
    let bytes: u64 =
        change.value.parse().map_err(|_| refused("its size is not a number".to_owned()))?;
    let limit = hard_limit(asked, files)
        .and_then(|state| memory.limit_bytes(&state))
        .ok_or_else(|| refused("the hard limit can't be read".to_owned()))?;
    // The kernel divides by the limit too; up to 6.12 without looking.
    let share = memory.share_ppm(bytes, limit).ok_or_else(|| {
        refused("the hard limit is zero; set vm.dirty_ratio or vm.dirty_bytes first".into())
    })?;
    if share == 0 {
        let least = Bytes((limit / 1_000_000).max(files.page_bytes()) + files.page_bytes());
        return Err(refused(format!(
            "{} is less than a millionth of the hard limit of {} and would become a share of zero; \
             give at least {least}",
            Bytes(bytes),
            Bytes(limit)
        )));
    }
    if share > 1_000_000 {
        return Err(refused(format!(
            "{} is more than the hard limit of {}; raise vm.dirty_bytes or give less",
            Bytes(bytes),
            Bytes(limit)
        )));
    }
    let path = change.target.path(change.knob).replace("max_bytes", "max_ratio_fine");
    Ok(State { path, value: share.to_string() })
}

/// A bound of a device's share that the plan ends with, planned or in force, in parts per million:
/// `max` or `min`.
fn final_share(entry: &Entry, which: &str, entries: &[Entry], files: &dyn Files) -> Option<u64> {
    let prefix = format!("bdi.{which}_");
    if let Some(planned) = planned(entry, &prefix, entries) {
        return ppm(planned);
    }
    let file = format!("/sys/class/bdi/{}/{which}_ratio", entry.target.device()?.number);
    let fine = read_number(files, &format!("{file}_fine")).into_value();
    fine.or_else(|| read_number(files, &file).into_value().map(|percent| percent * 10_000))
}

/// Whether the device's limit is strict when the plan ends.
fn is_strict(entry: &Entry, entries: &[Entry], files: &dyn Files) -> bool {
    if let Some(planned) = planned(entry, "bdi.strict_limit", entries) {
        return planned.value == "1";
    }
    let Some(device) = entry.target.device() else { return false };
    let file = format!("/sys/class/bdi/{}/strict_limit", device.number);
    read_number(files, &file).into_value() == Some(1)
}

/// The planned state of the same device's knob with this prefix.
fn planned<'a>(entry: &Entry, prefix: &str, entries: &'a [Entry]) -> Option<&'a State> {
    let mut here = entries.iter().filter(|other| other.target == entry.target);
    here.find(|other| other.knob.name.starts_with(prefix))?.new.as_ref()
}

/// Refuses changes that would stop writers, that the kernel would refuse half-way, or that could
/// not be undone.
pub(crate) fn check(entries: &[Entry], files: &dyn Files) -> Result<(), PlanError> {
    for entry in entries {
        let refused =
            |why: &str| Err(PlanError::Refused { label: entry.label(), why: why.to_owned() });
        if entry.knob.name == "vm.dirty_ratio"
            && entry.new.as_ref().is_some_and(|new| new.value == "0")
        {
            return refused("a hard limit of zero stops every writer; give at least 1");
        }
        if let Some(why) = group::refusal(entry, entries, files) {
            return refused(&why);
        }
        if entry.knob.scope != Scope::Bdi {
            continue;
        }
        let upper = final_share(entry, "max", entries, files);
        let lower = final_share(entry, "min", entries, files);
        if upper == Some(0) && is_strict(entry, entries, files) {
            return refused(
                "a strict limit of zero stops every writer to the device; give a \
                 bdi.max_ratio_fine above 0",
            );
        }
        if matches!((lower, upper), (Some(lower), Some(upper)) if lower > upper) {
            return refused("the device's lower bound would be above its upper bound; change both");
        }
        let is_lower = entry.knob.name.starts_with("bdi.min_");
        if is_lower
            && scales_twice(files)
            && entry.old.as_ref().and_then(ppm).is_some_and(|old| old > 0)
        {
            return refused(
                "this kernel (6.2 to 6.7) could not take the present value back; it scales \
                 bdi.min_ratio twice",
            );
        }
    }
    Ok(())
}

/// Linux 6.2 to 6.7 (mm/page-writeback.c `__bdi_set_min_ratio`). The one thing here that no file
/// shows without a write.
fn scales_twice(files: &dyn Files) -> bool {
    matches!(release(files), Some((6, 2..=7)))
}

fn release(files: &dyn Files) -> Option<(u32, u32)> {
    let text = read_line(files, "/proc/sys/kernel/osrelease").into_value()?;
    let mut parts = text.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Notes about a plan, for people.
pub(crate) fn notes(entries: &[Entry], files: &dyn Files, memory: &Memory) -> Vec<String> {
    let mut notes = Vec::new();
    limit_notes(entries, files, memory, &mut notes);
    for entry in entries.iter().filter(|entry| entry.new.is_some()) {
        device_notes(entry, entries, files, &mut notes);
        notes.extend(group::tighter_above(entry, files));
        notes.extend(group::misses_writeback(entry, entries, files));
        notes.extend(priority::is_ignored(entry, entries, files));
    }
    let share = |entry: &&Entry| entry.new.is_none();
    for entry in entries.iter().filter(share) {
        if let Some(cause) = entries.iter().find(|other| other.resets(entry)) {
            let text =
                format!("the kernel resets what depends on {}: it is saved with it", cause.label());
            if !notes.contains(&text) {
                notes.push(text);
            }
        }
    }
    notes
}

fn limit_notes(entries: &[Entry], files: &dyn Files, memory: &Memory, notes: &mut Vec<String>) {
    let touches = |hard: bool| {
        entries.iter().any(|entry| matches!(entry.cell, Cell::Pair { hard: h, .. } if h == hard))
    };
    if !touches(true) && !touches(false) {
        return;
    }
    let bytes = |state: Option<State>| state.and_then(|state| memory.limit_bytes(&state));
    let hard = bytes(hard_limit(entries, files));
    let background = bytes(background_limit(entries, files));
    if let (Some(hard), Some(background)) = (hard, background)
        && background >= hard
    {
        notes.push(format!(
            "the background limit ({}) is not below the hard limit ({}): the kernel silently uses \
             {}",
            Bytes(background),
            Bytes(hard),
            Bytes(hard / 2)
        ));
    }
    if let Some(hard) = hard
        && touches(true)
        && hard < 2 * FLUSHER_CHUNK_BYTES
    {
        notes.push(format!(
            "a hard limit of {} is less than two of the flusher's chunks of {}: writers will often \
             stop; 64 MiB is a sound minimum",
            Bytes(hard),
            Bytes(FLUSHER_CHUNK_BYTES)
        ));
    }
    if let Some(background) = background
        && touches(false)
        && background < FLUSHER_CHUNK_BYTES
    {
        notes.push(format!(
            "a background limit of {} is less than one of the flusher's chunks of {}: it never \
             rests",
            Bytes(background),
            Bytes(FLUSHER_CHUNK_BYTES)
        ));
    }
    if touches(true) {
        for name in files.list("/sys/class/bdi") {
            let share = read_number(files, &format!("/sys/class/bdi/{name}/max_ratio_fine"));
            if let Reading::Value(share) = share
                && share < 1_000_000
                && !entries.iter().any(|e| {
                    is_share(e.knob) && e.target.device().is_some_and(|d| d.number == name)
                })
            {
                let (holder, percent) = (holder(&name, files), share as f64 / 1e4);
                notes.push(format!(
                    "{holder} may hold {percent} % of the hard limit: its share in bytes changes \
                     with it"
                ));
            }
        }
    }
}

/// The owner of a backing device, for people: a disk's name, or where the filesystem is mounted
/// that has it for itself.
fn holder(bdi: &str, files: &dyn Files) -> String {
    let uevent = files.read(&format!("/sys/dev/block/{bdi}/uevent")).unwrap_or_default();
    if let Some(name) = uevent.lines().find_map(|line| line.strip_prefix("DEVNAME=")) {
        return name.to_owned();
    }
    // FUSE puts what kind it is behind the number.
    let number = bdi.split('-').next().and_then(|number| number.parse::<DeviceId>().ok());
    let mounts = mounts::parse(&files.read(mounts::MOUNTINFO).unwrap_or_default());
    match mounts.iter().find(|mount| Some(mount.device) == number) {
        Some(mount) => {
            let mountpoint = mount.mountpoint.to_string_lossy();
            format!("{} ({}, {bdi})", printable(&mountpoint), mount.fs_type)
        }
        None => bdi.to_owned(),
    }
}

/// The least number of requests in a queue (include/linux/blkdev.h BLKDEV_MIN_RQ).
const LEAST_REQUESTS: i64 = 4;

/// Whether the wanted number alone tells that the kernel won't keep it. A value that depends on the
/// hardware or its clock is reported once it is read back.
fn will_be_adjusted(entry: &Entry) -> bool {
    let Some(Ok(number)) = entry.new.as_ref().map(|state| state.value.parse::<i64>()) else {
        return false;
    };
    match entry.knob.name {
        "nr_requests" => number < LEAST_REQUESTS,
        "wbt_lat_usec" => number < 0,
        _ => false,
    }
}

fn device_notes(entry: &Entry, entries: &[Entry], files: &dyn Files, notes: &mut Vec<String>) {
    let label = entry.label();
    let strict = is_strict(entry, entries, files);
    match entry.knob.name {
        "bdi.max_bytes" | "bdi.max_ratio" | "bdi.max_ratio_fine" if !strict => notes.push(format!(
            "{label} does not hold anybody back while the machine is below half-way to its hard \
             limit; add bdi.strict_limit=1"
        )),
        "bdi.strict_limit" if strict && matches!(release(files), Some((6, 2..=12))) => {
            notes.push(format!(
                "{label}: on Linux 6.2 to 6.12 writers to a device that was idle may wait long \
                 under a strict limit"
            ));
        }
        _ => {}
    }
    if let (Some(why), true) = (entry.knob.adjusts, will_be_adjusted(entry)) {
        notes.push(format!("{label}: the kernel will keep another value: {why}"));
    }
    if entry.knob.name == "bdi.max_bytes"
        && hard_limit(entries, files).is_some_and(|s| s.path.ends_with("_ratio"))
    {
        notes.push(format!(
            "{label} is a share of a hard limit in percent, so it moves with free memory; set \
             vm.dirty_bytes to hold it"
        ));
    }
    if entry.knob.name.starts_with("bdi.min_") && scales_twice(files) {
        notes.push(format!(
            "{label}: Linux 6.2 to 6.7 scale it twice and may refuse it; then everything is put \
             back"
        ));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{files_of, machine};

    #[test]
    fn a_share_is_told_with_whose_it_is() {
        let mut tree = machine();
        let mut put = |path: &str, text: &str| tree.insert(path.to_owned(), format!("{text}\n"));
        put("/sys/class/bdi/8:0/max_ratio_fine", "20000");
        put("/sys/class/bdi/0:39/max_ratio_fine", "10000");
        put("/sys/class/bdi/0:40/max_ratio_fine", "5000");
        put(
            "/proc/self/mountinfo",
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
             33 22 0:39 / /mnt/two\\040words rw - fuse.sshfs me@there:/ rw",
        );
        let (_dir, files) = files_of(&tree);
        let root = floodwall_host::SysRoot::new(_dir.path()).unwrap();
        let changes = [crate::Change::parse(&root, None, "vm.dirty_bytes=64MiB").unwrap()];
        let mut notes = crate::plan(&changes, &files).unwrap().notes;
        notes.retain(|note| note.contains("may hold"));
        assert_eq!(
            notes,
            [
                "/mnt/two words (fuse.sshfs, 0:39) may hold 1 % of the hard limit: its share in \
                 bytes changes with it",
                "0:40 may hold 0.5 % of the hard limit: its share in bytes changes with it",
                "sda may hold 2 % of the hard limit: its share in bytes changes with it",
            ]
        );
    }
}
