//! One process: its parent and flags (/proc/PID/stat), those of its threads, the bytes that these
//! dirtied, and its control group.
//!
//! A parent that waits for a child inherits the child's I/O counters (kernel/exit.c
//! `wait_task_zombie`): its /proc/PID/io jumps by all that the child ever wrote. The same call adds
//! the child's page faults to the parent's `cminflt`, and every process has some. A thread's own
//! counters (/proc/PID/task/TID/io) inherit nothing.

use std::fmt::Display;

use floodwall_model::Reading;
use floodwall_model::proc_stat::ProcStat;

use crate::root::{SysRoot, not_understood};
use crate::text::number_after;

/// Threads of one process whose counters are added up; each takes some 5 µs.
pub const MOST_THREADS: usize = 256;

/// Fields of /proc/PID/stat and /proc/PID/task/TID/stat (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its parent's number; 0 if it has none.
    pub parent: u32,
    /// `PF_…` of include/linux/sched.h.
    pub flags: u64,
    /// `cminflt`: page faults of the children that it has waited for, and of theirs. It grows with
    /// each child.
    pub children_faults: u64,
}

/// Reads /proc/PID/stat through a buffer; `None` if the process is gone or the text is not its.
pub fn read_stat(root: &SysRoot, pid: u32, buffer: &mut Vec<u8>) -> Option<Stat> {
    root.read_attribute_into(&format!("/proc/{pid}/stat"), buffer).ok()?;
    parse_stat(buffer)
}

/// Reads /proc/PID/task/TID/stat.
pub(crate) fn read_thread_stat(root: &SysRoot, pid: u32, tid: &str) -> Reading<Stat> {
    let path = format!("/proc/{pid}/task/{tid}/stat");
    root.read_line(&path).and_then(|text| match parse_stat(text.as_bytes()) {
        Some(stat) => Reading::Value(stat),
        None => not_understood(&path, &text),
    })
}

/// A process's control group of version 2, such as `/system.slice/cron.service` (cgroups(7),
/// /proc/PID/cgroup). The process is a number or `self`.
pub fn read_group(root: &SysRoot, process: impl Display) -> Reading<String> {
    root.read(&format!("/proc/{process}/cgroup")).and_then(|text| group_in(&text))
}

/// The same by the text of /proc/PID/cgroup.
pub(crate) fn group_in(text: &str) -> Reading<String> {
    match parse_group(text) {
        Some(group) => Reading::Value(group.to_owned()),
        None => Reading::Absent("no control groups of version 2".to_owned()),
    }
}

/// The control group of version 2 in a text of /proc/PID/cgroup.
#[must_use]
pub fn parse_group(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

/// The bytes that a process's living threads dirtied, without those inherited from children;
/// `None` if there are more than [`MOST_THREADS`] threads, or none that can be read.
pub fn read_threads_written(root: &SysRoot, pid: u32, buffer: &mut Vec<u8>) -> Option<u64> {
    let threads = root.list(&format!("/proc/{pid}/task")).into_value()?;
    if threads.len() > MOST_THREADS {
        return None;
    }
    let mut sum = None;
    for tid in threads {
        // A thread may have ended meanwhile.
        if root.read_attribute_into(&format!("/proc/{pid}/task/{tid}/io"), buffer).is_ok() {
            let text = std::str::from_utf8(buffer).ok()?;
            sum = Some(sum.unwrap_or(0) + number_after(text, "write_bytes")?);
        }
    }
    sum
}

/// When a process or thread started, in clock ticks since boot, from its `stat`; `None` if the text
/// is no such line. Numbers are reused; a number with its start is unique.
#[must_use]
pub fn start_ticks(stat: &[u8]) -> Option<u64> {
    ProcStat::parse(stat)?.start_ticks()
}

/// The text of /proc/PID/stat or /proc/PID/task/TID/stat; `None` if it is no such line.
#[must_use]
pub fn parse_stat(stat: &[u8]) -> Option<Stat> {
    let stat = ProcStat::parse(stat)?;
    Some(Stat {
        parent: stat.parent()?,
        flags: stat.flags()?,
        children_faults: stat.children_faults()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    #[test]
    fn a_name_may_hold_brackets() {
        let stat = b"7 (a) b (c) S 5 7 7 0 -1 4194560 11 22 0 0 1 2\n";
        let expected = Stat { parent: 5, flags: 4_194_560, children_faults: 22 };
        assert_eq!(parse_stat(stat), Some(expected));
        assert_eq!(parse_stat(b"7 (a) S 5 7"), None);
        assert_eq!(parse_stat(b"no stat"), None);
        let whole = b"7 (a) b) S 5 7 7 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 4711 99 0\n";
        assert_eq!((start_ticks(whole), start_ticks(stat)), (Some(4711), None));
    }

    #[test]
    fn a_group_is_that_of_version_2() {
        let files = [
            ("proc/7/cgroup", "4:memory:/a\n0::/system.slice/cron.service\n"),
            ("proc/8/cgroup", "4:memory:/a\n"),
        ];
        let (_dir, root) = tree(&files);
        assert_eq!(read_group(&root, 7), Reading::Value("/system.slice/cron.service".into()));
        assert!(matches!(read_group(&root, 8), Reading::Absent(_)));
        assert!(matches!(read_group(&root, 9), Reading::Absent(_)));
    }

    #[test]
    fn this_process_agrees_with_the_kernel() {
        let (root, mut buffer) = (SysRoot::live().unwrap(), Vec::new());
        let stat = read_stat(&root, std::process::id(), &mut buffer).unwrap();
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        // A child that is waited for is seen by its page faults.
        assert!(std::process::Command::new("true").status().unwrap().success());
        let again = read_stat(&root, std::process::id(), &mut buffer).unwrap();
        assert!(again.children_faults > stat.children_faults, "{stat:?} {again:?}");
    }
}
