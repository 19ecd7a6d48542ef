//! Commits of metadata.
//!
//! ```text
//! join ─▶ running ── forced, or every few seconds ──▶ [ordered data] ─▶ blocks, wait
//!   ─▶ record (PREFLUSH, FUA), wait ─▶ committed
//! ```
//!
//! - jbd, jbd2: one commit at a time; callers that arrive meanwhile join the next. With
//!   `data=ordered`, ext3 first writes and waits for the dirty data of *all* files
//!   (`journal_submit_data_buffers`). So an fsync pays for the flood.
//! - xfs: a commit is one record in the log. Eight in-core logs can be on their way at once. A
//!   commit counts when all before it are written.
//! - btrfs: the log tree's blocks, then the superblock.

use floodwall_device::Op;

use super::journal::{BLOCK, Phase, Record};
use super::kind::FsKind;
use crate::block::{Bio, End};
use crate::event::Event;
use crate::machine::Machine;
use crate::page_cache::InodeId;
use crate::request::{Flags, ProcessIndex};

/// In-core logs of xfs that can be on their way (`XLOG_MAX_ICLOGS`).
const RECORDS: usize = 8;
/// A node of btrfs' trees.
const NODE: u64 = 16_384;

impl Machine {
    /// A file's metadata changes and joins the running commit. `data`: reading the data back
    /// depends on it (size, blocks). `blocks`: metadata blocks beside the inode's.
    pub(crate) fn join_commit(&mut self, id: InodeId, data: bool, blocks: u64) {
        let j = &mut self.fs.journal;
        let inode = self.cache.inode_mut(id);
        if inode.sync_commit != j.running {
            inode.sync_commit = j.running;
            j.blocks += 1;
        }
        if data {
            inode.datasync_commit = j.running;
        }
        j.blocks += blocks;
        j.dirty = true;
    }

    /// Makes sure that a commit is or will be stable. `None`: it is. Otherwise the process sleeps
    /// until it is, and is told whether the commit began only now, so that its flush covers all
    /// that was complete before.
    pub(crate) fn force_commit(&mut self, process: ProcessIndex, commit: u64) -> Option<bool> {
        if commit <= self.fs.journal.committed {
            return None;
        }
        self.fs.journal.waiters.push((process, commit));
        let begins = commit == self.fs.journal.running;
        self.request_commit(commit);
        Some(begins)
    }

    fn request_commit(&mut self, commit: u64) {
        let j = &mut self.fs.journal;
        j.requested = j.requested.max(commit);
        match j.kind {
            FsKind::Xfs => self.write_records(),
            _ if j.phase == Phase::Idle => {
                let process = j.process;
                self.wake(process);
            }
            _ => {}
        }
    }

    /// The commit interval has passed.
    pub(crate) fn commit_timer(&mut self) {
        if self.fs.journal.dirty {
            self.request_commit(self.fs.journal.running);
        }
        self.arm_commit();
    }

    pub(super) fn arm_commit(&mut self) {
        if let Some(interval) = self.fs.kind.commit_interval() {
            self.at(self.now + interval, Event::Commit);
        }
    }

    /// xfs: sends the running commit off if a process waits for it and an in-core log is free
    /// (`xlog_state_release_iclog`, `xlog_sync`).
    fn write_records(&mut self) {
        let j = &mut self.fs.journal;
        if j.requested < j.running || !j.dirty || j.records.len() >= RECORDS {
            return;
        }
        let commit = j.running;
        // A log item of an inode's core takes some 200 bytes, so ten of them share a block; the
        // record has a header.
        let bytes = BLOCK * (1 + j.blocks / 10);
        (j.running, j.dirty, j.blocks) = (commit + 1, false, 0);
        j.records.push_back(Record { commit, written: false });
        let offset = j.next_offset(bytes);
        let (process, flags) = (j.process, j.flags());
        let mut bio = Bio::new(Op::Write { fua: true }, offset, bytes, flags, End::Record(commit));
        bio.preflush = true;
        // The record goes out in the context of the process that forces the log.
        bio.on_behalf_of =
            j.waiters.iter().find(|(_, waits_for)| *waits_for == commit).map(|(who, _)| *who);
        self.put(process, bio);
        if !self.processes[process.0 as usize].blocked {
            self.pump(process);
        }
    }

    /// xfs: a record is written.
    pub(crate) fn record_written(&mut self, commit: u64) {
        let j = &mut self.fs.journal;
        if let Some(record) = j.records.iter_mut().find(|r| r.commit == commit) {
            record.written = true;
        }
        while let Some(first) = j.records.front().filter(|r| r.written) {
            j.committed = first.commit;
            j.records.pop_front();
        }
        self.wake_committed();
        self.write_records();
    }

