//! Request queues: how much flood stands ahead of a victim, and whether anything holds it back.

use floodwall_model::Reading;
use floodwall_model::finding::Severity;
use floodwall_model::status::Queue;

use super::facts::Facts;
use super::found::Found;
use super::kernel;
use super::remedy::{apply, directory, is_estimate};
use super::view::{Disk, disks, prefix, rate, rate_source, size, speed, time, writable};

/// A victim that waits behind everything in the queue should not wait longer.
const FULL_QUEUE_S: f64 = 1.0;
/// The remedy's value.
const SHORT_QUEUE_S: f64 = 0.25;
/// The remedy's request size. A disk that seeks still spends most of its time writing with it.
const REQUEST_KIB: u64 = 256;
/// wbt's target for a medium that seeks, and that for one that does not (block/blk-wbt.c
/// `wbt_default_latency_nsec`).
pub(super) const WBT_ROTATING_US: u64 = 75_000;
pub(super) const WBT_FLASH_US: u64 = 2_000;
/// A target below this is missed by every read that seeks; one above [`FLASH_TARGET_US`] is kept by
/// flash however long it is starved.
const SEEK_TARGET_US: u64 = 5_000;
const FLASH_TARGET_US: u64 = 50_000;
/// Reading ahead less than this, a sequential reader waits behind the flood for every few pages.
const SHORT_READ_AHEAD_KIB: u64 = 64;

/// Whether writeback throttling is at work: switched on, and not by an old kernel's word for a
/// queue whose elevator has switched it off.
pub(super) fn is_throttled(disk: &Disk<'_>) -> bool {
    disk.queue.wbt_lat_us.value().is_some_and(|us| *us > 0) && disk.scheduler() != Some("bfq")
}

/// How many requests all but synchronous reads may hold, and the knob that says so: the elevator's
/// own, or since Linux 7 the queue's.
fn async_depth(queue: &Queue) -> Option<(&'static str, u64)> {
    let own = queue.async_depth.value().map(|depth| ("iosched.async_depth", *depth));
    own.or_else(|| queue.queue_async_depth.value().map(|depth| ("async_depth", *depth)))
}

/// FW018: a full queue takes longer than [`FULL_QUEUE_S`] to work off.
pub(super) fn deep(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let (mut settings, mut unknown) = (Vec::new(), Vec::new());
    for disk in disks(facts.status).into_iter().filter(|disk| writable(disk.owner)) {
        let (Some(rate), Some(requests), Some(kib)) =
            (rate(disk.owner), disk.queue.nr_requests.value(), disk.queue.max_sectors_kib.value())
        else {
            continue;
        };
        let (requests, depth) = match async_depth(disk.queue) {
            Some((_, depth)) if depth < *requests => {
                (depth, format!("{depth} of {requests} requests (async_depth)"))
            }
            _ => (*requests, format!("{requests} requests")),
        };
        let bytes = requests.saturating_mul(*kib).saturating_mul(1024);
        let seconds = bytes as f64 / rate;
        if seconds <= FULL_QUEUE_S {
            continue;
        }
        let severity = if is_throttled(&disk) { Severity::Note } else { Severity::Warning };
        let throttled = if is_throttled(&disk) {
            "; wbt keeps most of it out while reads are slow"
        } else {
            ""
        };
        let evidence = format!(
            "{}: {depth} of {} are {}, at {} ({}) {}{throttled}",
            disk.name,
            size(kib.saturating_mul(1024)),
            size(bytes),
            speed(rate),
            rate_source(disk.owner),
            time(seconds)
        );
        found.add(severity, disk.name, evidence);
        found.cost_s(seconds);
        found.cost_bytes(bytes);
        if is_estimate(disk.owner) {
            let search = format!("floodwall fix {} --tune", directory(disk.owner));
            if !unknown.contains(&search) {
                unknown.push(search);
            }
            continue;
        }
        let largest = REQUEST_KIB.min(*kib);
        let short = (rate * SHORT_QUEUE_S / (largest * 1024) as f64) as u64;
        settings.push(format!(
            "{0}.max_sectors_kb={largest} {0}.nr_requests={1}",
            disk.name,
            short.clamp(4, requests.max(4))
        ));
    }
    let settings = (!settings.is_empty()).then(|| apply(&settings));
    // A search measures.
    found.remedied_by(settings.into_iter().chain(unknown).collect::<Vec<_>>().join(" && "))
}

/// FW019: bfq and a target of writeback throttling: the target is not in force, or it defeats bfq.
pub(super) fn bfq_and_wbt(facts: Facts<'_>) -> Option<Found> {
    let old = kernel::version(&facts.status.machine)? < (6, 5);
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    for disk in disks(facts.status).into_iter().filter(|disk| disk.scheduler() == Some("bfq")) {
        let Some(us) = disk.queue.wbt_lat_us.value().filter(|us| **us > 0) else { continue };
        let evidence = if old {
            format!(
                "{}: bfq, and wbt_lat_usec reads {us}; this kernel prints the target even while \
                 bfq has switched wbt off, which it does unless it was set by hand",
                disk.name
            )
        } else {
            format!(
                "{}: bfq, and wbt_lat_usec is {us}, set by hand: wbt holds requests back before \
                 bfq can weigh them",
                disk.name
            )
        };
        found.add(Severity::Note, disk.name, evidence);
        settings.push(format!("{}.wbt_lat_usec=0", disk.name));
    }
    found.remedied_by(apply(&settings))
}

