//! Floodwall's own remains: interrupted and overdue changes, journals that can't be believed,
//! values that other programs have changed.

use floodwall_model::Reading;
use floodwall_model::finding::Severity;

use super::facts::{ChangeFacts, ChangeState, Facts};
use super::found::Found;
use super::view::time;

fn is_stale(change: &ChangeFacts) -> bool {
    change.state != ChangeState::Standing || change.overdue_s.is_some()
}

/// FW041: changes that the administrator should put back or close.
pub(super) fn stale(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    for change in &facts.journal.changes {
        let (id, labels) = (change.id, labels(change));
        let (severity, evidence) = match (change.state, change.overdue_s) {
            (ChangeState::Interrupted, _) => (
                Severity::Warning,
                format!("change {id} ({labels}) was interrupted: some of it may be in force"),
            ),
            (ChangeState::Standing, Some(seconds)) => (
                Severity::Warning,
                format!("change {id} ({labels}) was to be put back {} ago", time(seconds)),
            ),
            (ChangeState::EarlierBoot, _) => (
                Severity::Note,
                format!("change {id} ({labels}) is from before the last boot and still open"),
            ),
            (ChangeState::Standing, None) => continue,
        };
        found.add(severity, format!("change {id}"), evidence);
        if let Some(seconds) = change.overdue_s {
            found.cost_s(seconds);
        }
    }
    // A rollback puts back the changes of a dead guard, too.
    let mut stale = facts.journal.changes.iter().filter(|change| is_stale(change));
    let of_guards = stale.all(|change| change.steers);
    found.remedied_by(if of_guards { "floodwall guard restore" } else { "floodwall rollback" })
}

/// Names the knobs of a change. A guard's change names no knobs: its reason is given instead.
fn labels(change: &ChangeFacts) -> String {
    if change.knobs.is_empty() {
        return change.why.clone();
    }
    let mut labels: Vec<&str> = change.knobs.iter().map(|knob| knob.label.as_str()).collect();
    let more = labels.len().saturating_sub(3);
    labels.truncate(3);
    if more > 0 { format!("{} and {more} more", labels.join(", ")) } else { labels.join(", ") }
}

/// FW042: a journal that can't be believed undoes nothing.
pub(super) fn unbelievable(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    for (name, why) in &facts.journal.unbelievable {
        found.add(
            Severity::Warning,
            name,
            format!("{name}: {why}; what it has changed can't be put back from it"),
        );
    }
    found.remedied_by("floodwall log && floodwall rollback")
}

/// FW043: a value that Floodwall has set and another program has changed.
pub(super) fn changed_by_others(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let standing =
        facts.journal.changes.iter().filter(|change| change.state == ChangeState::Standing);
    for (change, knob) in
        standing.flat_map(|change| change.knobs.iter().map(move |knob| (change, knob)))
    {
        let (Reading::Value(false), Reading::Value(now)) = (&knob.is_ours, &knob.found) else {
            continue;
        };
        // A later change of our own may have set it again.
        let is_set_later = facts.journal.changes.iter().any(|later| {
            later.id > change.id && later.knobs.iter().any(|other| other.label == knob.label)
        });
        if is_set_later {
            continue;
        }
        let evidence =
            format!("{}: change {} had set {}, it is {now} now", knob.label, change.id, knob.value);
        found.add(Severity::Warning, &knob.label, evidence);
    }
    found.remedied_by("floodwall diff")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::KnobFacts;
    use crate::findings::testing::{Machine, found};

    fn change(id: u64, state: ChangeState, found: &str) -> ChangeFacts {
        ChangeFacts {
            id,
            state,
            why: "a test".into(),
            steers: false,
            overdue_s: None,
            for_a_time: false,
            knobs: vec![KnobFacts {
                label: "vm.dirty_bytes".into(),
                knob: "vm.dirty_bytes".into(),
                device: None,
                value: "15000000".into(),
                found: Reading::Value(found.into()),
                is_ours: Reading::Value(found == "15000000"),
            }],
        }
    }

    #[test]
    fn fw041_tells_how_a_change_is_stale() {
        let mut machine = Machine::healthy();
        machine.journal.changes = vec![change(1, ChangeState::Standing, "15000000")];
        assert_eq!(found(&machine, "FW041"), None);
        machine.journal.changes = vec![
            change(1, ChangeState::Interrupted, "15000000"),
            change(2, ChangeState::EarlierBoot, "1"),
            ChangeFacts {
                overdue_s: Some(90.0),
                for_a_time: true,
                ..change(3, ChangeState::Standing, "15000000")
            },
        ];
        let one = found(&machine, "FW041").unwrap();
        insta::assert_snapshot!(one.evidence.join("\n"), @"
        change 3 (vm.dirty_bytes) was to be put back 90.0 s ago
        change 1 (vm.dirty_bytes) was interrupted: some of it may be in force
        change 2 (vm.dirty_bytes) is from before the last boot and still open
        ");
        assert_eq!((one.severity, one.cost_s), (Severity::Warning, Some(90.0)));
        assert_eq!(one.remedy, "floodwall rollback");
        machine.journal.changes = vec![ChangeFacts {
            why: "floodwall guard".into(),
            steers: true,
            knobs: Vec::new(),
            ..change(10, ChangeState::Interrupted, "")
        }];
        let one = found(&machine, "FW041").unwrap();
        insta::assert_snapshot!(one.evidence.join("\n"), @"change 10 (floodwall guard) was \
            interrupted: some of it may be in force");
        assert_eq!(one.remedy, "floodwall guard restore");
    }

    #[test]
    fn fw042_and_fw043() {
        let mut machine = Machine::healthy();
        machine.journal.unbelievable =
            vec![("000007.jsonl".into(), "line 2: its checksum is wrong".into())];
        insta::assert_snapshot!(found(&machine, "FW042").unwrap().evidence[0], @"000007.jsonl: \
            line 2: its checksum is wrong; what it has changed can't be put back from it");
        machine.journal.changes = vec![change(1, ChangeState::Standing, "20000000")];
        insta::assert_snapshot!(found(&machine, "FW043").unwrap().evidence[0], @"vm.dirty_bytes: \
            change 1 had set 15000000, it is 20000000 now");
        machine.journal.changes.push(change(2, ChangeState::Standing, "15000000"));
        assert_eq!(found(&machine, "FW043"), None);
    }
}
