//! I/O priorities of threads, as one value of a process, of a control group or of a journal.
//!
//! ```text
//! ioprio_get(2) of each thread ─▶ "be/0"                all threads alike
//!                                 "none 4712@815=be/2"  all but thread 4712, started at tick 815
//! ioprio_set(2) of each thread ◀─ the same text
//! ```
//!
//! No kernel file holds them. [`crate::apply::priority`] gives them paths, so that a plan, a
//! journal and an undoing treat them like a file:
//!
//! | path | threads |
//! |---|---|
//! | `/proc/PID/ioprio` | of the process |
//! | `/sys/fs/cgroup/GROUP/ioprio` | of all processes in the group and in the groups below it |
//! | `/sys/dev/block/MAJ:MIN/journal/ioprio` | that commit the disk's ext4 filesystems' journals |
//!
//! A new thread inherits the priority of the thread that made it (block/blk-ioc.c `__copy_io`), so
//! threads come and go without a change of the value. A thread that started with another priority
//! is listed in the value. The common priority stays.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

pub(crate) use floodwall_model::priority::{NotAPriority, Priority};

/// How a path ends that stands for the priorities of threads.
pub(crate) const FILE: &str = "ioprio";
/// Longest value in bytes that is saved; some two thousand threads that differ from the others.
pub(crate) const LONGEST: usize = 64 << 10;

/// Bits of the level and of newer kernels' hints, below the class (include/uapi/linux/ioprio.h
/// `IOPRIO_CLASS_SHIFT`).
const CLASS_SHIFT: u32 = 13;
/// The bits of the level; 0 is served first (`IOPRIO_LEVEL_MASK`).
const LEVEL_MASK: u32 = 7;

/// From what ioprio_get(2) gives. Hints (Linux 6.5) are dropped.
pub(crate) fn decode(raw: u32) -> Priority {
    let level = (raw & LEVEL_MASK) as u8;
    match raw >> CLASS_SHIFT {
        1 => Priority::RealTime(level),
        2 => Priority::BestEffort(level),
        3 => Priority::Idle,
        // Older kernels give a level with no class; it means nothing.
        _ => Priority::None,
    }
}

/// For ioprio_set(2).
pub(crate) fn encode(priority: Priority) -> u32 {
    let (class, level) = match priority {
        Priority::None => (0, 0),
        Priority::RealTime(level) => (1, level),
        Priority::BestEffort(level) => (2, level),
        Priority::Idle => (3, 0),
    };
    class << CLASS_SHIFT | u32::from(level)
}

/// A thread. The kernel reuses numbers; number and start time together are unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Thread {
    /// Its number.
    pub(crate) tid: u32,
    /// When it started, in clock ticks since boot.
    pub(crate) start_ticks: u64,
}

/// The priorities of some threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Priorities {
    /// The most frequent priority: that of every thread not in `others`.
    pub(crate) common: Priority,
    /// Those of the other threads.
    pub(crate) others: BTreeMap<Thread, Priority>,
}

impl Priorities {
    /// The priorities of threads; `None` without threads. On a tie the first thread's priority is
    /// the common one.
    pub(crate) fn of(threads: &[(Thread, Priority)]) -> Option<Self> {
        let mut counts: BTreeMap<Priority, usize> = BTreeMap::new();
        for (_, priority) in threads {
            *counts.entry(*priority).or_default() += 1;
        }
        let first = threads.first()?.1;
        let most = counts.values().max().copied()?;
        let common = if counts.get(&first) == Some(&most) {
            first
        } else {
            counts.into_iter().find(|(_, count)| *count == most)?.0
        };
        let others = threads.iter().filter(|(_, priority)| *priority != common).copied().collect();
        Some(Self { common, others })
    }

    /// That of one thread.
    pub(crate) fn get(&self, thread: Thread) -> Priority {
        self.others.get(&thread).copied().unwrap_or(self.common)
    }

    /// Whether a thread has such a priority.
    pub(crate) fn has(&self, is_one: impl Fn(&Priority) -> bool) -> bool {
        is_one(&self.common) || self.others.values().any(is_one)
    }

    /// The priorities that lead back from `now` to `self`, for each thread with a priority of the
    /// transaction. The others keep their priority: another program has set it, or they started
    /// with it.
    pub(crate) fn back(&self, now: &Self, is_ours: impl Fn(&Priority) -> bool) -> Self {
        if !is_ours(&now.common) && now.common != self.common {
            // Another program has set most of the threads.
            let back = |(thread, priority): (&Thread, &Priority)| {
                (*thread, if is_ours(priority) { self.get(*thread) } else { *priority })
            };
            return Self { common: now.common, others: now.others.iter().map(back).collect() };
        }
        let is_foreign = |thread: &Thread, priority: &Priority| {
            self.get(*thread) != *priority && !is_ours(priority)
        };
        let foreign = now.others.iter().filter(|(thread, priority)| is_foreign(thread, priority));
        let mut others = self.others.clone();
        others.extend(foreign.map(|(thread, priority)| (*thread, *priority)));
        Self { common: self.common, others }
    }
}

