//! The owner of a hold: whether the process that began it can still write, and which write it may
//! be in.
//!
//! ```text
//! begin: number, start, PID namespace
//!   ─▶ where is it?   /proc/NUMBER, if /proc numbers processes as it was numbered; else it is looked for by namespace and number there
//!   ─▶ its threads    one that runs: it lives │ all of them ended: it is gone
//!   ─▶ all of them killed: none comes back from the kernel; each may be inside one last system call ─▶ which file is that of?
//! ```
//!
//! - A thread with a pending SIGKILL never returns to user space (kernel/signal.c `get_signal`), so
//!   it begins no other write. Its present write has no time limit: a queue must run dry before the
//!   kernel changes it.
//! - The kernel names that thread's present write (`/proc/PID/task/TID/syscall`). The journal
//!   can't: on a full disk, values are put back without a record.
//! - Only the host's PID namespace shows every process. A process that another namespace does not
//!   show may still live.

use floodwall_host::task::start_ticks;
use rustix::io::Errno;

use crate::catalogue::Scope;
use crate::files::Files;
use crate::journal::Begin;
use crate::plan::Entry;

/// The number of the host's PID namespace (include/linux/proc_ns.h `PROC_PID_INIT_INO`).
const HOST_NAMESPACE: u64 = 0xeffffffc;
/// SIGKILL among the pending signals of proc_pid_status(5).
const KILLED: u64 = 1 << 8;

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
    /// It is of another PID namespace, and can't be seen from this one: why.
    Unseen(String),
}

/// The files that a killed process is still writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupied(
    /// The files; none if that can't be told, so that it may be any.
    Option<Vec<String>>,
);

/// Whether the process that began a transaction lives, or may live unseen. One that has been killed
/// does not, even if it is still inside a write.
#[must_use]
pub fn is_alive(files: &dyn Files, begin: &Begin) -> bool {
    matches!(life(files, begin), Life::Lives | Life::Unseen(_))
}

/// Whether the process that began a transaction can still write.
#[must_use]
pub fn life(files: &dyn Files, begin: &Begin) -> Life {
    match place(files, begin) {
        Place::At(directory) => threads(files, &directory),
        Place::Unknown => Life::Lives,
        Place::Nowhere => Life::Gone,
        Place::OutOfSight(why) => Life::Unseen(why),
    }
}

/// The PID namespace of this process; none if the kernel has none.
pub(crate) fn own_namespace(files: &dyn Files) -> Option<u64> {
    namespace(files, "self").ok().flatten()
}

/// Where a process is.
enum Place {
    /// Its directory.
    At(String),
    /// It can't be looked at.
    Unknown,
    /// There is no such process.
    Nowhere,
    OutOfSight(String),
}

fn place(files: &dyn Files, begin: &Begin) -> Place {
    let here = format!("/proc/{}", begin.pid);
    let Some(its) = begin.pid_namespace else { return of_number(files, here, begin) };
    match shown_namespace(files) {
        Some(shown) if shown == its => of_number(files, here, begin),
        Some(shown) => look_for(files, begin, its, shown),
        None => Place::OutOfSight(format!(
            "it is of PID namespace {its}, and /proc does not show this one's processes"
        )),
    }
}

/// Whether the process in a directory of /proc is the one that began a transaction.
fn of_number(files: &dyn Files, directory: String, begin: &Begin) -> Place {
    let stat = match files.read(&format!("{directory}/stat")) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::SRCH) => return Place::Nowhere,
        // A process that can't be looked at is not known to be gone.
        Err(_) => return Place::Unknown,
    };
    let Some(started) = start_ticks(stat.as_bytes()) else { return Place::Unknown };
    if started == begin.pid_start_ticks {
        return Place::At(directory);
    }
    // A time namespace has another boot time (time_namespaces(7)).
    let time = |of: &str| files.link(&format!("{of}/ns/time")).ok();
    if time(&directory) == time("/proc/self") { Place::Nowhere } else { Place::Unknown }
}

/// The number of a PID namespace: of `self`, or of a process by its number. `None` if it has none:
/// it is gone, or the kernel knows of no such thing.
fn namespace(files: &dyn Files, of: &str) -> Result<Option<u64>, Errno> {
    match files.link(&format!("/proc/{of}/ns/pid")) {
        // `pid:[4026531836]`
        Ok(text) => {
            let number = text.strip_prefix("pid:[").and_then(|rest| rest.strip_suffix(']'));
            number.and_then(|number| number.parse().ok()).map(Some).ok_or(Errno::INVAL)
        }
        Err(Errno::NOENT | Errno::SRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A process's numbers, from that in the namespace that /proc shows to that in its own; empty
/// before Linux 4.1 and for one that is gone.
fn numbers(files: &dyn Files, of: &str) -> Result<Vec<u32>, Errno> {
    match files.read(&format!("/proc/{of}/status")) {
        Ok(status) => {
            let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
            Ok(line.split_whitespace().filter_map(|number| number.parse().ok()).collect())
        }
        Err(Errno::NOENT | Errno::SRCH) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The PID namespace whose numbers /proc shows, if it is this process's own; a /proc of the host's
/// inside a container is not.
fn shown_namespace(files: &dyn Files) -> Option<u64> {
    own_namespace(files).filter(|_| numbers(files, "self").is_ok_and(|numbers| numbers.len() < 2))
}

/// Looks for a process of a namespace below the one that is shown.
fn look_for(files: &dyn Files, begin: &Begin, its: u64, shown: u64) -> Place {
    let is_number = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let mut all_seen = true;
    for name in files.list("/proc").into_iter().filter(is_number) {
        match numbers(files, &name) {
            Ok(numbers) if numbers.len() > 1 && numbers.last() == Some(&begin.pid) => {}
            Ok(_) => continue,
            Err(_) => {
                all_seen = false;
                continue;
            }
        }
        match namespace(files, &name) {
            Ok(Some(number)) if number == its => return of_number(files, format!("/proc/{name}"), begin),
            Ok(_) => {}
            Err(_) => all_seen = false,
        }
    }
    if all_seen && shown == HOST_NAMESPACE {
        Place::Nowhere
    } else {
        Place::OutOfSight(format!("it is of PID namespace {its}, this is {shown}"))
    }
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
        let is_gone = || matches!(files.read(&format!("{directory}/stat")), Err(Errno::NOENT | Errno::SRCH));
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
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        value.trim_start_matches(':').trim()
    };
    if field("State").starts_with(['Z', 'X', 'x']) {
        return State::Ended;
    }
    let pending = u64::from_str_radix(field("SigPnd"), 16).unwrap_or(0);
    if pending & KILLED == 0 { State::Runs } else { State::Killed }
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
            file.starts_with("/sys/") || file.starts_with("/proc/sys/") || file.contains("/devices/")
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
