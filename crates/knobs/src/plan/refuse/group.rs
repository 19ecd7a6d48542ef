//! Control groups: what would starve a group, and which limit of a group above counts more.

use floodwall_host::mounts::{self, charges_writeback};
use floodwall_model::control_group::{self, memory_high_of_paced};
use floodwall_model::printable::printable;
use floodwall_model::{Bytes, Reading};

use crate::catalogue::cell::{Cell, has_device_lines};
use crate::catalogue::files::{Files, read_line, read_number};
use crate::catalogue::line::Line;
use crate::catalogue::systemd::{self, Limit, Origin};
use crate::catalogue::target::Target;
use crate::plan::dirty_limit::{Memory, hard_limit};
use crate::plan::entry::Entry;

/// Room for page cache that `memory.high` must leave.
fn least_room_bytes(entries: &[Entry], files: &dyn Files) -> u64 {
    let memory = Memory::read(files);
    control_group::least_room_bytes(
        hard_limit(entries, files).and_then(|limit| memory.share(&limit)),
    )
}

/// Why an entry of a group can't be carried out; `None` if it can.
pub(super) fn refusal(entry: &Entry, entries: &[Entry], files: &dyn Files) -> Option<String> {
    let Target::Group { path, device, .. } = &entry.target else { return None };
    if let Some(why) = of_systemd(entry, entries, files) {
        return Some(why);
    }
    match (entry.knob.name, device) {
        ("memory.high", _) => too_low(entry, entries, files),
        ("io.bfq.weight", None) if has_device_lines(files, &entry.target.path(entry.knob)) => {
            Some(format!(
                "the kernel would drop the weights that {path} has for single devices; set those \
                 instead ({path}:DEVICE.io.bfq.weight=…)"
            ))
        }
        _ => None,
    }
}

/// Why a limit of a unit that systemd manages would not last, or could not be put back.
fn of_systemd(entry: &Entry, entries: &[Entry], files: &dyn Files) -> Option<String> {
    // One that is as wanted already is not written.
    if entry.old == entry.new {
        return None;
    }
    if let (Target::Group { path, systemd: true, .. }, "io.bfq.weight") =
        (&entry.target, entry.knob.name)
    {
        return Some(format!(
            "systemd works it out from IOWeight=, and writes it again at each change of {}'s IO \
             properties; set {path}:io.weight",
            systemd::unit_of(path)
        ));
    }
    let Cell::Property { group, .. } = &entry.cell else { return None };
    let new = entry.new.as_ref()?;
    let of_unit = |other: &&Entry| {
        matches!(&other.cell, Cell::Property { group: same, .. } if same == group)
            && other.knob.name == entry.knob.name
            && other.cell != entry.cell
            && other.old != other.new
    };
    if let Some(device) = entries.iter().find(of_unit).and_then(|other| other.target.device()) {
        return Some(systemd::shares_a_drop_in(systemd::unit_of(group), &device.number));
    }
    let path = Origin::RunTime.path(group, entry.knob.file_name());
    systemd::refusal(files, &Limit::parse(&path)?, &new.value)
}

fn too_low(entry: &Entry, entries: &[Entry], files: &dyn Files) -> Option<String> {
    let wanted: u64 = entry.new.as_ref()?.value.parse().ok()?;
    let directory = directory(entry);
    let used = match used_besides_cache(files, &directory) {
        Reading::Value(used) => used,
        other => {
            return Some(format!(
                "its memory besides page cache can't be read ({}); a limit could starve its \
                 processes",
                other.why().unwrap_or_default()
            ));
        }
    };
    let room = least_room_bytes(entries, files);
    let least = used + room;
    (wanted < least).then(|| {
        format!(
            "its processes use {} besides page cache, and less than {} above that stops their \
             writes; give at least {}",
            Bytes(used),
            Bytes(room),
            Bytes(least)
        )
    })
}

