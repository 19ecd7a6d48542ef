//! Bytes that a command's processes dirtied, from their counters in /proc/PID/io.
//!
//! `write_bytes` counts a page when it is dirtied (mm/page-writeback.c `folio_account_dirtied`).
//! `cancelled_write_bytes` counts dirty pages of files that were cut or deleted.
//!
//! The process that waits for an ended child inherits its counters (kernel/exit.c
//! `wait_task_zombie`). That is its parent, or this process as the subreaper. Parents are read
//! before their children. A child that is gone by its own read counts as nothing, since its parent
//! may have inherited before the parent's read. So a child is missing for once at most, and is
//! never counted twice.

use std::collections::BTreeMap;

use floodwall_host::SysRoot;
use floodwall_host::text::number_after;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

use super::tree::{Id, Process};

/// Looks after which missing bytes count as lost, and refused counters as unreadable. No process
/// inherits the counters of a child whose parent ignores SIGCHLD.
const PATIENCE: u32 = 10;

/// Counters of processes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Io {
    written: u64,
    cancelled: u64,
}

impl Io {
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let cancelled = number_after(text, "cancelled_write_bytes")?;
        Some(Self { written: number_after(text, "write_bytes")?, cancelled })
    }

    fn read(root: &SysRoot, pid: i32, buffer: &mut Vec<u8>) -> Result<Self, Errno> {
        root.read_attribute_into(&format!("/proc/{pid}/io"), buffer)?;
        Self::parse(buffer).ok_or(Errno::INVAL)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            written: self.written.saturating_add(other.written),
            cancelled: self.cancelled.saturating_add(other.cancelled),
        }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            written: self.written.saturating_sub(earlier.written),
            cancelled: self.cancelled.saturating_sub(earlier.cancelled),
        }
    }
}

/// A sum that never goes back.
#[derive(Clone, Debug, Default)]
struct Rising {
    total: u64,
    /// Bytes that no process inherited.
    lost: u64,
    /// Looks since the sum last reached the total.
    missing: u32,
}

impl Rising {
    fn observe(&mut self, sum: u64) {
        let now = sum + self.lost;
        if now >= self.total {
            (self.total, self.missing) = (now, 0);
            return;
        }
        self.missing += 1;
        if self.missing >= PATIENCE {
            self.lost += self.total - now;
            self.missing = 0;
        }
    }
}

/// The bytes that a command dirtied so far.
#[derive(Debug, Default)]
pub(super) struct Dirtied {
    /// The last counters of each process. The kernel refuses those of an ending process to all
    /// users but root, since the process no longer has the memory map that names its owner.
    known: BTreeMap<Id, Io>,
    /// Looks at which the counters of a process were refused, of those that were never read.
    refused: BTreeMap<Id, u32>,
    /// Processes whose counters can't be read.
    unread: u64,
    /// Counters of ended children of this process.
    inherited: Io,
    written: Rising,
    cancelled: Rising,
    buffer: Vec<u8>,
}

impl Dirtied {
    /// Reads the counters of all processes, parents before children.
    pub(super) fn look(&mut self, root: &SysRoot, processes: &[Process]) {
        let mut sum = self.inherited;
        for process in processes {
            match Io::read(root, process.id.pid, &mut self.buffer) {
                Ok(io) => {
                    self.known.insert(process.id, io);
                }
                Err(Errno::NOENT | Errno::SRCH) => {
                    self.known.remove(&process.id);
                }
                Err(_) if !process.has_ended() && !self.known.contains_key(&process.id) => {
                    // A process that is about to end is refused as well, for a moment.
                    let looks = self.refused.entry(process.id).or_default();
                    *looks = looks.saturating_add(1);
                    self.unread += u64::from(*looks == PATIENCE);
                }
                Err(_) => {}
            }
            sum = sum.plus(self.known.get(&process.id).copied().unwrap_or_default());
        }
        let lives = |id: &Id| processes.iter().any(|process| process.id == *id);
        self.known.retain(|id, _| lives(id));
        self.refused.retain(|id, _| lives(id));
        self.written.observe(sum.written);
        self.cancelled.observe(sum.cancelled);
    }

    /// Waits for a child of this process if it has ended, and inherits its counters.
    ///
    /// # Errors
    /// The kernel's answer to waitpid(2).
    pub(super) fn wait_for(
        &mut self,
        root: &SysRoot,
        own: i32,
        child: Pid,
    ) -> Result<Option<WaitStatus>, Errno> {
        // The difference, since these counters also hold bytes that this process dirtied.
        let before = Io::read(root, own, &mut self.buffer).ok();
        let ended = waitpid(Some(child), WaitOptions::NOHANG)?;
        let Some((_, status)) = ended else { return Ok(None) };
        self.known.retain(|id, _| id.pid != child.as_raw_pid());
        let after = Io::read(root, own, &mut self.buffer).ok();
        if let Some((before, after)) = before.zip(after) {
            self.inherited = self.inherited.plus(after.since(before));
        }
        Ok(Some(status))
    }

    /// Processes whose counters can't be read.
    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    /// Bytes of pages that were dirtied so far.
    pub(super) fn written(&self) -> u64 {
        self.written.total
    }

