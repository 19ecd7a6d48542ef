//! Missing control and sight: control groups, pressure, debugfs; and swap, which waits with all
//! other I/O.

use floodwall_model::Reading;
use floodwall_model::finding::Severity;
use floodwall_model::printable::shell_word as word;
use floodwall_model::status::Machine;

use super::facts::Facts;
use super::found::Found;
use super::remedy::kernel_argument;
use super::view::{rate, size, time, writable};
use crate::bdi::NO_DEBUGFS;

/// Less swap in use than this is no burden.
const MUCH_SWAP_BYTES: u64 = 64 << 20;

/// Whether the kernel charges buffered writes to control groups, as far as can be told.
pub(super) fn charges_buffered_writes(machine: &Machine) -> bool {
    machine.cgroup_v2_controllers.value().is_some() && why_not_charged(machine).is_none()
}

/// Why the kernel can't charge buffered writes to control groups; `None` also where that can't be
/// told.
fn why_not_charged(machine: &Machine) -> Option<String> {
    // Writeback is charged where memory and io are controllers of one hierarchy of version 2
    // (mm/backing-dev.c `inode_cgwb_enabled`).
    let needed = ["memory", "io"];
    let v1: Vec<&str> = machine
        .cgroup_v1_controllers
        .iter()
        .map(String::as_str)
        .filter(|name| matches!(*name, "memory" | "blkio"))
        .collect();
    if !v1.is_empty() {
        return Some(format!(
            "{} of version 1 {} mounted; version 2 can't have {} then",
            v1.join(" and "),
            if v1.len() == 1 { "is" } else { "are" },
            if v1.len() == 1 { "it" } else { "them" }
        ));
    }
    let here = machine.cgroup_v2_controllers.value()?;
    let lacking: Vec<&str> =
        needed.into_iter().filter(|name| !here.iter().any(|h| h == name)).collect();
    (!lacking.is_empty())
        .then(|| format!("cgroup.controllers of version 2 lacks {}", lacking.join(" and ")))
}

/// FW034: buffered writes can't be charged to a control group, so no group can be held to its
/// share.
pub(super) fn no_cgroup_writeback(facts: Facts<'_>) -> Option<Found> {
    let machine = &facts.status.machine;
    let evidence = why_not_charged(machine)?;
    let remedy = kernel_argument(machine, "systemd.unified_cgroup_hierarchy=1");
    Some(Found::here(Severity::Note, evidence, remedy))
}

/// FW035: the kernel does not tell whether tasks wait.
pub(super) fn no_pressure(facts: Facts<'_>) -> Option<Found> {
    let machine = &facts.status.machine;
    let Reading::Absent(why) = &machine.psi_io_some_avg10_percent else { return None };
    // A tree without any of /proc tells nothing of the kernel.
    let release = machine.kernel.value()?;
    let remedy = kernel_argument(machine, "psi=1");
    Some(Found::here(Severity::Note, format!("{why}, on {release}"), remedy))
}

/// FW036: the dirty data of each device, and its drain rate, can't be seen.
pub(super) fn no_debugfs(facts: Facts<'_>) -> Option<Found> {
    let unseen = |reading: &Reading<u64>| match reading {
        Reading::Absent(why) if why.contains("debugfs") => Some(why.clone()),
        _ => None,
    };
    let devices = &facts.status.devices;
    let why = devices.iter().find_map(|device| {
        unseen(&device.dirty_bytes).or_else(|| unseen(&device.device_limit_bytes))
    })?;
    let evidence = format!(
        "{why}: no drain rate is known for {} of {} devices",
        devices.iter().filter(|d| rate(d).is_none()).count(),
        devices.len()
    );
    let remedy = if why == NO_DEBUGFS {
        "grep CONFIG_DEBUG_FS= /boot/config-*   # boot a kernel that has it"
    } else {
        // Root sees debugfs through a private mount, wherever the kernel lets it.
        "sudo floodwall status   # on the host, if this is a container"
    };
    Some(Found::here(Severity::Note, evidence, remedy))
}

