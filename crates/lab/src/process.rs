//! Processes: naming them so that a recycled number is not mistaken for them, ending them, making
//! them fit to serve a block device.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::num::NonZeroU64;
use std::path::Path;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use floodwall_model::proc_stat::ProcStat;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mm::MlockAllFlags;
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::mounts::{self, Mount};

/// A process: its number, and when it started (clock ticks since boot), which together are unique
/// within a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    started: u64,
}

impl Process {
    /// The calling process.
    pub(crate) fn this() -> Option<Self> {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// A process by its number, if it lives.
    fn of(pid: i32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = ProcStat::parse(&stat).filter(|stat| !stat.has_ended())?;
        Some(Self { pid, started: stat.start_ticks()? })
    }

    /// Whether it still lives (a zombie does not).
    pub(crate) fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    fn open(self) -> Option<OwnedFd> {
        let fd = rustix::process::pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // After opening: now the number can't change hands any more.
        self.is_alive().then_some(fd)
    }

    /// Sends a signal to it, and to no other process.
    pub(crate) fn signal(self, signal: Signal) {
        if let Some(fd) = self.open() {
            // It may be gone meanwhile; that is as good.
            let _ = rustix::process::pidfd_send_signal(fd, signal);
        }
    }

    /// Waits for its end; `false` if it still lives after `patience`.
    pub(crate) fn wait(self, patience: Duration) -> bool {
        let Some(fd) = self.open() else { return true };
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
                Err(Errno::INTR) => {}
                Ok(0) | Err(_) => return !self.is_alive(),
                Ok(_) => return true,
            }
        }
    }
}

/// Makes this process fit to serve a block device. Its memory stays in RAM. Memory that it asks for
/// is not reclaimed by writing to a device that it serves itself (`PR_SET_IO_FLUSHER`). The OOM
/// killer spares it, and its sleeps end on time. A step that is not allowed here is left out: the
/// lab then works less well under memory pressure, and everything else the same.
///
/// Threads that are started afterwards inherit all of it.
pub(crate) fn fit_to_serve() {
    let _ = rustix::mm::mlockall(MlockAllFlags::CURRENT);
    // New memory is locked page by page. Without `ONFAULT` the kernel fills each new block of a
    // device's contents at once: every 2 MiB of new data would hold requests up for 5 ms.
    let _ = rustix::mm::mlockall(MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1_000));
    survive_memory_shortage();
}

/// Lets the calling thread, and those that it starts, run before all ordinary ones: hardware does
/// not wait for its turn on a busy CPU. The lowest real-time priority is enough for that. Left out
/// where it is not allowed (a CPU cgroup without real-time budget), with the highest ordinary
/// priority instead.
#[allow(unsafe_code, reason = "sched_setscheduler(2), which rustix does not have")]
pub(crate) fn run_first() {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: pid 0 is the calling thread, and the pointer is to a live sched_param.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &lowest) };
    if set != 0 {
        let _ = rustix::process::setpriority_process(None, -20);
    }
}

/// Starts a thread with a name.
pub(crate) fn start_thread(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, LabError> {
    Builder::new()
        .name(name.into())
        .spawn(run)
        .map_err(|e| LabError::io("start a thread of", name, e))
}

/// Takes this process off the list of those that are killed when memory runs out.
pub(crate) fn survive_memory_shortage() {
    let adjust = OpenOptions::new().write(true).open("/proc/self/oom_score_adj");
    let _ = adjust.and_then(|mut f| f.write_all(b"-1000"));
}

/// Processes that have a file open below `dir`, or work there, as far as /proc tells.
pub(crate) fn users_of_directory(dir: &Path) -> Vec<i32> {
    users(|target| target.starts_with(dir))
}

/// Processes that have a device node open, and one for every other mount namespace in which the
/// device is mounted. `dev` is its `MAJOR:MINOR`.
///
/// A namespace made while a filesystem was mounted (unshare(1), a container, a service with
/// `PrivateMounts=`) has another mount. Unmounting elsewhere does not touch that mount, which keeps
/// the device in use until the namespace's last process ends (mount_namespaces(7)).
pub(crate) fn users_of_device(device: &Path, dev: Option<&str>) -> Vec<i32> {
    let mut pids = users(|target| target == device);
    pids.extend(elsewhere_mounted(|mount| {
        mount.source == device || Some(mount.dev.as_str()) == dev
    }));
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// The first process of every mount namespace but the caller's that has such a mount.
fn elsewhere_mounted(wanted: impl Fn(&Mount) -> bool) -> Vec<i32> {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let mut seen: BTreeSet<_> = namespace("self").into_iter().collect();
    let mut pids = pids();
    pids.sort_unstable();
    pids.retain(|pid| {
        namespace(&pid.to_string()).is_some_and(|ns| seen.insert(ns))
            && fs::read(format!("/proc/{pid}/mountinfo"))
                .is_ok_and(|text| mounts::read(&text).any(|m| wanted(&m)))
    });
    pids
}

fn pids() -> Vec<i32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes.flatten().filter_map(|p| p.file_name().to_str()?.parse().ok()).collect()
}

fn users(uses: impl Fn(&Path) -> bool) -> Vec<i32> {
    pids()
        .into_iter()
        .filter(|pid| {
            let open = fs::read_dir(format!("/proc/{pid}/fd"))
                .into_iter()
                .flatten()
                .flatten()
                .map(|e| e.path());
            let places = [format!("/proc/{pid}/cwd").into(), format!("/proc/{pid}/root").into()];
            open.chain(places).any(|link| fs::read_link(link).is_ok_and(|target| uses(&target)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_known_by_more_than_its_number() {
        let this = Process::this().unwrap();
        assert!(this.is_alive());
        let earlier = Process { started: this.started - 1, ..this };
        assert!(!earlier.is_alive());
        earlier.signal(Signal::KILL);
    }

    #[test]
    fn the_end_of_a_process_is_seen() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::of(child.id() as i32).unwrap();
        assert!(!process.wait(Duration::ZERO));
        process.signal(Signal::KILL);
        assert!(process.wait(Duration::from_secs(30)));
        assert!(!process.is_alive(), "a zombie does not live");
        child.wait().unwrap();
    }

    #[test]
    fn who_works_in_a_directory_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("60").current_dir(dir.path()).spawn().unwrap();
        assert_eq!(users_of_directory(dir.path()), [child.id() as i32]);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
