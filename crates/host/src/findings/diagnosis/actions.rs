//! What can be done about a diagnosis: commands, each with its price, the least harmful first.
//!
//! ```text
//! flood with a group of its own ─▶ pace it      for ten minutes
//! a victim beside it            ─▶ a short queue for ten minutes
//! a flood, or its backlog       ─▶ the guard
//! a flood, and a large limit    ─▶ lower it     for ten minutes
//! none of these                 ─▶ a look at the disk's requests
//! always                        ─▶ nothing
//! ```

use floodwall_model::control_group::{PACED_SHARE, is_in, paced, unit};
use floodwall_model::diagnosis::{Action, Disk, Outlook, Verdict};
use floodwall_model::status::{Device, Status};
use floodwall_model::{Bytes, Reading};

use super::super::control::charges_buffered_writes;
use super::super::facts::DiskUser;
use super::super::groups::victim_in;
use super::super::remedy::own_share;
use super::super::view::{
    BACKGROUND_DELAY_S, FLUSHER_CHUNK_BYTES, HARD_DELAY_S, LONG_DRAIN_S, hard_limit, own_limit,
    prefix, rate, speed, time,
};
use super::disks::{device, is_flood};
use super::look::Look;
use super::queue;
use super::trial::on_trial;
use crate::mounts::charges_writeback;
use crate::workload::group::is_containers;

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
        (Verdict::Stalling | Verdict::Flooding, Some(disk))
            if look.guarded.contains(&disk.name) =>
        {
            vec![ask_guard(disk), nothing(disk)]
        }
        (Verdict::Stalling | Verdict::Flooding, Some(disk)) => {
            let device = device(look.status, disk.id);
            let pace = device.and_then(|device| pace(look, users, disk, device));
            let shorten = device
                .filter(|_| !disk.victims.is_empty())
                .and_then(|device| queue::shorten(disk, device));
            // A limit does not shorten what waits already: it stops writers, the victim too, until
            // that is written. So a victim has it only where a queue can't help.
            let may_limit = |device: &&Device| {
                !disk.floods.is_empty()
                    && (disk.victims.is_empty() || !queue::is_there(disk, device))
            };
            let limit =
                device.filter(may_limit).and_then(|device| limit(look.status, disk, device));
            [pace, shorten, Some(run_guard(disk)), limit, Some(nothing(disk))]
                .into_iter()
                .flatten()
                .collect()
        }
        (Verdict::Quiet, _) if outlook.is_some_and(|outlook| is_at_risk(look, outlook)) => {
            vec![stay_on()]
        }
        _ => Vec::new(),
    }
}

/// Whether what could pile up takes longer than people wait, and no guard keeps it from that.
fn is_at_risk(look: Look<'_>, outlook: &Outlook) -> bool {
    let takes_long = outlook.limit_s.value().is_some_and(|seconds| *seconds > LONG_DRAIN_S);
    takes_long && !look.guarded.contains(&outlook.name)
}

/// Holds the heaviest flood's control group to half of the drain rate. Not, if floods of other
/// groups fill the rest of it, or if the group has a limit of its own: the new one may be looser.
fn pace(look: Look<'_>, users: &[DiskUser], disk: &Disk, device: &Device) -> Option<Action> {
    let status = look.status;
    let flood = disk.floods.first()?;
    // A copy from another disk uses both.
    let pid = flood.process.pid;
    let is_it = |user: &&DiskUser| user.pid == pid && user.disk == disk.id;
    let user = users.iter().filter(is_it).find(|user| is_flood(status, user))?;
    let group = user.group.value().map(|group| group.trim_matches('/'))?;
    let drains = rate(device)?;
    let is_in_group = |pid: u32| {
        let of = |user: &&DiskUser| user.pid == pid;
        let groups = users.iter().filter(of).filter_map(|user| user.group.value());
        groups.into_iter().all(|of_flood| is_in(of_flood, group))
    };
    let others = disk.floods.iter().filter(|flood| !is_in_group(flood.process.pid));
    let others: f64 = others.map(|flood| flood.dirtied_bytes_per_s).sum();
    // A stacked device has no `io.max` that reaches its disks.
    let is_stacked = device.id == disk.id && !device.leaves.is_empty();
    let is_charged = device.mounts.iter().any(|mount| charges_writeback(&mount.filesystem));
    let is_victim = |user: &&DiskUser| disk.victims.iter().any(|v| v.process.pid == user.pid);
    let holds_victim = users
        .iter()
        .filter(is_victim)
        .any(|victim| victim.group.value().is_some_and(|of_victim| is_in(of_victim, group)));
    let cant = group.is_empty() || is_stacked || !is_charged || look.limited_groups.contains(group);
    if cant
        || holds_victim
        || others > (1.0 - PACED_SHARE) * drains
        || !charges_buffered_writes(&status.machine)
        || victim_in(group, status, users).is_some()
    {
        return None;
    }
    let used = look.group_memory.get(group).copied().unwrap_or(0);
    let settings = paced(group, &disk.name, drains, used, dirty_share(status));
    let name = called(group, user);
    let price = format!(
        "{name}, with all its processes, writes at most {} (half of what {} drains), and is \
         slowed where it needs more memory",
        speed(PACED_SHARE * drains),
        disk.name
    );
    let gain = "what it writes waits in its own memory, and half of the disk is free for others";
    Some(Action {
        gain: Some(gain.to_owned()),
        ..on_trial(format!("pace {name}"), settings, price)
    })
}

