//! Control groups that hold processes that wait for a disk: one group for victims and a flood
//! (FW046), and groups that no limit may be set for ([`victim_in`]).
//!
//! ```text
//! Status (drain rates), DiskUser … ─┬▶ one group has both ─▶ FW046
//! a group about to be limited ──────┴▶ a process in it commits, and does not flood ─▶ why not
//! ```

use floodwall_model::DeviceId;
use floodwall_model::control_group::is_in;
use floodwall_model::finding::Severity;
use floodwall_model::status::{Device, FIRST_GUESS, Status};

use super::control::charges_buffered_writes;
use super::facts::{DiskUser, Facts};
use super::found::Found;
use super::view::{prefix, rate, speed, time, writable};

/// A process that dirties at this share of the drain rate or more is a flood.
const FLOOD_SHARE: f64 = 0.25;
/// More than a database dirties for one commit, on average. The guard's figure is 4 MiB. On a slow
/// disk a copy dirties less than that within the window, and its only commit would excuse it.
const LARGEST_PIECE_BYTES: u64 = 1 << 20;
/// A process that waits for this share of the window or more is a victim.
pub(super) const WAITING_SHARE: f64 = 0.1;
/// The share of the drain rate that the remedy leaves to the flood.
const PACED_SHARE: f64 = 0.75;
/// The advice for a flood that shares a group, or has none.
const OWN_UNIT: &str =
    "start the flood in a unit of its own (systemd-run --unit=flood COMMAND) and limit that";
/// Commits within a window that a copy or a backup does not make at its end.
const MANY_COMMITS: u64 = 5;
/// The same of one process whose commits take [`SLOW_SHARE`] of the window. A copy that ends syncs
/// its file and its directory.
const MANY_SLOW_COMMITS: u64 = 3;
/// The share of the window that commits of a slow disk take.
const SLOW_SHARE: f64 = 0.5;

/// FW046: a process waits for a disk, and the flood runs in the same control group.
pub(super) fn flood_among_victims(facts: Facts<'_>) -> Option<Found> {
    if !charges_buffered_writes(&facts.status.machine) {
        return None;
    }
    let window_s = facts.status.window_s;
    let mut found = Found::nothing();
    let mut remedy = None;
    for victim in facts.disk_users.iter().filter(|user| user.waited_s >= WAITING_SHARE * window_s) {
        let Some(device) = device(facts.status, victim.disk) else { continue };
        let Some(rate) = rate(device) else { continue };
        let floods = |user: &DiskUser| floods(user, rate, window_s);
        let (Some(group), false) = (victim.group.value(), floods(victim)) else { continue };
        let is_beside = |user: &DiskUser| user.group.value() == Some(group);
        let beside = |user: &&DiskUser| is_other(user, victim) && floods(user) && is_beside(user);
        let Some(flood) = facts.disk_users.iter().find(beside) else { continue };
        let evidence = format!(
            "threads of {} ({}) waited {} for {} within {}; {} ({}) dirties {}, and both are in \
             {}",
            victim.name,
            victim.pid,
            time(victim.waited_s),
            name(device, victim.disk),
            time(window_s),
            flood.name,
            flood.pid,
            speed(flood.dirtied_bytes as f64 / window_s),
            container(victim).as_ref().unwrap_or(group),
        );
        found.add(Severity::Warning, &victim.name, evidence);
        found.cost_s(victim.waited_s);
        remedy.get_or_insert_with(|| unit_for(device, victim.disk, rate));
    }
    found.remedied_by(remedy.unwrap_or_default())
}

