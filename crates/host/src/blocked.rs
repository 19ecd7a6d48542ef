//! Processes that wait in the kernel, mostly for a disk: a thread in state D (proc_pid_stat(5)).
//!
//! Every user may read the state of every process. It does not tell the disk.

use floodwall_model::proc_stat::{KERNEL_THREAD, ProcStat};

use crate::root::SysRoot;

/// Threads that are looked at, of all processes: some 10 µs each.
const MOST_THREADS: usize = 5000;

/// A process with a thread in state D.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Its number.
    pub pid: i32,
    /// Its name (`comm`).
    pub name: String,
}

/// The processes with a thread in state D. Kernel threads and the processes of the group
/// `own_group` are left out.
#[must_use]
pub fn read_blocked(root: &SysRoot, own_group: i32) -> Vec<Blocked> {
    let mut found = Vec::new();
    let (mut buffer, mut threads_left) = (Vec::new(), MOST_THREADS);
    let pids = root.list("/proc").into_value().unwrap_or_default();
    for pid in pids.iter().filter_map(|name| name.parse::<i32>().ok()) {
        if root.read_attribute_into(&format!("/proc/{pid}/stat"), &mut buffer).is_err() {
            continue;
        }
        let Some(stat) = ProcStat::parse(&buffer) else { continue };
        let is_kernels = stat.flags().is_some_and(|flags| flags & KERNEL_THREAD != 0);
        if is_kernels || stat.group() == Some(own_group) {
            continue;
        }
        let threads = root.list(&format!("/proc/{pid}/task")).into_value().unwrap_or_default();
        let is_blocked = threads.iter().take(threads_left).any(|tid| {
            let path = format!("/proc/{pid}/task/{tid}/stat");
            root.read_attribute_into(&path, &mut buffer).is_ok()
                && ProcStat::parse(&buffer).and_then(ProcStat::state) == Some('D')
        });
        threads_left = threads_left.saturating_sub(threads.len());
        if is_blocked && let Some(name) = root.read_line(&format!("/proc/{pid}/comm")).into_value()
        {
            found.push(Blocked { pid, name });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    #[test]
    fn a_thread_that_waits_names_its_process() {
        let stat = |state: char, group: i32, flags: u64| {
            format!("7 (a) S) {state} 1 {group} 1 0 -1 {flags} 0 0\n")
        };
        let (sleeps, waits) = (stat('S', 10, 0), stat('D', 10, 0));
        let (own, kernel) = (stat('D', 99, 0), stat('D', 0, 0x0020_0040));
        let (_dir, root) = tree(&[
            ("proc/10/stat", sleeps.as_str()),
            ("proc/10/task/10/stat", &sleeps),
            ("proc/10/task/11/stat", &waits),
            ("proc/10/comm", "mysqld\n"),
            ("proc/20/stat", &sleeps),
            ("proc/20/task/20/stat", &sleeps),
            ("proc/20/comm", "cat\n"),
            ("proc/30/stat", &own),
            ("proc/30/task/30/stat", &own),
            ("proc/30/comm", "cp\n"),
            ("proc/40/stat", &kernel),
            ("proc/40/task/40/stat", &kernel),
            ("proc/40/comm", "kworker\n"),
            ("proc/meminfo", ""),
        ]);
        let mysqld = Blocked { pid: 10, name: "mysqld".to_owned() };
        assert_eq!(read_blocked(&root, 99), [mysqld]);
    }
}
