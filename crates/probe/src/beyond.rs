//! What /proc/PID/io counts of a process beyond the dirtied pages that the kernel's programs
//! counted: direct writes. Pure.
//!
//! ```text
//! window n    programs ├──────────────────┤├── n + 1 …
//!             /proc    ──┤─────────────────────┤ asked now or some windows later
//! beyond = /proc so far - windows so far - n + 1 so far
//! ```
//!
//! /proc is asked after a window's end, so it has bytes of the next window already. Those are
//! subtracted, as they are when /proc has been asked: the rest is never too large. What it lacks
//! comes with the next look. Bytes that a process inherited from its children were counted for the
//! children.

use std::collections::HashMap;

use crate::hash::Fast;
use crate::snapshot::{ByDevice, OTHERS};
use crate::writers::Dirtied;

/// Remembers the difference between both counts, by process.
#[derive(Debug, Default)]
pub(crate) struct Beyond {
    /// Bytes of /proc, less those of the programs and those that were reported.
    ahead: HashMap<u32, i64, Fast>,
    /// Bytes of processes that the programs had no room for. /proc tells them once more.
    unplaced: u64,
}

impl Beyond {
    /// Begins before the first look at /proc. `so_far`: what the programs have counted already,
    /// which /proc will not tell.
    pub(crate) fn begin(so_far: HashMap<u32, u64, Fast>) -> Self {
        let ahead = so_far.into_iter().map(|(pid, bytes)| (pid, bytes as i64)).collect();
        Self { ahead, ..Self::default() }
    }

    /// Ends a window. `by_proc`: what /proc counted. `counted`: what the programs did in the
    /// window. `next`: what they did in the next one until now. `lives`: whether there is a
    /// process.
    pub(crate) fn end_window(
        &mut self,
        by_proc: &Dirtied,
        counted: &ByDevice,
        next: &HashMap<u32, u64, Fast>,
        lives: impl Fn(u32) -> bool,
    ) -> Dirtied {
        // Processes that ended are not told once more.
        self.unplaced /= 2;
        for ((pid, _), bytes) in counted {
            if *pid == OTHERS {
                self.unplaced = self.unplaced.saturating_add(*bytes);
            } else {
                *self.ahead.entry(*pid).or_default() -= *bytes as i64;
            }
        }
        let mut beyond = Dirtied::default();
        for (pid, bytes) in by_proc.by_process.iter().filter(|(pid, _)| lives(**pid)) {
            let ahead = self.ahead.entry(*pid).or_default();
            *ahead += *bytes as i64;
            let more = *ahead - next.get(pid).map_or(0, |next| *next as i64);
            let Ok(more) = u64::try_from(more) else { continue };
            *ahead -= more as i64;
            let unplaced = more.min(self.unplaced);
            self.unplaced -= unplaced;
            if more > unplaced {
                beyond.by_process.insert(*pid, more - unplaced);
            }
        }
        self.ahead.retain(|pid, ahead| *ahead != 0 && lives(*pid));
        beyond
    }
}

#[cfg(test)]
mod tests {
    use floodwall_model::DeviceId;
    use proptest::prelude::*;

    use super::*;

    const SDA: Option<DeviceId> = Some(DeviceId { major: 8, minor: 0 });
    const SDB: Option<DeviceId> = Some(DeviceId { major: 8, minor: 16 });

    fn by_proc(bytes: &[(u32, u64)]) -> Dirtied {
        Dirtied { by_process: bytes.iter().copied().collect(), ..Dirtied::default() }
    }