/// Why no limit may be set for a control group (a path below the mount). A process in it, or in a
/// group below, waits for commits on a disk that another process floods, or commits repeatedly.
/// Waiting for reads does not count: the reader of a backup's pipe does nothing else. Nor does a
/// process that itself floods: a copy waits for its last commit too. `None` if none was seen during
/// the status' window.
#[must_use]
pub fn victim_in(path: &str, status: &Status, users: &[DiskUser]) -> Option<String> {
    let window_s = status.window_s;
    let inside = |user: &DiskUser| is_in(user.group.value().map_or("", String::as_str), path);
    let of = |user: &DiskUser| device(status, user.disk);
    let rate_of = |user: &DiskUser| of(user).and_then(rate).unwrap_or(FIRST_GUESS);
    let floods = |user: &DiskUser| floods(user, rate_of(user), window_s);
    let may_be_victim = |user: &&DiskUser| inside(user) && user.commits > 0 && !floods(user);
    for victim in users.iter().filter(may_be_victim) {
        let named = of(victim).map(|device| name(device, victim.disk).to_owned());
        let disk = named.unwrap_or_else(|| victim.disk.to_string());
        let who = format!("{} ({}) in {}", victim.name, victim.pid, shown(victim));
        let flood = users.iter().find(|user| is_other(user, victim) && floods(user));
        if let Some(flood) = flood.filter(|_| victim.committing_s >= WAITING_SHARE * window_s) {
            let (waited, window) = (time(victim.committing_s), time(window_s));
            let speed = speed(flood.dirtied_bytes as f64 / window_s);
            let has_no_other = matches!(flood.group.value().map(String::as_str), None | Some("/"));
            let instead = if inside(flood) || has_no_other {
                OWN_UNIT
            } else {
                "limit the flood's group instead, if no victim is in it"
            };
            return Some(format!(
                "{who} waited {waited} of {window} for commits on {disk}, and a limit would hold \
                 it back too; the flood is {} ({}) in {}, which dirties {speed}: {instead}",
                flood.name,
                flood.pid,
                shown(flood),
            ));
        }
        let same = |user: &&DiskUser| user.name == victim.name && user.disk == victim.disk;
        let alike = users.iter().filter(may_be_victim).filter(same);
        let commits: u64 = alike.map(|user| user.commits).sum();
        let is_slow = victim.committing_s >= SLOW_SHARE * window_s;
        if commits >= MANY_COMMITS || (is_slow && victim.commits >= MANY_SLOW_COMMITS) {
            return Some(format!(
                "{who} commits again and again ({commits} times within {} on {disk}), as a \
                 database does, and a limit would hold it back; {OWN_UNIT}",
                time(window_s)
            ));
        }
    }
    None
}

/// Whether a process dirties so much of its disk's drain rate that it is a flood. A database that
/// commits all of it in small pieces leaves nothing dirty. On a slow disk such commits may be all
/// that the drain rate is known from.
pub(super) fn floods(user: &DiskUser, rate: f64, window_s: f64) -> bool {
    let commits_pieces = user.dirtied_bytes < LARGEST_PIECE_BYTES * user.commits;
    user.dirtied_bytes as f64 >= FLOOD_SHARE * rate * window_s && !commits_pieces
}

/// Whether a process uses a victim's disk and is another program: a database's own writers belong
/// to it.
fn is_other(user: &DiskUser, victim: &DiskUser) -> bool {
    user.name != victim.name && user.disk == victim.disk
}

/// A process's container or group, for people.
fn shown(user: &DiskUser) -> String {
    let group = || match user.group.value().map(String::as_str) {
        None => "an unknown group",
        Some("/") => "the root group",
        Some(group) => group.trim_start_matches('/'),
    };
    container(user).unwrap_or_else(|| group().to_owned())
}

/// The name of a process's container or pod; `None` if it is in neither.
fn container(user: &DiskUser) -> Option<String> {
    let workload = &user.workload;
    workload.label().filter(|_| workload.container.is_some() || workload.pod.is_some())
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
        "systemd-run --unit=flood COMMAND   # next time; then floodwall apply \
         {io_max}unit:flood:memory.high=256MiB"
    )
}

/// A disk's name: the device's own, or that of the disk below it.
pub(super) fn name(device: &Device, disk: DeviceId) -> &str {
    let leaf = device.leaves.iter().find(|leaf| leaf.id == disk);
    leaf.map_or_else(|| prefix(device), |leaf| &leaf.name)
}

/// The device with a filesystem that a disk belongs to.
pub(super) fn device(status: &Status, disk: DeviceId) -> Option<&Device> {
    let holds =
        |device: &&Device| device.id == disk || device.leaves.iter().any(|leaf| leaf.id == disk);
    status.devices.iter().filter(|device| writable(device)).find(holds)
}

#[cfg(test)]
mod tests {
    use floodwall_model::Reading;

    use super::*;
    use crate::findings::testing::{Machine, disk_user as user, found};

    /// A server that waits, and a copy in its unit.
    fn machine() -> Machine {
        let mut machine = Machine::healthy();
        machine.disk_users = vec![user(7, "postgres", 0.8, 4096), user(9, "cp", 0.0, 190_000_000)];
        machine
    }

    #[test]
    fn fw046_is_a_flood_in_the_group_of_who_waits() {
        let one = found(&machine(), "FW046").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"threads of postgres (7) waited 800 ms for sda \
            within 1.00 s; cp (9) dirties 190 MB/s, and both are in \
            /system.slice/postgresql.service");
        insta::assert_snapshot!(one.remedy, @"systemd-run --unit=flood COMMAND   # next time; then \
            floodwall apply unit:flood:sda.io.max=wbps=150MB unit:flood:memory.high=256MiB");
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

    /// Why no limit may be set for a group, beside a spoilt machine's processes.
    fn refused(path: &str, spoil: fn(&mut Machine)) -> Option<String> {
        let mut machine = machine();
        spoil(&mut machine);
        victim_in(path, &machine.status, &machine.disk_users)
    }

