//! Victims and floods, by disk.
//!
//! ```text
//! users ─▶ disks that they use ─▶ each with: the device that holds it, backlog, drain rate
//!                                  floods: of this disk, or of a device on top of it
//!                                  victims: wait longer than the disk alone explains
//! ```
//!
//! Devices on top of one another share the disk at the bottom. A flood of a loop device reaches the
//! disk that its file is on.

use std::collections::BTreeSet;

use floodwall_model::diagnosis::{Disk, Flood, LONG_BACKLOG_S, Process, Verdict, Victim, Wait};
use floodwall_model::frame::is_kernel_worker;
use floodwall_model::status::{Device, Drain, DrainSource, FIRST_GUESS, Status};
use floodwall_model::{DeviceId, Reading};

use super::super::facts::DiskUser;
use super::super::groups::floods;
use super::super::view::{FLUSHER_CHUNK_BYTES, rate, writable};

/// A commit or read that takes longer beside a flood is a stall: the guard's goal for victims that
/// it has not seen alone (guard `UNKNOWN_GOAL`).
const BESIDE_FLOOD_S: f64 = 0.05;
/// The same without a flood: a commit on a disk that seeks is some turns and seeks, tens of
/// milliseconds.
const ALONE_S: f64 = 0.1;
/// The same at the kernel's first guess of a rate, where none was seen, in seconds.
const LARGE_S: f64 = 3.0;

/// The disks on which a process waits long or floods, or that have a long backlog, the worst first.
pub(super) fn disks(status: &Status, users: &[DiskUser]) -> Vec<Disk> {
    let has_large = |device: &&Device| {
        let backlog_bytes = sum(&device.dirty_bytes, &device.writeback_bytes);
        writable(device) && is_large(&backlog_bytes, &device.drain)
    };
    let backlogged = status.devices.iter().filter(has_large).map(|device| {
        let leaf = device.leaves.first().filter(|_| device.leaves.len() == 1);
        leaf.map_or(device.id, |leaf| leaf.id)
    });
    let used: BTreeSet<DeviceId> = users.iter().map(|user| user.disk).chain(backlogged).collect();
    let (mut flooding, waiting): (Vec<_>, Vec<_>) =
        users.iter().partition(|user| is_flood(status, user) || waits_for_own(status, user));
    flooding.sort_by_key(|user| {
        let bytes = user.dirtied_bytes.max(user.earlier_bytes);
        (is_kernel_worker(&user.name), std::cmp::Reverse(bytes), user.pid)
    });
    let disk = |id| disk(status, &flooding, &waiting, id);
    let mut disks: Vec<Disk> = used.into_iter().filter_map(disk).collect();
    let waits = |disk: &Disk| disk.victims.iter().map(Victim::longest_s).fold(0.0, f64::max);
    let floods = |disk: &Disk| disk.floods.iter().map(|f| f.dirtied_bytes_per_s).sum::<f64>();
    disks.sort_by(|a, b| {
        let by_wait = waits(b).total_cmp(&waits(a));
        b.verdict.cmp(&a.verdict).then(by_wait).then(floods(b).total_cmp(&floods(a)))
    });
    disks
}

/// One disk; `None` if nothing waits long for it and nothing floods it.
fn disk(
    status: &Status,
    flooding: &[&DiskUser],
    waiting: &[&DiskUser],
    id: DeviceId,
) -> Option<Disk> {
    let device = device(status, id);
    let bottom = bottoms(status, id);
    let shares = |user: &&DiskUser| bottoms(status, user.disk).iter().any(|b| bottom.contains(b));
    let flooding: Vec<&DiskUser> = flooding.iter().copied().filter(shares).collect();
    let drain = device.map_or_else(unknown_drain, |device| device.drain.clone());
    let backlog_bytes = device.map_or_else(
        || Reading::Absent(NO_FILESYSTEM.to_owned()),
        |device| sum(&device.dirty_bytes, &device.writeback_bytes),
    );
    let window_s = status.window_s;
    let mut disk = Disk {
        verdict: Verdict::Quiet,
        name: name(status, id),
        id,
        mounts: device.map(mounts).unwrap_or_default(),
        is_backlogged: is_backlogged(&backlog_bytes, &drain),
        backlog_bytes,
        drain,
        victims: Vec::new(),
        floods: flooding.iter().map(|user| flood(status, user, window_s)).collect(),
    };
    let least_s = if disk.is_outrun() { BESIDE_FLOOD_S } else { ALONE_S };
    let waiting = waiting.iter().filter(|user| user.disk == id);
    disk.victims =
        waiting.map(|user| victim(user)).filter(|victim| victim.longest_s() >= least_s).collect();
    disk.victims.sort_by(|a, b| {
        let by_wait = b.longest_s().total_cmp(&a.longest_s());
        is_worker(a).cmp(&is_worker(b)).then(by_wait)
    });
    // A flood of a device on top of it matters here only if a process waits.
    let is_here = flooding.iter().any(|user| user.disk == id);
    let is_flooded = is_here && disk.is_outrun() || is_large(&disk.backlog_bytes, &disk.drain);
    disk.verdict = match (disk.victims.is_empty(), is_flooded) {
        (false, _) => Verdict::Stalling,
        (true, true) => Verdict::Flooding,
        (true, false) => return None,
    };
    Some(disk)
}

