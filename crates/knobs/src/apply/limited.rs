//! Control groups whose limits a plan tightens, and threads with a raised priority in them. An
//! administrator raises the priority of victims, and a limit of their group would slow them down.
//!
//! ```text
//! plan ─▶ entries that tighten a limit ─▶ Limited … ─┬▶ what a probe sees (the caller) ─▶ why not
//! priorities in the plan and in the journal ─────────┴▶ raised_in ─▶ why not
//! ```

use floodwall_host::task::parse_group;
use floodwall_model::Reading;
use floodwall_model::control_group::is_in;
use floodwall_model::printable::printable;

use crate::catalogue::cell::{Cell, State};
use crate::catalogue::files::{Files, read_line};
use crate::catalogue::line::Line;
use crate::catalogue::priority::{FILE, Priorities, Priority};
use crate::catalogue::target::Target;
use crate::journal::{Phase, Transaction, boot_id};
use crate::plan::Plan;
use crate::plan::entry::Entry;

/// A best-effort level below this goes before a process that asks for nothing (block/ioprio.c
/// `IOPRIO_BE_NORM`).
const USUAL_LEVEL: u8 = 4;
/// The kernel's default weight of a group.
const USUAL_WEIGHT: u64 = 100;

/// A control group that is about to be held to less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited<'a> {
    /// The knob that does it, as people write it.
    pub label: String,
    /// The group's path below the mount.
    pub path: &'a str,
}

/// The groups that a plan holds to less than before, each once. Looser limits and unchanged limits
/// do not count. Nor does `io.latency`: it protects its group.
#[must_use]
pub fn limited(plan: &Plan) -> Vec<Limited<'_>> {
    let mut all: Vec<Limited<'_>> = Vec::new();
    for entry in plan.entries.iter().filter(|entry| is_tightened(entry)) {
        let Target::Group { path, .. } = &entry.target else { continue };
        if !all.iter().any(|other| other.path == path) {
            all.push(Limited { label: entry.label(), path });
        }
    }
    all
}

fn is_tightened(entry: &Entry) -> bool {
    let Some(new) = &entry.new else { return false };
    let old = entry.old.as_ref();
    match entry.knob.name {
        "memory.high" => number(&new.value) < old.map_or(u64::MAX, |old| number(&old.value)),
        "io.weight" | "io.bfq.weight" => {
            weight(&new.value) < old.map_or(USUAL_WEIGHT, |old| weight(&old.value))
        }
        "io.max" => {
            let old = Line::parse(old.map_or("", |old| &old.value));
            let before = |key: &str| old.value(key).map_or(u64::MAX, number);
            Line::parse(&new.value).pairs().any(|(key, value)| number(value) < before(key))
        }
        _ => false,
    }
}

/// `max` is no number: no limit.
fn number(text: &str) -> u64 {
    text.parse().unwrap_or(u64::MAX)
}

/// Of `default 50`, `8:0 50`, or `50`.
fn weight(text: &str) -> u64 {
    text.rsplit(' ').next().and_then(|last| last.parse().ok()).unwrap_or(USUAL_WEIGHT)
}

/// Why a group should not be limited: threads in it have a raised priority. This plan raises it, or
/// a change in the journal that is in force.
pub fn raised_in<'a>(
    limited: &Limited<'_>,
    plan: &Plan,
    journal: impl IntoIterator<Item = &'a Transaction>,
    files: &dyn Files,
) -> Option<String> {
    let why = |entry: &Entry, priority: Priority, by: &str| {
        format!(
            "{by} {} priority {priority}, as to a victim, and a limit would hold it back; \
             limit the group of the flood",
            owner(entry, files)
        )
    };
    let concerns = |entry: &Entry| {
        let target = &entry.target;
        entry.knob.name == FILE && holds_threads_of(limited.path, target, files)
    };
    let planned = plan.entries.iter().filter(|entry| entry.new.is_some() && concerns(entry));
    for entry in planned.clone() {
        if let Some(priority) = entry.new.as_ref().and_then(raised) {
            return Some(why(entry, priority, "these settings give"));
        }
    }
    let planned: Vec<&Cell> = planned.map(|entry| &entry.cell).collect();
    let boot = boot_id(files);
    let is_closed = |t: &Transaction| matches!(t.phase(), Phase::Closed(_));
    let is_open = |t: &&Transaction| t.begin.boot_id == boot && !is_closed(t);
    for transaction in journal.into_iter().filter(is_open) {
        let entries = transaction.entries.iter().enumerate();
        for (index, entry) in entries.filter(|(_, entry)| concerns(entry)) {
            if planned.contains(&&entry.cell) || entry.target.check(files).is_err() {
                continue;
            }
            let Reading::Value(now) = entry.cell.read(files) else { continue };
            if let Some(priority) = raised(&now).filter(|_| transaction.owns(index, &now)) {
                return Some(why(
                    entry,
                    priority,
                    &format!("change {} gave", transaction.begin.id),
                ));
            }
        }
    }
    None
}

