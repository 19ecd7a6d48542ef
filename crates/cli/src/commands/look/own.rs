//! The processes of a window that count as users of a disk, and those that don't: Floodwall's own,
//! the kernel's threads for its own purposes, and processes without a name.

use floodwall_host::SysRoot;
use floodwall_host::task::read_stat;
use floodwall_probe::{ProcessUse, Snapshot};

use crate::commands::bench;

/// What the probe calls a process whose name it has not learnt in time (probe `OpenFiles::name`).
const NAMELESS: &str = "gone";
/// The parent of all threads of the kernel's (kernel/kthread.c).
const KTHREADD: u32 = 2;
/// Such threads that do what others ask for: clients of NFS and SMB, and users of loop devices.
const SERVERS: [&str; 3] = ["nfsd", "ksmbd", "kworker/"];

/// How the names of threads begin that keep a filesystem's house (fs/jbd2/journal.c,
/// fs/ext4/super.c, fs/xfs/xfs_trans_ail.c, fs/btrfs/disk-io.c).
const HOUSEKEEPERS: [&str; 4] = ["jbd2/", "ext4lazyinit", "xfsaild/", "btrfs-"];

/// Commands of Floodwall's that load a disk on purpose. All others look or steer.
const LOADS: [&str; 7] = ["bench", "check", "compare", "fix", "tune", "size", bench::FLOOD_COMMAND];

/// Leaves processes out that are no users of a disk by themselves.
pub(in crate::commands) fn keep_users(snapshot: &mut Snapshot) {
    // Nothing waits for a flusher's reads.
    snapshot.processes.retain(|process| !process.is_flusher() && is_known(process));
}

/// Processes of a window that are no users: Floodwall's that look or steer, and threads of the
/// kernel's for its own purposes.
pub(in crate::commands) fn own(root: &SysRoot, used: &[ProcessUse]) -> Vec<u32> {
    let mut processes: Vec<(u32, &str)> =
        used.iter().map(|process| (process.pid, process.name.as_str())).collect();
    processes.dedup();
    processes.retain(|(pid, name)| {
        let words = root.read(&format!("/proc/{pid}/cmdline")).into_value();
        match words.as_deref() {
            // It has ended: ext4lazyinit does when it is done. All that is left is its name.
            None => HOUSEKEEPERS.iter().any(|begin| name.starts_with(begin)),
            Some("") => keeps_house(root, *pid, name),
            Some(words) => is_floodwalls(words),
        }
    });
    processes.into_iter().map(|(pid, _)| pid).collect()
}

/// Whether a process has a name. A process that ended before its name was read has none; nothing
/// can be done about it any more.
fn is_known(process: &ProcessUse) -> bool {
    process.name != NAMELESS
}

/// Whether the words of a command line are Floodwall's and do not load a disk on purpose.
fn is_floodwalls(words: &str) -> bool {
    let mut words = words.split('\0');
    let program = words.next().and_then(|path| path.rsplit('/').next());
    program == Some("floodwall") && !words.next().is_some_and(|word| LOADS.contains(&word))
}

/// Whether a process without a command line is a thread of the kernel's for its own purposes. Such
/// threads write a journal (jbd2), or empty inode tables of a new filesystem (ext4lazyinit). No
/// process waits for that.
fn keeps_house(root: &SysRoot, pid: u32, name: &str) -> bool {
    let parent = read_stat(root, pid, &mut Vec::new()).map(|stat| stat.parent);
    parent == Some(KTHREADD) && !SERVERS.iter().any(|server| name.starts_with(server))
}

#[cfg(test)]
mod tests {
    use floodwall_testing::tree::put;

    use super::*;

    /// Which of some processes are no users: number, name, parent, words.
    fn own_of(processes: &[(u32, &str, u32, &str)]) -> Vec<u32> {
        let dir = tempfile::tempdir().unwrap();
        for (pid, name, parent, words) in processes {
            let stat = format!("{pid} ({name}) S {parent} 0 0 0 -1 0 0 0\n");
            put(&dir.path().join(format!("proc/{pid}/stat")), &stat);
            put(&dir.path().join(format!("proc/{pid}/cmdline")), words);
        }
        let used = |(pid, name): (u32, &str)| ProcessUse {
            pid,
            name: name.to_owned(),
            ..ProcessUse::default()
        };
        // These have ended.
        let gone = [(98, "ext4lazyinit"), (99, "cp")];
        let known = processes.iter().map(|(pid, name, ..)| (*pid, *name)).chain(gone);
        own(&SysRoot::new(dir.path()).unwrap(), &known.map(used).collect::<Vec<_>>())
    }

    #[test]
    fn threads_of_the_kernels_are_no_users_unless_they_serve() {
        let processes = [
            (10, "jbd2/sda1-8", 2, ""),
            (11, "ext4lazyinit", 2, ""),
            (12, "nfsd", 2, ""),
            (13, "kworker/u8:2-loop8", 2, ""),
            (14, "jbd2/sda1-8", 1, "jbd2/sda1-8\0"),
            (15, "jbd2/sda1-8", 1, ""),
        ];
        assert_eq!(own_of(&processes), [10, 11, 98]);
    }

    #[test]
    fn a_guard_is_floodwalls_and_a_bench_counts_as_any_load() {
        let processes = [
            (1, "floodwall", 0, "/usr/bin/floodwall\0guard\0--p99\x0020ms\0"),
            (2, "floodwall", 1, "floodwall\0"),
            (3, "floodwall", 1, "floodwall\0bench\0/srv\0"),
            (4, "floodwall", 1, "/usr/bin/floodwall\0flood-process\0"),
            (5, "cp", 1, "cp\0floodwall\0/srv\0"),
            (8, "floodwall", 1, "floodwall\0fix\0/srv\0--tune\0"),
        ];
        assert_eq!(own_of(&processes), [1, 2, 98]);
    }
}
