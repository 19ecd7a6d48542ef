//! What can be done about a diagnosis: commands, each with its price, the least harmful first.
//!
//! ```text
//! flood with a group of its own ─▶ pace it      for ten minutes
//! a limit that takes long       ─▶ lower it     for ten minutes
//! a flood, or its backlog       ─▶ the guard
//! none of these                 ─▶ a look at the disk's requests
//! always                        ─▶ nothing
//! ```

use floodwall_model::control_group::{is_in, memory_high_of_paced};
use floodwall_model::diagnosis::{Action, Disk, Outlook, Verdict};
use floodwall_model::status::{Device, Status};
use floodwall_model::{Bytes, Reading};

use super::super::control::charges_buffered_writes;
use super::super::facts::DiskUser;
use super::super::groups::victim_in;
use super::super::remedy::{own_share, word};
use super::super::view::{
    BACKGROUND_DELAY_S, FLUSHER_CHUNK_BYTES, HARD_DELAY_S, LONG_DRAIN_S, hard_limit, prefix, rate,
    speed, time,
};
use super::disks::{device, unit};
use super::look::Look;
use crate::mounts::charges_writeback;

/// For a time, so that it can be tried.
const APPLY: &str = "floodwall apply --for 10m";
/// The share of the drain rate that is left to a paced flood: half of it leaves room for victims.
const PACED_SHARE: f64 = 0.5;
/// The least that a paced group keeps for its processes: a copy or a backup may begin to use it.
const PROCESSES_BYTES: u64 = 64 << 20;

/// Everything that can be done.
pub(super) fn actions(
    look: Look<'_>,
    users: &[DiskUser],
    verdict: Verdict,
    disks: &[Disk],
    outlook: Option<&Outlook>,
) -> Vec<Action> {
    match (verdict, disks.first()) {
        (Verdict::Stalling, Some(disk)) if disk.floods.is_empty() && !disk.is_backlogged => {
            vec![requests(disk), nothing(disk)]
        }
        (Verdict::Stalling | Verdict::Flooding, Some(disk)) => {
            let device = device(look.status, disk.id);
            let pace = device.and_then(|device| pace(look, users, disk, device));
            let limit = device.and_then(|device| limit(look.status, disk, device));
            pace.into_iter().chain(limit).chain([guard(look, disk), nothing(disk)]).collect()
        }
        (Verdict::Quiet, _) if !look.guard_runs && outlook.is_some_and(takes_long) => {
            vec![stay_on()]
        }
        _ => Vec::new(),
    }
}

/// Whether what could pile up takes longer than people wait.
fn takes_long(outlook: &Outlook) -> bool {
    outlook.limit_s.value().is_some_and(|seconds| *seconds > LONG_DRAIN_S)
}

/// Holds the heaviest flood's control group to half of the drain rate.
fn pace(look: Look<'_>, users: &[DiskUser], disk: &Disk, device: &Device) -> Option<Action> {
    let status = look.status;
    let flood = disk.floods.first()?;
    let user = users.iter().find(|user| user.pid == flood.process.pid)?;
    let group = user.group.value().map(|group| group.trim_matches('/'))?;
    let drains = rate(device)?;
    // A stacked device has no `io.max` that reaches its disks.
    let is_stacked = device.id == user.disk && !device.leaves.is_empty();
    let is_charged = device.mounts.iter().any(|mount| charges_writeback(&mount.filesystem));
    let is_victim = |user: &&DiskUser| disk.victims.iter().any(|v| v.process.pid == user.pid);
    let holds_victim = users
        .iter()
        .filter(is_victim)
        .any(|victim| victim.group.value().is_some_and(|of_victim| is_in(of_victim, group)));
    let cant = group.is_empty() || is_stacked || user.disk != disk.id || !is_charged;
    if cant
        || holds_victim
        || !charges_buffered_writes(&status.machine)
        || victim_in(group, status, users).is_some()
    {
        return None;
    }
    let paced = PACED_SHARE * drains;
    let wbps = speed(paced).replace(' ', "");
    let used = look.group_memory.get(group).copied().unwrap_or(0).max(PROCESSES_BYTES);
    let high = memory_high_of_paced(paced as u64, used);
    let place = place(group);
    let (max, high) = (
        word(&format!("{place}:{}.io.max=wbps={}", disk.name, wbps.trim_end_matches("/s"))),
        word(&format!("{place}:memory.high={high}")),
    );
    Some(Action {
        what: format!("pace {}", unit(group).unwrap_or(group)),
        command: Some(format!("{APPLY} {max} {high}")),
        price: format!(
            "it writes {}, half of what {} drains, and nothing else is held back; undone by \
             itself after ten minutes",
            speed(paced),
            disk.name
        ),
    })
}

