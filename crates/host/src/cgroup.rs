//! What control groups of version 2 have dirtied (memory.stat).
//!
//! Before Linux 6.10 a backing device's counters leave it out ([`crate::bdi::counts_groups`]).

use floodwall_model::Reading;

use crate::root::SysRoot;
use crate::text::number_after;

/// Dirty page cache of a group and the groups below it (mm/memcontrol.c `memory_stat_format`), in
/// bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupBacklog {
    /// `file_dirty`: not yet under writeback.
    pub dirty_bytes: u64,
    /// `file_writeback`.
    pub writeback_bytes: u64,
}

/// Memory of the group in a directory that can't be reclaimed by writing it back and dropping it:
/// all but page cache, in bytes. Shared memory counts as page cache in the kernel's `file`, and can
/// only be swapped.
pub fn read_memory_besides_cache(root: &SysRoot, directory: &str) -> Reading<u64> {
    let path = format!("{directory}/memory.stat");
    let cache = root.read(&path).and_then(|text| {
        let field = |name: &str| number_after(&text, name);
        match (field("file"), field("shmem")) {
            (Some(file), Some(shmem)) => Reading::Value(file.saturating_sub(shmem)),
            _ => Reading::Unreadable(format!("{path}: it has no 'file' or no 'shmem'")),
        }
    });
    let current = root.parse::<u64>(&format!("{directory}/memory.current"));
    current.and_then(|all| cache.map(|cache| all.saturating_sub(cache)))
}

/// Reads the backlog of the group in a directory, such as
/// `/sys/fs/cgroup/system.slice/backup.service`. Absent without the memory controller.
pub fn read_backlog(root: &SysRoot, directory: &str) -> Reading<GroupBacklog> {
    let path = format!("{directory}/memory.stat");
    root.read(&path).and_then(|text| {
        let field = |name: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
            pairs.find(|(key, _)| *key == name)?.1.trim().parse::<u64>().ok()
        };
        match (field("file_dirty"), field("file_writeback")) {
            (Some(dirty_bytes), Some(writeback_bytes)) => {
                Reading::Value(GroupBacklog { dirty_bytes, writeback_bytes })
            }
            _ => Reading::Unreadable(format!(
                "{path}: it has no 'file_dirty' or no 'file_writeback'"
            )),
        }
    })
}

/// The backlog of all groups below a mount together; 0 without the memory controller.
#[must_use]
pub(crate) fn backlog_of_all(root: &SysRoot, mount: &str) -> GroupBacklog {
    let names = root.list(mount).into_value().unwrap_or_default();
    let top =
        names.iter().filter_map(|name| read_backlog(root, &format!("{mount}/{name}")).into_value());
    top.fold(GroupBacklog::default(), |sum, group| GroupBacklog {
        dirty_bytes: sum.dirty_bytes + group.dirty_bytes,
        writeback_bytes: sum.writeback_bytes + group.writeback_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    #[test]
    fn shared_memory_is_no_page_cache() {
        let group = "sys/fs/cgroup/a";
        let (current, stat) = (format!("{group}/memory.current"), format!("{group}/memory.stat"));
        let counts = "anon 90\nfile 700\nshmem 60\n";
        let (_dir, root) = tree(&[(&current, "1000\n"), (&stat, counts)]);
        let used =
            |group: &str| read_memory_besides_cache(&root, &format!("/sys/fs/cgroup/{group}"));
        assert_eq!(used("a"), Reading::Value(360));
        assert!(matches!(used("b"), Reading::Absent(_)));
    }

    #[test]
    fn groups_at_the_top_count_those_below() {
        let stat = |dirty: u64| format!("anon 5\nfile 90\nfile_dirty {dirty}\nfile_writeback 7\n");
        let (_dir, root) = tree(&[
            ("sys/fs/cgroup/memory.stat", stat(999).as_str()),
            ("sys/fs/cgroup/a.slice/memory.stat", stat(50).as_str()),
            ("sys/fs/cgroup/a.slice/b.service/memory.stat", stat(40).as_str()),
            ("sys/fs/cgroup/c.slice/memory.stat", stat(30).as_str()),
            ("sys/fs/cgroup/d.slice/cgroup.procs", "\n"),
            ("sys/fs/cgroup/e.slice/memory.stat", "anon 5\n"),
        ]);
        let all = GroupBacklog { dirty_bytes: 50 + 30, writeback_bytes: 7 + 7 };
        assert_eq!(backlog_of_all(&root, "/sys/fs/cgroup"), all);
        let of = |group: &str| read_backlog(&root, &format!("/sys/fs/cgroup/{group}"));
        assert_eq!(
            of("c.slice").into_value(),
            Some(GroupBacklog { dirty_bytes: 30, writeback_bytes: 7 })
        );
        assert!(matches!(of("d.slice"), Reading::Absent(_)) && of("e.slice").is_unreadable());
    }
}