/// Memory of a group that can't be reclaimed by writing it back and dropping it: all but page
/// cache, in bytes. Shared memory counts as page cache in the kernel's `file`, and can only be
/// swapped.
fn used_besides_cache(files: &dyn Files, directory: &str) -> Reading<u64> {
    let current = read_number(files, &format!("{directory}/memory.current"));
    let path = format!("{directory}/memory.stat");
    let stat = match files.read(&path) {
        Ok(text) => text,
        Err(error) => return crate::catalogue::files::missing(&path, error),
    };
    let field = |name: &str| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == name)?.1.trim().parse::<u64>().ok()
    };
    match (field("file"), field("shmem")) {
        (Some(file), Some(shmem)) => {
            current.map(|all| all.saturating_sub(file.saturating_sub(shmem)))
        }
        _ => Reading::Unreadable(format!("{path}: it has no 'file' or no 'shmem'")),
    }
}

/// The group above whose limit is tighter than the wanted one, as a note.
pub(super) fn tighter_above(entry: &Entry, files: &dyn Files) -> Option<String> {
    let Target::Group { path, device, .. } = &entry.target else { return None };
    let wanted = entry.new.as_ref()?;
    let mut above = path.as_str();
    while let Some((parent, _)) = above.rsplit_once('/') {
        above = parent;
        let target = Target::group(parent, device.clone()).ok()?;
        let cell = Cell::of(entry.knob, &target, files);
        let Some(limit) = cell.read(files).into_value() else { continue };
        if let Some(tighter) = tighter(entry.knob.name, &limit.value, &wanted.value) {
            return Some(format!(
                "{}: {parent} above it has a tighter limit, {tighter}, which applies",
                entry.label()
            ));
        }
    }
    None
}

/// The part of a limit above that is tighter than the wanted one.
fn tighter(knob: &str, limit: &str, wanted: &str) -> Option<String> {
    // `max` is no number: no limit.
    let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    match knob {
        "memory.high" => (number(limit) < number(wanted)).then(|| Bytes(number(limit)).to_string()),
        "io.max" => {
            let (limit, wanted) = (Line::parse(limit), Line::parse(wanted));
            let is_tighter = |key: &str, value: &str| {
                wanted.value(key).is_some_and(|w| number(value) < number(w))
            };
            let mut pairs = limit.pairs().filter(|(key, value)| is_tighter(key, value));
            pairs.next().map(|(key, value)| format!("{key}={value}"))
        }
        _ => None,
    }
}

/// Why a limit of a group does not reach buffered writes here; empty if it does, as far as files
/// tell.
pub(super) fn misses_writeback(entry: &Entry, entries: &[Entry], files: &dyn Files) -> Vec<String> {
    let line = entry.new.as_ref().map(|new| Line::parse(&new.value));
    let rate = line.as_ref().and_then(|line| line.value("wbps"));
    let Some(rate) = rate.filter(|rate| entry.knob.name == "io.max" && *rate != "max") else {
        return Vec::new();
    };
    let high = read_line(files, &format!("{}/memory.high", directory(entry)));
    let group = group_of(entry);
    let is_high = |other: &&Entry| other.knob.name == "memory.high" && group_of(other) == group;
    let planned = entries.iter().find(is_high).and_then(|other| other.new.clone());
    let high = planned.map_or(high, |new| Reading::Value(new.value));
    let no_memory = match high {
        Reading::Value(high) if high == "max" => Some(format!(
            "without {group}:memory.high its writes fill the whole machine's dirty limit, where \
             every writer is slowed down; set that too ({group}:memory.high={}, and more by what \
             its processes use; floodwall explain memory.high)",
            memory_high_of_paced(
                rate.parse().unwrap_or_default(),
                0,
                least_room_bytes(entries, files)
            )
        )),
        Reading::Value(_) => None,
        _ => Some(
            "the group has no memory controller, so the kernel charges its buffered writes to the \
             root group; enable memory in cgroup.subtree_control above it"
                .to_owned(),
        ),
    };
    no_memory
        .into_iter()
        .chain(uncharged(entry, files))
        .map(|why| format!("{}: {why}", entry.label()))
        .collect()
}