/// An action that changes no setting for a time.
fn plain(what: impl Into<String>, command: Option<String>, price: impl Into<String>) -> Action {
    Action { what: what.into(), command, settings: Vec::new(), gain: None, price: price.into() }
}

/// The hard limit's share of all RAM: rather too small, because not all RAM may be dirty.
fn dirty_share(status: &Status) -> Option<f64> {
    let ram = status.machine.ram_bytes.value().filter(|bytes| **bytes > 0)?;
    Some(hard_limit(status)? as f64 / *ram as f64)
}

/// A user's group as people know it: a container's by the container, else by the unit.
fn called(group: &str, user: &DiskUser) -> String {
    let container = user.workload.label().filter(|_| is_containers(group));
    container.unwrap_or_else(|| unit(group).unwrap_or(group).to_owned())
}

/// Lets no more wait for the disk than drains in [`HARD_DELAY_S`].
fn limit(status: &Status, disk: &Disk, device: &Device) -> Option<Action> {
    let (drains, hard) = (rate(device)?, hard_limit(status)?);
    let bytes = |seconds: f64| ((drains * seconds) as u64).max(2 * FLUSHER_CHUNK_BYTES);
    let wanted = bytes(HARD_DELAY_S);
    if wanted >= own_limit(device, hard) {
        return None;
    }
    let (settings, price) = match own_share(status, device, hard, wanted) {
        Some(settings) => (settings, stops(disk, prefix(device), wanted)),
        // It would be refused where it could hang a server.
        None if wanted < hard && !status.servers.iter().any(|server| server.may_hang()) => {
            let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
            let background = bytes(BACKGROUND_DELAY_S).min(wanted / 2);
            let settings = format!(
                "vm.dirty_bytes={}MiB vm.dirty_background_bytes={}MiB",
                mebibytes(wanted),
                mebibytes(background)
            );
            // `apply` lowers it in steps.
            let price = "all writers of the machine slow down while the limit falls in steps, \
                then write at the disk's speed";
            (settings, price.to_owned())
        }
        None => return None,
    };
    let what = format!(
        "limit what waits for {} to {}, which it drains in {}",
        prefix(device),
        Bytes(wanted),
        time(wanted as f64 / drains)
    );
    Some(on_trial(what, settings.split(' ').map(str::to_owned).collect(), price))
}

/// The price of a disk's own limit, which holds at once.
fn stops(disk: &Disk, name: &str, limit: u64) -> String {
    let victim = disk.victims.first().map(|victim| format!(", {} too,", victim.process.name));
    let until = match (disk.backlog_bytes.value(), disk.drain.now_s.value()) {
        (Some(bytes), Some(seconds)) if *bytes > limit => format!(
            "{} stops until the {} that wait are written, which takes {}, then",
            victim.unwrap_or_default(),
            Bytes(*bytes),
            time(*seconds)
        ),
        _ => String::new(),
    };
    format!("every writer to {name}{until} writes at the disk's speed")
}

/// Shows a disk's requests, where no flood explains the wait.
fn requests(disk: &Disk) -> Action {
    plain(
        format!("see what else {} does", disk.name),
        Some(format!("floodwall probe {}", disk.name)),
        "changes nothing",
    )
}

/// What the guard that steers the disk does about it: a change beside it would be in its way.
fn ask_guard(disk: &Disk) -> Action {
    plain(
        format!("ask the guard of {} what it does about it", disk.name),
        Some("floodwall guard status".to_owned()),
        "changes nothing",
    )
}

fn run_guard(disk: &Disk) -> Action {
    plain(
        "run the guard",
        Some(format!("floodwall guard --device {}", disk.name)),
        "it slows a flood only while a process waits, and puts everything back when it ends",
    )
}

/// The guard for a machine on which nothing is wrong yet.
fn stay_on() -> Action {
    plain(
        "run the guard, for when a flood comes",
        Some("floodwall guard".to_owned()),
        "it changes nothing until a process waits, and puts everything back when it ends",
    )
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
        _ => "nothing changes".to_owned(),
    };
    plain("do nothing", None, drains)
}
