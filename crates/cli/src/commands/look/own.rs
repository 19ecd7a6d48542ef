//! The processes of a window that count as users of a disk, and those that don't: Floodwall's own,
//! the kernel's threads for its own purposes, and processes without a name.

use floodwall_host::SysRoot;
use floodwall_probe::{ProcessUse, Snapshot};

use crate::commands::bench;

/// What the probe calls a process whose name it has not learnt in time (probe `OpenFiles::name`).
const NAMELESS: &str = "gone";
/// The parent of all threads of the kernel's (kernel/kthread.c).
const KTHREADD: u32 = 2;
/// Such threads that do what others ask for: clients of NFS and SMB, and users of loop devices.
const SERVERS: [&str; 3] = ["nfsd", "ksmbd", "kworker/"];

/// Commands of Floodwall's that load a disk on purpose. All others look or steer.
const LOADS: [&str; 6] = ["bench", "compare", "fix", "tune", "size", bench::FLOOD_COMMAND];

/// Leaves processes out that are no users of a disk by themselves.
pub(in crate::commands) fn keep_users(snapshot: &mut Snapshot) {
    // Nothing waits for a flusher's reads.
    snapshot.processes.retain(|process| !process.is_flusher() && is_known(process));
}

/// Processes of Floodwall's in a window that look or steer.
pub(in crate::commands) fn own(root: &SysRoot, snapshot: &Snapshot) -> Vec<u32> {
    let mut own: Vec<u32> = snapshot.processes.iter().map(|process| process.pid).collect();
    own.dedup();
    own.retain(|pid| is_own(root, *pid));
    own
}

/// Whether a process has a name. A process that ended before its name was read has none; nothing
/// can be done about it any more.
fn is_known(process: &ProcessUse) -> bool {
    process.name != NAMELESS
}

/// Whether a process is Floodwall's and does not load a disk on purpose.
fn is_own(root: &SysRoot, pid: u32) -> bool {
    let text = root.read(&format!("/proc/{pid}/cmdline")).into_value().unwrap_or_default();
    let mut words = text.split('\0');
    let program = words.next().and_then(|path| path.rsplit('/').next());
    program == Some("floodwall") && !words.next().is_some_and(|word| LOADS.contains(&word))
}

/// Whether a process is a thread of the kernel's for its own purposes. Such threads write a journal
/// (jbd2), or empty inode tables of a new filesystem (ext4lazyinit). No process waits for that.
pub(super) fn keeps_house(root: &SysRoot, pid: u32, name: &str) -> bool {
    let file = |file: &str| root.read(&format!("/proc/{pid}/{file}")).into_value();
    let parent = file("status").and_then(|status| {
        status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
    });
    let is_kernels = parent == Some(KTHREADD) && file("cmdline").is_some_and(|it| it.is_empty());
    is_kernels && !SERVERS.iter().any(|server| name.starts_with(server))
}

#[cfg(test)]
mod tests {
    use floodwall_testing::tree::put;

    use super::*;

    #[test]
    fn threads_of_the_kernels_are_no_victims_unless_they_serve() {
        let dir = tempfile::tempdir().unwrap();
        let users = [
            (10, "jbd2/sda1-8", 2, "", true),
            (11, "ext4lazyinit", 2, "", true),
            (12, "nfsd", 2, "", false),
            (13, "kworker/u8:2-loop8", 2, "", false),
            (14, "jbd2/sda1-8", 1, "jbd2/sda1-8\0", false),
        ];
        for (pid, _, parent, words, _) in users {
            put(&dir.path().join(format!("proc/{pid}/status")), &format!("PPid:\t{parent}\n"));
            put(&dir.path().join(format!("proc/{pid}/cmdline")), words);
        }
        let root = SysRoot::new(dir.path()).unwrap();
        for (pid, name, .., keeps) in users {
            assert_eq!(keeps_house(&root, pid, name), keeps, "{name}");
        }
        assert!(!keeps_house(&root, 15, "gone"));
    }

    #[test]
    fn a_guard_is_floodwalls_and_a_bench_counts_as_any_load() {
        let dir = tempfile::tempdir().unwrap();
        let processes = [
            (1, "/usr/bin/floodwall\0guard\0--p99\x0020ms\0", true),
            (2, "floodwall\0", true),
            (3, "floodwall\0bench\0/srv\0", false),
            (8, "floodwall\0fix\0/srv\0--tune\0", false),
            (4, "/usr/bin/floodwall\0flood-process\0", false),
            (5, "cp\0floodwall\0/srv\0", false),
            (6, "", false),
        ];
        for (pid, words, _) in processes {
            put(&dir.path().join(format!("proc/{pid}/cmdline")), words);
        }
        let root = SysRoot::new(dir.path()).unwrap();
        for (pid, words, own) in processes {
            assert_eq!(is_own(&root, pid), own, "{words}");
        }
        assert!(!is_own(&root, 7));
    }
}