/// Filesystems of an entry's disk whose writeback no control group is charged for.
fn uncharged(entry: &Entry, files: &dyn Files) -> Option<String> {
    let device = entry.target.device()?;
    let disk = format!("/sys/dev/block/{}", device.number);
    let partitions = files.list(&disk).into_iter().filter(|name| name.starts_with(&device.name));
    let numbers =
        partitions.filter_map(|name| read_line(files, &format!("{disk}/{name}/dev")).into_value());
    let numbers: Vec<String> = numbers.chain([device.number.clone()]).collect();
    let mounts = mounts::parse(&files.read(mounts::MOUNTINFO).ok()?);
    let found = mounts.iter().filter(|mount| {
        !mount.read_only
            && numbers.contains(&mount.device.to_string())
            && !charges_writeback(&mount.fs_type)
    });
    let named: Vec<String> = found
        .map(|mount| {
            format!("{} on {}", mount.fs_type, printable(&mount.mountpoint.to_string_lossy()))
        })
        .collect();
    (!named.is_empty()).then(|| {
        format!(
            "the kernel charges no control group for writeback of {}: the limit does not hold what \
             is written there through the page cache",
            named.join(", ")
        )
    })
}

/// The path of an entry's group; empty if it has none.
fn group_of(entry: &Entry) -> &str {
    match &entry.target {
        Target::Group { path, .. } => path,
        _ => "",
    }
}

