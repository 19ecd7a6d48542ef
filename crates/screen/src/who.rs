//! Processes of a frame by their part, victims and floods, and how they are named.

use std::cmp::Reverse;

use floodwall_model::frame::{Disk, Frame, Process};
use floodwall_model::printable::printable;

/// The processes of a disk that wait long, the slowest first. The kernel's workers come last: they
/// wait for others.
pub(crate) fn victims<'a>(frame: &'a Frame, disk: &str) -> Vec<&'a Process> {
    let mut found: Vec<&Process> = on(frame, disk).filter(|process| process.is_victim).collect();
    found.sort_by_key(|process| Reverse(process.wait_rank()));
    found
}

/// The processes that flood a disk, those first that dirty most. The kernel's workers come last:
/// they write for others.
pub(crate) fn floods<'a>(frame: &'a Frame, disk: &str) -> Vec<&'a Process> {
    let mut found: Vec<&Process> = on(frame, disk).filter(|process| process.is_flood).collect();
    found.sort_by_key(|process| (process.is_kernel_worker(), Reverse(process.dirtied_bytes)));
    found
}

/// The processes that flood a disk or wrote its backlog, those first that wrote most, in the same
/// order.
pub(crate) fn authors<'a>(frame: &'a Frame, disk: &Disk) -> Vec<&'a Process> {
    let written = |process: &Process| process.written_bytes(disk.backlog_bytes);
    let mut found: Vec<&Process> =
        on(frame, &disk.name).filter(|process| process.is_author()).collect();
    found.sort_by_key(|process| (process.is_kernel_worker(), Reverse(written(process))));
    found
}

/// Whether a process bears the mark of a flood: it floods, or wrote part of a long backlog.
pub(crate) fn is_marked(frame: &Frame, process: &Process) -> bool {
    let is_long = || disk_of(frame, process).is_some_and(Disk::is_backlogged);
    process.is_flood || process.is_author() && is_long()
}

/// What a process dirtied in the window, or its part of the disk's backlog if that is more.
pub(crate) fn written(frame: &Frame, process: &Process) -> u64 {
    let shared = process.backlog_percent.and_then(|_| disk_of(frame, process));
    process.written_bytes(shared.and_then(|disk| disk.backlog_bytes))
}

fn disk_of<'a>(frame: &'a Frame, process: &Process) -> Option<&'a Disk> {
    frame.disks.iter().find(|disk| process.disk.as_ref() == Some(&disk.name))
}

/// The processes that used a disk.
pub(crate) fn on<'a>(frame: &'a Frame, disk: &str) -> impl Iterator<Item = &'a Process> {
    frame.processes.iter().filter(move |process| process.disk.as_deref() == Some(disk))
}

/// Whether a process waited in the window, or waits.
pub(crate) fn waits(process: &Process) -> bool {
    process.is_victim || !process.waits.is_empty() || process.waiting > 0
}

/// Whether a process wrote in the window, was stopped because of it, or has a part in a backlog.
pub(crate) fn writes(process: &Process) -> bool {
    process.is_flood
        || process.dirtied_bytes.unwrap_or(0) > 0
        || process.throttled_ms > 0
        || process.backlog_percent.is_some_and(|share| share > 0.0)
}

/// What a process waited for longest, in words: `fsync`, `sync write`; absent if it is not known.
pub(crate) fn call(process: &Process) -> Option<String> {
    process.slowest_call().map(words)
}

/// The name of a kind of call or request in words: `sync write` for `sync_write`.
pub(crate) fn words(name: &str) -> String {
    printable(name).replace('_', " ")
}

/// `postgres (812)`.
pub(crate) fn name(process: &Process) -> String {
    printable(&process.who()).into_owned()
}

/// The unit, pod or container of a process; empty if it is not known.
pub(crate) fn label(process: &Process) -> String {
    process.workload.label().map_or_else(String::new, |label| printable(&label).into_owned())
}

#[cfg(test)]
mod tests {
    use floodwall_model::frame::Waits;

    use super::*;

    #[test]
    fn the_call_is_that_of_the_slowest_wait() {
        let waits = |call: &str, max_us| Waits { call: call.into(), max_us, ..Waits::default() };
        let process = Process {
            waits: vec![waits("read", 2), waits("sync_write\u{1b}", 900), waits("fsync", 9)],
            ..Process::default()
        };
        assert_eq!(call(&process).as_deref(), Some(r"sync write\u{1b}"));
        let oldest_call = Some("direct_write".to_owned());
        let hangs = Process { oldest_us: 901, oldest_call, ..process };
        assert_eq!(call(&hangs).as_deref(), Some("direct write"));
        assert_eq!(call(&Process::default()), None);
    }
}