/// FW037: memory that was swapped out comes back from a disk that floods are written to.
pub(super) fn swap_behind_flood(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut commands = Vec::new();
    for swap in
        facts.status.machine.swaps.value()?.iter().filter(|swap| swap.used_bytes >= MUCH_SWAP_BYTES)
    {
        let is_on = |name: &str| swap.disks.iter().any(|disk| disk == name);
        let shares = |device: &&floodwall_model::status::Device| {
            writable(device)
                && (is_on(&device.name) || device.leaves.iter().any(|leaf| is_on(&leaf.name)))
        };
        let Some(device) = facts.status.devices.iter().find(shares) else { continue };
        let waits = match device.drain.now_s.value() {
            Some(seconds) if *seconds > 0.0 => {
                format!("; what is dirty for it now takes {} to drain", time(*seconds))
            }
            _ => String::new(),
        };
        let evidence = format!(
            "{}: {} in use on {}, which also holds {}{waits}",
            swap.path,
            size(swap.used_bytes),
            swap.disks.join(" and "),
            device
                .mounts
                .iter()
                .map(|mount| mount.mountpoint.as_str())
                .take(2)
                .collect::<Vec<_>>()
                .join(" and ")
        );
        found.add(Severity::Note, &swap.path, evidence);
        found.cost_bytes(swap.used_bytes);
        commands.push(format!("swapoff {}", word(&swap.path)));
    }
    found.remedied_by(
        commands.join(" && ")
            + "   # if free -h shows as much memory available; else have it on another disk",
    )
}

#[cfg(test)]
mod tests {
    use floodwall_model::status::Swap;

    use super::*;
    use crate::findings::testing::{Machine, found};

    #[test]
    fn fw034_wants_memory_and_io_in_version_2() {
        let mut machine = Machine::healthy();
        machine.status.machine.cgroup_v1_controllers =
            vec!["blkio".into(), "cpu".into(), "memory".into()];
        insta::assert_snapshot!(found(&machine, "FW034").unwrap().evidence[0], @"blkio and memory \
            of version 1 are mounted; version 2 can't have them then");
        // Those that do not bear on writeback may stay.
        machine.status.machine.cgroup_v1_controllers = vec!["cpu".into()];
        assert_eq!(found(&machine, "FW034"), None);
        machine.status.machine.cgroup_v2_controllers = Reading::Value(vec!["memory".into()]);
        insta::assert_snapshot!(found(&machine, "FW034").unwrap().evidence[0], @"\
            cgroup.controllers of version 2 lacks io");
        machine.status.machine.cgroup_v2_controllers = Reading::Unreadable("no".into());
        assert_eq!(found(&machine, "FW034"), None);
    }

    #[test]
    fn fw035_and_fw036_say_what_can_not_be_seen() {
        let mut machine = Machine::healthy();
        machine.status.machine.psi_io_some_avg10_percent =
            Reading::Absent("/proc/pressure/io does not exist".into());
        insta::assert_snapshot!(found(&machine, "FW035").unwrap().evidence[0], @"/proc/pressure/io \
            does not exist, on 6.18.0");
        machine.status.machine.psi_io_some_avg10_percent = Reading::Unreadable("no".into());
        assert_eq!(found(&machine, "FW035"), None);
        machine.status.devices[0].dirty_bytes = Reading::Absent("debugfs is not mounted".into());
        machine.status.devices[0].drain.rate_bytes_per_s =
            Reading::Absent("debugfs is not mounted".into());
        insta::assert_snapshot!(found(&machine, "FW036").unwrap().evidence[0], @"debugfs is not \
            mounted: no drain rate is known for 1 of 1 devices");
        assert!(found(&machine, "FW036").unwrap().remedy.starts_with("sudo floodwall "));
        // Root sees no more of a kernel that has none.
        machine.status.devices[0].dirty_bytes = Reading::Absent(NO_DEBUGFS.into());
        assert!(found(&machine, "FW036").unwrap().remedy.starts_with("grep CONFIG_DEBUG_FS"));
        machine.status.devices[0].dirty_bytes = Reading::Unreadable("needs root (debugfs)".into());
        assert_eq!(found(&machine, "FW036"), None);
    }

    #[test]
    fn fw037_wants_swap_in_use_beside_a_filesystem() {
        let mut machine = Machine::healthy();
        let swap = |disk: &str, used_bytes: u64| {
            Reading::Value(vec![Swap {
                path: "/dev/sda3".into(),
                disks: vec![disk.into()],
                size_bytes: 2 << 30,
                used_bytes,
            }])
        };
        machine.status.machine.swaps = swap("sda", 512 << 20);
        insta::assert_snapshot!(found(&machine, "FW037").unwrap().evidence[0], @"/dev/sda3: 512 \
            MiB in use on sda, which also holds /mnt/sda");
        machine.status.machine.swaps = swap("sdb", 512 << 20);
        assert_eq!(found(&machine, "FW037"), None);
        machine.status.machine.swaps = swap("sda", 1 << 20);
        assert_eq!(found(&machine, "FW037"), None);
    }
}
