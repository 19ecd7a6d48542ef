//! The processes that dirty page cache: `write_bytes` of /proc/PID/io. The kernel counts them when
//! a page is dirtied (mm/page-writeback.c `folio_account_dirtied`), exactly and for free. Only
//! reading costs, so some processes of thousands are asked at each look.
//!
//! ```text
//! all processes ─┬─ dirtied something at the last look ─▶ asked; of more than ACTIVE in turn
//!                ├─ new                                 ─▶ asked, all that they dirtied counts
//!                ├─ the next BUDGET in turn             ─▶ asked
//!                └─ kernel threads                      ─▶ never
//!
//! growth of a process ─┬─ its threads' own        ─▶ the process
//!                      └─ inherited from a child  ─▶ that child, else no known process
//! ```
//!
//! A parent that waits for a child inherits the child's counters (kernel/exit.c
//! `wait_task_zombie`). The same call adds the child's page faults to the parent's `cminflt`
//! (proc_pid_stat(5)). So growth beside a constant `cminflt` is the process's own. Beside a grown
//! one, its threads' counters (/proc/PID/task/TID/io) tell its own part: they inherit nothing.

use std::collections::HashMap;

use floodwall_host::SysRoot;
use floodwall_host::task::{Stat, read_stat, read_threads_written};
use floodwall_model::proc_stat::KERNEL_THREAD;
use rustix::io::Errno;

use crate::hash::Fast;

/// Idle processes asked at each look. Asking takes some 5 µs, so this is 1.3 ms; with fewer
/// processes everyone is asked each time.
const BUDGET: usize = 256;
/// Processes asked that dirtied something when they were last asked; what the others dirty is
/// counted when their turn comes.
const ACTIVE: usize = 1024;
/// New processes asked at each look: what forks faster is counted later, or, gone by then, never.
const NEWCOMERS: usize = 1024;
/// Processes remembered; more than the kernel's default `pid_max` allows.
const REMEMBERED: usize = 32_768;
/// Orphans whose new parent is asked for at each look; of the rest it is taken to be the first
/// process.
const ORPHANS: usize = 256;
/// While the machine dirtied and wrote less than this since processes were asked, they are not
/// asked again: a sixteenth of a second of the slowest flood. `nr_dirtied` may lag by 125 pages for
/// each processor and memory node, for `vm.stat_interval` (1 s; include/linux/vmstat.h).
const LITTLE: u64 = 256 << 10;
/// Looks that are skipped at most before processes are asked again. A child's counters, inherited
/// in the meantime, may be put down to the wrong parent, and direct writes of network filesystems
/// are in none of the machine's counters.
const MOST_SKIPPED: u32 = 40;

/// The known state of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    parent: u32,
    kernel: bool,
    active: bool,
    /// `write_bytes` when it was last asked, inherited bytes included.
    written: u64,
    /// The part of `written` that is its own; `None` if its threads are too many to be asked.
    own: Option<u64>,
    /// `cminflt` when it was last asked.
    children_faults: u64,
    gone: GoneChildren,
}

/// The children that a process lost since it was last asked, and theirs.
#[derive(Clone, Copy, Debug, Default)]
struct GoneChildren {
    /// Bytes that were counted for them while they lived.
    counted: u64,
    /// The one that dirtied most.
    most: Option<(u64, u32)>,
}

impl GoneChildren {
    fn add(&mut self, pid: u32, process: &Known) {
        self.counted += process.written + process.gone.counted;
        self.most = self.most.max(Some((process.written, pid))).max(process.gone.most);
    }
}

/// The bytes dirtied between two looks.
#[derive(Debug, Default)]
pub(crate) struct Dirtied {
    /// Bytes by process. A process that is gone by now may be among them.
    pub(crate) by_process: HashMap<u32, u64, Fast>,
    /// Bytes of children that were never asked, by the process that waited for them. Their device
    /// is not known, and it need not be the parent's.
    pub(crate) inherited: HashMap<u32, u64, Fast>,
}

