//! Synchronous calls that began while the tracepoints were closed: those of known committers, or of
//! all processes. A victim that hangs must not stay unseen until its next call.
//!
//! The kernel tells the call that a thread is inside (/proc/PID/task/TID/syscall), not since when.
//! It counts from the moment at which it is found.

use std::collections::HashMap;

use floodwall_host::SysRoot;

use crate::event::Call;
use crate::hash::Fast;

/// Looks for which a process is remembered: longer than the guard's probe pauses.
const REMEMBERED: u32 = 100;
/// Processes that are asked, and threads of each; a thread takes some 10 µs.
const PROCESSES: usize = 16;
const THREADS: usize = 256;
/// Threads that are asked where all processes are: a tenth of a second.
const ALL_THREADS: usize = 10_000;

/// Processes that make synchronous calls, and the look at which they were last seen to.
#[derive(Debug, Default)]
pub(crate) struct Committers(HashMap<u32, u32, Fast>);

/// A call that a thread is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// `None`: a write, whose file will tell.
    pub(crate) call: Option<Call>,
    /// Its file; `None` for a call that names none.
    pub(crate) fd: Option<i32>,
}

impl Committers {
    pub(crate) fn seen(&mut self, look: u32, processes: impl Iterator<Item = u32>) {
        self.0.extend(processes.map(|pid| (pid, look)));
        self.0.retain(|_, seen| look.wrapping_sub(*seen) < REMEMBERED);
    }

    /// Calls under way of these processes, those seen last first.
    pub(crate) fn inside(&self, root: &SysRoot) -> Vec<Inside> {
        let mut known: Vec<(u32, u32)> = self.0.iter().map(|(pid, look)| (*look, *pid)).collect();
        known.sort_unstable_by(|a, b| b.cmp(a));
        let mut all = Vec::new();
        for (_, pid) in known.into_iter().take(PROCESSES) {
            all.extend(threads(root, pid).filter_map(|tid| inside(root, pid, tid)));
        }
        all
    }
}

/// Calls under way of all processes.
pub(crate) fn everywhere(root: &SysRoot) -> Vec<Inside> {
    let names = root.list("/proc").into_value().unwrap_or_default();
    let pids = names.iter().filter_map(|name| name.parse().ok());
    let all = pids.flat_map(|pid| threads(root, pid).map(move |tid| (pid, tid)));
    all.take(ALL_THREADS).filter_map(|(pid, tid)| inside(root, pid, tid)).collect()
}

/// A process's threads.
fn threads(root: &SysRoot, pid: u32) -> impl Iterator<Item = u32> + use<> {
    let names = root.list(&format!("/proc/{pid}/task")).into_value().unwrap_or_default();
    names.into_iter().filter_map(|name| name.parse().ok()).take(THREADS)
}

/// The call that a thread is inside.
pub(crate) fn inside(root: &SysRoot, pid: u32, tid: u32) -> Option<Inside> {
    let line = root.read_line(&format!("/proc/{pid}/task/{tid}/syscall")).into_value()?;
    let (call, fd) = parse(&line)?;
    Some(Inside { pid, tid, call, fd })
}

/// `number arg0 … arg5 sp pc`, arguments in hexadecimal; `running`, or -1 outside of calls.
fn parse(line: &str) -> Option<(Option<Call>, Option<i32>)> {
    let mut words = line.split(' ');
    let number: i64 = words.next()?.parse().ok()?;
    let mut argument =
        words.map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    let first = argument.next()?? as i32;
    // Calls that wait only with some flags (sync_file_range, msync) are left to their next
    // beginning.
    let call = match number {
        libc::SYS_fsync => Some(Call::Fsync),
        libc::SYS_fdatasync => Some(Call::Fdatasync),
        libc::SYS_syncfs => Some(Call::Syncfs),
        libc::SYS_write
        | libc::SYS_pwrite64
        | libc::SYS_writev
        | libc::SYS_pwritev
        | libc::SYS_pwritev2 => None,
        _ => return None,
    };
    Some((call, Some(first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_inside_a_synchronous_call_are_found() {
        let line = |number: i64| format!("{number} 0x3 0x0 0x0 0x0 0x0 0x0 0x7ffc0 0x7f001");
        assert_eq!(parse(&line(libc::SYS_fdatasync)), Some((Some(Call::Fdatasync), Some(3))));
        assert_eq!(parse(&line(libc::SYS_fsync)), Some((Some(Call::Fsync), Some(3))));
        for write in [libc::SYS_write, libc::SYS_pwrite64, libc::SYS_pwritev2] {
            assert_eq!(parse(&line(write)), Some((None, Some(3))), "its file tells the call");
        }
        assert_eq!(parse(&line(libc::SYS_read)), None);
        assert_eq!((parse("running"), parse("-1 0x7ffc0 0x7f001"), parse("")), (None, None, None));
    }

    #[test]
    fn who_has_not_committed_for_long_is_not_asked() {
        let dir = tempfile::tempdir().unwrap();
        let root = SysRoot::new(dir.path()).unwrap();
        for (pid, tid) in [(7, 7), (7, 8), (9, 9)] {
            let task = dir.path().join(format!("proc/{pid}/task/{tid}"));
            std::fs::DirBuilder::new().recursive(true).create(&task).unwrap();
            let number = if tid == 8 { libc::SYS_read } else { libc::SYS_fsync };
            let mut file = std::fs::File::options();
            let mut file = file.create_new(true).append(true).open(task.join("syscall")).unwrap();
            std::io::Write::write_all(&mut file, format!("{number} 0x5 0x0\n").as_bytes()).unwrap();
        }
        let mut committers = Committers::default();
        committers.seen(1, [7, 9].into_iter());
        committers.seen(50, [7].into_iter());
        assert_eq!(committers.inside(&root).iter().map(|i| i.tid).collect::<Vec<_>>(), [7, 9]);
        committers.seen(1 + REMEMBERED, [].into_iter());
        let call = Inside { pid: 7, tid: 7, call: Some(Call::Fsync), fd: Some(5) };
        assert_eq!(committers.inside(&root), [call]);
        // Where nobody is known yet, all are asked.
        let mut all: Vec<u32> = everywhere(&root).iter().map(|inside| inside.tid).collect();
        all.sort_unstable();
        assert_eq!(all, [7, 9]);
    }
}
