//! Who waits for a disk, because of what, and what can be done: one look as a diagnosis.
//!
//! ```text
//! users of disks ─ without Floodwall's ─┬─ disks: victims and floods of each ─┐
//! Status ───────────────────────────────┘        backlog, drain rate          ├▶ Diagnosis
//! what the look could not see ── verdict, outlook ── actions ─────────────────┘
//! ```
//!
//! Pure. Figures are those of the look; what was not seen stays unknown.

mod actions;
mod disks;
mod look;
mod queue;
#[cfg(test)]
mod tests;
mod trial;

use floodwall_model::diagnosis::{Diagnosis, Disk, Outlook, Verdict, Whole, Written};
use floodwall_model::status::{Device, Drain, Status};
use floodwall_model::{DeviceId, Reading};

use super::facts::DiskUser;
use super::view::{hard_limit, own_limit, prefix, writable};
use disks::{bottoms, disks, sum};
pub use look::Look;

/// Less than this share of the look's time with a waiting task is no stall, in percent.
const NO_WAIT_PERCENT: f64 = 1.0;

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// The whole machine.
    Machine,
    /// Disks: those of a device, a mount point or a path.
    Disks {
        /// As it was asked for.
        named: String,
        /// Their numbers.
        ids: Vec<DeviceId>,
    },
    /// Processes: one, or all of a name or a unit.
    Processes {
        /// As it was asked for.
        named: String,
        /// Their numbers.
        pids: Vec<u32>,
    },
}

impl About {
    /// As it was asked for.
    fn named(&self) -> Option<&str> {
        match self {
            Self::Machine => None,
            Self::Disks { named, .. } | Self::Processes { named, .. } => Some(named),
        }
    }

    /// Whether a disk belongs to what was asked.
    fn covers(&self, status: &Status, disk: &Disk) -> bool {
        match self {
            Self::Machine => true,
            Self::Disks { ids, .. } => {
                let wanted = bottoms(status, disk.id);
                ids.iter().any(|id| bottoms(status, *id).iter().any(|b| wanted.contains(b)))
            }
            Self::Processes { pids, .. } => {
                let of = |pid: &u32| pids.contains(pid);
                disk.victims.iter().any(|victim| of(&victim.process.pid))
                    || disk.floods.iter().any(|flood| of(&flood.process.pid))
            }
        }
    }
}

/// The diagnosis of a look.
#[must_use]
pub fn diagnose(look: Look<'_>, about: &About) -> Diagnosis {
    let users: Vec<DiskUser> =
        look.users.iter().filter(|user| !look.own.contains(&user.pid)).cloned().collect();
    let mut disks = disks(look.status, &users);
    disks.retain(|disk| about.covers(look.status, disk));
    if let About::Processes { pids, .. } = about {
        // Who was asked about comes first.
        disks.iter_mut().for_each(|disk| {
            disk.victims.sort_by_key(|victim| !pids.contains(&victim.process.pid));
        });
    }
    let verdict = verdict(look, &disks);
    let outlook = outlook(look, about);
    let actions = actions::actions(look, &users, verdict, &disks, outlook.as_ref());
    Diagnosis {
        verdict,
        window_s: look.status.window_s,
        source: look.source,
        about: about.named().map(str::to_owned),
        disks,
        outlook,
        machine: whole(look),
        actions,
        actions_need_root: !look.is_root,
        unseen: look.unseen.to_vec(),
        root_would_add: look.status.root_would_add.clone(),
    }
}

/// How long a process waits for a disk in a look, in seconds
/// ([`DiskUser::longest_s`](super::facts::DiskUser::longest_s)); `None` if it did not wait.
#[must_use]
pub fn wait_of(look: Look<'_>, pid: u32, disk: DeviceId) -> Option<f64> {
    let of = |user: &&DiskUser| user.pid == pid && user.disk == disk;
    look.users.iter().filter(of).filter_map(DiskUser::longest_s).reduce(f64::max)
}

/// How fast a disk drains in a look; `None` if no filesystem is on it.
#[must_use]
pub fn drain_of(look: Look<'_>, disk: DeviceId) -> Option<&Drain> {
    disks::device(look.status, disk).map(|device| &device.drain)
}

/// The worst of the disks' verdicts. Where waits are not seen, the kernel's pressure may tell that
/// there are none.
fn verdict(look: Look<'_>, disks: &[Disk]) -> Verdict {
    let worst = disks.iter().map(|disk| disk.verdict).max().unwrap_or(Verdict::Quiet);
    let none_waits = look.waited_percent.value().is_some_and(|share| *share < NO_WAIT_PERCENT);
    if look.sees_waits || none_waits { worst } else { worst.max(Verdict::Unknown) }
}

/// What the machine as a whole tells.
fn whole(look: Look<'_>) -> Whole {
    let machine = &look.status.machine;
    let written = look.status.devices.iter().filter_map(|device| {
        let bytes_per_s = *device.written_bytes_per_s.value()?;
        (bytes_per_s > 0.0).then(|| Written { name: device.name.clone(), bytes_per_s })
    });
    Whole {
        backlog_bytes: sum(&machine.dirty_bytes, &machine.writeback_bytes),
        waited_percent: look.waited_percent.clone(),
        written: written.collect(),
    }
}

/// What a flood could do to the disk that was asked for, or that these processes used, else to the
/// one that would take longest.
fn outlook(look: Look<'_>, about: &About) -> Option<Outlook> {
    let status = look.status;
    let hard = hard_limit(status).filter(|hard| *hard > 0)?;
    let is_asked = |device: &&Device| match about {
        About::Disks { ids, .. } => ids.iter().any(|id| {
            let wanted = bottoms(status, *id);
            bottoms(status, device.id).iter().any(|bottom| wanted.contains(bottom))
        }),
        About::Processes { pids, .. } => look.users.iter().any(|user| {
            let used = || disks::device(status, user.disk);
            pids.contains(&user.pid) && used().is_some_and(|used| used.id == device.id)
        }),
        About::Machine => true,
    };
    let of = |device: &Device| {
        let limit = own_limit(device, hard);
        let limit_s = device.drain.rate_bytes_per_s.clone().and_then(|rate| {
            if rate > 0.0 {
                Reading::Value(limit as f64 / rate)
            } else {
                Reading::Absent("nothing was written during the window".to_owned())
            }
        });
        let drain = device.drain.clone();
        Outlook { name: prefix(device).to_owned(), limit_bytes: limit, drain, limit_s }
    };
    let outlooks = status.devices.iter().filter(|d| writable(d)).filter(is_asked).map(of);
    let seconds = |outlook: &Outlook| outlook.limit_s.value().copied().unwrap_or(-1.0);
    // The first of those that take equally long.
    outlooks.reduce(|a, b| if seconds(&b) > seconds(&a) { b } else { a })
}
