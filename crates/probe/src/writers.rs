//! Who dirties page cache: `write_bytes` of /proc/PID/io, which the kernel counts when a page is dirtied (mm/page-writeback.c
//! `folio_account_dirtied`), exactly and for free. Only asking costs, so that of machines with thousands of processes some are asked at each look.
//!
//! ```text
//! all processes ─┬─ dirtied something at the last look ─▶ asked; of more than ACTIVE in turn
//!                ├─ new                                 ─▶ asked, all that they dirtied counts
//!                ├─ the next BUDGET in turn             ─▶ asked
//!                └─ kernel threads                      ─▶ never
//! ```
//!
//! A process's counters are added to those of its parent when that waits for it (kernel/exit.c `wait_task_zombie`): what was counted for the one that is gone is not
//! counted again for the other, who would look like a flood for having waited for one.

use std::collections::HashMap;

use floodwall_host::SysRoot;
use rustix::io::Errno;

use crate::hash::Fast;

/// Idle processes asked at each look. Asking takes some 5 µs, so this is 1.3 ms; with fewer processes everyone is asked each time.
const BUDGET: usize = 256;
/// Processes asked that dirtied something when they were last asked; what the others dirty is counted when their turn comes.
const ACTIVE: usize = 1024;
/// New processes asked at each look: what forks faster is counted later, or, gone by then, never.
const NEWCOMERS: usize = 1024;
/// Processes remembered; more than the kernel's default `pid_max` allows.
const REMEMBERED: usize = 32_768;
/// Orphans whose new parent is asked for at each look; of the rest it is taken to be the first process.
const ORPHANS: usize = 256;
/// `PF_KTHREAD` (include/linux/sched.h), in the ninth field of /proc/PID/stat.
const KERNEL_THREAD: u64 = 0x0020_0000;

#[derive(Clone, Copy, Debug)]
struct Known {
    written: u64,
    parent: u32,
    /// Of what it will have written when it is asked next, what was counted for its children that are gone.
    owed: u64,
    kernel: bool,
    active: bool,
}

/// Remembers counters between looks.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    known: HashMap<u32, Known, Fast>,
    look: u32,
    turn: u32,
    /// Why nothing can be seen, if it can't.
    missing: Option<String>,
    /// Processes that we may not look at, and those that we could, at this look.
    refused: u32,
    read: u32,
    buffer: Vec<u8>,
}

impl Writers {
    /// Bytes that processes dirtied since they were last asked, by process; those who dirtied nothing are left out. `also`, ascending, are asked in
    /// any case.
    pub(crate) fn look(&mut self, root: &SysRoot, also: &[u32]) -> HashMap<u32, u64, Fast> {
        let first = self.look == 0;
        self.look = self.look.wrapping_add(1).max(1);
        (self.refused, self.read) = (0, 0);
        let names = root.list("/proc").into_value().unwrap_or_default();
        let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        pids.sort_unstable();
        self.settle(root, &pids);
        let (mut budget, mut newcomers) = (BUDGET, if first { REMEMBERED } else { NEWCOMERS });
        let (mut active, mut next) = (ACTIVE, None);
        let mut dirtied = HashMap::default();
        let begin = pids.partition_point(|pid| *pid < self.turn);
        let (low, high) = pids.split_at(begin);
        for &pid in high.iter().chain(low) {
            let ask = match self.known.get(&pid) {
                Some(known) => {
                    let due = if known.kernel {
                        false
                    } else if known.active {
                        let due = active > 0;
                        active = active.saturating_sub(1);
                        if !due {
                            // Where the next look begins.
                            next.get_or_insert(pid);
                        }
                        due
                    } else {
                        let due = budget > 0;
                        if due {
                            budget -= 1;
                            self.turn = pid.wrapping_add(1);
                        }
                        due
                    };
                    due || also.binary_search(&pid).is_ok()
                }
                None => {
                    let room = newcomers > 0 && self.known.len() < REMEMBERED;
                    newcomers = newcomers.saturating_sub(1);
                    room
                }
            };
            if ask && let Some(bytes) = self.ask(root, pid, first) {
                dirtied.insert(pid, bytes);
            }
        }
        self.turn = next.unwrap_or(self.turn);
        // Even root is refused by a process that is ending.
        if first && self.refused > self.read {
            self.missing.get_or_insert_with(|| "other users' processes are for root to see".into());
        }
        dirtied
    }

