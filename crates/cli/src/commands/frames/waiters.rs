//! Victims whose wait goes on from window to window.
//!
//! The window in which it ends may hold many short waits, and then its typical one is short. The
//! long one has ended in it all the same.

use std::collections::BTreeMap;

use floodwall_model::frame::Process;

/// Victims that waited at the last window's end: process and disk, and for how long, in
/// microseconds.
#[derive(Debug, Default)]
pub(super) struct Waiters(BTreeMap<(u32, Option<String>), u64>);

impl Waiters {
    /// Marks those as victims whose wait has ended in this window. They are none in the next one by
    /// that: some call of a process that commits again and again is always under way.
    pub(super) fn frame(&mut self, processes: &mut [Process]) {
        let key = |process: &Process| (process.pid, process.disk.clone());
        let waits = processes.iter().filter(|process| process.is_victim && process.oldest_us > 0);
        let waits = waits.map(|process| (key(process), process.oldest_us)).collect();
        let before = std::mem::replace(&mut self.0, waits);
        if before.is_empty() {
            return;
        }
        for process in processes.iter_mut() {
            let waited_us = before.get(&key(process)).copied();
            let ended_us = process.waits.iter().map(|waits| waits.max_us).max();
            process.is_victim |= waited_us.is_some() && ended_us >= waited_us;
        }
    }
}

#[cfg(test)]
mod tests {
    use floodwall_model::frame::Waits;

    use super::*;

    #[test]
    fn a_wait_that_ends_is_a_victims_as_before() {
        let process = |disk: &str, ended_us: u64, oldest_us: u64, is_victim| Process {
            pid: 7,
            disk: Some(disk.into()),
            waits: vec![Waits { max_us: ended_us, ..Waits::default() }],
            oldest_us,
            is_victim,
            ..Process::default()
        };
        let mut waiters = Waiters::default();
        let mut is_victim = |process: Process| {
            let mut processes = [process];
            waiters.frame(&mut processes);
            processes[0].is_victim
        };
        assert!(!is_victim(process("sda", 9_000, 9_000, false)));
        assert!(is_victim(process("sda", 9_000, 136_000, true)));
        assert!(is_victim(process("sda", 274_000, 0, false)), "it has ended");
        assert!(!is_victim(process("sda", 274_000, 0, false)), "a window later");
        is_victim(process("sda", 9_000, 136_000, true));
        assert!(!is_victim(process("sda", 135_999, 0, false)), "another wait");
        is_victim(process("sda", 9_000, 136_000, true));
        assert!(!is_victim(process("sdb", 274_000, 0, false)), "another disk");
        is_victim(process("sda", 274_000, 3_000, true));
        assert!(is_victim(process("sda", 9_000, 3_000, false)));
        assert!(!is_victim(process("sda", 9_000, 3_000, false)), "short calls, one after another");
    }
}
