//! A line of /proc/PID/stat or /proc/PID/task/TID/stat (proc_pid_stat(5)).

use std::str::FromStr;

/// `PF_KTHREAD` (include/linux/sched.h), in [`ProcStat::flags`].
pub const KERNEL_THREAD: u64 = 0x0020_0000;

/// The line from its third field on. The first two are the number and the name in brackets, which
/// may hold anything, spaces and brackets too.
#[derive(Clone, Copy, Debug)]
pub struct ProcStat<'a>(&'a str);

impl<'a> ProcStat<'a> {
    /// Of a file's contents; `None` if they are no such line.
    #[must_use]
    pub fn parse(stat: &'a [u8]) -> Option<Self> {
        let behind_name = stat.iter().rposition(|b| *b == b')')? + 1;
        std::str::from_utf8(&stat[behind_name..]).ok().map(Self)
    }

    /// A field by its number in the manual page, from 3 on.
    fn field<T: FromStr>(self, number: usize) -> Option<T> {
        self.0.split_ascii_whitespace().nth(number - 3)?.parse().ok()
    }

    /// `R`, `S`, `D` …; `Z` and `X` have ended.
    #[must_use]
    pub fn state(self) -> Option<char> {
        self.field(3)
    }

    /// Whether it has ended: nothing of it runs any more.
    #[must_use]
    pub fn has_ended(self) -> bool {
        matches!(self.state(), Some('Z' | 'X'))
    }

    /// Its parent's number; 0 if it has none.
    #[must_use]
    pub fn parent(self) -> Option<u32> {
        self.field(4)
    }

    /// Its process group.
    #[must_use]
    pub fn group(self) -> Option<i32> {
        self.field(5)
    }

    /// `PF_…` of include/linux/sched.h.
    #[must_use]
    pub fn flags(self) -> Option<u64> {
        self.field(9)
    }

    /// `cminflt`: page faults of the children that it has waited for, and of theirs. It grows with
    /// each child.
    #[must_use]
    pub fn children_faults(self) -> Option<u64> {
        self.field(11)
    }

    /// Processor time so far, in user mode and in the kernel, in clock ticks.
    #[must_use]
    pub fn cpu_ticks(self) -> Option<u64> {
        Some(self.field::<u64>(14)? + self.field::<u64>(15)?)
    }

    /// When it started, in clock ticks since boot. Numbers are reused; a number with its start is
    /// unique.
    #[must_use]
    pub fn start_ticks(self) -> Option<u64> {
        self.field(22)
    }

    /// Whether it runs under a real-time or deadline policy (`SCHED_FIFO`, `SCHED_RR`,
    /// `SCHED_DEADLINE`). The kernel shows such a reader higher dirty thresholds than other tasks
    /// have (mm/page-writeback.c `domain_dirty_limits`).
    #[must_use]
    pub fn is_real_time(self) -> Option<bool> {
        self.field(41).map(|policy: u32| matches!(policy, 1 | 2 | 6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_brackets() {
        let line = b"7 (a) b) (c) S 5 77 7 0 -1 4194560 11 22 0 0 1 2 0 0 20 0 1 0 4711 99 0\n";
        let stat = ProcStat::parse(line).unwrap();
        assert_eq!((stat.state(), stat.has_ended()), (Some('S'), false));
        assert_eq!((stat.parent(), stat.group()), (Some(5), Some(77)));
        assert_eq!((stat.flags(), stat.children_faults()), (Some(4_194_560), Some(22)));
        assert_eq!(stat.cpu_ticks(), Some(3));
        assert_eq!((stat.start_ticks(), stat.is_real_time()), (Some(4711), None));
    }

    #[test]
    fn a_line_that_is_cut_has_no_such_field() {
        assert!(ProcStat::parse(b"42 (cut").is_none());
        let cut = ProcStat::parse(b"42 (cut) Z 5").unwrap();
        assert_eq!((cut.has_ended(), cut.parent(), cut.group()), (true, Some(5), None));
    }

    #[test]
    fn the_policy_is_the_forty_first_field() {
        let of = |policy| format!("7 (x) S {}{policy} 0", "0 ".repeat(37));
        let is_real_time = |policy| ProcStat::parse(of(policy).as_bytes()).unwrap().is_real_time();
        assert_eq!(["0", "1", "2", "6"].map(is_real_time), [false, true, true, true].map(Some));
    }
}
