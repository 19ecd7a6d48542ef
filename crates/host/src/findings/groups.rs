//! One control group for victims and a flood: the kernel can't tell them apart.

use floodwall_model::finding::Severity;
use floodwall_model::status::Device;
use floodwall_model::{DeviceId, Reading};

use super::control::charges_buffered_writes;
use super::view::{prefix, rate, speed, time, writable};
use super::{Facts, Found};

/// A process that dirties at this share of the drain rate or more is a flood.
const FLOOD_SHARE: f64 = 0.25;
/// A process that waits for this share of the window or more is a victim.
const WAITING_SHARE: f64 = 0.1;
/// The share of the drain rate that the remedy leaves to the flood.
const PACED_SHARE: f64 = 0.75;

/// One process that used a disk during the window, as a probe saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskUser {
    /// Its number.
    pub pid: u32,
    /// Its name (/proc/PID/comm).
    pub name: String,
    /// The whole disk.
    pub disk: DeviceId,
    /// How long its threads waited for commits and reads, in seconds, together.
    pub waited_s: f64,
    /// Page cache that it dirtied, in bytes.
    pub dirtied_bytes: u64,
    /// Its control group of version 2 ([`crate::task::read_group`]).
    pub group: Reading<String>,
}

/// FW046: a process waits for a disk, and the flood runs in the same control group.
pub(super) fn flood_among_victims(facts: Facts<'_>) -> Option<Found> {
    if !charges_buffered_writes(&facts.status.machine) {
        return None;
    }
    let window_s = facts.status.window_s;
    let mut found = Found::nothing();
    let mut remedy = None;
    for victim in facts.disk_users.iter().filter(|user| user.waited_s >= WAITING_SHARE * window_s) {
        let Some(device) = device(facts, victim.disk) else { continue };
        let Some(rate) = rate(device) else { continue };
        let floods = |user: &DiskUser| user.dirtied_bytes as f64 >= FLOOD_SHARE * rate * window_s;
        // A database's own writers belong to it.
        let is_other = |user: &&DiskUser| user.name != victim.name && user.disk == victim.disk;
        let (Some(group), false) = (victim.group.value(), floods(victim)) else { continue };
        let beside = |user: &&DiskUser| floods(user) && user.group.value() == Some(group);
        let Some(flood) = facts.disk_users.iter().filter(is_other).find(beside) else { continue };
        let evidence = format!(
            "threads of {} ({}) waited {} for {} within {}; {} ({}) dirties {}, and both are in {group}",
            victim.name,
            victim.pid,
            time(victim.waited_s),
            name(device, victim.disk),
            time(window_s),
            flood.name,
            flood.pid,
            speed(flood.dirtied_bytes as f64 / window_s),
        );
        found.add(Severity::Warning, &victim.name, evidence);
        found.cost_s(victim.waited_s);
        remedy.get_or_insert_with(|| unit_for(device, victim.disk, rate));
    }
    found.remedied_by(remedy.unwrap_or_default())
}

/// The commands that give a flood another unit, with limits.
fn unit_for(device: &Device, disk: DeviceId, rate: f64) -> String {
    // A stacked device has no `io.max` that reaches its disks.
    let io_max = if device.id == disk && !device.leaves.is_empty() {
        String::new()
    } else {
        let rate = speed(PACED_SHARE * rate).replace(' ', "");
        format!("unit:flood:{}.io.max=wbps={} ", name(device, disk), rate.trim_end_matches("/s"))
    };
    format!(
        "systemd-run --unit=flood COMMAND   # next time; then floodwall apply {io_max}unit:flood:memory.high=256MiB"
    )
}

/// A disk's name: the device's own, or that of the disk below it.
fn name(device: &Device, disk: DeviceId) -> &str {
    let leaf = device.leaves.iter().find(|leaf| leaf.id == disk);
    leaf.map_or_else(|| prefix(device), |leaf| &leaf.name)
}

/// The device with a filesystem that a disk belongs to.
fn device(facts: Facts<'_>, disk: DeviceId) -> Option<&Device> {
    let holds = |device: &&Device| device.id == disk || device.leaves.iter().any(|leaf| leaf.id == disk);
    facts.status.devices.iter().filter(|device| writable(device)).find(holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::testing::{Machine, found};

    const DATABASE: &str = "/system.slice/postgresql.service";

    fn user(pid: u32, name: &str, waited_s: f64, dirtied_bytes: u64) -> DiskUser {
        let disk = DeviceId { major: 8, minor: 0 };
        let group = Reading::Value(DATABASE.to_owned());
        DiskUser { pid, name: name.to_owned(), disk, waited_s, dirtied_bytes, group }
    }

    /// A server that waits, and a copy in its unit.
    fn machine() -> Machine {
        let mut machine = Machine::healthy();
        machine.disk_users = vec![user(7, "postgres", 0.8, 4096), user(9, "cp", 0.0, 190_000_000)];
        machine
    }

    #[test]
    fn fw046_is_a_flood_in_the_group_of_who_waits() {
        let one = found(&machine(), "FW046").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"threads of postgres (7) waited 800 ms for sda within 1.00 s; cp (9) dirties 190 MB/s, and both are in /system.slice/postgresql.service");
        insta::assert_snapshot!(one.remedy, @"systemd-run --unit=flood COMMAND   # next time; then floodwall apply unit:flood:sda.io.max=wbps=150MB unit:flood:memory.high=256MiB");
        assert_eq!((one.subjects, one.severity), (vec!["postgres".to_owned()], Severity::Warning));
    }

    #[test]
    fn fw046_wants_one_group_one_disk_two_programs_and_a_kernel_that_can_tell_groups_apart() {
        let spoilt = |spoil: fn(&mut Machine)| {
            let mut machine = machine();
            spoil(&mut machine);
            found(&machine, "FW046")
        };
        let nothing: [fn(&mut Machine); 8] = [
            |m| m.disk_users[1].group = Reading::Value("/system.slice/backup.service".into()),
            |m| m.disk_users[1].group = Reading::Absent("gone".into()),
            |m| m.disk_users[1].disk.minor = 16,
            |m| m.disk_users[1].dirtied_bytes = 40_000_000,
            |m| m.disk_users[1].name = "postgres".into(),
            |m| m.disk_users[0].waited_s = 0.05,
            |m| m.disk_users[0].dirtied_bytes = 190_000_000,
            |m| m.status.machine.cgroup_v1_controllers = vec!["memory".into()],
        ];
        for (i, spoil) in nothing.into_iter().enumerate() {
            assert_eq!(spoilt(spoil), None, "{i}");
        }
    }
}