    /// Forgets those that are gone. Whoever waited for one has its counters now.
    fn settle(&mut self, root: &SysRoot, pids: &[u32]) {
        let gone: HashMap<u32, Known, Fast> =
            self.known.extract_if(|pid, _| pids.binary_search(pid).is_err()).collect();
        if gone.is_empty() {
            return;
        }
        for process in gone.values() {
            let mut heir = process.parent;
            // Generations that end between two looks.
            for _ in 0..32 {
                heir = gone.get(&heir).map_or(heir, |gone| gone.parent);
            }
            if let Some(heir) = self.known.get_mut(&heir) {
                heir.owed += process.written + process.owed;
            }
        }
        let orphans = self.known.iter().filter(|(_, known)| gone.contains_key(&known.parent));
        let orphans: Vec<u32> = orphans.map(|(pid, _)| *pid).collect();
        for (at, pid) in orphans.into_iter().enumerate() {
            let parent = if at < ORPHANS { self.stat(root, pid).map(|(parent, _)| parent) } else { None };
            self.known.entry(pid).and_modify(|known| known.parent = parent.unwrap_or(1));
        }
    }

    /// Why nothing can be seen, after a look.
    pub(crate) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    fn ask(&mut self, root: &SysRoot, pid: u32, first: bool) -> Option<u64> {
        let before = self.known.get(&pid).copied();
        let (parent, owed) = match before {
            Some(known) => (known.parent, known.owed),
            None => {
                let (parent, kernel) = self.stat(root, pid)?;
                if kernel {
                    let known = Known { written: 0, parent, owed: 0, kernel, active: false };
                    self.known.insert(pid, known);
                    return None;
                }
                (parent, 0)
            }
        };
        match root.read_attribute_into(&format!("/proc/{pid}/io"), &mut self.buffer) {
            Ok(()) => {}
            Err(Errno::SRCH) => return None,
            Err(Errno::NOENT) => {
                // The process may be gone as well.
                if root.exists(&format!("/proc/{pid}/comm")) {
                    self.missing =
                        Some("this kernel counts no I/O by process (CONFIG_TASK_IO_ACCOUNTING)".into());
                }
                return None;
            }
            Err(Errno::ACCESS | Errno::PERM) => {
                self.refused += 1;
                return None;
            }
            // It ended meanwhile.
            Err(_) => return None,
        }
        let written = number_after(&self.buffer, b"\nwrite_bytes: ")?;
        self.read += 1;
        let grown = match before.map(|known| known.written) {
            // Another process of the same number.
            Some(before) if written < before => written,
            Some(before) => (written - before).saturating_sub(owed),
            None if first => 0,
            None => written,
        };
        self.known.insert(pid, Known { written, parent, owed: 0, kernel: false, active: grown > 0 });
        (grown > 0).then_some(grown)
    }

    /// Its parent, and whether it is a kernel thread; `None` if it is gone.
    fn stat(&mut self, root: &SysRoot, pid: u32) -> Option<(u32, bool)> {
        root.read_attribute_into(&format!("/proc/{pid}/stat"), &mut self.buffer).ok()?;
        let (parent, flags) = parent_and_flags(&self.buffer).unwrap_or((1, 0));
        Some((parent, flags & KERNEL_THREAD != 0))
    }
}