/// Remembers counters between looks.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    known: HashMap<u32, Known, Fast>,
    /// The processes that there were at the last look, ascending.
    living: Vec<u32>,
    look: u32,
    turn: u32,
    /// Bytes that the machine dirtied and wrote until processes were last asked; `None` if
    /// unknown.
    moved: Option<u64>,
    /// Processes at most that have not been asked since the machine moved.
    unasked: usize,
    /// Looks skipped since processes were last asked.
    skipped: u32,
    /// Why nothing can be seen, if it can't.
    missing: Option<String>,
    /// Processes that could not be looked at, and those that could, at this look.
    refused: u32,
    read: u32,
    buffer: Vec<u8>,
}

impl Writers {
    /// Whether a look may be skipped: every process has been asked since the machine moved, and the
    /// machine has dirtied and written less than [`LITTLE`] since. The next look finds those bytes.
    pub(crate) fn may_skip(&mut self, root: &SysRoot) -> bool {
        let now = self.moved(root);
        let grown = |before: u64| now.and_then(|now| now.checked_sub(before));
        let is_little = self.moved.and_then(grown).is_some_and(|grown| grown < LITTLE);
        if !is_little {
            self.moved = now;
            self.unasked = usize::MAX;
        }
        let may_skip = is_little && self.unasked == 0 && self.skipped < MOST_SKIPPED;
        self.skipped = if may_skip { self.skipped + 1 } else { 0 };
        may_skip
    }

    /// Bytes since boot: dirtied pages, and writes of all disks. `write_bytes` counts a page where
    /// `nr_dirtied` does, and a direct write, which is among `pgpgout` (in KiB).
    fn moved(&mut self, root: &SysRoot) -> Option<u64> {
        root.read_attribute_into("/proc/vmstat", &mut self.buffer).ok()?;
        let dirtied =
            number_after(&self.buffer, b"\nnr_dirtied ")?.checked_mul(root.page_bytes())?;
        dirtied.checked_add(number_after(&self.buffer, b"\npgpgout ")?.checked_mul(1024)?)
    }

