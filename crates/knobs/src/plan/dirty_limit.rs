//! The dirty limits in bytes: what a state of `vm.dirty_*` comes to on this machine now.
//!
//! Mirrors mm/page-writeback.c `domain_dirty_limits` and `global_dirtyable_memory`. Sizes are
//! bytes.

use floodwall_model::Reading;
use floodwall_model::proc_stat::ProcStat;

use crate::catalogue::cell::{Cell, State};
use crate::catalogue::files::{Files, read_number};
use crate::plan::entry::Entry;

pub(crate) use floodwall_model::setting::FLUSHER_CHUNK_BYTES;

/// The inputs of the kernel's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    page_bytes: u64,
    /// The base of percentages: free memory and page cache. An estimate: it moves all the time.
    dirtyable_bytes: Option<u64>,
}

impl Memory {
    /// Reads it.
    #[must_use]
    pub(crate) fn read(files: &dyn Files) -> Self {
        let page_bytes = files.page_bytes();
        let vmstat = files.read("/proc/vmstat").unwrap_or_default();
        let pages = |name: &str| counter(&vmstat, name);
        let vm = |name: &str| read_number(files, &format!("/proc/sys/vm/{name}"));
        // In ratio mode the kernel's own threshold says it best; in byte mode it says nothing of
        // memory.
        let from_threshold = match (vm("dirty_bytes"), vm("dirty_ratio")) {
            (Reading::Value(0) | Reading::Absent(_), Reading::Value(percent @ 1..=100)) => {
                pages("nr_dirty_threshold")
                    .map(|t| plain_threshold(t, is_real_time(files)) * 100 / percent)
            }
            _ => None,
        };
        // Without the reserve that the kernel takes off (totalreserve_pages), which no file shows.
        let from_lists = || {
            let parts = ["nr_free_pages", "nr_inactive_file", "nr_active_file"];
            parts.iter().map(|name| pages(name)).sum::<Option<u64>>()
        };
        let dirtyable_bytes = from_threshold.or_else(from_lists).map(|pages| pages * page_bytes);
        Self { page_bytes, dirtyable_bytes }
    }

    /// A limit in bytes; `None` if it is a ratio and the memory is not known.
    #[must_use]
    pub(crate) fn limit_bytes(&self, state: &State) -> Option<u64> {
        let value: u64 = state.value.parse().ok()?;
        if state.path.ends_with("_bytes") {
            return Some(value.div_ceil(self.page_bytes) * self.page_bytes);
        }
        self.dirtyable_bytes.map(|all| all / 100 * value)
    }

    /// A limit as a share of the memory that may be dirty; `None` if that is not known.
    #[must_use]
    pub(crate) fn share(&self, state: &State) -> Option<f64> {
        let all = self.dirtyable_bytes.filter(|all| *all > 0)?;
        Some(self.limit_bytes(state)? as f64 / all as f64)
    }

    /// A device's share of a hard limit in parts per million, as the kernel would work it out
    /// (`bdi_ratio_from_pages`): whole pages, rounded down. `None` if the limit is zero.
    #[must_use]
    pub(crate) fn share_ppm(&self, bytes: u64, limit_bytes: u64) -> Option<u64> {
        let limit_pages = limit_bytes.div_ceil(self.page_bytes);
        let share = u128::from(bytes / self.page_bytes) * 1_000_000;
        share.checked_div(u128::from(limit_pages)).map(|ppm| u64::try_from(ppm).unwrap_or(u64::MAX))
    }
}

/// Dirty and under writeback now, in bytes: what a limit below it would stop writers for.
#[must_use]
pub(crate) fn dirty_bytes(files: &dyn Files) -> Option<u64> {
    let vmstat = files.read("/proc/vmstat").ok()?;
    let pages = counter(&vmstat, "nr_dirty")? + counter(&vmstat, "nr_writeback")?;
    Some(pages * files.page_bytes())
}