    /// The same without pages of files that were cut or deleted before they were written.
    pub(super) fn net(&self) -> u64 {
        self.written.total.saturating_sub(self.cancelled.total)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use floodwall_testing::tree::put;

    use super::*;
    use crate::command::tree::Tree;
    use crate::command::tree::testing::process;

    #[test]
    fn counters_are_read_by_name() {
        let text =
            b"rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 40\ncancelled_write_bytes: 5\n";
        assert_eq!(Io::parse(text), Some(Io { written: 40, cancelled: 5 }));
        assert_eq!(Io::parse(b"write_bytes: 40\n"), None);
        assert_eq!(Io::parse(b"\xff"), None);
    }

    #[test]
    fn the_sum_never_goes_back() {
        let mut sum = Rising::default();
        // A child is waited for while the sum is read.
        for (now, total) in [(10, 10), (30, 30), (25, 30), (31, 31)] {
            sum.observe(now);
            assert_eq!(sum.total, total);
        }
        // Nobody inherits 11.
        for _ in 0..PATIENCE {
            sum.observe(20);
            assert_eq!(sum.total, 31);
        }
        sum.observe(24);
        assert_eq!(sum.total, 35);
    }

    fn io(root: &Path, pid: i32, written: u64, cancelled: u64) {
        let text = format!(
            "wchar: 9\nread_bytes: 5\nwrite_bytes: {written}\ncancelled_write_bytes: {cancelled}\n"
        );
        put(&root.join(format!("proc/{pid}/io")), &text);
    }

    /// The kernel refuses to read a directory's bytes, also to root.
    fn refuse(root: &Path, pid: i32) {
        let io = root.join(format!("proc/{pid}/io"));
        let _ = std::fs::remove_file(&io);
        std::fs::create_dir(io).unwrap();
    }

    /// 10 is us, 20 the command, 21 its child.
    fn command_with_a_child() -> (tempfile::TempDir, SysRoot, Tree) {
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 10, 1, 'S', "");
        let root = SysRoot::new(dir.path()).unwrap();
        let tree = Tree::below(&root, 10);
        process(dir.path(), 10, 1, 'S', "20 ");
        process(dir.path(), 20, 10, 'S', "21 ");
        process(dir.path(), 21, 20, 'S', "");
        (dir, root, tree)
    }

    #[test]
    fn a_command_dirtied_what_its_processes_did() {
        let (dir, root, tree) = command_with_a_child();
        io(dir.path(), 20, 100, 0);
        io(dir.path(), 21, 4000, 300);
        let mut dirtied = Dirtied::default();
        dirtied.look(&root, &tree.processes());
        assert_eq!((dirtied.written(), dirtied.net()), (4100, 3800));
        // It ends: its counters can't be read any more.
        refuse(dir.path(), 21);
        dirtied.look(&root, &tree.processes());
        assert_eq!(dirtied.net(), 3800);
        // Its parent has waited for it.
        process(dir.path(), 20, 10, 'S', "");
        io(dir.path(), 20, 4150, 300);
        dirtied.look(&root, &tree.processes());
        assert_eq!((dirtied.written(), dirtied.net()), (4150, 3850));
        assert_eq!(dirtied.unread(), 0);
    }

    #[test]
    fn a_child_that_is_waited_for_during_a_look_is_counted_once() {
        let (dir, root, tree) = command_with_a_child();
        io(dir.path(), 20, 100, 0);
        io(dir.path(), 21, 4000, 0);
        let mut dirtied = Dirtied::default();
        let processes = tree.processes();
        dirtied.look(&root, &processes);
        // Its parent inherits after the list was made, and before the parent's counters are read.
        io(dir.path(), 20, 4100, 0);
        std::fs::remove_dir_all(dir.path().join("proc/21")).unwrap();
        dirtied.look(&root, &processes);
        assert_eq!(dirtied.written(), 4100);
    }

    #[test]
    fn a_process_whose_counters_are_refused_is_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 10, 1, 'S', "");
        let root = SysRoot::new(dir.path()).unwrap();
        let tree = Tree::below(&root, 10);
        process(dir.path(), 10, 1, 'S', "20 21 ");
        process(dir.path(), 20, 10, 'S', "");
        process(dir.path(), 21, 10, 'Z', "");
        refuse(dir.path(), 20);
        refuse(dir.path(), 21);
        let mut dirtied = Dirtied::default();
        for look in 1..PATIENCE * 2 {
            dirtied.look(&root, &tree.processes());
            assert_eq!(dirtied.unread(), u64::from(look >= PATIENCE));
        }
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "it is waited for by its number")]
    fn an_ended_childs_bytes_are_inherited() {
        let root = SysRoot::live().unwrap();
        let child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let mut dirtied = Dirtied::default();
        let own = std::process::id().cast_signed();
        let status = loop {
            if let Some(status) = dirtied.wait_for(&root, own, pid).unwrap() {
                break status;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        assert_eq!(status.exit_status(), Some(0));
        assert_eq!(dirtied.wait_for(&root, own, pid).err(), Some(Errno::CHILD));
    }
}
