//! Values of labels: short, printable, never empty. A process's number is in none of them.

use floodwall_model::printable::printable;
use floodwall_model::workload::Workload;

/// The devices or workloads that have no place, together; those that are really called so, too.
pub(super) const OTHER: &str = "other";
/// The device of a process whose disk is not known.
pub(super) const UNKNOWN: &str = "unknown";

/// A name as a label of at most `most` characters. One without a name is among the others.
pub(super) fn of(name: &str, most: usize) -> String {
    let label: String = printable(name).chars().take(most).collect();
    if label.is_empty() { OTHER.to_owned() } else { label }
}

/// What a process runs in, else its name. Number 0 stands for those that were too many.
pub(super) fn of_process(pid: u32, workload: &Workload, name: &str, most: usize) -> String {
    match workload.label() {
        _ if pid == 0 => OTHER.to_owned(),
        Some(label) => of(&label, most),
        None => of(name, most),
    }
}
