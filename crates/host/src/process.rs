//! Writers: /proc/PID/io of every process that may be looked at.
//!
//! `write_bytes` counts a page when it is dirtied (mm/page-writeback.c `folio_account_dirtied`), so
//! the difference of two readings names the floods, not the flusher that writes for them. Other
//! users' counters are for root (fs/proc/base.c `do_io_accounting`).

use std::fmt::Write;

use floodwall_model::Reading;
use floodwall_model::status::{Writer, Writers};
use rustix::io::Errno;

use crate::root::SysRoot;
use crate::task::{read_stat, read_threads_written};
use crate::text::number_after;

/// How many writers are named.
const NAMED_WRITERS: usize = 5;
/// How many of those whose counters grew most are checked for inherited bytes.
const CHECKED_WRITERS: usize = 64;

/// Every process's write counters at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes {
    /// In the order of their numbers.
    counters: Vec<Counters>,
    unreadable: u64,
    /// Processes without the file: a kernel without CONFIG_TASK_IO_ACCOUNTING.
    without_io: u64,
}

/// One process's counters since it began, in bytes.
#[derive(Clone, Copy, Debug)]
struct Counters {
    pid: u32,
    written: u64,
    cancelled: u64,
}

/// Reads the counters of all processes; one that ends meanwhile is left out.
pub(crate) fn read_processes(root: &SysRoot) -> Reading<Processes> {
    root.list("/proc").map(|names| {
        let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        pids.sort_unstable();
        let mut all =
            Processes { counters: Vec::with_capacity(pids.len()), ..Processes::default() };
        // One path and one buffer for all: there may be thousands.
        let mut path = String::new();
        let mut buffer = Vec::new();
        for pid in pids {
            path.clear();
            let _ = write!(path, "/proc/{pid}/io");
            match root.read_attribute_into(&path, &mut buffer) {
                Ok(()) => match counters(pid, &buffer) {
                    Some(counters) => all.counters.push(counters),
                    None => all.unreadable += 1,
                },
                Err(Errno::SRCH) => {}
                Err(Errno::NOENT) => all.without_io += 1,
                Err(_) => all.unreadable += 1,
            }
        }
        all
    })
}

fn counters(pid: u32, text: &[u8]) -> Option<Counters> {
    let text = std::str::from_utf8(text).ok()?;
    let written = number_after(text, "write_bytes")?;
    let cancelled = number_after(text, "cancelled_write_bytes")?;
    Some(Counters { pid, written, cancelled })
}

/// Why counters alone leave a figure open.
pub(crate) const NO_PROBE: &str = "the kernel's tracepoints alone tell that";

/// The processes that dirtied most between two readings that lie `window_s` seconds apart.
///
/// A process that is not in the first reading, or whose counters fell since, began meanwhile: all
/// that it wrote counts. One that ended meanwhile is not seen: its parent inherits its counters,
/// and does not count as their writer.
#[must_use]
pub(crate) fn writers(
    root: &SysRoot,
    before: &Reading<Processes>,
    after: &Reading<Processes>,
    window_s: f64,
) -> Writers {
    let (before, after) = match (before, after) {
        (Reading::Value(before), Reading::Value(after)) => (before, after),
        (Reading::Value(_), other) | (other, _) => {
            return Writers { missing: other.why(), ..Writers::default() };
        }
    };
    let mut writers: Vec<(u64, u64, u32)> = after
        .counters
        .iter()
        .map(|now| growth(before, now))
        .filter(|(written, ..)| *written > 0)
        .collect();
    let most_first = |(written, _, pid): &(u64, u64, u32)| (std::cmp::Reverse(*written), *pid);
    writers.sort_unstable_by_key(most_first);
    writers.truncate(CHECKED_WRITERS);
    let mut buffer = Vec::new();
    for (written, _, pid) in &mut writers {
        *written = (*written).min(most_own(root, *pid, &mut buffer));
    }
    writers.retain(|(written, ..)| *written > 0);
    writers.sort_unstable_by_key(most_first);
    writers.truncate(NAMED_WRITERS);
    let nothing = after.counters.is_empty() && after.without_io > 0;
    Writers {
        top: writers
            .into_iter()
            .map(|(written, cancelled, pid)| Writer {
                pid,
                comm: root.read_line(&format!("/proc/{pid}/comm")),
                dirtied_bytes_per_s: written as f64 / window_s,
                cancelled_bytes_per_s: cancelled as f64 / window_s,
                device: Reading::Absent(NO_PROBE.to_owned()),
                throttled_percent: Reading::Absent(NO_PROBE.to_owned()),
            })
            .collect(),
        readable_processes: after.counters.len() as u64,
        unreadable_processes: after.unreadable,
        missing: nothing.then(|| {
            "absent: no process has /proc/PID/io (kernel without CONFIG_TASK_IO_ACCOUNTING)"
                .to_owned()
        }),
    }
}