/// From /proc/PID/stat: `pid (comm) state ppid pgrp session tty tpgid flags …`; the name, in brackets, may hold anything.
fn parent_and_flags(stat: &[u8]) -> Option<(u32, u64)> {
    let after = stat.iter().rposition(|b| *b == b')')?;
    let mut fields = std::str::from_utf8(stat.get(after + 1..)?).ok()?.split_whitespace();
    Some((fields.nth(1)?.parse().ok()?, fields.nth(4)?.parse().ok()?))
}

/// The number behind a key.
pub(crate) fn number_after(text: &[u8], key: &[u8]) -> Option<u64> {
    let at = text.windows(key.len()).position(|w| w == key)? + key.len();
    let digits = text[at..].split(|b| !b.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    use super::*;

    fn put(dir: &Path, path: &str, text: &str) {
        let path = dir.join(path);
        fs::DirBuilder::new().recursive(true).create(path.parent().unwrap()).unwrap();
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        // Cutting a file makes ext4 write it out when it is closed.
        if file.metadata().unwrap().len() > 0 {
            file.set_len(0).unwrap();
        }
        file.write_all(text.as_bytes()).unwrap();
    }

    fn process(dir: &Path, pid: u32, flags: u64, written: u64) {
        child(dir, pid, 1, flags, written);
    }

    fn child(dir: &Path, pid: u32, parent: u32, flags: u64, written: u64) {
        put(dir, &format!("proc/{pid}/stat"), &format!("{pid} (a) b) R {parent} 1 1 0 -1 {flags} 5 0\n"));
        put(dir, &format!("proc/{pid}/comm"), "x\n");
        self::written(dir, pid, written);
    }

    fn written(dir: &Path, pid: u32, written: u64) {
        put(
            dir,
            &format!("proc/{pid}/io"),
            &format!("rchar: 9\nwchar: 7\nread_bytes: 1\nwrite_bytes: {written}\ncancelled_write_bytes: 3\n"),
        );
    }

    fn seen(writers: &mut Writers, root: &SysRoot, also: &[u32]) -> Vec<(u32, u64)> {
        let mut seen: Vec<_> = writers.look(root, also).into_iter().collect();
        seen.sort_unstable();
        seen
    }

    #[test]
    fn growth_counts_newcomers_count_whole_and_kernel_threads_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = SysRoot::new(dir.path()).unwrap();
        process(dir.path(), 10, 0x40_0000, 5000);
        process(dir.path(), 11, KERNEL_THREAD | 0x40, 5000);
        let mut writers = Writers::default();
        assert_eq!(seen(&mut writers, &root, &[]), []);
        process(dir.path(), 10, 0x40_0000, 9000);
        process(dir.path(), 11, KERNEL_THREAD | 0x40, 9000);
        process(dir.path(), 12, 0, 700);
        assert_eq!(seen(&mut writers, &root, &[]), [(10, 4000), (12, 700)]);
        // 10 ended, and its number was given again.
        process(dir.path(), 10, 0, 100);
        fs::remove_dir_all(dir.path().join("proc/12")).unwrap();
        assert_eq!(seen(&mut writers, &root, &[]), [(10, 100)]);
        assert_eq!(writers.missing(), None);
        assert_eq!(writers.known.len(), 2);
    }

    #[test]
    fn who_waited_for_a_flood_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let root = SysRoot::new(dir.path()).unwrap();
        let end = |pid: u32| fs::remove_dir_all(dir.path().join(format!("proc/{pid}"))).unwrap();
        // A first process, a shell of it, a shell of that, and what it runs.
        process(dir.path(), 1, 0, 0);
        process(dir.path(), 10, 0, 100);
        child(dir.path(), 11, 10, 0, 0);
        child(dir.path(), 12, 11, 0, 7000);
        let mut writers = Writers::default();
        assert_eq!(seen(&mut writers, &root, &[]), []);
        written(dir.path(), 12, 9000);
        assert_eq!(seen(&mut writers, &root, &[]), [(12, 2000)]);
        // It wrote 500 more, and ended; 11 has waited for it. 7000 were there before the first look.
        end(12);
        written(dir.path(), 11, 9500);
        assert_eq!(seen(&mut writers, &root, &[]), [(11, 500)]);
        // 11 has another, and both end at once.
        child(dir.path(), 13, 11, 0, 40);
        assert_eq!(seen(&mut writers, &root, &[]), [(13, 40)]);
        end(11);
        end(13);
        written(dir.path(), 10, 100 + 9500 + 40 + 1);
        assert_eq!(seen(&mut writers, &root, &[]), [(10, 1)]);
        // An orphan is the first process's.
        child(dir.path(), 14, 10, 0, 600);
        assert_eq!(seen(&mut writers, &root, &[]), [(14, 600)]);
        end(10);
        child(dir.path(), 14, 1, 0, 600);
        written(dir.path(), 1, 9641);
        assert_eq!(seen(&mut writers, &root, &[]), []);
        end(14);
        written(dir.path(), 1, 9641 + 600);
        assert_eq!(seen(&mut writers, &root, &[]), []);
        // Nobody waited for 16: its parent is not believed less for longer than a look.
        child(dir.path(), 16, 1, 0, 50);
        assert_eq!(seen(&mut writers, &root, &[]), [(16, 50)]);
        end(16);
        assert_eq!(seen(&mut writers, &root, &[]), []);
        written(dir.path(), 1, 9641 + 600 + 20);
        assert_eq!(seen(&mut writers, &root, &[]), [(1, 20)]);
    }

    #[test]
    fn of_many_idle_processes_each_has_its_turn_and_who_writes_is_asked_always() {
        let dir = tempfile::tempdir().unwrap();
        let root = SysRoot::new(dir.path()).unwrap();
        let many = 2 * BUDGET as u32 + 10;
        (1..=many).for_each(|pid| process(dir.path(), pid, 0, 10));
        let mut writers = Writers::default();
        writers.look(&root, &[]);
        (1..=many).for_each(|pid| process(dir.path(), pid, 0, 20));
        let first = seen(&mut writers, &root, &[many]);
        assert_eq!(first.len(), BUDGET + 1);
        // Those asked before have nothing new; all others come within two more looks, each once.
        let others = seen(&mut writers, &root, &[]).len() + seen(&mut writers, &root, &[]).len();
        assert_eq!(first.len() + others, many as usize);
        process(dir.path(), 1, 0, 50);
        let _ = writers.look(&root, &[]);
    }

    #[test]
    fn of_thousands_that_write_each_is_counted_whole_and_few_are_asked_at_a_look() {
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 1, 0, 0);
        let root = SysRoot::new(dir.path()).unwrap();
        let mut writers = Writers::default();
        writers.look(&root, &[]);
        let many = 3000;
        (2..=many).for_each(|pid| process(dir.path(), pid, 0, 10));
        let mut counted = HashMap::<u32, u64>::new();
        let mut look = |writers: &mut Writers| {
            writers.look(&root, &[]).into_iter().for_each(|(pid, n)| *counted.entry(pid).or_default() += n);
            assert!(writers.read as usize <= ACTIVE + BUDGET + NEWCOMERS, "{} asked", writers.read);
        };
        for _ in 0..4 {
            look(&mut writers);
        }
        (2..=many).for_each(|pid| written(dir.path(), pid, 30));
        for _ in 0..13 {
            look(&mut writers);
        }
        let wrong: Vec<_> = (2..=many).filter(|pid| counted.get(pid) != Some(&30)).collect();
        assert!(wrong.is_empty(), "{} of {many}, first {:?}", wrong.len(), wrong.first());
    }

    #[test]
    fn a_kernel_that_does_not_count_is_not_an_idle_machine() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "proc/10/comm", "x\n");
        put(dir.path(), "proc/10/stat", "10 (x) S 1 1 1 0 -1 0 0\n");
        let mut writers = Writers::default();
        writers.look(&SysRoot::new(dir.path()).unwrap(), &[]);
        assert!(writers.missing().unwrap().contains("TASK_IO_ACCOUNTING"));
    }
}