/// The common priority of threads, if it goes before the usual one.
fn raised(state: &State) -> Option<Priority> {
    let common = state.value.parse::<Priorities>().ok()?.common;
    let is_raised = match common {
        Priority::RealTime(_) => true,
        Priority::BestEffort(level) => level < USUAL_LEVEL,
        Priority::None | Priority::Idle => false,
    };
    is_raised.then_some(common)
}

/// Whether threads that a priority is about are in a group, in one below it, or in one above it.
fn holds_threads_of(path: &str, target: &Target, files: &dyn Files) -> bool {
    match target {
        Target::Process(process) => {
            let text = files.read(&format!("/proc/{}/cgroup", process.pid)).unwrap_or_default();
            parse_group(&text).is_some_and(|group| is_in(group, path))
        }
        Target::Group { path: other, .. } => is_in(other, path) || is_in(path, other),
        Target::Machine | Target::Device(_) | Target::Victims => false,
    }
}

fn owner(entry: &Entry, files: &dyn Files) -> String {
    let owner = entry.target.owner();
    let Target::Process(process) = &entry.target else { return owner };
    match read_line(files, &format!("/proc/{}/comm", process.pid)) {
        Reading::Value(name) => format!("{owner} ({})", printable(&name)),
        _ => owner,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Tree, machine, root_of};
    use crate::{Change, KernelFiles, plan};

    use super::*;

    /// A group with a server that has the number 7, and a backup's group beside it.
    fn groups() -> Tree {
        let mut tree = machine();
        let mut put = |path: &str, text: &str| tree.insert(path.to_owned(), format!("{text}\n"));
        for group in ["a.slice/db.service", "a.slice/backup.service"] {
            let group = format!("/sys/fs/cgroup/{group}");
            put(&format!("{group}/memory.high"), "500000000");
            put(&format!("{group}/memory.current"), "1000000");
            put(&format!("{group}/memory.stat"), "file 0\nshmem 0");
            put(&format!("{group}/io.max"), "8:0 rbps=max wbps=9000000 riops=max wiops=max");
            put(&format!("{group}/io.weight"), "default 100");
            put(&format!("{group}/ioprio"), "none");
        }
        put("/proc/7/stat", "7 (postgres) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 815 0");
        put("/proc/7/comm", "postgres");
        put("/proc/7/cgroup", "0::/a.slice/db.service");
        put("/proc/7/ioprio", "none");
        tree
    }

    fn planned(tree: &Tree, texts: &[&str], look: impl Fn(&Plan, &dyn Files)) {
        let (_dir, root) = root_of(tree);
        let files = KernelFiles::new(&root).unwrap();
        let changes: Vec<Change> =
            texts.iter().map(|text| Change::parse(&root, None, text).unwrap()).collect();
        look(&plan(&changes, &files).unwrap(), &files);
    }

    #[test]
    fn a_group_is_limited_by_a_tighter_limit_alone() {
        let limits = |text: &str| {
            let count = std::cell::Cell::new(0);
            planned(&groups(), &[text], |plan, _| count.set(limited(plan).len()));
            count.get() == 1
        };
        let db = "a.slice/db.service:";
        let rates = ["sda.io.max=wbps=8MB", "sda.io.max=rbps=9MB"];
        for tight in ["memory.high=400MB", "io.weight=50"].into_iter().chain(rates) {
            assert!(limits(&format!("{db}{tight}")), "{tight}");
        }
        let more = "sda.io.max=wbps=10MB";
        for loose in ["memory.high=max", "memory.high=500MB", "io.weight=200", more] {
            assert!(!limits(&format!("{db}{loose}")), "{loose}");
        }
    }

    #[test]
    fn a_group_with_raised_threads_is_not_limited() {
        let refusals = |tree: &Tree, texts: &[&str]| {
            let told = std::cell::RefCell::new(None);
            planned(tree, texts, |plan, files| {
                let why = limited(plan).iter().find_map(|one| raised_in(one, plan, [], files));
                *told.borrow_mut() = why;
            });
            told.into_inner()
        };
        let tree = groups();
        let high = "a.slice/db.service:memory.high=400MB";
        insta::assert_snapshot!(refusals(&tree, &[high, "pid:7.ioprio=be/0"]).unwrap(), @"these \
            settings give process 7 (postgres) priority be/0, as to a victim, and a limit would \
            hold it back; limit the group of the flood");
        let of_group = "a.slice/db.service:ioprio=be/3";
        insta::assert_snapshot!(refusals(&tree, &[high, of_group]).unwrap(), @"\
            these settings give the processes in a.slice/db.service priority be/3, as to a victim, \
            and a limit would hold it back; limit the group of the flood");
        let flood = "a.slice/backup.service:ioprio=be/0";
        for harmless in ["pid:7.ioprio=be/4", "pid:7.ioprio=idle", flood] {
            assert_eq!(refusals(&tree, &[high, harmless]), None, "{harmless}");
        }
        let flood = "a.slice/backup.service:memory.high=400MB";
        assert_eq!(refusals(&tree, &[flood, "pid:7.ioprio=be/0"]), None);
    }
}