    fn wake_committed(&mut self) {
        let committed = self.fs.journal.committed;
        let mut waiters = std::mem::take(&mut self.fs.journal.waiters);
        waiters.retain(|(process, commit)| {
            let waits = *commit > committed;
            if !waits {
                self.wake(*process);
            }
            waits
        });
        self.fs.journal.waiters = waiters;
    }

    /// The journal's thread goes on (`journal_commit_transaction`,
    /// `jbd2_journal_commit_transaction`; `btrfs_sync_log`).
    pub(crate) fn journal_step(&mut self) {
        let process = self.fs.journal.process;
        loop {
            if !self.pump(process) {
                return;
            }
            match self.fs.journal.phase {
                Phase::Idle => {
                    if !self.begin_commit() {
                        return;
                    }
                }
                Phase::Data { inode, page } => self.ordered_data(process, inode, page),
                Phase::DataWait { inode } => {
                    if inode as usize >= self.cache.inodes.len() {
                        self.fs.journal.phase = Phase::Blocks;
                        self.put_blocks(process);
                        continue;
                    }
                    self.fs.journal.phase = Phase::DataWait { inode: inode + 1 };
                    if self.wait_for_pages(InodeId(inode), 0, u64::MAX, process) {
                        return;
                    }
                }
                Phase::Blocks => {
                    if self.must_wait(process) {
                        return;
                    }
                    self.fs.journal.phase = Phase::Record;
                    self.put_record(process);
                }
                Phase::Record => {
                    self.fs.journal.phase = Phase::Written;
                    if self.must_wait(process) {
                        return;
                    }
                }
                Phase::Written => {
                    if self.must_wait(process) {
                        return;
                    }
                    let j = &mut self.fs.journal;
                    j.committed = j.current.0;
                    j.phase = Phase::Idle;
                    self.wake_committed();
                }
            }
        }
    }

    fn begin_commit(&mut self) -> bool {
        let j = &mut self.fs.journal;
        if j.kind == FsKind::Xfs || j.requested < j.running || !j.dirty {
            return false;
        }
        j.current = (j.running, j.blocks);
        j.synchronous = j.waiters.iter().any(|(_, commit)| *commit <= j.running);
        (j.running, j.dirty, j.blocks) = (j.running + 1, false, 0);
        let process = j.process;
        if j.kind == FsKind::Ext3 {
            j.phase = Phase::Data { inode: 0, page: 0 };
        } else {
            j.phase = Phase::Blocks;
            self.put_blocks(process);
        }
        true
    }

    /// ext3: submits a batch of the dirty data of all files, in order.
    fn ordered_data(&mut self, process: ProcessIndex, inode: u32, page: u64) {
        if inode as usize >= self.cache.inodes.len() {
            self.fs.journal.phase = Phase::DataWait { inode: 0 };
            return;
        }
        let sync = self.fs.journal.synchronous && self.generation.has_sync_writes();
        let flags = Flags { sync, ..Flags::default() };
        let next = self.submit_batch(process, InodeId(inode), page, u64::MAX, flags);
        self.fs.journal.phase = match next {
            Some(page) => Phase::Data { inode, page },
            None => Phase::Data { inode: inode + 1, page: 0 },
        };
    }

    /// Descriptor and metadata blocks; btrfs: nodes of the log tree and its root.
    fn put_blocks(&mut self, process: ProcessIndex) {
        let j = &mut self.fs.journal;
        let bytes = match j.kind {
            FsKind::Btrfs => NODE * (2 + j.current.1.min(512) / 64),
            _ => BLOCK * (1 + j.current.1),
        };
        let flags = j.flags();
        let mut left = bytes.min(j.area.1 / 4);
        while left > 0 {
            let part = left.min(512 << 10);
            let offset = self.fs.journal.next_offset(part);
            self.put(
                process,
                Bio::new(Op::Write { fua: false }, offset, part, flags, End::Process(process)),
            );
            left -= part;
        }
    }

    fn put_record(&mut self, process: ProcessIndex) {
        let j = &mut self.fs.journal;
        let barriers = j.has_barriers();
        // btrfs writes its superblock, 64 KiB into the device.
        let offset = if j.kind == FsKind::Btrfs { 64 << 10 } else { j.next_offset(BLOCK) };
        let op = Op::Write { fua: barriers };
        let mut bio = Bio::new(op, offset, BLOCK, j.flags(), End::Process(process));
        bio.preflush = barriers;
        self.put(process, bio);
    }
}
