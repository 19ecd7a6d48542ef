//! Filesystems that make one file wait for another, or hold more than their link can carry.

use floodwall_model::Reading;
use floodwall_model::finding::Severity;
use floodwall_model::printable::shell_word as word;
use floodwall_model::status::{Elsewhere, MountedOn};

use super::facts::Facts;
use super::found::Found;
use super::remedy::{apply, fstab, own_share};
use super::view::{HARD_DELAY_S, LONG_DRAIN_S, hard_limit, own_limit, size, speed, time, writable};

/// A journal that is committed less often loses more than the flusher's own 35 s would.
const LONG_COMMIT_S: u64 = 60;

/// The value of an option `name=value`.
fn option<'a>(mount: &'a MountedOn, name: &str) -> Option<&'a str> {
    mount.options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
}

fn has(mount: &MountedOn, name: &str) -> bool {
    mount.options.iter().any(|option| option == name)
}

/// Every mount that can be written, with its device.
fn mounts<'a>(
    facts: Facts<'a>,
) -> impl Iterator<Item = (&'a floodwall_model::status::Device, &'a MountedOn)> {
    facts
        .status
        .devices
        .iter()
        .flat_map(|device| device.mounts.iter().filter(|m| !m.read_only).map(move |m| (device, m)))
}

/// FW029: an fsync of one file writes what others have made dirty.
pub(super) fn entangled_journal(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut commands = Vec::new();
    let mut edits = Vec::new();
    for (device, mount) in mounts(facts) {
        let mode = option(mount, "data");
        let source = format!("/dev/{}", mount.through.as_deref().unwrap_or(&device.name));
        let why = match (mount.filesystem.as_str(), mode) {
            ("ext3" | "ext4", Some("journal")) => {
                "data=journal: all data goes through the journal, and is written twice"
            }
            // The ext4 driver does not delay allocation on ext3 either.
            ("ext3", None | Some("ordered")) => {
                "ext3, data=ordered: each commit writes every file's new data first"
            }
            ("ext4", None | Some("ordered")) if has(mount, "nodelalloc") => {
                "nodelalloc, data=ordered: each commit writes every file's new data first"
            }
            _ => continue,
        };
        found.add(Severity::Warning, &mount.mountpoint, format!("{}: {why}", mount.mountpoint));
        let option = match (mount.filesystem.as_str(), mode) {
            (_, Some("journal")) => "^journal_data",
            ("ext3", _) => "journal_data_writeback",
            _ => {
                edits.push((mount.mountpoint.as_str(), "nodelalloc".into(), "delalloc".into()));
                continue;
            }
        };
        commands.push(format!("tune2fs -o {option} {}", word(&source)));
    }
    if !edits.is_empty() {
        commands.push(fstab(&edits));
    }
    found.remedied_by(commands.join("; "))
}

/// FW030: every write waits for the device.
pub(super) fn mounted_sync(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut edits = Vec::new();
    for (_, mount) in mounts(facts).filter(|(_, mount)| has(mount, "sync")) {
        let evidence = format!(
            "{}: mounted with sync: every write call waits until its data is stored",
            mount.mountpoint
        );
        found.add(Severity::Note, &mount.mountpoint, evidence);
        edits.push((mount.mountpoint.as_str(), "sync".to_owned(), "async".to_owned()));
    }
    found.remedied_by(fstab(&edits))
}

