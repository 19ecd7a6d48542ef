//! Waits that no lever against a flood shortens: nothing floods the disk.
//!
//! ```text
//! DiskUser … ─▶ waits long? ─▶ its disk: a flood, a backlog? ─▶ neither ─▶ FW049
//! ```

use floodwall_model::diagnosis::{LONG_BACKLOG_S, takes_unknown_time};
use floodwall_model::finding::Severity;
use floodwall_model::status::{Device, FIRST_GUESS};

use super::facts::Facts;
use super::found::Found;
use super::groups::{WAITING_SHARE, device, floods, name};
use super::view::{rate, size, time};

/// A wait from here on is long without a flood: a commit takes tens of milliseconds on a disk that
/// seeks. `floodwall why` has the same figure.
const LONG_WAIT_S: f64 = 0.1;

/// FW049: a process waits long for a disk that nothing floods.
pub(super) fn waits_without_flood(facts: Facts<'_>) -> Option<Found> {
    let window_s = facts.status.window_s;
    let mut found = Found::nothing();
    let mut remedy = String::new();
    for victim in facts.disk_users.iter().filter(|user| user.waited_s >= WAITING_SHARE * window_s) {
        let Some(longest_s) = victim.longest_s().filter(|seconds| *seconds >= LONG_WAIT_S) else {
            continue;
        };
        let Some(device) = device(facts.status, victim.disk) else { continue };
        let rate = rate(device).unwrap_or(FIRST_GUESS);
        let mut users = facts.disk_users.iter().filter(|user| user.disk == victim.disk);
        let is_flooded = users.any(|user| user.earlier_bytes > 0 || floods(user, rate, window_s));
        let Some(backlog) = backlog(device).filter(|_| !is_flooded) else { continue };
        let is_unknown = takes_unknown_time(backlog, device.drain.from);
        if is_unknown || backlog as f64 >= LONG_BACKLOG_S * rate {
            continue;
        }
        let disk = name(device, victim.disk);
        let evidence = format!(
            "threads of {} ({}) waited {} for {} of {disk} within {}, one of them {}; nothing \
             floods it, and {} are waiting to be written",
            victim.name,
            victim.pid,
            time(victim.waited_s),
            if victim.waits_for_commits { "commits" } else { "reads" },
            time(window_s),
            time(longest_s),
            size(backlog),
        );
        found.add(Severity::Note, &victim.name, evidence);
        found.cost_s(longest_s);
        remedy = format!("floodwall probe {disk}");
    }
    found.remedied_by(remedy)
}

/// The dirty bytes of a device and those under writeback; `None` where they are not known.
fn backlog(device: &Device) -> Option<u64> {
    Some(device.dirty_bytes.value()? + device.writeback_bytes.value()?)
}

#[cfg(test)]
mod tests {
    use floodwall_model::Reading;
    use floodwall_model::status::DrainSource;

    use super::*;
    use crate::findings::testing::{Machine, disk_user, found};

    /// A database that reads, and a program that writes little.
    fn readers() -> Machine {
        let mut machine = Machine::healthy();
        machine.disk_users =
            vec![disk_user(7, "mysqld", 0.9, 0), disk_user(9, "rsyslogd", 0.0, 100_000)];
        let victim = &mut machine.disk_users[0];
        (victim.waits_for_commits, victim.committing_s) = (false, 0.0);
        victim.median_s = Some(0.24);
        machine
    }

    #[test]
    fn fw049_is_a_wait_without_a_flood() {
        let one = found(&readers(), "FW049").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"threads of mysqld (7) waited 900 ms for reads \
            of sda within 1.00 s, one of them 240 ms; nothing floods it, and 0 B are waiting to be \
            written");
        assert_eq!((one.severity, one.remedy.as_str()), (Severity::Note, "floodwall probe sda"));
        let mut small = readers();
        small.backlog(3_000_000);
        small.status.devices[0].drain.from = DrainSource::KernelEstimate;
        assert!(found(&small, "FW049").is_some(), "too little to matter at any rate");
    }

    #[test]
    fn fw049_is_silent_beside_a_flood_a_backlog_and_short_waits() {
        type Spoil = fn(&mut Machine);
        let cases: [(&str, Spoil); 7] = [
            ("another process floods", |m| m.disk_users[1].dirtied_bytes = 190_000_000),
            ("it flooded before", |m| m.disk_users[0].earlier_bytes = 1 << 30),
            ("a backlog of 2 s", |m| m.backlog(400_000_000)),
            ("a backlog of 44 MB on a disk of an unseen rate", |m| {
                m.backlog(44_000_000);
                m.status.devices[0].drain.from = DrainSource::KernelEstimate;
            }),
            ("the backlog is not known", |m| {
                m.status.devices[0].dirty_bytes = Reading::Absent("no debugfs".into());
            }),
            ("short waits", |m| m.disk_users[0].median_s = Some(0.03)),
            ("it hardly waits", |m| m.disk_users[0].waited_s = 0.05),
        ];
        for (what, spoil) in cases {
            let mut machine = readers();
            spoil(&mut machine);
            assert_eq!(found(&machine, "FW049"), None, "{what}");
        }
    }
}
