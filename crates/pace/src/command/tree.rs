//! The processes of a command: all descendants of this process but those it had before.
//!
//! This process is the subreaper of the command (PR_SET_CHILD_SUBREAPER). A process whose parent
//! has ended becomes its child, whatever its session.

use std::collections::{BTreeMap, BTreeSet};

use floodwall_host::SysRoot;
use floodwall_model::proc_stat::ProcStat;
use rustix::io::Errno;

/// A process of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: Id,
    pub(super) parent: i32,
    /// `R`, `S`, `D`, `T` … of /proc/PID/stat.
    state: char,
}

/// A process's number with the time of its start, since numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) pid: i32,
    start_ticks: u64,
}

impl Process {
    /// Whether it is stopped, by a signal or by a debugger.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// The search for the processes of a command.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    root: SysRoot,
    own: i32,
    /// Children of this process that are no part of the command.
    others: BTreeSet<i32>,
    /// Linux with CONFIG_PROC_CHILDREN.
    has_children: bool,
}

impl Tree {
    /// For descendants of the process `own`, without its present children.
    pub(super) fn below(root: &SysRoot, own: i32) -> Self {
        let mut tree = Self {
            root: root.clone(),
            own,
            others: BTreeSet::new(),
            has_children: root.exists(&format!("/proc/{own}/task/{own}/children")),
        };
        tree.others = tree.processes().into_iter().map(|process| process.id.pid).collect();
        tree
    }

    /// All processes at about one moment, parents before children.
    ///
    /// A process that is made meanwhile may be missing.
    pub(super) fn processes(&self) -> Vec<Process> {
        let by_parent = if self.has_children { None } else { Some(self.by_parent()) };
        let mut buffer = Vec::new();
        let mut seen = self.others.clone();
        seen.insert(self.own);
        let mut found = Vec::new();
        let mut generation = vec![self.own];
        while !generation.is_empty() {
            let mut next = Vec::new();
            for pid in generation {
                let children = match &by_parent {
                    Some(by_parent) => by_parent.get(&pid).cloned().unwrap_or_default(),
                    None => self.children(pid, &mut buffer),
                };
                for child in children {
                    if seen.insert(child)
                        && let Some(process) = self.process(child, &mut buffer)
                    {
                        found.push(process);
                        next.push(child);
                    }
                }
            }
            generation = next;
        }
        found
    }

    /// Whether a process has ended for certain. Other errors (EMFILE, ENOMEM) do not tell.
    pub(super) fn is_gone(&self, id: Id) -> bool {
        match self.read(id.pid, &mut Vec::new()) {
            Ok(process) => process.is_some_and(|p| p.id != id || p.has_ended()),
            Err(errno) => matches!(errno, Errno::NOENT | Errno::SRCH),
        }
    }

    /// Children of all threads, since a child belongs to the thread that made it.
    fn children(&self, pid: i32, buffer: &mut Vec<u8>) -> Vec<i32> {
        let threads = format!("/proc/{pid}/task");
        let mut children = Vec::new();
        for tid in self.root.list(&threads).into_value().unwrap_or_default() {
            // A thread may have ended meanwhile.
            if self.root.read_into(&format!("{threads}/{tid}/children"), buffer).is_ok() {
                let text = String::from_utf8_lossy(buffer);
                children
                    .extend(text.split_ascii_whitespace().filter_map(|n| n.parse::<i32>().ok()));
            }
        }
        children
    }

    fn by_parent(&self) -> BTreeMap<i32, Vec<i32>> {
        let mut buffer = Vec::new();
        let mut by_parent: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        let names = self.root.list("/proc").into_value().unwrap_or_default();
        for pid in names.iter().filter_map(|name| name.parse().ok()) {
            if let Some(process) = self.process(pid, &mut buffer) {
                by_parent.entry(process.parent).or_default().push(pid);
            }
        }
        by_parent
    }

    fn process(&self, pid: i32, buffer: &mut Vec<u8>) -> Option<Process> {
        self.read(pid, buffer).ok().flatten()
    }