    fn end(
        beyond: &mut Beyond,
        told: &[(u32, u64)],
        counted: &[(u32, Option<DeviceId>, u64)],
        next: &[(u32, u64)],
    ) -> Vec<(u32, u64)> {
        let counted = counted.iter().map(|(pid, device, bytes)| ((*pid, *device), *bytes));
        let counted: ByDevice = counted.collect();
        let next = next.iter().copied().collect();
        let found = beyond.end_window(&by_proc(told), &counted, &next, |pid| pid < 100);
        assert!(found.inherited.is_empty());
        let mut found: Vec<_> = found.by_process.into_iter().collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn direct_writes_are_beyond_what_was_dirtied() {
        let mut beyond = Beyond::default();
        let counted = [(1, SDA, 600), (1, SDB, 400), (2, SDA, 50)];
        assert_eq!(
            end(&mut beyond, &[(1, 1000), (2, 60), (3, 7)], &counted, &[]),
            [(2, 10), (3, 7)]
        );
        assert_eq!(end(&mut beyond, &[(2, 5)], &[], &[]), [(2, 5)]);
    }

    #[test]
    fn bytes_counted_before_the_first_look_are_in_no_other_count() {
        let mut beyond = Beyond::begin([(1, 500)].into_iter().collect());
        assert_eq!(end(&mut beyond, &[(1, 110)], &[(1, SDA, 600)], &[]), [(1, 10)]);
    }

    #[test]
    fn bytes_of_the_next_window_are_not_beyond_and_count_once() {
        let mut beyond = Beyond::default();
        // /proc is asked when 30 bytes of the next window are dirtied; 40 when it has been asked.
        assert_eq!(end(&mut beyond, &[(1, 130)], &[(1, SDA, 100)], &[(1, 40)]), []);
        assert_eq!(end(&mut beyond, &[(1, 70)], &[(1, SDA, 100)], &[]), []);
        // A direct write of 8 beside.
        assert_eq!(end(&mut beyond, &[(1, 28)], &[(1, SDA, 10)], &[(1, 10)]), [(1, 8)]);
    }

    #[test]
    fn a_process_that_is_asked_late_or_has_ended_is_not_told_twice() {
        let mut beyond = Beyond::default();
        assert_eq!(end(&mut beyond, &[], &[(1, SDA, 100)], &[]), []);
        assert_eq!(end(&mut beyond, &[(1, 100)], &[], &[]), []);
        // Process 200 has ended; its parent has waited for it.
        assert_eq!(end(&mut beyond, &[(200, 50)], &[(200, SDA, 50)], &[]), []);
        let inherited = Dirtied { inherited: [(1, 50)].into_iter().collect(), ..by_proc(&[]) };
        let found = beyond.end_window(&inherited, &ByDevice::new(), &HashMap::default(), |_| true);
        assert!(found.by_process.is_empty() && found.inherited.is_empty());
        assert!(beyond.ahead.is_empty(), "nothing is remembered of processes that ended");
    }

    #[test]
    fn processes_without_room_are_not_told_once_more() {
        let mut beyond = Beyond::default();
        assert_eq!(end(&mut beyond, &[(1, 60)], &[(OTHERS, SDA, 100)], &[]), []);
        assert_eq!(end(&mut beyond, &[(2, 25)], &[], &[]), [(2, 5)], "half of the rest is gone");
        (0..8).for_each(|_| assert_eq!(end(&mut beyond, &[], &[], &[]), []));
        assert_eq!(end(&mut beyond, &[(2, 25)], &[], &[]), [(2, 25)]);
    }

    proptest! {
        /// Whatever is dirtied when, both together are never more than /proc has, and nothing of a
        /// process that stays is missing in the end.
        #[test]
        fn nothing_counts_twice(
            windows in prop::collection::vec(
                (0u64..1000, 0u64..50, 0u64..20, 0u64..50, any::<bool>()),
                1..40,
            )
        ) {
            let mut beyond = Beyond::default();
            // Dirtied before the window's end, before /proc is asked, before the next is peeked at.
            let (mut proc, mut asked, mut all, mut direct_all, mut early) = (0, 0, 0, 0, 0);
            for (dirtied, before_asked, before_peeked, direct, is_asked) in windows {
                let counted = early + dirtied;
                early = before_asked + before_peeked;
                proc += dirtied + direct + before_asked;
                direct_all += direct;
                let told = if is_asked { proc - asked } else { 0 };
                asked += told;
                let found = end(&mut beyond, &[(1, told)], &[(1, SDA, counted)], &[(1, early)]);
                proc += before_peeked;
                all += counted + found.iter().map(|(_, bytes)| bytes).sum::<u64>();
                prop_assert!(all <= proc, "{all} of {proc}");
            }
            let found = end(&mut beyond, &[(1, proc - asked)], &[(1, SDA, early)], &[]);
            all += early + found.iter().map(|(_, bytes)| bytes).sum::<u64>();
            prop_assert_eq!(all, proc);
            prop_assert!(direct_all <= proc);
        }
    }
}
