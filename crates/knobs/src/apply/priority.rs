//! The threads behind a path, and the system calls that read and set their priorities.

use std::collections::BTreeSet;

use floodwall_host::{SysRoot, block, task};
use floodwall_model::DeviceId;
use rustix::io::Errno;

use crate::catalogue::priority::{FILE, LONGEST, Priorities, Priority, Thread, decode, encode};

/// Threads that start while others are set inherit the old value; each pass finds those of the pass
/// before.
const MOST_PASSES: u32 = 100;
/// Groups below a group are looked for this deep.
const DEEPEST: u32 = 16;
/// `IOPRIO_WHO_PROCESS`: the number is a thread's (include/uapi/linux/ioprio.h).
const ONE_THREAD: libc::c_int = 1;

/// The threads that a path stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source<'a> {
    Process(u32),
    /// The group's directory.
    Group(&'a str),
    Journals(DeviceId),
}

impl<'a> Source<'a> {
    fn parse(path: &'a str) -> Option<Self> {
        let owner = path.strip_suffix(FILE)?.strip_suffix('/')?;
        if let Some(pid) = owner.strip_prefix("/proc/") {
            return pid.parse().ok().map(Self::Process);
        }
        if let Some(device) = owner.strip_prefix("/sys/dev/block/") {
            return device.strip_suffix("/journal")?.parse().ok().map(Self::Journals);
        }
        owner.starts_with("/sys/fs/cgroup/").then_some(Self::Group(owner))
    }

    fn processes(&self, root: &SysRoot) -> BTreeSet<u32> {
        match self {
            Self::Process(pid) => BTreeSet::from([*pid]),
            Self::Group(directory) => {
                let mut pids = BTreeSet::new();
                processes_below(root, directory, DEEPEST, &mut pids);
                pids
            }
            Self::Journals(disk) => journals(root, *disk),
        }
    }

    /// The threads with their numbers, the first process's first one first.
    fn threads(&self, root: &SysRoot) -> Vec<Thread> {
        let mut stat = Vec::new();
        let of = |pid: u32| {
            let tids = root.list(&format!("/proc/{pid}/task")).into_value().unwrap_or_default();
            let mut threads: Vec<Thread> = tids
                .iter()
                .filter_map(|tid| {
                    root.read_attribute_into(&format!("/proc/{pid}/task/{tid}/stat"), &mut stat)
                        .ok()?;
                    Some(Thread { tid: tid.parse().ok()?, start_ticks: task::start_ticks(&stat)? })
                })
                .collect();
            threads.sort_unstable();
            threads
        };
        self.processes(root).into_iter().flat_map(of).collect()
    }
}

/// Processes of a group and of those below it. Processes of another PID namespace have the number
/// 0.
fn processes_below(root: &SysRoot, directory: &str, deep: u32, pids: &mut BTreeSet<u32>) {
    let mut text = Vec::new();
    if root.read_into(&format!("{directory}/cgroup.procs"), &mut text).is_ok() {
        let text = String::from_utf8_lossy(&text);
        pids.extend(
            text.lines().filter_map(|line| line.trim().parse::<u32>().ok()).filter(|pid| *pid != 0),
        );
    }
    if deep == 0 {
        return;
    }
    for name in root.list(directory).into_value().unwrap_or_default() {
        let below = format!("{directory}/{name}");
        if root.exists(&format!("{below}/cgroup.procs")) {
            processes_below(root, &below, deep - 1, pids);
        }
    }
}

/// The threads that commit journals on a disk (fs/ext4/sysfs.c `journal_task`, Linux 4.20).
fn journals(root: &SysRoot, disk: DeviceId) -> BTreeSet<u32> {
    let names = root.list("/sys/fs/ext4").into_value().unwrap_or_default();
    let on_disk = |name: &&String| {
        let device = root.parse::<DeviceId>(&format!("/sys/class/block/{name}/dev"));
        device.and_then(|id| block::whole_disk(root, id)).value() == Some(&disk)
    };
    let task = |name: &String| {
        root.parse::<u32>(&format!("/sys/fs/ext4/{name}/journal_task")).into_value()
    };
    names.iter().filter(on_disk).filter_map(task).collect()
}

/// Whether a path stands for priorities of threads.
pub(crate) fn is_ours(path: &str) -> bool {
    Source::parse(path).is_some()
}

