//! fsync and its kin: what a process that wants its data stable does and waits for.
//!
//! ```text
//! dirty pages of the range out ─▶ wait until none of it is under writeback ─▶ commit ─▶ flush
//!  (also pages that others have dirtied in the same file)
//! ```
//!
//! `vfs_fsync_range`, mm/filemap.c `file_write_and_wait_range`; `sync_file_range(2)` ends after the
//! second step.

use floodwall_device::Op;

use super::sync_job::{Extent, Stage, SyncJob};
use crate::block::{Bio, End};
use crate::machine::Machine;
use crate::page_cache::InodeId;
use crate::request::{Flags, ProcessIndex};

/// Bios made before they are submitted.
const BATCH: usize = 32;

impl Machine {
    /// Submits one batch of a range's dirty pages for a waiting process. Returns the next page.
    pub(crate) fn submit_batch(
        &mut self,
        process: ProcessIndex,
        id: InodeId,
        from: u64,
        to: u64,
        flags: Flags,
    ) -> Option<u64> {
        let mut page = from;
        for _ in 0..BATCH {
            let (begin, end) =
                self.cache.inode(id).next_dirty(page).filter(|(begin, _)| *begin < to)?;
            page = self.submit_pages(process, id, begin, end.min(to), flags);
        }
        Some(page)
    }

    /// Lets a sync go on. `false`: its process sleeps and is stepped when it can go on.
    pub(crate) fn advance_sync(&mut self, process: ProcessIndex, job: &mut SyncJob) -> bool {
        loop {
            if !self.pump(process) {
                return false;
            }
            match job.stage {
                Stage::Submit { page } => {
                    let flags =
                        Flags { sync: self.fs.syncs_say_so(self.generation), ..Flags::default() };
                    job.stage = match self.submit_batch(process, job.inode, page, job.end, flags) {
                        Some(page) => Stage::Submit { page },
                        None => Stage::Wait,
                    };
                }
                Stage::Wait => {
                    job.skipped = self.cache.inode(job.inode).dirty.touches(job.own.0, job.own.1);
                    job.stage = Stage::Waited;
                    if self.wait_for_pages(job.inode, job.begin, job.end, process) {
                        return false;
                    }
                }
                Stage::Waited => {
                    // Pages that were under writeback and are dirty again go out now. If another
                    // process has sent them meanwhile, this job waits for them.
                    let inode = self.cache.inode(job.inode);
                    let (begin, end) = job.own;
                    job.stage = match job.skipped {
                        true if inode.dirty.touches(begin, end) => {
                            Stage::Submit { page: job.begin }
                        }
                        true if inode.writeback.touches(begin, end) => Stage::Wait,
                        _ => Stage::Commit,
                    };
                    job.note(self.now, 0);
                    job.critical = self.processes[process.0 as usize].last;
                }
                Stage::Commit => {
                    if job.extent == Extent::Data {
                        return true;
                    }
                    let inode = self.cache.inode(job.inode);
                    let commit = match job.extent {
                        Extent::Full => inode.sync_commit,
                        _ => inode.datasync_commit,
                    };
                    job.stage = match self.force_commit(process, commit) {
                        Some(covered) => {
                            job.stage = Stage::Committed { covered };
                            return false;
                        }
                        None => Stage::Flush,
                    };
                }
                Stage::Committed { covered } => {
                    job.note(self.now, 1);
                    if covered {
                        return true;
                    }
                    job.stage = Stage::Flush;
                }
                Stage::Flush => {
                    if !self.block.volatile() || !self.fs.flushes() {
                        return true;
                    }
                    job.stage = Stage::Flushed;
                    let bio = Bio::new(Op::Flush, 0, 0, Flags::default(), End::Process(process));
                    self.put(process, bio);
                    if !self.pump(process) || self.must_wait(process) {
                        return false;
                    }
                }
                Stage::Flushed => {
                    if self.must_wait(process) {
                        return false;
                    }
                    job.note(self.now, 2);
                    return true;
                }
            }
        }
    }
}
