//! Processes of a frame by their part, victims and floods, and how they are named.

use floodwall_model::frame::{Frame, Process};
use floodwall_model::printable::printable;

/// The processes of a disk that wait long, the slowest first.
pub(crate) fn victims<'a>(frame: &'a Frame, disk: &str) -> Vec<&'a Process> {
    let mut found: Vec<&Process> = on(frame, disk).filter(|process| process.is_victim).collect();
    found.sort_by_key(|process| std::cmp::Reverse(process.slowest_us()));
    found
}

/// The processes that flood a disk, those first that dirty most.
pub(crate) fn floods<'a>(frame: &'a Frame, disk: &str) -> Vec<&'a Process> {
    let mut found: Vec<&Process> = on(frame, disk).filter(|process| process.is_flood).collect();
    found.sort_by_key(|process| std::cmp::Reverse(process.dirtied_bytes));
    found
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