/// FW020: wbt's target is that of the other medium.
pub(super) fn wbt_target(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    for disk in disks(facts.status) {
        let Some(us) = disk.queue.wbt_lat_us.value().copied().filter(|us| *us > 0) else {
            continue;
        };
        let (why, right) = if disk.seeks() && us <= SEEK_TARGET_US {
            ("it rotates, and every read that seeks misses that", WBT_ROTATING_US)
        } else if disk.queue.rotational == Reading::Value(false) && us >= FLASH_TARGET_US {
            (
                "it does not rotate, and reads may be starved for as long before anything is done",
                WBT_FLASH_US,
            )
        } else {
            continue;
        };
        found.add(Severity::Warning, disk.name, format!("{}: wbt_lat_usec={us}; {why}", disk.name));
        // On flash it is how long a read may be starved. A target that is always missed costs no
        // extra time.
        if right == WBT_FLASH_US {
            found.cost_s(us as f64 / 1e6);
        }
        settings.push(format!("{}.wbt_lat_usec={right}", disk.name));
    }
    found.remedied_by(apply(&settings))
}

/// FW021: a disk is marked as rotating by a driver that can't know, or against its model.
pub(super) fn rotational_lie(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    for disk in
        disks(facts.status).into_iter().filter(|disk| disk.queue.rotational == Reading::Value(true))
    {
        let target = match disk.queue.wbt_lat_us.value() {
            Some(us) if *us > 0 => format!("; wbt's target is {us} µs because of it"),
            _ => String::new(),
        };
        if disk.says_flash() {
            let model = disk.model.value().map_or("", String::as_str);
            found.add(
                Severity::Warning,
                disk.name,
                format!("{}: rotational=1, but its model is {model}{target}", disk.name),
            );
        } else if let Some(by) = disk.virtual_by() {
            found.add(
                Severity::Note,
                disk.name,
                format!(
                    "{}: rotational=1 from a hypervisor's disk ({by}), which says so of any \
                     storage{target}",
                    disk.name
                ),
            );
        } else {
            continue;
        }
        settings.push(format!("{}.rotational=0", disk.name));
        if !target.is_empty() {
            settings.push(format!("{}.wbt_lat_usec={WBT_FLASH_US}", disk.name));
        }
    }
    let certain = found.severity() == Severity::Warning;
    found.remedied_by(apply(&settings) + if certain { "" } else { "   # if the storage is flash" })
}

/// FW022: a disk that seeks, without an elevator.
pub(super) fn no_elevator(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    for disk in disks(facts.status)
        .into_iter()
        .filter(|disk| disk.seeks() && disk.scheduler() == Some("none"))
    {
        let evidence = format!(
            "{}: rotational=1, scheduler none: reads wait in turn behind the flood's writes",
            disk.name
        );
        found.add(Severity::Warning, disk.name, evidence);
        if let (Some(rate), Some(requests), Some(kib)) =
            (rate(disk.owner), disk.queue.nr_requests.value(), disk.queue.max_sectors_kib.value())
        {
            found.cost_s(requests.saturating_mul(kib.saturating_mul(1024)) as f64 / rate);
        }
        settings.push(format!("{}.scheduler=mq-deadline", disk.name));
    }
    found.remedied_by(apply(&settings))
}

/// FW023: mq-deadline keeps no request for readers, and nothing else does.
pub(super) fn nothing_reserved(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    for disk in
        disks(facts.status).into_iter().filter(|disk| disk.scheduler() == Some("mq-deadline"))
    {
        let (Some((knob, depth)), Some(requests)) =
            (async_depth(disk.queue), disk.queue.nr_requests.value().copied())
        else {
            continue;
        };
        if depth < requests || is_throttled(&disk) || disk.queue.wbt_lat_us.is_unreadable() {
            continue;
        }
        let evidence = format!(
            "{}: async_depth={depth} of nr_requests={requests}, and wbt is off: writes may take \
             every request",
            disk.name
        );
        found.add(Severity::Note, disk.name, evidence);
        settings.push(format!("{}.{knob}={}", disk.name, (requests.saturating_mul(3) / 4).max(1)));
    }
    found.remedied_by(apply(&settings))
}

/// FW024: a disk that seeks is hardly read ahead.
pub(super) fn short_read_ahead(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    for disk in disks(facts.status).into_iter().filter(Disk::seeks) {
        // The backing device has it: it counts where the filesystem is on this very disk.
        if disk.owner.name != disk.name {
            continue;
        }
        let Some(kib) =
            disk.owner.limits.read_ahead_kib.value().filter(|kib| **kib < SHORT_READ_AHEAD_KIB)
        else {
            continue;
        };
        let evidence = format!(
            "{}: rotational=1, read_ahead_kb={kib}: a sequential reader seeks for each of them",
            disk.name
        );
        found.add(Severity::Note, disk.name, evidence);
        found.cost_bytes(kib * 1024);
        settings.push(format!("{}.read_ahead_kb=128", prefix(disk.owner)));
    }
    found.remedied_by(apply(&settings))
}

/// FW025: a disk that seeks, whose adjacent requests are not merged.
pub(super) fn no_merges(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    for disk in disks(facts.status).into_iter().filter(Disk::seeks) {
        if disk.queue.nomerges_level != Reading::Value(2) {
            continue;
        }
        found.add(
            Severity::Note,
            disk.name,
            format!("{}: rotational=1, nomerges=2: adjacent writes stay apart", disk.name),
        );
        settings.push(format!("{}.nomerges=0", disk.name));
    }
    found.remedied_by(apply(&settings))
}

#[cfg(test)]
mod tests;
