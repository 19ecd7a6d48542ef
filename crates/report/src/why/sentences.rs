//! A diagnosis in sentences. Numbers are said only where they were measured; a figure that the
//! kernel estimates says so.

use std::time::Duration;

use floodwall_model::diagnosis::{Diagnosis, Disk, Flood, Outlook, Process, Verdict, Victim, Wait};
use floodwall_model::status::{Drain, DrainSource};
use floodwall_model::units::human_duration;
use floodwall_model::{Bytes, Rate, Reading};

/// Mount points that are named; a device may have dozens.
const MOUNTS: usize = 2;

/// The paragraph.
pub(super) fn paragraph(diagnosis: &Diagnosis) -> String {
    match (diagnosis.verdict, diagnosis.disks.first()) {
        (Verdict::Stalling, Some(disk)) => stalling(disk),
        (Verdict::Flooding, Some(disk)) => flooding(disk),
        (Verdict::Unknown, _) => unknown(diagnosis),
        _ => quiet(diagnosis),
    }
}

/// Further paragraphs: other disks, what root would add.
pub(super) fn more(diagnosis: &Diagnosis) -> Vec<String> {
    let mut more = Vec::new();
    let others = diagnosis.disks.iter().skip(1).filter(|disk| disk.verdict >= Verdict::Flooding);
    let others: Vec<String> = others.map(other).collect();
    if !others.is_empty() {
        more.push(format!("Also: {}.", others.join("; ")));
    }
    if !diagnosis.root_would_add.is_empty() {
        more.push(format!("Root would add: {}.", diagnosis.root_would_add.join("; ")));
    }
    more
}

fn stalling(disk: &Disk) -> String {
    let Some(first) = disk.victims.first() else { return String::new() };
    let also = match disk.victims.len() - 1 {
        0 => String::new(),
        1 => " One more process waits, too.".to_owned(),
        n => format!(" {n} more processes wait, too."),
    };
    let waits = format!("{} on {}", waits(first), place(disk));
    let backlog = backlog(disk);
    match disk.floods.first() {
        Some(flood) => format!(
            "{waits}, {} {}{} {}{}.{also}",
            if disk.is_outrun() { "because" } else { "while" },
            if flood.process.pid == first.process.pid {
                format!("other threads of it dirty {}", Rate(flood.dirtied_bytes_per_s))
            } else {
                wrote(flood)
            },
            more_floods(&disk.floods, " and"),
            drains(&disk.name, &disk.drain),
            backlog.map_or_else(String::new, |backlog| format!(": {backlog}")),
        ),
        None if disk.is_backlogged => format!(
            "{waits}, because of what was written earlier: {}, and {}. Who wrote it was not \
             seen.{also}",
            backlog.unwrap_or_default(),
            drains(&disk.name, &disk.drain),
        ),
        None => match disk.backlog_bytes.value() {
            Some(bytes) if disk.has_unknown_backlog() => format!(
                "{waits}. Nothing was seen to flood it in this look. {} are waiting, and {}. \
                 Whether they are the cause is not known.{also}",
                Bytes(*bytes).decimal(),
                drains(&disk.name, &disk.drain),
            ),
            Some(bytes) => format!(
                "{waits}, and no flood of buffered writes is the cause: {} are waiting. The disk \
                 itself is slow, or busy with reads or direct writes.{also}",
                Bytes(*bytes).decimal()
            ),
            None => format!(
                "{waits}. Nothing was seen to dirty much for it, and how much is waiting is not \
                 known. The disk is slow, busy with reads or direct writes, or flooded by a \
                 program that was not seen.{also}"
            ),
        },
    }
}

fn flooding(disk: &Disk) -> String {
    let backlog = backlog(disk);
    let then = match disk.drain.now_s.value().filter(|_| {
        // A time by the kernel's estimate may be far from the truth.
        disk.is_backlogged && disk.drain.from.is_seen()
    }) {
        Some(seconds) => format!(" A commit there may have to wait up to {}.", time(*seconds)),
        None => String::new(),
    };
    let drains = drains(&disk.name, &disk.drain);
    match disk.floods.first() {
        Some(flood) => format!(
            "{} on {}{} {drains}{}. Nothing waits long for it now.{then}",
            wrote(flood),
            place(disk),
            more_floods(&disk.floods, ", and"),
            backlog.map_or_else(String::new, |backlog| format!(": {backlog}")),
        ),
        None => format!(
            "Nothing waits long for {} now, and nothing floods it, but {}: {drains}. Who wrote it \
             was not seen.{then}",
            place(disk),
            backlog.unwrap_or_default(),
        ),
    }
}

