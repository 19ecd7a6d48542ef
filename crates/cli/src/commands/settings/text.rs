//! The texts of these commands.

use floodwall_knobs::Recovery;
use floodwall_knobs::{Fate, Plan, Undone};

use crate::output::notice;

/// The difference, with notes.
pub(super) fn difference(plan: &Plan) -> String {
    let notes: String = plan.notes.iter().map(|note| format!("note: {note}\n")).collect();
    if plan.is_empty() { format!("no difference\n{notes}") } else { format!("{plan}{notes}") }
}

/// The writes of a `--dry-run`.
pub(super) fn writes(lines: &[String]) -> String {
    if lines.is_empty() {
        return "nothing would be written\n".to_owned();
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The outcome of a change that was put back.
pub(super) fn undone(undone: &Undone) -> String {
    let left =
        if undone.is_complete() { "" } else { "; it stays open: run floodwall rollback again" };
    format!(
        "change {} put back{left}:\n  {}\n",
        undone.id,
        undone.to_string().replace('\n', "\n  ")
    )
}

/// Values that a rehearsed rollback would not put back, and why, newest change first.
pub(super) fn would_be_left(recovery: &Recovery, undone: &[Undone]) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, why) in &recovery.set_aside {
        lines.push(format!(
            "the journal {name} is not to be believed ({why}): it would be kept aside, and what it \
             had changed stays"
        ));
    }
    for id in &recovery.earlier_boots {
        lines.push(format!(
            "change {id} was made before the last boot, which undid it: it would only be closed"
        ));
    }
    for one in recovery.undone.iter().chain(&recovery.expired).chain(undone) {
        for (label, fate) in &one.entries {
            if matches!(
                fate,
                Fate::Foreign { .. }
                    | Fate::Vanished { .. }
                    | Fate::Waits { .. }
                    | Fate::Failed { .. }
            ) {
                lines.push(format!("change {}: would stay: {}", one.id, fate.told(label)));
            }
        }
    }
    lines
}

/// Tells what had to be recovered before anything else.
pub(super) fn tell(recovery: &Recovery) {
    for id in &recovery.earlier_boots {
        notice(&format!(
            "change {id} was made before the last boot, which undid it; its journal is closed"
        ));
    }
    for (name, why) in &recovery.set_aside {
        notice(&format!(
            "the journal {name} is not to be believed ({why}); kept as {name}.bad, not replayed: \
             what it had changed stays, look with floodwall diff default"
        ));
    }
    for one in &recovery.undone {
        notice(&format!("change {} had been interrupted; {}", one.id, undone(one).trim_end()));
    }
    for one in &recovery.expired {
        notice(&format!("the time of change {} was over; {}", one.id, undone(one).trim_end()));
    }
}
