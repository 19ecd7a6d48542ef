//! The threads of a process that flood while others of it wait: a database that loads a table
//! beside its transactions, a benchmark with victims and floods.
//!
//! The same counter as a process's (`writers`), by thread (/proc/PID/task/TID/io), asked only where
//! a process both waits and dirties much. The counter alone is not enough: a dirtied page of a
//! large folio counts as the whole folio (mm/page-writeback.c `folio_account_dirtied`). So a thread
//! that commits 4 KiB at a time may count 256 KiB for each commit. A thread seen inside a
//! synchronous call lately does not flood.

use std::collections::HashMap;

use floodwall_host::SysRoot;

use crate::hash::Fast;
use crate::writers::number_after;

/// A thread that dirtied so much since it was last asked floods.
const FLOODS: u64 = 1 << 20;
/// Processes that are asked at each look, and threads of each: a process with more threads counts
/// as one.
const PROCESSES: usize = 16;
const THREADS: usize = 256;
/// Looks for which a thread counts as one that commits, and a process stays told apart although
/// those that wait get nothing done.
const REMEMBERED: u32 = 40;

/// Remembers counters between looks.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    known: HashMap<u32, Known, Fast>,
    look: u32,
    asked: usize,
    buffer: Vec<u8>,
}

#[derive(Debug, Default)]
struct Known {
    /// Of each thread: bytes dirtied, and bytes read from devices.
    threads: HashMap<u32, (u64, u64), Fast>,
    /// When a thread was last seen inside a synchronous call.
    commits: HashMap<u32, u32, Fast>,
    asked: u32,
    /// When one was last seen that floods, and one that does something else.
    apart: Option<u32>,
}

impl Threads {
    /// A look begins; processes not asked for a while are forgotten.
    pub(crate) fn begin(&mut self) {
        self.look = self.look.wrapping_add(1);
        self.asked = 0;
        let look = self.look;
        self.known.retain(|_, known| look.wrapping_sub(known.asked) <= REMEMBERED);
    }

    /// Whether some of a process's threads were seen to flood beside others lately.
    pub(crate) fn are_apart(&self, pid: u32) -> bool {
        let lately = |apart: u32| self.look.wrapping_sub(apart) <= REMEMBERED;
        self.known.get(&pid).is_some_and(|known| known.apart.is_some_and(lately))
    }

    /// Bytes that threads of a process dirtied since they were last asked that do nothing else;
    /// `None` if they are not told apart from others. `inside`: its threads that are inside a
    /// synchronous call now.
    pub(crate) fn flooded(&mut self, root: &SysRoot, pid: u32, inside: &[u32]) -> Option<u64> {
        if self.asked >= PROCESSES {
            return None;
        }
        self.asked += 1;
        let names = root.list(&format!("/proc/{pid}/task")).into_value()?;
        if !(2..=THREADS).contains(&names.len()) {
            return None;
        }
        let known = self.known.entry(pid).or_default();
        let look = self.look;
        let is_new = known.threads.is_empty() || look.wrapping_sub(known.asked) > 1;
        known.asked = look;
        known.commits.extend(inside.iter().map(|tid| (*tid, look)));
        known.commits.retain(|_, seen| look.wrapping_sub(*seen) <= REMEMBERED);
        let mut now: HashMap<u32, (u64, u64), Fast> = HashMap::default();
        let (mut flooded, mut others) = (0, !known.commits.is_empty());
        for tid in names.iter().filter_map(|name| name.parse::<u32>().ok()) {
            let path = format!("/proc/{pid}/task/{tid}/io");
            // It may have ended meanwhile.
            if root.read_attribute_into(&path, &mut self.buffer).is_err() {
                continue;
            }
            let number = |key: &[u8]| number_after(&self.buffer, key).unwrap_or(0);
            let counters = (number(b"\nwrite_bytes: "), number(b"\nread_bytes: "));
            let before = known.threads.get(&tid).copied().unwrap_or((0, 0));
            let grown = (counters.0.saturating_sub(before.0), counters.1.saturating_sub(before.1));
            now.insert(tid, counters);
            if grown.0 >= FLOODS && !known.commits.contains_key(&tid) {
                flooded += grown.0;
            } else {
                others |= grown.1 > 0;
            }
        }
        known.threads = now;
        if is_new {
            return None;
        }
        if flooded > 0 && others {
            known.apart = Some(self.look);
        }
        self.are_apart(pid).then_some(flooded)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    use super::*;

    /// Bytes dirtied and read so far, by thread.
    fn put(dir: &Path, counters: &[(u64, u64)]) {
        for (tid, (written, read)) in counters.iter().enumerate() {
            let task = dir.join(format!("proc/7/task/{}", 7 + tid));
            fs::DirBuilder::new().recursive(true).create(&task).unwrap();
            let text = format!(
                "rchar: 1\nread_bytes: {read}\nwrite_bytes: {written}\ncancelled_write_bytes: 0\n"
            );
            let mut file =
                fs::File::options().create(true).append(true).open(task.join("io")).unwrap();
            file.set_len(0).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }
    }

    fn look(threads: &mut Threads, root: &SysRoot, inside: &[u32]) -> Option<u64> {
        threads.begin();
        threads.flooded(root, 7, inside)
    }

    const MB: u64 = 1 << 20;

    #[test]
    fn threads_that_flood_are_told_from_those_that_commit_or_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = SysRoot::new(dir.path()).unwrap();
        let mut threads = Threads::default();
        put(dir.path(), &[(0, 0), (100 * MB, 0), (5 * MB, 0)]);
        assert_eq!(look(&mut threads, &root, &[9]), None, "nothing to compare with yet");
        // It commits pages of large folios.
        put(dir.path(), &[(0, 0), (120 * MB, 0), (15 * MB, 0)]);
        assert_eq!(look(&mut threads, &root, &[]), Some(20 * MB));
        // Those that wait get nothing done.
        put(dir.path(), &[(0, 0), (125 * MB, 0), (15 * MB, 0)]);
        assert_eq!(look(&mut threads, &root, &[9]), Some(5 * MB));
        assert_eq!(look(&mut threads, &root, &[]), Some(0), "nobody floods now");
        (0..REMEMBERED - 1).for_each(|_| assert_eq!(look(&mut threads, &root, &[]), Some(0)));
        assert_eq!(look(&mut threads, &root, &[]), None, "long ago");
        // A thread that reads waits, too.
        put(dir.path(), &[(0, 0), (130 * MB, 0), (15 * MB, 4096)]);
        assert_eq!(look(&mut threads, &root, &[]), Some(5 * MB));
    }

    #[test]
    fn who_floods_with_every_thread_or_syncs_what_it_wrote_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let root = SysRoot::new(dir.path()).unwrap();
        let mut threads = Threads::default();
        for step in 1..5u64 {
            put(dir.path(), &[(step * 10 * MB, 0), (step * 30 * MB, 0)]);
            assert_eq!(look(&mut threads, &root, &[]), None);
        }
        // Each thread makes its writes stable.
        let mut threads = Threads::default();
        for step in 5..9u64 {
            put(dir.path(), &[(step * 10 * MB, 0), (step * 30 * MB, 0)]);
            assert_eq!(look(&mut threads, &root, &[7, 8]).unwrap_or(0), 0);
        }
        let mut threads = Threads::default();
        fs::remove_dir_all(dir.path().join("proc/7/task/8")).unwrap();
        for step in 9..13u64 {
            put(dir.path(), &[(step * 10 * MB, step)]);
            assert_eq!(look(&mut threads, &root, &[]), None);
        }
    }
}