impl fmt::Display for Priorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.common)?;
        for (Thread { tid, start_ticks }, priority) in &self.others {
            write!(f, " {tid}@{start_ticks}={priority}")?;
        }
        Ok(())
    }
}

impl FromStr for Priorities {
    type Err = NotAPriority;

    fn from_str(text: &str) -> Result<Self, NotAPriority> {
        let mut words = text.split(' ');
        let common = words.next().ok_or(NotAPriority)?.parse()?;
        let other = |word: &str| {
            let (thread, priority) = word.split_once('=').ok_or(NotAPriority)?;
            let (tid, start) = thread.split_once('@').ok_or(NotAPriority)?;
            let tid = tid.parse().map_err(|_| NotAPriority)?;
            let start_ticks = start.parse().map_err(|_| NotAPriority)?;
            Ok((Thread { tid, start_ticks }, priority.parse()?))
        };
        Ok(Self { common, others: words.map(other).collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32) -> Thread {
        Thread { tid, start_ticks: 100 + u64::from(tid) }
    }

    /// Threads 1, 2, 3 … with these priorities.
    fn threads(priorities: &[Priority]) -> Vec<(Thread, Priority)> {
        priorities.iter().zip(1..).map(|(priority, tid)| (thread(tid), *priority)).collect()
    }

    #[test]
    fn a_priority_is_what_the_system_call_says() {
        use Priority::{BestEffort, Idle, None, RealTime};
        // ioprio_set(2): IOPRIO_PRIO_VALUE(class, level).
        for (raw, priority) in [
            (0, None),
            (0x2000, RealTime(0)),
            (0x2007, RealTime(7)),
            (0x4000, BestEffort(0)),
            (0x4004, BestEffort(4)),
            (0x6000, Idle),
        ] {
            assert_eq!(decode(raw), priority);
            assert_eq!(encode(priority), raw);
        }
        // No class with a level (before 5.19), and a hint of 6.5 (a command duration limit).
        assert_eq!(decode(4), None);
        assert_eq!(decode(0x4000 | 1 << 3 | 2), BestEffort(2));
    }

    #[test]
    fn the_common_one_is_that_of_most_threads() {
        use Priority::{BestEffort, Idle, None};
        let text = |priorities: &[Priority]| {
            Priorities::of(&threads(priorities)).map(|all| all.to_string())
        };
        assert_eq!(text(&[]), Option::None);
        assert_eq!(text(&[None, None]), Some("none".into()));
        assert_eq!(text(&[Idle, None, None]), Some("none 1@101=idle".into()));
        assert_eq!(text(&[BestEffort(2), None]), Some("be/2 2@102=none".into()));
        let all: Priorities = "none 1@101=idle 3@103=be/2".parse().unwrap();
        assert_eq!(all.to_string(), "none 1@101=idle 3@103=be/2");
        assert_eq!((all.get(thread(1)), all.get(thread(2))), (Idle, None));
        // The same number at another time is another thread.
        assert_eq!(all.get(Thread { tid: 1, start_ticks: 5 }), None);
        for text in ["", "none 1=idle", "none 1@x=idle", "none  1@2=idle", "be/9"] {
            assert!(text.parse::<Priorities>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_somebody_else_has_set_is_kept() {
        let old: Priorities = "none 2@102=be/6".parse().unwrap();
        let is_ours = |priority: &Priority| *priority == Priority::BestEffort(0);
        let back = |now: &str| old.back(&now.parse().unwrap(), is_ours).to_string();
        assert_eq!(back("be/0"), "none 2@102=be/6");
        // A new process of the group, with another priority.
        assert_eq!(back("be/0 9@109=idle"), "none 2@102=be/6 9@109=idle");
        assert_eq!(back("be/0 9@109=none"), "none 2@102=be/6");
        // Another program has changed the thread that differed.
        assert_eq!(back("be/0 2@102=rt/1"), "none 2@102=rt/1");
        // Another program has set most of the threads, and not this one.
        assert_eq!(back("be/6 1@101=be/0"), "be/6 1@101=none");
        // A write that was cut short.
        assert_eq!(back("none 1@101=be/0 2@102=be/6"), "none 2@102=be/6");
    }
}