/// A group as settings name it: `unit:NAME` for a unit of the system's, else its path.
fn place(group: &str) -> String {
    match unit(group) {
        Some(unit) if group.starts_with("system.slice/") && group.ends_with(unit) => {
            format!("unit:{unit}")
        }
        _ => group.to_owned(),
    }
}

/// Lets no more wait for the disk than drains in [`HARD_DELAY_S`].
fn limit(status: &Status, disk: &Disk, device: &Device) -> Option<Action> {
    let (drains, hard) = (rate(device)?, hard_limit(status)?);
    let bytes = |seconds: f64| ((drains * seconds) as u64).max(2 * FLUSHER_CHUNK_BYTES);
    let wanted = bytes(HARD_DELAY_S);
    let (settings, whose) = match own_share(status, device, hard, wanted) {
        Some(settings) => (settings, format!("writers to {}", prefix(device))),
        // It would be refused where it could hang a server.
        None if wanted < hard && !status.servers.iter().any(|server| server.may_hang()) => {
            let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
            let background = bytes(BACKGROUND_DELAY_S).min(wanted / 2);
            let settings = format!(
                "vm.dirty_bytes={}MiB vm.dirty_background_bytes={}MiB",
                mebibytes(wanted),
                mebibytes(background)
            );
            (settings, "all writers of the machine".to_owned())
        }
        None => return None,
    };
    let until = match (disk.backlog_bytes.value(), disk.drain.now_s.value()) {
        (Some(bytes), Some(seconds)) if *bytes > wanted => {
            format!(" wait until the {} are written, {}, then", Bytes(*bytes), time(*seconds))
        }
        _ => String::new(),
    };
    Some(Action {
        what: format!(
            "let only {} wait, {} of this disk",
            Bytes(wanted),
            time(wanted as f64 / drains)
        ),
        command: Some(format!("{APPLY} {settings}")),
        price: format!(
            "{whose}{until} write at the disk's speed; undone by itself after ten \
            minutes"
        ),
    })
}

/// Shows a disk's requests, where no flood explains the wait.
fn requests(disk: &Disk) -> Action {
    Action {
        what: format!("see what else {} does", disk.name),
        command: Some(format!("floodwall probe {}", disk.name)),
        price: "changes nothing".to_owned(),
    }
}

fn guard(look: Look<'_>, disk: &Disk) -> Action {
    if look.guard_runs {
        return Action {
            what: "ask the guard, which runs, what it does about it".to_owned(),
            command: Some("floodwall guard status".to_owned()),
            price: "changes nothing".to_owned(),
        };
    }
    Action {
        what: "run the guard".to_owned(),
        command: Some(format!("floodwall guard --device {}", disk.name)),
        price: "it slows a flood only while somebody waits, and puts everything back when it ends"
            .to_owned(),
    }
}

/// The guard for a machine on which nothing is wrong yet.
fn stay_on() -> Action {
    Action {
        what: "be protected when it comes".to_owned(),
        command: Some("floodwall guard".to_owned()),
        price: "it changes nothing until somebody waits, and puts everything back when it ends"
            .to_owned(),
    }
}

fn nothing(disk: &Disk) -> Action {
    let drains = match (&disk.drain.now_s, disk.floods.is_empty()) {
        (Reading::Value(seconds), false) if *seconds > 0.0 => {
            format!("it lasts as long as the flood does, and {} longer", time(*seconds))
        }
        (Reading::Value(seconds), true) if *seconds > 0.0 => {
            format!("what waits now is written in {}", time(*seconds))
        }
        (_, false) => "it lasts as long as the flood does".to_owned(),
        _ => "the wait stays what it is".to_owned(),
    };
    Action { what: "do nothing".to_owned(), command: None, price: drains }
}
