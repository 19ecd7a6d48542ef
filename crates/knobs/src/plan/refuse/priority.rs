//! I/O priorities: where nothing honours them.

use floodwall_host::queue::{chosen, heeds_priority};
use floodwall_model::setting::JOURNAL_PRIORITY;

use crate::catalogue::files::{Files, read_line};
use crate::catalogue::target::Target;
use crate::plan::entry::Entry;

/// Why a priority changes nothing here, as a note; `None` if a disk has the elevator that honours
/// it, or will have.
pub(super) fn is_ignored(entry: &Entry, entries: &[Entry], files: &dyn Files) -> Option<String> {
    if !matches!(entry.knob.name, "ioprio" | JOURNAL_PRIORITY) {
        return None;
    }
    // Best effort 4 is a process's default (block/ioprio.c).
    let new = entry.new.as_ref()?.value.as_str();
    if ["none", "idle", "be/4", "be/5", "be/6", "be/7"].contains(&new) {
        return None;
    }
    let planned = |disk: &str| {
        let is_its = |e: &&Entry| {
            e.knob.name == "scheduler"
                && matches!(&e.target, Target::Device(device) if device.name == disk)
        };
        Some(entries.iter().find(is_its)?.new.as_ref()?.value.clone())
    };
    let elevator = |disk: &String| {
        planned(disk).or_else(|| {
            let line = read_line(files, &format!("/sys/class/block/{disk}/queue/scheduler"))
                .into_value()?;
            // Without brackets there is no choice: the device is above other disks (dm, md).
            chosen(&line).filter(|_| line.contains('[')).map(str::to_owned)
        })
    };
    let disks = match &entry.target {
        Target::Device(device) => vec![device.name.clone()],
        _ => files.list("/sys/class/block"),
    };
    let elevators: Vec<String> = disks.iter().filter_map(elevator).collect();
    // Nothing known is no reason to say anything.
    if elevators.is_empty() || elevators.iter().any(|name| heeds_priority(name)) {
        return None;
    }
    let whose = match &entry.target {
        Target::Device(device) => format!("{} has {}", device.name, elevators.join(", ")),
        _ => "no disk here has bfq".to_owned(),
    };
    Some(format!(
        "{}: {whose}, and only bfq puts commits before a flood by priority (mq-deadline lets both \
         wait for the same \
         tags, kyber and none ignore it); measure both together first (floodwall compare DIR --set \
         scheduler=bfq,victim.ioprio=be/0): a bfq without group support made a database slower",
        entry.label()
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::{machine, root_of};
    use crate::{Change, KernelFiles, plan};

    /// The notes of changes, the first of a process's priority, on a machine whose disk has these
    /// elevators.
    fn notes(elevators: &str, more: &[&str]) -> Vec<String> {
        let mut tree = machine();
        let mut put = |path: &str, text: &str| tree.insert(path.to_owned(), format!("{text}\n"));
        put("/sys/devices/sda/queue/scheduler", elevators);
        put("/proc/4711/stat", "4711 (postgres) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 815 0");
        put("/proc/4711/ioprio", "none");
        let (_dir, root) = root_of(&tree);
        let files = KernelFiles::new(&root).unwrap();
        let texts = ["pid:4711.ioprio=be/0"].into_iter().chain(more.iter().copied());
        let changes: Vec<Change> =
            texts.map(|text| Change::parse(&root, None, text).unwrap()).collect();
        plan(&changes, &files).unwrap().notes
    }

    #[test]
    fn a_priority_that_no_elevator_honours_is_told() {
        insta::assert_snapshot!(notes("[mq-deadline] bfq \
            none", &[]).join("\n"), @"pid:4711.ioprio: no disk here has bfq, and only bfq puts \
            commits before a flood by priority (mq-deadline lets both wait for the same tags, \
            kyber and none ignore it); measure both together first (floodwall compare DIR --set \
            scheduler=bfq,victim.ioprio=be/0): a bfq without group support made a database slower");
        assert!(notes("mq-deadline [bfq] none", &[]).is_empty());
        let both = notes("[mq-deadline] bfq none", &["sda.scheduler=bfq"]);
        assert!(both.iter().all(|note| !note.contains("only bfq")), "{both:?}");
        assert!(notes("none", &[]).is_empty(), "nothing is known of a disk without a choice");
    }
}