    #[test]
    fn a_group_with_a_victim_is_not_limited() {
        let elsewhere = |m: &mut Machine| {
            m.disk_users[1].group = Reading::Value("/user.slice".into());
        };
        insta::assert_snapshot!(refused("system.slice/postgresql.service", |_| {}).unwrap(), @"\
            postgres (7) in system.slice/postgresql.service waited 800 ms of 1.00 s for commits on \
            sda, and a limit would hold it back too; the flood is cp (9) in \
            system.slice/postgresql.service, which dirties 190 MB/s: start the flood in a unit of \
            its own (systemd-run --unit=flood COMMAND) and limit that");
        insta::assert_snapshot!(refused("system.slice", elsewhere).unwrap(), @"postgres (7) in \
            system.slice/postgresql.service waited 800 ms of 1.00 s for commits on sda, and a \
            limit would hold it back too; the flood is cp (9) in user.slice, which dirties 190 \
            MB/s: limit the flood's group instead, if no victim is in it");
        let nowhere = |m: &mut Machine| m.disk_users[1].group = Reading::Value("/".into());
        let alone = refused("system.slice", nowhere).unwrap();
        assert!(alone.contains("in the root group, ") && alone.contains("systemd-run"), "{alone}");
        // Two servers of one name, and nothing floods.
        let often = |m: &mut Machine| {
            m.disk_users[0].waited_s = 0.01;
            m.disk_users[0].committing_s = 0.01;
            m.disk_users[0].commits = 3;
            let mut twin = m.disk_users[0].clone();
            (twin.pid, twin.commits) = (8, 2);
            m.disk_users[1] = twin;
        };
        insta::assert_snapshot!(refused("system.slice", often).unwrap(), @"postgres (7) in \
            system.slice/postgresql.service commits again and again (5 times within 1.00 s on \
            sda), as a database does, and a limit would hold it back; start the flood in a unit of \
            its own (systemd-run --unit=flood COMMAND) and limit that");
        // A slow disk, and nothing floods: three commits fill the window.
        let slow = |m: &mut Machine| {
            m.disk_users.truncate(1);
            m.disk_users[0].commits = 3;
        };
        assert!(refused("system.slice", slow).unwrap().contains("(3 times within 1.00 s on sda)"));
        // It dirties at half of a slow disk's rate, and commits each piece.
        let pieces = |m: &mut Machine| {
            m.disk_users.truncate(1);
            (m.disk_users[0].commits, m.disk_users[0].dirtied_bytes) = (200, 60_000_000);
        };
        assert!(refused("system.slice", pieces).unwrap().contains("commits again and again"));
        // The rate of its disk is not known.
        let unknown = |m: &mut Machine| m.status.devices.clear();
        assert!(refused("system.slice", unknown).unwrap().contains(" on 8:0, "));
    }

    #[test]
    fn a_container_is_named_where_its_group_would_be() {
        let container = |user: &mut DiskUser, name: &str| {
            user.workload.container = Some(name.to_owned());
            user.workload.pod = Some("shop/web-0".to_owned());
        };
        let mut machine = machine();
        machine.disk_users.iter_mut().for_each(|user| container(user, "db"));
        let evidence = &found(&machine, "FW046").unwrap().evidence[0];
        assert!(evidence.ends_with("and both are in shop/web-0:db"), "{evidence}");
        let refused = victim_in("system.slice", &machine.status, &machine.disk_users).unwrap();
        assert!(refused.starts_with("postgres (7) in shop/web-0:db waited"), "{refused}");
        assert!(refused.contains("the flood is cp (9) in shop/web-0:db, which"), "{refused}");
    }

    #[test]
    fn a_group_without_a_victim_is_limited() {
        assert_eq!(refused("system.slice/backup.service", |_| {}), None);
        assert_eq!(refused("system.slice/postgres", |_| {}), None);
        let nothing: [fn(&mut Machine); 7] = [
            // Two copies that end, each with its last commits.
            |m| {
                m.disk_users[0].commits = 2;
                m.disk_users[1] = m.disk_users[0].clone();
                m.disk_users[1].pid = 8;
            },
            // A copy's own commit at its end, during the copy and after it.
            |m| m.disk_users[0].dirtied_bytes = 60_000_000,
            |m| m.disk_users.truncate(1),
            // The reader of a backup's pipe.
            |m| (m.disk_users[0].commits, m.disk_users[0].committing_s) = (0, 0.0),
            |m| m.disk_users[0].committing_s = 0.05,
            |m| m.disk_users[1].disk.minor = 16,
            |m| m.disk_users[0].group = Reading::Absent("gone".into()),
        ];
        for (i, spoil) in nothing.into_iter().enumerate() {
            assert_eq!(refused("system.slice", spoil), None, "{i}");
        }
    }
}