fn directory(entry: &Entry) -> String {
    let file = entry.target.path(entry.knob);
    file.rsplit_once('/').map_or(String::new(), |(directory, _)| directory.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Tree, machine, root_of};
    use crate::{Change, KernelFiles, plan};

    const MIB: u64 = 1 << 20;

    /// A group of 300 MiB. 200 MiB are page cache, and 20 MiB of that are shared memory: 120 MiB
    /// can't be dropped.
    fn groups() -> Tree {
        let mut tree = machine();
        let mut put = |path: &str, text: &str| {
            tree.insert(format!("/sys/fs/cgroup/{path}"), format!("{text}\n"))
        };
        put("a.slice/memory.high", "max");
        put("a.slice/b.service/memory.high", "max");
        put("a.slice/b.service/memory.current", &(300 * MIB).to_string());
        let stat = format!("anon {}\nfile {}\nshmem {}", 100 * MIB, 200 * MIB, 20 * MIB);
        put("a.slice/b.service/memory.stat", &stat);
        put("a.slice/b.service/io.max", "");
        put("a.slice/io.bfq.weight", "default 100");
        tree
    }

    /// The plan of one change, shown with its notes, or the error.
    fn planned(tree: &Tree, text: &str) -> String {
        let (_dir, root) = root_of(tree);
        let files = KernelFiles::new(&root).unwrap();
        match Change::parse(&root, None, text).map_err(|e| e.to_string()) {
            Ok(change) => match plan(&[change], &files) {
                Ok(plan) => format!("{plan}{}", plan.notes.join("\n")),
                Err(e) => e.to_string(),
            },
            Err(e) => e,
        }
    }

    #[test]
    fn memory_is_not_limited_below_what_the_processes_use() {
        let tree = groups();
        insta::assert_snapshot!(planned(&tree, "a.slice/b.service:memory.high=159MiB"), @"\
            a.slice/b.service:memory.high is refused: its processes use 120 MiB besides page \
            cache, and less than 40 MiB above that stops their writes; give at least 160 MiB");
        insta::assert_snapshot!(planned(&tree, "a.slice/b.service:memory.high=160MiB"), @"\
            a.slice/b.service:memory.high: max -> 167772160");
        assert_eq!(planned(&tree, "a.slice/b.service:memory.high=max"), "");
        insta::assert_snapshot!(planned(&tree, "a.slice:memory.high=1GiB"), @"a.slice:memory.high \
            is refused: its memory besides page cache can't be read (absent: \
            /sys/fs/cgroup/a.slice/memory.stat does not exist); a limit could starve its \
            processes");
        insta::assert_snapshot!(planned(&tree, "a.slice/b.service:memory.high=1000000000"), @"\
            memory.high: '1000000000' needs a unit: 1000000000B is 1 GB, 1000000000MiB is 954 TiB");
    }

    #[test]
    fn a_paced_group_wants_a_dirty_limit_of_its_own() {
        let tree = groups();
        let (pace, high) =
            ("a.slice/b.service:sda.io.max=wbps=5MB", "a.slice/b.service:memory.high=1GiB");
        assert!(planned(&tree, pace).contains("(a.slice/b.service:memory.high=64MiB,"));
        let fast = planned(&tree, "a.slice/b.service:sda.io.max=wbps=60MB");
        assert!(fast.contains("(a.slice/b.service:memory.high=172MiB,"), "{fast}");
        let (_dir, root) = root_of(&tree);
        let changes = [pace, high].map(|text| Change::parse(&root, None, text).unwrap());
        let both = plan(&changes, &KernelFiles::new(&root).unwrap()).unwrap();
        assert!(both.notes.iter().all(|note| !note.contains("set that too")), "{:?}", both.notes);
    }

    #[test]
    fn a_group_that_is_not_there_is_named() {
        let mut tree = groups();
        let v1 = planned(&tree, "backup.service:sda.io.max=wbps=5MB");
        insta::assert_snapshot!(v1, @"backup.service:sda.io.max: the control groups of this \
            machine are of version 1 (/sys/fs/cgroup/cgroup.controllers is missing), and settings \
            of 'backup.service' need version 2: boot with systemd.unified_cgroup_hierarchy=1 \
            (floodwall explain FW034); without it raise the database instead: \
            pid:NUMBER-OF-THE-DATABASE.ioprio=be/0");
        tree.insert("/sys/fs/cgroup/cgroup.controllers".into(), "io memory\n".into());
        insta::assert_snapshot!(planned(&tree, "backup.service:memory.high=1GiB"), @"\
            backup.service:memory.high: there is no control group /sys/fs/cgroup/backup.service; \
            write unit:backup.service for the unit's, wherever it is");
        insta::assert_snapshot!(planned(&tree, "nosuch:memory.high=1GiB"), @"nosuch:memory.high: \
            there is no control group /sys/fs/cgroup/nosuch; systemd-cgls shows those that there \
            are, mkdir makes one");
        // The group is there, and the file is not.
        assert!(planned(&tree, "a.slice/b.service:io.weight=50").contains("is not there"));
    }

    #[test]
    fn the_root_group_has_no_limits() {
        let tree = groups();
        insta::assert_snapshot!(planned(&tree, ":memory.high=1GiB"), @"memory.high does not belong \
            to ':'; the root group has none: name the group whose processes flood");
        insta::assert_snapshot!(planned(&tree, "/sys/fs/cgroup:sda.io.max=wbps=5MB"), @"io.max \
            does not belong to '/sys/fs/cgroup:sda'; the root group has none: name the group whose \
            processes flood");
        insta::assert_snapshot!(planned(&tree, "memory.high=1GiB"), @"memory.high does not belong \
            to ''; write GROUP:KNOB=… or unit:NAME:KNOB=…, such as \
            unit:backup.service:memory.high=…");
    }

    #[test]
    fn a_tighter_limit_above_is_told() {
        let mut tree = groups();
        tree.insert(
            "/sys/fs/cgroup/a.slice/io.max".into(),
            "8:0 rbps=max wbps=1000000 riops=max wiops=max\n".into(),
        );
        tree.insert("/sys/fs/cgroup/a.slice/memory.high".into(), format!("{}\n", 500 * MIB));
        insta::assert_snapshot!(planned(&tree, "a.slice/b.service:sda.io.max=wbps=5MB"), @"
        a.slice/b.service:sda.io.max: 8:0 rbps=max wbps=max riops=max wiops=max -> 8:0 rbps=max \
        wbps=5000000 riops=max wiops=max
        a.slice/b.service:sda.io.max: a.slice above it has a tighter limit, wbps=1000000, which \
        applies
        a.slice/b.service:sda.io.max: without a.slice/b.service:memory.high its writes fill the \
        whole machine's dirty limit, where every writer is slowed down; set that too \
        (a.slice/b.service:memory.high=64MiB, and more by what its processes use; floodwall \
        explain memory.high)
        ");
        insta::assert_snapshot!(planned(&tree, "a.slice/b.service:memory.high=1GiB"), @r"
        a.slice/b.service:memory.high: max -> 1073741824
        a.slice/b.service:memory.high: a.slice above it has a tighter limit, 500 MiB, which applies
        ");
        assert!(!planned(&tree, "a.slice/b.service:sda.io.max=wbps=500KB").contains("tighter"));
        assert!(!planned(&tree, "a.slice/b.service:memory.high=400MiB").contains("tighter"));
    }

    #[test]
    fn buffered_writes_of_a_group_without_the_memory_controller_are_not_its_own() {
        let mut tree = groups();
        tree.insert("/sys/fs/cgroup/c.slice/io.max".into(), "\n".into());
        insta::assert_snapshot!(planned(&tree, "c.slice:sda.io.max=wbps=5MB"), @"
        c.slice:sda.io.max: 8:0 rbps=max wbps=max riops=max wiops=max -> 8:0 rbps=max wbps=5000000 \
        riops=max wiops=max
        c.slice:sda.io.max: the group has no memory controller, so the kernel charges its buffered \
        writes to the root group; enable memory in cgroup.subtree_control above it
        ");
        assert!(!planned(&tree, "c.slice:sda.io.max=rbps=5MB").contains("controller"));
    }

    #[test]
    fn a_filesystem_that_charges_no_group_is_named() {
        let mut tree = groups();
        tree.insert("/sys/devices/sda/sda1/dev".into(), "8:1\n".into());
        let mountinfo = "29 1 8:1 / /boot/efi rw - vfat /dev/sda1 rw\n\
            30 1 8:0 / / rw - xfs /dev/sda rw\n\
                         31 1 8:16 / /mnt rw - vfat /dev/sdb rw\n\
                         32 1 8:1 / /ro ro - vfat /dev/sda1 ro\n";
        tree.insert("/proc/self/mountinfo".into(), mountinfo.into());
        let told = planned(&tree, "a.slice/b.service:sda.io.max=wbps=5MB");
        insta::assert_snapshot!(told.lines().last().unwrap_or_default(), @"\
            a.slice/b.service:sda.io.max: the kernel charges no control group for writeback of \
            vfat on /boot/efi: the limit does not hold what is written there through the page \
            cache");
        assert!(!planned(&tree, "a.slice/b.service:sda.io.max=rbps=5MB").contains("vfat"));
    }

    #[test]
    fn a_weight_for_all_devices_does_not_drop_those_of_single_ones() {
        let mut tree = groups();
        insta::assert_snapshot!(planned(&tree, "a.slice:io.bfq.weight=50"), @"\
            a.slice:io.bfq.weight: default 100 -> default 50");
        tree.insert("/sys/fs/cgroup/a.slice/io.bfq.weight".into(), "default 100\n8:0 500\n".into());
        insta::assert_snapshot!(planned(&tree, "a.slice:io.bfq.weight=50"), @"\
            a.slice:io.bfq.weight is refused: the kernel would drop the weights that a.slice has \
            for single devices; set those instead (a.slice:DEVICE.io.bfq.weight=…)");
        insta::assert_snapshot!(planned(&tree, "a.slice:sda.io.bfq.weight=50"), @"\
            a.slice:sda.io.bfq.weight: 8:0 500 -> 8:0 50");
    }
}