/// Upper bound of what a process wrote itself: no bound if it never waited for a child, else the
/// sum of its living threads' counters. A process with too many threads to ask counts nothing.
fn most_own(root: &SysRoot, pid: u32, buffer: &mut Vec<u8>) -> u64 {
    let waited = read_stat(root, pid, buffer).is_some_and(|stat| stat.children_faults > 0);
    if waited { read_threads_written(root, pid, buffer).unwrap_or(0) } else { u64::MAX }
}

/// Bytes written and taken back since the first reading.
fn growth(before: &Processes, now: &Counters) -> (u64, u64, u32) {
    let old = before
        .counters
        .binary_search_by_key(&now.pid, |c| c.pid)
        .ok()
        .and_then(|i| before.counters.get(i))
        .filter(|old| old.written <= now.written && old.cancelled <= now.cancelled);
    let (written, cancelled) = old.map_or((0, 0), |old| (old.written, old.cancelled));
    (now.written - written, now.cancelled - cancelled, now.pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::{put, tree};

    fn io(written: u64, cancelled: u64) -> String {
        format!(
            "rchar: 1\nwchar: 9\nread_bytes: 5\nwrite_bytes: {written}\n\
             cancelled_write_bytes: {cancelled}\n"
        )
    }

    #[test]
    fn the_largest_come_first_and_newcomers_count_whole() {
        let (dir, root) = tree(&[
            ("proc/10/io", &io(1000, 0)),
            ("proc/9/io", &io(5000, 0)),
            ("proc/11/io", &io(777, 0)),
            ("proc/12/io/not-a-file", ""),
            ("proc/13/stat", "ended meanwhile"),
            ("proc/meminfo", ""),
        ]);
        let before = read_processes(&root);
        for (pid, text) in
            [("10", io(3000, 500)), ("9", io(5000, 0)), ("11", io(100, 0)), ("14", io(400, 0))]
        {
            put(&dir.path().join(format!("proc/{pid}/io")), &text);
            put(&dir.path().join(format!("proc/{pid}/comm")), &format!("name{pid}\n"));
        }
        let writers = writers(&root, &before, &read_processes(&root), 2.0);
        let shown: Vec<_> = writers
            .top
            .iter()
            .map(|w| (w.pid, w.dirtied_bytes_per_s, w.cancelled_bytes_per_s))
            .collect();
        // 9 wrote nothing; 11 is another process than before; 14 is new.
        assert_eq!(shown, [(10, 1000.0, 250.0), (14, 200.0, 0.0), (11, 50.0, 0.0)]);
        assert_eq!(writers.top[0].comm, Reading::Value("name10".into()));
        assert_eq!((writers.readable_processes, writers.unreadable_processes), (4, 1));
    }

    #[test]
    fn a_parent_has_not_written_what_its_child_wrote() {
        let (dir, root) = tree(&[
            ("proc/10/io", &io(1000, 0)),
            ("proc/10/stat", "10 (sh) S 1 1 1 0 -1 0 9 90 0 0"),
            ("proc/10/task/10/io", &io(300, 0)),
            ("proc/11/io", &io(1000, 0)),
            ("proc/11/stat", "11 (cp) S 1 1 1 0 -1 0 9 0 0 0"),
            ("proc/11/task/11/io", &io(1000, 0)),
        ]);
        let before = read_processes(&root);
        put(&dir.path().join("proc/10/io"), &io(900_000, 0));
        put(&dir.path().join("proc/11/io"), &io(7000, 0));
        let writers = writers(&root, &before, &read_processes(&root), 1.0);
        let shown: Vec<_> = writers.top.iter().map(|w| (w.pid, w.dirtied_bytes_per_s)).collect();
        assert_eq!(shown, [(11, 6000.0), (10, 300.0)]);
    }

    #[test]
    fn a_kernel_that_does_not_count_is_not_an_idle_machine() {
        let (_dir, root) = tree(&[("proc/10/comm", "x\n")]);
        let processes = read_processes(&root);
        assert!(
            writers(&root, &processes, &processes, 1.0)
                .missing
                .unwrap()
                .contains("TASK_IO_ACCOUNTING")
        );
        let nothing = Reading::Absent("/proc does not exist".into());
        assert_eq!(
            writers(&root, &nothing, &nothing, 1.0).missing.as_deref(),
            Some("absent: /proc does not exist")
        );
    }
}