fn counter(vmstat: &str, name: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Whether this thread runs under a real-time or deadline policy: such a reader is shown a higher
/// threshold than other tasks have (`domain_dirty_limits` asks `rt_or_dl_task(current)`).
fn is_real_time(files: &dyn Files) -> bool {
    let stat = files.read("/proc/thread-self/stat").unwrap_or_default();
    ProcStat::parse(stat.as_bytes()).and_then(ProcStat::is_real_time).unwrap_or(false)
}

/// The threshold of ordinary tasks. The kernel raises a real-time reader's by a quarter and by a
/// 32nd of the working limit. That limit equals the threshold unless it has just been lowered.
fn plain_threshold(shown: u64, real_time: bool) -> u64 {
    if real_time { shown * 32 / 41 } else { shown }
}

/// The hard limit that a plan ends with.
pub(crate) fn hard_limit(entries: &[Entry], files: &dyn Files) -> Option<State> {
    let planned = entries.iter().find(|entry| matches!(entry.cell, Cell::Pair { hard: true, .. }));
    match planned.and_then(|entry| entry.new.clone()) {
        Some(state) => Some(state),
        None => vm_limit(files, "dirty_bytes", "dirty_ratio", true),
    }
}

/// The background limit that a plan ends with.
pub(crate) fn background_limit(entries: &[Entry], files: &dyn Files) -> Option<State> {
    let planned = entries.iter().find(|entry| matches!(entry.cell, Cell::Pair { hard: false, .. }));
    match planned.and_then(|entry| entry.new.clone()) {
        Some(state) => Some(state),
        None => vm_limit(files, "dirty_background_bytes", "dirty_background_ratio", false),
    }
}

fn vm_limit(files: &dyn Files, bytes: &str, ratio: &str, hard: bool) -> Option<State> {
    let path = |name: &str| format!("/proc/sys/vm/{name}");
    Cell::Pair { bytes: path(bytes), ratio: path(ratio), hard }.read(files).into_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{files_of, machine};

    fn state(name: &str, value: &str) -> State {
        State { path: format!("/proc/sys/vm/{name}"), value: value.to_owned() }
    }

    #[test]
    fn percentages_are_of_what_the_kernels_threshold_is_a_share_of() {
        let (_dir, files) = files_of(&machine());
        let memory = Memory::read(&files);
        // 20 % in force, threshold 1,000,000 pages: all is 5,000,000 pages.
        assert_eq!(memory.limit_bytes(&state("dirty_ratio", "20")), Some(1_000_000 * 4096));
        assert_eq!(memory.limit_bytes(&state("dirty_ratio", "40")), Some(2_000_000 * 4096));
        assert_eq!(memory.limit_bytes(&state("dirty_bytes", "15000000")), Some(3663 * 4096));
    }

    #[test]
    fn a_real_time_reader_is_not_fooled() {
        let stat =
            |policy: &str| format!("1 (a b) c) R {} {policy} 0\n", "0 ".repeat(37).trim_end());
        let mut tree = machine();
        // 1,000,000 pages are shown as 1,281,250 to a real-time task.
        tree.insert("/proc/vmstat".into(), "nr_dirty_threshold 1281250\n".into());
        tree.insert("/proc/thread-self/stat".into(), stat("1"));
        let (_dir, files) = files_of(&tree);
        let limit = Memory::read(&files).limit_bytes(&state("dirty_ratio", "20"));
        assert_eq!(limit, Some(1_000_000 * 4096));
        tree.insert("/proc/thread-self/stat".into(), stat("0"));
        let (_dir, files) = files_of(&tree);
        assert_eq!(
            Memory::read(&files).limit_bytes(&state("dirty_ratio", "20")),
            Some(1_281_250 * 5 * 4096 / 100 * 20)
        );
    }

    #[test]
    fn in_byte_mode_memory_is_counted_from_the_lists() {
        let mut tree = machine();
        tree.insert("/proc/sys/vm/dirty_bytes".into(), "15000000\n".into());
        tree.insert("/proc/sys/vm/dirty_ratio".into(), "0\n".into());
        let (_dir, files) = files_of(&tree);
        // 3,000,000 + 1,000,000 + 1,000,000 pages.
        assert_eq!(
            Memory::read(&files).limit_bytes(&state("dirty_ratio", "10")),
            Some(5_000_000 * 4096 / 100 * 10)
        );
    }

    #[test]
    fn shares_are_the_kernels_own_numbers() {
        // Seen on 6.18: a threshold of 1,191,286 pages and max_bytes 104857600 gave 21489 parts per
        // million; 8191 gave 0.
        let memory = Memory { page_bytes: 4096, dirtyable_bytes: None };
        let limit = 1_191_286 * 4096;
        assert_eq!(memory.share_ppm(104_857_600, limit), Some(21_489));
        assert_eq!(memory.share_ppm(8_191, limit), Some(0));
        assert_eq!(memory.share_ppm(8_191, 0), None);
    }
}