    /// Bytes dirtied since each process was last asked; those that dirtied nothing are left out.
    /// `also`, ascending, are asked in any case.
    pub(crate) fn look(&mut self, root: &SysRoot, also: &[u32]) -> Dirtied {
        let first = self.look == 0;
        self.look = self.look.wrapping_add(1).max(1);
        (self.refused, self.read) = (0, 0);
        let names = root.list("/proc").into_value().unwrap_or_default();
        let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        pids.sort_unstable();
        self.settle(root, &pids);
        self.unasked = self.unasked.min(pids.len()).saturating_sub(BUDGET);
        let (mut budget, mut newcomers) = (BUDGET, if first { REMEMBERED } else { NEWCOMERS });
        let (mut active, mut next) = (ACTIVE, None);
        let mut dirtied = Dirtied::default();
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
            if ask {
                self.ask(root, pid, first, &mut dirtied);
            }
        }
        self.turn = next.unwrap_or(self.turn);
        self.living = pids;
        // Even root is refused by a process that is ending.
        if first && self.refused > self.read {
            self.missing.get_or_insert_with(|| "other users' processes are for root to see".into());
        }
        dirtied
    }

    /// Forgets processes that are gone. The process that waited for one has its counters now.
    fn settle(&mut self, root: &SysRoot, pids: &[u32]) {
        let gone: HashMap<u32, Known, Fast> =
            self.known.extract_if(|pid, _| pids.binary_search(pid).is_err()).collect();
        if gone.is_empty() {
            return;
        }
        for (pid, process) in &gone {
            let mut heir = process.parent;
            // Generations that end between two looks.
            for _ in 0..32 {
                heir = gone.get(&heir).map_or(heir, |gone| gone.parent);
            }
            if let Some(heir) = self.known.get_mut(&heir) {
                heir.gone.add(*pid, process);
            }
        }
        let orphans = self.known.iter().filter(|(_, known)| gone.contains_key(&known.parent));
        let orphans: Vec<u32> = orphans.map(|(pid, _)| *pid).collect();
        for (at, pid) in orphans.into_iter().enumerate() {
            let parent =
                if at < ORPHANS { self.stat(root, pid).map(|stat| stat.parent) } else { None };
            self.known.entry(pid).and_modify(|known| known.parent = parent.unwrap_or(1));
        }
    }

    /// Whether there was a process at the last look.
    pub(crate) fn lives(&self, pid: u32) -> bool {
        self.living.binary_search(&pid).is_ok()
    }

    /// Why nothing can be seen, after a look.
    pub(crate) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Asks one process, and adds its dirtied bytes.
    fn ask(&mut self, root: &SysRoot, pid: u32, first: bool, dirtied: &mut Dirtied) {
        let Some(mut written) = self.written(root, pid) else { return };
        self.read += 1;
        // A smaller counter is another process's, under the same number.
        let before = self.known.get(&pid).copied().filter(|known| written >= known.written);
        if let Some(known) = before.filter(|known| known.written == written) {
            let known = Known { active: false, gone: GoneChildren::default(), ..known };
            self.known.insert(pid, known);
            return;
        }
        let Some(Stat { parent, flags, children_faults }) = self.stat(root, pid) else { return };
        if flags & KERNEL_THREAD != 0 {
            self.known.insert(pid, Known { parent, kernel: true, ..Known::default() });
            return;
        }
        let last = before.unwrap_or(Known { own: Some(0), ..Known::default() });
        let waited = children_faults != last.children_faults;
        let mut own = last.own.map(|own| own + (written - last.written));
        if waited {
            // A child that ended between the two reads above counts from here on.
            written = self.written(root, pid).map_or(written, |again| again.max(written));
            own = read_threads_written(root, pid, &mut self.buffer);
        }
        let grown = written - last.written;
        // Threads that ended meanwhile make the sum smaller.
        let own_grown = match (own, last.own) {
            _ if !waited => grown,
            (Some(now), Some(before)) => now.saturating_sub(before).min(grown),
            // Growth that no write call is known to explain.
            _ => 0,
        };
        let active = !first;
        let known = Known { parent, written, own, children_faults, active, ..Known::default() };
        self.known.insert(pid, known);
        if first {
            return;
        }
        if own_grown > 0 {
            *dirtied.by_process.entry(pid).or_default() += own_grown;
        }
        let inherited = (grown - own_grown).saturating_sub(last.gone.counted);
        if inherited > 0 {
            let (of, who) = match last.gone.most {
                Some((_, child)) => (&mut dirtied.by_process, child),
                None => (&mut dirtied.inherited, pid),
            };
            *of.entry(who).or_default() += inherited;
        }
    }

    /// `write_bytes` of a process; `None` if it can't be read, which is noted.
    fn written(&mut self, root: &SysRoot, pid: u32) -> Option<u64> {
        match root.read_attribute_into(&format!("/proc/{pid}/io"), &mut self.buffer) {
            Ok(()) => number_after(&self.buffer, b"\nwrite_bytes: "),
            Err(Errno::NOENT) => {
                // The process may be gone as well.
                if root.exists(&format!("/proc/{pid}/comm")) {
                    self.missing = Some(
                        "this kernel counts no I/O by process (CONFIG_TASK_IO_ACCOUNTING)".into(),
                    );
                }
                None
            }
            Err(Errno::ACCESS | Errno::PERM) => {
                self.refused += 1;
                None
            }
            // It ended meanwhile.
            Err(_) => None,
        }
    }

    /// `None` if the process is gone.
    fn stat(&mut self, root: &SysRoot, pid: u32) -> Option<Stat> {
        read_stat(root, pid, &mut self.buffer)
    }
}

/// The number behind a key.
pub(crate) fn number_after(text: &[u8], key: &[u8]) -> Option<u64> {
    let at = text.windows(key.len()).position(|w| w == key)? + key.len();
    let digits = text[at..].split(|b| !b.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