/// FW031: a mount from a server may hold more dirty than its link carries in 1.5 s.
pub(super) fn more_than_the_link(facts: Facts<'_>) -> Option<Found> {
    let hard = hard_limit(facts.status)?;
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    let mut slowest = f64::INFINITY;
    for device in facts.status.devices.iter().filter(|device| writable(device)) {
        let Some(link) = device.link.value() else { continue };
        let limit = own_limit(device, hard);
        let seconds = limit as f64 / link.bytes_per_s;
        if seconds <= HARD_DELAY_S {
            continue;
        }
        let severity = if seconds > LONG_DRAIN_S { Severity::Warning } else { Severity::Note };
        let evidence = format!(
            "{}: {} over {} at {} ({}) take {} at best",
            device.name,
            size(limit),
            link.interface,
            speed(link.bytes_per_s),
            link.found_by,
            time(seconds)
        );
        found.add(severity, &device.name, evidence);
        found.cost_s(seconds);
        found.cost_bytes(limit);
        slowest = slowest.min(link.bytes_per_s);
        let wanted = (link.bytes_per_s * HARD_DELAY_S) as u64;
        settings.extend(own_share(facts.status, device, hard, wanted));
    }
    let remedy = if settings.is_empty() {
        let megabits = (slowest * 8.0 / 1e6).round();
        format!(
            "floodwall size --link {megabits}Mbit/s --toml > limits.toml && floodwall apply \
             limits.toml"
        )
    } else {
        apply(&settings)
    };
    found.remedied_by(remedy)
}

/// FW048: a filesystem holds its dirty data where the kernel's limits do not reach.
pub(super) fn own_dirty_data(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let of_zfs = |mount: &&Elsewhere| mount.filesystem == "zfs";
    for mount in facts.status.elsewhere.iter().filter(of_zfs) {
        let evidence = format!(
            "{}: ZFS keeps dirty data in its own cache, where no vm.dirty_* limit acts",
            mount.mountpoint
        );
        found.add(Severity::Note, &mount.mountpoint, evidence);
    }
    found.remedied_by("cat /sys/module/zfs/parameters/zfs_dirty_data_max")
}

/// FW032: a loop device's data is in the page cache twice.
pub(super) fn cached_twice(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut commands = Vec::new();
    for device in facts.status.devices.iter().filter(|device| writable(device)) {
        if device.loop_direct_io != Reading::Value(false) {
            continue;
        }
        let evidence = format!(
            "{}: dio=0 ({}): what it has written back is dirty again in the page cache of its file",
            device.name, device.kind
        );
        found.add(Severity::Note, &device.name, evidence);
        if let Some(bytes) = device.dirty_bytes.value() {
            found.cost_bytes(*bytes);
        }
        commands.push(format!("losetup --direct-io=on /dev/{}", device.name));
    }
    found.remedied_by(commands.join(" && "))
}

/// FW033: a journal that is committed seldom.
pub(super) fn long_commit(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut edits = Vec::new();
    for (_, mount) in mounts(facts) {
        let Some(seconds) = option(mount, "commit").and_then(|text| text.parse::<u64>().ok())
        else {
            continue;
        };
        if seconds <= LONG_COMMIT_S {
            continue;
        }
        let evidence = format!(
            "{}: commit={seconds}: a power cut loses up to {seconds} s of changes",
            mount.mountpoint
        );
        found.add(Severity::Note, &mount.mountpoint, evidence);
        found.cost_s(seconds as f64);
        let usual = if mount.filesystem == "btrfs" { 30 } else { 5 };
        let (now, usual) = (format!("commit={seconds}"), format!("commit={usual}"));
        edits.push((mount.mountpoint.as_str(), now, usual));
    }
    found.remedied_by(fstab(&edits))
}

#[cfg(test)]
mod tests {
    use floodwall_model::DeviceId;
    use floodwall_model::status::Link;

    use super::*;
    use crate::findings::testing::{Machine, found};

    fn mounted(filesystem: &str, options: &[&str]) -> Machine {
        let mut machine = Machine::healthy();
        let mount = &mut machine.status.devices[0].mounts[0];
        mount.filesystem = filesystem.to_owned();
        mount.options = options.iter().map(|o| (*o).to_owned()).collect();
        mount.through = Some("sda1".to_owned());
        machine
    }