/// Whether what is waiting for a disk explains a wait: it takes long to drain, or how long it takes
/// is not known.
fn is_backlogged(backlog_bytes: &Reading<u64>, drain: &Drain) -> bool {
    match drain.now_s.value() {
        Some(seconds) => *seconds >= LONG_BACKLOG_S,
        None => backlog_bytes.value().is_some_and(|bytes| *bytes >= FLUSHER_CHUNK_BYTES),
    }
}

/// Whether a backlog matters though nothing waits and nothing floods: a commit may have to wait for
/// it.
fn is_large(backlog_bytes: &Reading<u64>, drain: &Drain) -> bool {
    match drain.now_s.value().filter(|_| drain.from.is_seen()) {
        Some(seconds) => *seconds >= LONG_BACKLOG_S,
        None => backlog_bytes.value().is_some_and(|bytes| *bytes as f64 >= LARGE_S * FIRST_GUESS),
    }
}

/// Why nothing is known of a disk's backlog.
const NO_FILESYSTEM: &str = "no mounted filesystem is on it";

fn unknown_drain() -> Drain {
    let absent = || Reading::Absent(NO_FILESYSTEM.to_owned());
    Drain {
        rate_bytes_per_s: absent(),
        from: DrainSource::Unknown,
        now_s: absent(),
        hard_limit_s: absent(),
        background_limit_s: absent(),
    }
}

/// Whether a process floods its disk.
pub(super) fn is_flood(status: &Status, user: &DiskUser) -> bool {
    floods(user, rate_of(status, user), status.window_s)
}

/// Whether a process waits for its own data: what it dirtied since its start explains the wait. A
/// copy's last fsync takes as long as its backlog. A wait may take twice as long as that drains:
/// the disk also works for others.
fn waits_for_own(status: &Status, user: &DiskUser) -> bool {
    user.earlier_bytes > 0
        && 2.0 * user.earlier_bytes as f64 >= user.oldest_s * rate_of(status, user)
}

/// The drain rate of a process's disk, in bytes a second.
fn rate_of(status: &Status, user: &DiskUser) -> f64 {
    device(status, user.disk).and_then(rate).unwrap_or(FIRST_GUESS)
}

/// The disks at the bottom of one: those that drain for it, else itself.
pub(super) fn bottoms(status: &Status, id: DeviceId) -> Vec<DeviceId> {
    let on_top = status.devices.iter().find(|device| device.id == id && !device.leaves.is_empty());
    match on_top {
        Some(device) => device.leaves.iter().map(|leaf| leaf.id).collect(),
        None => vec![id],
    }
}

/// The device with a filesystem that a disk belongs to. Of several the one with the most to write.
pub(super) fn device(status: &Status, id: DeviceId) -> Option<&Device> {
    let holds =
        |device: &&Device| device.id == id || device.leaves.iter().any(|leaf| leaf.id == id);
    let backlog = |device: &&Device| {
        sum(&device.dirty_bytes, &device.writeback_bytes).into_value().unwrap_or(0)
    };
    let itself = status.devices.iter().find(|device| device.id == id);
    let on_it = || status.devices.iter().filter(|device| writable(device)).filter(holds);
    itself.or_else(|| on_it().max_by_key(backlog))
}

/// Both together, if both are known.
pub(super) fn sum(a: &Reading<u64>, b: &Reading<u64>) -> Reading<u64> {
    a.clone().and_then(|a| b.clone().map(|b| a.saturating_add(b)))
}

/// A disk's name; its number if it has none here.
fn name(status: &Status, id: DeviceId) -> String {
    let itself = status.devices.iter().find(|device| device.id == id).map(|d| &d.name);
    let leaves = status.devices.iter().flat_map(|device| &device.leaves);
    let leaf = leaves.filter(|leaf| leaf.id == id).map(|leaf| &leaf.name).next();
    itself.or(leaf).map_or_else(|| id.to_string(), Clone::clone)
}

fn mounts(device: &Device) -> Vec<String> {
    let written = device.mounts.iter().filter(|mount| !mount.read_only);
    written.map(|mount| mount.mountpoint.clone()).collect()
}

fn is_worker(victim: &Victim) -> bool {
    is_kernel_worker(&victim.process.name)
}

fn victim(user: &DiskUser) -> Victim {
    Victim {
        process: process(user),
        waits_for: if user.waits_for_commits { Wait::Commits } else { Wait::Reads },
        median_s: user.median_s,
        oldest_s: user.oldest_s,
    }
}

fn flood(status: &Status, user: &DiskUser, window_s: f64) -> Flood {
    let is_own = !is_flood(status, user) && waits_for_own(status, user);
    Flood {
        process: process(user),
        dirtied_bytes_per_s: user.dirtied_bytes as f64 / window_s,
        earlier_bytes: is_own.then_some(user.earlier_bytes),
    }
}

fn process(user: &DiskUser) -> Process {
    Process { pid: user.pid, name: user.name.clone(), workload: user.workload.clone() }
}
