//! I/O priorities that no elevator heeds.

use floodwall_model::Reading;
use floodwall_model::finding::Severity;
use floodwall_model::setting::JOURNAL_PRIORITY;

use super::facts::ChangeState;
use super::facts::Facts;
use super::found::Found;
use super::view::{Disk, disks, writable};
use crate::queue::heeds_priority;

/// FW047: a priority is in force, and no disk that it could count for heeds it.
pub(super) fn unheeded(facts: Facts<'_>) -> Option<Found> {
    let disks: Vec<Disk<'_>> =
        disks(facts.status).into_iter().filter(|disk| writable(disk.owner)).collect();
    let mut found = Found::nothing();
    let mut least = None;
    let standing =
        facts.journal.changes.iter().filter(|change| change.state == ChangeState::Standing);
    let knobs = standing.flat_map(|change| change.knobs.iter().map(move |knob| (change.id, knob)));
    for (change, knob) in knobs.filter(|(_, knob)| knob.is_ours == Reading::Value(true)) {
        if !matches!(knob.knob.as_str(), "ioprio" | JOURNAL_PRIORITY) || knob.value == "none" {
            continue;
        }
        let concerns = |disk: &&Disk<'_>| knob.device.is_none_or(|id| disk.owner.id == id);
        let concerned: Vec<&Disk<'_>> = disks.iter().filter(concerns).collect();
        if concerned.is_empty()
            || concerned.iter().any(|disk| disk.scheduler().is_none_or(heeds_priority))
        {
            continue;
        }
        let elevators: Vec<String> = concerned
            .iter()
            .map(|disk| format!("{} has {}", disk.name, disk.scheduler().unwrap_or_default()))
            .collect();
        let evidence =
            format!("{}={} (change {change}): {}", knob.label, knob.value, elevators.join(", "));
        found.add(Severity::Note, &knob.label, evidence);
        least = Some(least.map_or(change, |least: u64| least.min(change)));
    }
    let undo = |change: u64| format!("floodwall rollback --to {}", change.saturating_sub(1));
    found.remedied_by(least.map(undo).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use floodwall_model::DeviceId;

    use super::*;
    use crate::findings::ChangeFacts;
    use crate::findings::KnobFacts;
    use crate::findings::testing::{Machine, disk, found};

    /// Best effort 0 for a process, in force, on a machine whose disk has such an elevator.
    fn machine(elevator: &str, priority: &str) -> Machine {
        let mut machine = Machine::healthy();
        machine.status.devices[0].queue.scheduler = Reading::Value(elevator.into());
        machine.journal.changes.push(ChangeFacts {
            id: 3,
            state: ChangeState::Standing,
            why: String::new(),
            steers: false,
            overdue_s: None,
            for_a_time: false,
            knobs: vec![KnobFacts {
                label: "pid:4711.ioprio".into(),
                knob: "ioprio".into(),
                device: None,
                value: priority.into(),
                found: Reading::Value(priority.into()),
                is_ours: Reading::Value(true),
            }],
        });
        machine
    }

    #[test]
    fn fw047_is_a_priority_that_no_elevator_heeds() {
        let one = found(&machine("mq-deadline", "be/0"), "FW047").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"pid:4711.ioprio=be/0 (change 3): sda has \
            mq-deadline");
        insta::assert_snapshot!(one.remedy, @"floodwall rollback --to 2");
        assert!(found(&machine("none", "idle"), "FW047").is_some());
        for (elevator, priority) in [("bfq", "be/0"), ("cfq", "idle"), ("none", "none")] {
            assert_eq!(found(&machine(elevator, priority), "FW047"), None, "{elevator} {priority}");
        }
    }

    #[test]
    fn fw047_is_quiet_if_another_disk_heeds_it_unless_it_is_one_filesystems() {
        let mut machine = machine("none", "be/0");
        let mut other = disk("sdb");
        other.queue.scheduler = Reading::Value("bfq".into());
        machine.status.devices.push(other);
        assert_eq!(found(&machine, "FW047"), None);
        let knob = &mut machine.journal.changes[0].knobs[0];
        (knob.knob, knob.device) = (JOURNAL_PRIORITY.into(), Some(DeviceId { major: 8, minor: 0 }));
        assert!(found(&machine, "FW047").is_some());
        machine.journal.changes[0].knobs[0].is_ours = Reading::Value(false);
        assert_eq!(found(&machine, "FW047"), None);
    }
}
