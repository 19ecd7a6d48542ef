//! The processes of a command's group, and the I/O that the kernel has counted for them.
//!
//! `/proc/PID/io` counts a process with those of its children that it has waited for: kernel/exit.c
//! adds a reaped child's counters to its parent's. So the sum over a group goes on growing while
//! processes come and go. What an orphan takes along is kept by [`Meter`].

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use floodwall_model::proc_stat::ProcStat;
use rustix::io::Errno;
use rustix::process::Pid;

/// How often the group is read again when processes came or went meanwhile.
const ATTEMPTS: u32 = 5;

/// I/O counters of `/proc/PID/io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Io {
    /// read(2) and write(2) calls and their kin (`syscr` + `syscw`).
    pub(super) calls: u64,
    /// Bytes read by them (`rchar`), from the page cache or not.
    pub(super) read: u64,
    /// Bytes written by them (`wchar`), into the page cache or not.
    pub(super) written: u64,
}

impl Io {
    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            calls: f(self.calls, other.calls),
            read: f(self.read, other.read),
            written: f(self.written, other.written),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_add)
    }

    /// The difference, never below zero.
    pub(super) fn since(self, earlier: Self) -> Self {
        self.zip(earlier, u64::saturating_sub)
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|value| value.trim().parse::<u64>().ok())
        };
        Some(Self {
            calls: field("syscr")? + field("syscw")?,
            read: field("rchar")?,
            written: field("wchar")?,
        })
    }
}

/// A process of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    pub(super) pid: i32,
    /// Dead, and not yet waited for.
    pub(super) zombie: bool,
}

/// Why a process's counters can't be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) path: PathBuf,
    pub(super) errno: Errno,
}

/// The processes of a group, ascending.
pub(super) fn members(proc_root: &Path, group: Pid) -> io::Result<Vec<Member>> {
    let group = group.as_raw_nonzero().get();
    let mut found = Vec::new();
    for entry in fs::read_dir(proc_root)?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // A process that ends between the two calls is not a member any more.
        let Ok(stat) = fs::read(entry.path().join("stat")) else { continue };
        let stat = ProcStat::parse(&stat).filter(|stat| stat.group() == Some(group));
        found.extend(stat.map(|stat| Member { pid, zombie: stat.has_ended() }));
    }
    found.sort_unstable();
    Ok(found)
}

/// The counters of a group's processes together.
///
/// While a child is being reaped its counters are seen twice or not at all, so the group is read
/// again until no process came or went.
///
/// The kernel refuses the counters of an ending process to all users but root, since the process
/// has no memory left that names its owner. Its last counters are in `known`; once it is reaped,
/// its parent's hold them.
pub(super) fn read_io(
    proc_root: &Path,
    group: Pid,
    known: &mut BTreeMap<i32, Io>,
) -> Result<Io, Unreadable> {
    let unreadable = |path: &Path, e: &io::Error| Unreadable {
        path: path.to_owned(),
        errno: Errno::from_io_error(e).unwrap_or(Errno::IO),
    };
    let list = || members(proc_root, group).map_err(|e| unreadable(proc_root, &e));
    let mut before = list()?;
    let mut sum = Io::default();
    for _ in 0..ATTEMPTS {
        sum = Io::default();
        for member in &before {
            let path = proc_root.join(member.pid.to_string()).join("io");
            match fs::read_to_string(&path) {
                Ok(text) => {
                    let io = Io::parse(&text).unwrap_or_default();
                    known.insert(member.pid, io);
                    sum = sum.plus(io);
                }
                Err(e)
                    if Errno::from_io_error(&e) == Some(Errno::ACCESS)
                        && is_ending(proc_root, member.pid) =>
                {
                    sum = sum.plus(known.get(&member.pid).copied().unwrap_or_default());
                }
                Err(e) if matches!(Errno::from_io_error(&e), Some(Errno::NOENT | Errno::SRCH)) => {}
                Err(e) => return Err(unreadable(&path, &e)),
            }
        }
        let after = list()?;
        if after == before {
            break;
        }
        before = after;
    }
    known.retain(|pid, _| before.iter().any(|member| member.pid == *pid));
    Ok(sum)
}

/// Whether a process is on its way out, or gone: `PF_EXITING` (include/linux/sched.h) of the flags
/// in /proc/PID/stat.
fn is_ending(proc_root: &Path, pid: i32) -> bool {
    const EXITING: u64 = 4;
    let stat = fs::read(proc_root.join(pid.to_string()).join("stat"));
    stat.map_or(true, |stat| {
        let flags = ProcStat::parse(&stat).and_then(ProcStat::flags);
        flags.is_some_and(|flags| flags & EXITING != 0)
    })
}

/// Adds up a group's counters over its life and over the groups of later runs; never goes back.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Of earlier runs, and of processes that were gone without having been waited for in the
    /// group.
    kept: Io,
    live: Io,
    /// By process of the group that runs.
    pub(super) known: BTreeMap<i32, Io>,
}

impl Meter {
    /// The group's counters now.
    pub(super) fn observe(&mut self, now: Io) {
        // The missing part left with an orphan that a process outside the group waited for.
        self.kept = self.kept.plus(self.live.since(now));
        self.live = now;
    }

    /// The group is gone.
    pub(super) fn end_run(&mut self) {
        self.kept = self.kept.plus(self.live);
        self.live = Io::default();
        self.known.clear();
    }

    pub(super) fn total(&self) -> Io {
        self.kept.plus(self.live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_name() {
        let text = "rchar: 100\nwchar: 2000\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n";
        assert_eq!(Io::parse(text), Some(Io { calls: 7, read: 100, written: 2000 }));
        assert_eq!(Io::parse("rchar: 1\n"), None);
    }

    #[test]
    fn the_meter_never_goes_back() {
        let io = |n| Io { calls: n, read: n, written: n };
        let mut meter = Meter::default();
        for (now, total) in [(10, 10), (30, 30), (25, 30), (26, 31)] {
            meter.observe(io(now));
            assert_eq!(meter.total(), io(total));
        }
        meter.end_run();
        assert_eq!(meter.total(), io(31));
        meter.observe(io(5));
        assert_eq!(meter.total(), io(36));
    }
}
