//! The owner of a hold: whether the process that began it can still write, and which write it may
//! be in.
//!
//! ```text
//! begin: number, start ─▶ /proc/NUMBER is that process: its threads
//!                           one that runs: it lives │ all of them ended: it is gone
//!                           all of them killed: each may be inside one last system call
//!                             ─▶ which file is that of?
//!                       ─▶ there is no such process: it lives as long as the journal is marked
//! ```
//!
//! - The mark is a lock that the kernel removes with the process ([`Store::mark`]). It also
//!   tells of a process in another PID namespace, whose /proc differs.
//! - A thread with a pending SIGKILL begins no other write: it never returns to user space
//!   (kernel/signal.c `get_signal`). Its present write has no time limit: a queue must run dry
//!   before the kernel changes it.
//! - The kernel names that thread's present write (`/proc/PID/task/TID/syscall`). The journal
//!   can't: on a full disk, values are put back without a record.

use floodwall_host::task::{parse_stat, start_ticks};
use floodwall_host::text::bits_after;
use rustix::io::Errno;

use crate::catalogue::Scope;
use crate::catalogue::files::Files;
use crate::journal::{Begin, JournalError, Store};
use crate::plan::entry::Entry;

/// SIGKILL among the pending signals of proc_pid_status(5).
const KILLED: u64 = 1 << 8;
/// `PF_EXITING` (include/linux/sched.h) in the flags of proc_pid_stat(5): the thread is inside
/// kernel/exit.c `do_exit`, and makes no system call any more.
const EXITING: u64 = 0x4;

/// Whether the process that began a hold can still write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// It can, or is not known to be unable to.
    Lives,
    /// It has been killed and none of its threads comes back from the kernel; some are still inside
    /// it.
    Ending(Occupied),
    /// It can't.
    Gone,
}

/// The files that a killed process is still writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupied(
    /// The files; none if that can't be told, so that it may be any.
    Option<Vec<String>>,
);

/// Whether the process that began a hold lives. One that has been killed does not, even if it is
/// still inside a write.
///
/// # Errors
/// [`JournalError`] if the mark can't be looked at.
pub fn is_alive(files: &dyn Files, store: &dyn Store, begin: &Begin) -> Result<bool, JournalError> {
    Ok(life(files, store, begin)? == Life::Lives)
}

/// Whether the process that began a hold can still write.
///
/// # Errors
/// [`JournalError`] if the mark can't be looked at.
pub fn life(files: &dyn Files, store: &dyn Store, begin: &Begin) -> Result<Life, JournalError> {
    let directory = format!("/proc/{}", begin.pid);
    match files.read(&format!("{directory}/stat")) {
        Ok(stat) if start_ticks(stat.as_bytes()) == Some(begin.pid_start_ticks) => {
            return Ok(threads(files, &directory));
        }
        // A process that can't be looked at is not known to be gone.
        Err(error) if !matches!(error, Errno::NOENT | Errno::SRCH) => return Ok(Life::Lives),
        _ => {}
    }
    Ok(if store.is_marked()? { Life::Lives } else { Life::Gone })
}

/// Whether the process that began a change is still at it.
#[must_use]
pub fn is_at_it(files: &dyn Files, begin: &Begin) -> bool {
    let directory = format!("/proc/{}", begin.pid);
    let stat = files.read(&format!("{directory}/stat")).unwrap_or_default();
    start_ticks(stat.as_bytes()) == Some(begin.pid_start_ticks)
        && threads(files, &directory) == Life::Lives
}

/// Whether a process's threads can still write.
fn threads(files: &dyn Files, directory: &str) -> Life {
    let mut killed = Vec::new();
    let mut is_listed = false;
    // Twice: one that was started between the first list and the kill is in the second.
    for _ in 0..2 {
        killed.clear();
        for name in files.list(&format!("{directory}/task")) {
            let thread = format!("{directory}/task/{name}");
            is_listed = true;
            match state(files, &thread) {
                State::Ended => {}
                State::Killed => killed.push(thread),
                State::Runs => return Life::Lives,
            }
        }
    }
    if killed.is_empty() {
        // A process that is there has a thread, its leader, to the end; a list that can't be read
        // is not a list of none.
        let is_gone =
            || matches!(files.read(&format!("{directory}/stat")), Err(Errno::NOENT | Errno::SRCH));
        return if is_listed || is_gone() { Life::Gone } else { Life::Lives };
    }
    let mut inside = Vec::new();
    for thread in killed {
        match file_of(files, &thread) {
            Ok(file) => inside.extend(file),
            Err(()) => return Life::Ending(Occupied(None)),
        }
    }
    Life::Ending(Occupied(Some(inside)))
}