    #[test]
    fn fw029_is_about_data_that_a_commit_waits_for() {
        let remedy = |filesystem: &str, options: &[&str]| {
            found(&mounted(filesystem, options), "FW029").map(|found| found.remedy)
        };
        assert_eq!(
            remedy("ext3", &["rw"]),
            Some("tune2fs -o journal_data_writeback /dev/sda1".into())
        );
        assert_eq!(remedy("ext3", &["rw", "data=writeback"]), None);
        assert_eq!(remedy("ext4", &["rw", "data=ordered"]), None);
        insta::assert_snapshot!(remedy("ext4", &["rw", "nodelalloc"]).unwrap(), @"edit /etc/fstab \
            (/mnt/sda: delalloc instead of nodelalloc), then systemctl daemon-reload && systemctl \
            reload /mnt/sda");
        assert_eq!(
            remedy("ext4", &["rw", "data=journal"]),
            Some("tune2fs -o ^journal_data /dev/sda1".into())
        );
        assert_eq!(remedy("xfs", &["rw"]), None);
    }

    #[test]
    fn fw030_and_fw033_are_mount_options() {
        insta::assert_snapshot!(found(&mounted("ext4", &["rw", "sync"]), "FW030").unwrap().remedy,
            @"edit /etc/fstab (/mnt/sda: async instead of sync), then systemctl \
            daemon-reload && systemctl reload /mnt/sda");
        assert_eq!(found(&mounted("ext4", &["rw", "sync_fs"]), "FW030"), None);
        let one = found(&mounted("btrfs", &["rw", "commit=300"]), "FW033").unwrap();
        assert_eq!(one.cost_s, Some(300.0));
        insta::assert_snapshot!(one.remedy, @"edit /etc/fstab (/mnt/sda: commit=30 instead of \
            commit=300), then systemctl daemon-reload && systemctl reload /mnt/sda");
        assert_eq!(found(&mounted("ext4", &["rw", "commit=30"]), "FW033"), None);
    }

    #[test]
    fn fw048_is_a_filesystem_of_zfs() {
        let mut machine = Machine::healthy();
        let mut mount = |mountpoint: &str, filesystem: &str| {
            machine.status.elsewhere.push(Elsewhere {
                mountpoint: mountpoint.into(),
                filesystem: filesystem.into(),
                why: String::new(),
            });
        };
        mount("/var/lib/docker/overlay2/a", "overlay");
        mount("/tank", "zfs");
        let one = found(&machine, "FW048").unwrap();
        assert_eq!((one.subjects, one.severity), (vec!["/tank".to_owned()], Severity::Note));
        machine.status.elsewhere.pop();
        assert_eq!(found(&machine, "FW048"), None);
    }

    #[test]
    fn fw031_compares_with_the_link() {
        let mut machine = mounted("nfs4", &["rw"]);
        let device = &mut machine.status.devices[0];
        device.id = DeviceId { major: 0, minor: 51 };
        device.bdi = Reading::Value("0:51".into());
        device.link = Reading::Value(Link {
            interface: "eth0".into(),
            bytes_per_s: 125e6,
            found_by: "the route to the server".into(),
        });
        let one = found(&machine, "FW031").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"sda: 192 MiB over eth0 at 125 MB/s (the route \
            to the server) take 1.61 s at best");
        assert_eq!(one.severity, Severity::Note);
        insta::assert_snapshot!(one.remedy, @"floodwall apply 0:51.bdi.max_bytes=179MiB \
            0:51.bdi.strict_limit=1");
        machine.limits(2 << 30, 1 << 30);
        assert_eq!(found(&machine, "FW031").unwrap().severity, Severity::Warning);
        machine.status.devices[0].limits.strict_limit = Reading::Absent("old".into());
        insta::assert_snapshot!(found(&machine, "FW031").unwrap().remedy, @"floodwall size --link \
            1000Mbit/s --toml > limits.toml && floodwall apply limits.toml");
        machine.limits(128 << 20, 32 << 20);
        assert_eq!(found(&machine, "FW031"), None);
    }

    #[test]
    fn fw032_is_about_loop_devices_that_tell() {
        let mut machine = Machine::healthy();
        machine.status.devices[0].loop_direct_io = Reading::Value(false);
        assert_eq!(found(&machine, "FW032").unwrap().remedy, "losetup --direct-io=on /dev/sda");
        machine.status.devices[0].loop_direct_io = Reading::Value(true);
        assert_eq!(found(&machine, "FW032"), None);
    }
}