/// The priorities of the threads behind a path.
///
/// # Errors
/// ENOENT if no threads exist; E2BIG if too many differ to be saved.
pub(crate) fn read(root: &SysRoot, path: &str) -> rustix::io::Result<String> {
    let source = Source::parse(path).ok_or(Errno::NOENT)?;
    let threads = source.threads(root).into_iter();
    let read: Vec<(Thread, Priority)> =
        threads.filter_map(|thread| Some((thread, get(thread.tid).ok()?))).collect();
    let text = Priorities::of(&read).ok_or(Errno::NOENT)?.to_string();
    if text.len() > LONGEST { Err(Errno::TOOBIG) } else { Ok(text) }
}

/// Sets the threads behind a path to the priorities in a text, including threads that start
/// meanwhile.
///
/// # Errors
/// EINVAL for a text that says nothing of priorities; ENOENT if there are no threads; EPERM; EAGAIN
/// if threads start faster than they can be set.
pub(crate) fn write(root: &SysRoot, path: &str, text: &str) -> rustix::io::Result<()> {
    let source = Source::parse(path).ok_or(Errno::NOENT)?;
    let wanted: Priorities = text.parse().map_err(|_| Errno::INVAL)?;
    for _ in 0..MOST_PASSES {
        let threads = source.threads(root);
        if threads.is_empty() {
            return Err(Errno::NOENT);
        }
        let mut calm = true;
        for thread in threads {
            let priority = wanted.get(thread);
            match get(thread.tid) {
                Ok(now) if now == priority => {}
                Ok(_) => match set(thread.tid, priority) {
                    Ok(()) => calm = false,
                    // It has ended.
                    Err(Errno::SRCH) => {}
                    Err(error) => return Err(error),
                },
                Err(Errno::SRCH) => {}
                Err(error) => return Err(error),
            }
        }
        if calm {
            return Ok(());
        }
    }
    Err(Errno::AGAIN)
}

/// Whether [`write()`] would be permitted: the first thread is set to its present priority.
///
/// # Errors
/// As [`write()`].
pub(crate) fn may_write(root: &SysRoot, path: &str) -> rustix::io::Result<()> {
    let threads = Source::parse(path).ok_or(Errno::NOENT)?.threads(root);
    let tid = threads.first().ok_or(Errno::NOENT)?.tid;
    set(tid, get(tid)?)
}

/// Runs `start` at an I/O priority, such as `be/0`: the threads and processes that it starts
/// inherit it. The calling thread has its own again afterwards.
///
/// # Errors
/// EINVAL for a text that is no priority; EPERM for `rt` without CAP_SYS_NICE. Then nothing was
/// started.
pub fn start_at<T>(priority: &str, start: impl FnOnce() -> T) -> rustix::io::Result<T> {
    /// The calling thread's number in ioprio_set(2).
    const SELF: u32 = 0;
    let wanted: Priority = priority.parse().map_err(|_| Errno::INVAL)?;
    let before = get(SELF)?;
    set(SELF, wanted)?;
    let started = start();
    // Giving a raised priority up needs no privilege.
    let _ = set(SELF, before);
    Ok(started)
}

#[allow(unsafe_code, reason = "ioprio_get(2) has no wrapper")]
fn get(tid: u32) -> rustix::io::Result<Priority> {
    // SAFETY: the call takes numbers alone and touches no memory of this process.
    let raw = unsafe { libc::syscall(libc::SYS_ioprio_get, ONE_THREAD, tid) };
    u32::try_from(raw).map(decode).map_err(|_| last_error())
}

#[allow(unsafe_code, reason = "ioprio_set(2) has no wrapper")]
fn set(tid: u32, priority: Priority) -> rustix::io::Result<()> {
    // SAFETY: the call takes numbers alone and touches no memory of this process.
    let done = unsafe { libc::syscall(libc::SYS_ioprio_set, ONE_THREAD, tid, encode(priority)) };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_whose_threads_it_stands_for() {
        let disk = DeviceId { major: 8, minor: 16 };
        assert_eq!(Source::parse("/proc/4711/ioprio"), Some(Source::Process(4711)));
        assert_eq!(
            Source::parse("/sys/fs/cgroup/a.slice/b.service/ioprio"),
            Some(Source::Group("/sys/fs/cgroup/a.slice/b.service"))
        );
        assert_eq!(
            Source::parse("/sys/dev/block/8:16/journal/ioprio"),
            Some(Source::Journals(disk))
        );
        for path in [
            "/proc/self/ioprio",
            "/proc/4711/io",
            "/sys/dev/block/8:16/queue/ioprio",
            "/sys/fs/cgroup/a/io.max",
        ] {
            assert!(!is_ours(path), "{path}");
        }
    }
}