/// How far a thread is.
#[derive(PartialEq, Eq)]
enum State {
    /// It comes back from the kernel.
    Runs,
    /// It does not.
    Killed,
    Ended,
}

fn state(files: &dyn Files, thread: &str) -> State {
    let status = match files.read(&format!("{thread}/status")) {
        Ok(status) => status,
        Err(Errno::NOENT | Errno::SRCH) => return State::Ended,
        Err(_) => return State::Runs,
    };
    // proc_pid_status(5)
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default();
    if state.trim_start().starts_with(['Z', 'X', 'x']) {
        return State::Ended;
    }
    if bits_after(&status, "SigPnd").unwrap_or(0) & KILLED != 0 {
        return State::Killed;
    }
    // The kernel has taken the signal, and the thread is on its way out.
    let stat = files.read(&format!("{thread}/stat")).unwrap_or_default();
    match parse_stat(stat.as_bytes()) {
        Some(stat) if stat.flags & EXITING != 0 => State::Ended,
        _ => State::Runs,
    }
}

/// The file that a killed thread's system call is about, by its first argument; `Err` if that can't
/// be told.
fn file_of(files: &dyn Files, thread: &str) -> Result<Option<String>, ()> {
    // proc_pid_syscall(5): `1 0x3 …`; `running` on a processor, `-1 …` outside a system call.
    let call = match files.read(&format!("{thread}/syscall")) {
        Ok(call) => call,
        Err(_) if state(files, thread) == State::Ended => return Ok(None),
        Err(_) => return Err(()),
    };
    let mut words = call.split_whitespace();
    match words.next() {
        Some("-1") => return Ok(None),
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => {}
        _ => return Err(()),
    }
    let first = words.next().and_then(|word| word.strip_prefix("0x"));
    let first = first.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or(())?;
    match files.link(&format!("{thread}/fd/{first}")) {
        Ok(file) => Ok(Some(file)),
        // Not a file: an address, a number.
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::SRCH) if state(files, thread) == State::Ended => Ok(None),
        Err(_) => Err(()),
    }
}

impl Occupied {
    /// Checks the files against a hold's entries. If one of the files is a kernel file that belongs
    /// to no entry, it may still affect them; then every entry counts.
    pub(crate) fn of(self, entries: &[Entry]) -> Self {
        let is_kernels = |file: &str| {
            file.starts_with("/sys/")
                || file.starts_with("/proc/sys/")
                || file.contains("/devices/")
        };
        let known = |file: &String| {
            !is_kernels(file) || entries.iter().any(|entry| file.contains(&neighbourhood(entry)))
        };
        Self(self.0.filter(|files| files.iter().all(known)))
    }

    /// Whether an entry must be neither read nor written: it is the file being written, or one of
    /// the same queue. While the kernel changes a queue, access to its other files may block as
    /// long.
    pub(crate) fn covers(&self, entry: &Entry) -> bool {
        match &self.0 {
            Some(files) => files.iter().any(|file| file.contains(&neighbourhood(entry))),
            None => true,
        }
    }
}

/// The part of a path that all files that block each other share, whichever path leads to it:
/// `/sda/queue/`, `/8:0/`, `/vm/`.
fn neighbourhood(entry: &Entry) -> String {
    match (entry.knob.scope, entry.target.device()) {
        // A slash in a name is an exclamation mark in sysfs.
        (Scope::Queue | Scope::Elevator(_), Some(device)) => {
            format!("/{}/queue/", device.name.replace('/', "!"))
        }
        _ => {
            let path = entry.target.path(entry.knob);
            let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
            format!("/{}/", directory.rsplit('/').next().unwrap_or_default())
        }
    }
}