fn quiet(diagnosis: &Diagnosis) -> String {
    let window = time(diagnosis.window_s);
    let what = match (&diagnosis.about, diagnosis.source) {
        (_, "proc") => format!(
            "In {window} almost no process of the machine waited for I/O, as the kernel's pressure \
             tells. Which processes flood a disk is not known."
        ),
        (Some(about), _) => format!(
            "In {window} no process waited long for a disk or flooded one. This is about {about} \
             alone."
        ),
        (None, _) => format!(
            "In {window} no process waited long for a disk, and no disk was written to faster than \
             it drains."
        ),
    };
    match &diagnosis.outlook {
        Some(outlook) => format!("{what} {}", could(outlook)),
        None => what,
    }
}

/// What would happen if a flood came.
fn could(outlook: &Outlook) -> String {
    let size = Bytes(outlook.limit_bytes).decimal();
    let name = &outlook.name;
    let could = format!("If a flood came, {size} could wait to be written to {name}");
    match outlook.limit_s.value() {
        Some(_) if !outlook.drain.from.is_seen() => {
            format!("{could}. How long that takes was not seen: {}.", drains(name, &outlook.drain))
        }
        Some(seconds) => {
            format!("{could}, which takes {}: {}.", time(*seconds), drains(name, &outlook.drain))
        }
        None => format!(
            "{could}. How long that takes is not known: {}.",
            why_unknown(name, &outlook.drain)
        ),
    }
}

fn unknown(diagnosis: &Diagnosis) -> String {
    let mut told = Vec::new();
    if let Some(bytes) = diagnosis.machine.backlog_bytes.value() {
        let size = Bytes(*bytes).decimal();
        told.push(format!("{size} are dirty or under writeback on the machine"));
    }
    if let Some(percent) = diagnosis.machine.waited_percent.value() {
        told.push(format!(
            "some process waited for I/O {} % of {}",
            crate::numbers::percent(percent / 100.0),
            time(diagnosis.window_s)
        ));
    }
    let written = &diagnosis.machine.written;
    told.extend(written.iter().map(|one| format!("{} writes {}", one.name, Rate(one.bytes_per_s))));
    let floods = diagnosis
        .disks
        .iter()
        .filter_map(|disk| Some(format!("{} on {}", wrote(disk.floods.first()?), place(disk))));
    told.extend(floods);
    format!(
        "It can't be told who waits for a disk: {}. /proc tells: {}.",
        diagnosis.unseen.join("; "),
        told.join("; ")
    )
}

/// `cp (pid 4711) dirties 193 MB/s`; of one that waits for its own data `dd (pid 4711) wrote 1.07
/// GB`.
fn wrote(flood: &Flood) -> String {
    let who = who(&flood.process);
    match flood.earlier_bytes {
        Some(bytes) => format!("{who} wrote {}", Bytes(bytes).decimal()),
        None => format!("{who} dirties {}", Rate(flood.dirtied_bytes_per_s)),
    }
}

/// What a change did to the first victim's wait and to the disk's drain rate.
pub(super) fn gained(before: &Disk, wait_s: Option<f64>, after: Option<&Drain>) -> String {
    let mut told = Vec::new();
    if let Some(victim) = before.victims.first() {
        let what = match victim.waits_for {
            Wait::Commits => "commits",
            Wait::Reads => "reads",
        };
        let was = time(victim.longest_s());
        let now = wait_s.map_or_else(|| "waits for none".to_owned(), time);
        told.push(format!(
            "{} waited {was} for its {what} before, and {now} now.",
            who(&victim.process)
        ));
    }
    let seen = |drain: &Drain| match drain.from {
        DrainSource::Seen => drain.rate_bytes_per_s.value().map(|rate| Rate(*rate)),
        DrainSource::SeenEarlier | DrainSource::KernelEstimate | DrainSource::Unknown => None,
    };
    if let (Some(was), Some(now)) = (seen(&before.drain), after.and_then(seen)) {
        told.push(format!("{} drained {was} before, and drains {now} now.", before.name));
    }
    told.join(" ")
}