    fn read(&self, pid: i32, buffer: &mut Vec<u8>) -> Result<Option<Process>, Errno> {
        self.root.read_attribute_into(&format!("/proc/{pid}/stat"), buffer)?;
        Ok(parse(pid, buffer))
    }
}

fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    let stat = ProcStat::parse(stat)?;
    Some(Process {
        id: Id { pid, start_ticks: stat.start_ticks()? },
        parent: stat.parent()?.cast_signed(),
        state: stat.state()?,
    })
}

#[cfg(test)]
pub(super) mod testing {
    use std::path::Path;

    use floodwall_testing::tree::put;

    /// A process of a made-up tree, with one thread.
    pub(in super::super) fn process(
        root: &Path,
        pid: i32,
        parent: i32,
        state: char,
        children: &str,
    ) {
        let proc = root.join(format!("proc/{pid}"));
        let start = pid + 1000;
        let stat =
            format!("{pid} (a) {state} {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0\n");
        put(&proc.join("stat"), &stat);
        put(&proc.join(format!("task/{pid}/children")), children);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use floodwall_testing::tree::put;

    use super::testing::process;
    use super::*;

    /// 10 is us, 11 a stranger, 20 the command, 31 an orphan.
    fn machine() -> (tempfile::TempDir, SysRoot) {
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 10, 1, 'S', "11 ");
        process(dir.path(), 11, 10, 'S', "12 ");
        process(dir.path(), 12, 11, 'S', "");
        let root = SysRoot::new(dir.path()).unwrap();
        (dir, root)
    }

    fn pids(tree: &Tree) -> Vec<i32> {
        tree.processes().iter().map(|process| process.id.pid).collect()
    }

    #[test]
    fn all_descendants_are_found_but_strangers() {
        let (dir, root) = machine();
        let tree = Tree::below(&root, 10);
        assert!(pids(&tree).is_empty());
        process(dir.path(), 10, 1, 'S', "11 20 31 ");
        process(dir.path(), 20, 10, 'R', "21 22 ");
        process(dir.path(), 21, 20, 'T', "");
        process(dir.path(), 22, 20, 'Z', "");
        put(&dir.path().join("proc/20/task/25/children"), "26 99 ");
        process(dir.path(), 26, 20, 'D', "");
        process(dir.path(), 31, 10, 'S', "32 ");
        process(dir.path(), 32, 31, 'S', "");
        let found = tree.processes();
        assert_eq!(pids(&tree), [20, 31, 21, 22, 26, 32], "99 has ended");
        assert_eq!(found[0].parent, 10);
        assert!(found[2].is_stopped() && found[3].has_ended() && !found[4].is_stopped());
        assert!(!tree.is_gone(found[0].id) && tree.is_gone(found[3].id));
        let other = Id { start_ticks: 5, ..found[0].id };
        assert!(tree.is_gone(other), "the number is another process's");
        let stat = dir.path().join("proc/20/stat");
        fs::remove_file(&stat).unwrap();
        assert!(tree.is_gone(found[0].id));
        // It can't be read: EISDIR.
        fs::create_dir(&stat).unwrap();
        assert!(!tree.is_gone(found[0].id));
    }

    #[test]
    fn a_kernel_without_lists_of_children_has_parents() {
        let (dir, root) = machine();
        for pid in [10, 11, 12] {
            fs::remove_dir_all(dir.path().join(format!("proc/{pid}/task"))).unwrap();
        }
        let tree = Tree::below(&root, 10);
        for (pid, parent) in [(20, 10), (21, 20), (31, 10), (40, 1)] {
            process(dir.path(), pid, parent, 'S', "");
        }
        assert_eq!(pids(&tree), [20, 31, 21]);
    }

    #[test]
    fn a_child_of_this_process_is_found() {
        let root = SysRoot::live().unwrap();
        let tree = Tree::below(&root, std::process::id().cast_signed());
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let found = pids(&tree).contains(&child.id().cast_signed());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found);
    }
}