/// Another disk than the worst, in a clause.
fn other(disk: &Disk) -> String {
    match (disk.victims.first(), disk.floods.first()) {
        (Some(victim), _) => format!("{} on {}", waits(victim), place(disk)),
        (None, Some(flood)) => format!("{} on {}", wrote(flood), place(disk)),
        (None, None) => match backlog(disk) {
            Some(backlog) => format!("{backlog} for {}", place(disk)),
            None => disk.name.clone(),
        },
    }
}

/// `postgres (pid 4711, postgresql.service)`, `postgres (pid 4711, shop/web-0:db)`.
fn who(process: &Process) -> String {
    let place = process.workload.label().map(|label| format!(", {label}")).unwrap_or_default();
    format!("{} (pid {}{place})", process.name, process.pid)
}

fn waits(victim: &Victim) -> String {
    let who = who(&victim.process);
    let (all, one) = match victim.waits_for {
        Wait::Commits => ("its commits", "a commit"),
        Wait::Reads => ("its reads", "a read"),
    };
    match victim.median_s {
        Some(median) if victim.oldest_s >= 2.0 * median && victim.oldest_s > 0.0 => format!(
            "{who} waits {} for {all}, and now for one for {} or longer,",
            time(median),
            time(victim.oldest_s)
        ),
        Some(median) => format!("{who} waits {} for {all}", time(median)),
        None => format!("{who} has waited {} or longer for {one}", time(victim.oldest_s)),
    }
}

/// `sda (/var/lib/postgresql)`.
fn place(disk: &Disk) -> String {
    let mut named: Vec<&str> = disk.mounts.iter().take(MOUNTS).map(String::as_str).collect();
    if disk.mounts.len() > MOUNTS {
        named.push("...");
    }
    match named.is_empty() {
        true => disk.name.clone(),
        false => format!("{} ({})", disk.name, named.join(", ")),
    }
}

/// What stands between the heaviest flood and the disk's drain rate: `alone`, or the other floods.
fn more_floods(floods: &[Flood], alone: &str) -> String {
    let rest = floods.get(1..).unwrap_or_default();
    let sum = Rate(rest.iter().map(|flood| flood.dirtied_bytes_per_s).sum());
    match rest {
        [] => alone.to_owned(),
        [one] => format!(", {} dirties {sum}, and", who(&one.process)),
        more => format!(", {} other processes dirty {sum}, and", more.len()),
    }
}

/// `sda drains 121 MB/s`, with where the figure comes from if it was not seen.
fn drains(name: &str, drain: &Drain) -> String {
    match (&drain.rate_bytes_per_s, drain.from) {
        (Reading::Value(rate), from) if from.is_seen() => {
            format!("{name} drains {}", Rate(*rate))
        }
        (Reading::Value(rate), _) => {
            format!(
                "{name} drains about {} (the kernel's estimate from earlier writes)",
                Rate(*rate)
            )
        }
        _ => format!("how fast {name} drains is not known ({})", why_unknown(name, drain)),
    }
}

fn why_unknown(name: &str, drain: &Drain) -> String {
    match &drain.rate_bytes_per_s {
        Reading::Value(_) => "nothing was written in this look".to_owned(),
        other => match other.reason() {
            Some(why) if why.contains("first guess") => format!("{name} was never seen busy"),
            why => why.unwrap_or("unknown").to_owned(),
        },
    }
}

/// `3.2 GB are waiting, 27 s worth`: in the units of the rate beside it.
fn backlog(disk: &Disk) -> Option<String> {
    let bytes = Bytes(*disk.backlog_bytes.value()?).decimal();
    match disk.drain.now_s.value() {
        Some(seconds) if *seconds > 0.0 && disk.drain.from.is_seen() => {
            Some(format!("{bytes} are waiting, {} worth", time(*seconds)))
        }
        _ => Some(format!("{bytes} are waiting")),
    }
}

fn time(seconds: f64) -> String {
    // More than a year is no longer a figure that anyone could use, and the type ends somewhere.
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|d| d.as_secs() < 365 * 86_400)
        .map_or_else(|| "more than a year".into(), human_duration)
}
