//! The default engine: pread and pwrite, then fsync or one of its kin, one operation per thread.
//!
//! The loop allocates nothing, takes no lock (but for a growing log's, see [`super::files::Log`]) and reads the clock three times a
//! commit. `examples/engine_cost.rs` measures it against fio.

use std::os::fd::AsFd;
use std::time::Instant;

use floodwall_model::scenario::{Access, Data, SyncMethod, VictimKind};
use floodwall_stats::recorder::Op;
use rustix::io::Errno;

use super::choose::{Chooser, Schedule, ns_between};
use super::files::access;
use super::{Job, sync_method};
use crate::buffer::{AlignedBuf, Blocks, rng, variety};
use crate::error::LoadError;
use crate::file::{NamedFile, retry};
use crate::running::Worker;
use crate::sys::{RangeSync, sync_file_range};

/// A scan drops what it has read in windows of this length, so that read-ahead still works in front of it.
const SCAN_WINDOW: u64 = 1 << 20;
/// Keeps a thread's data generator apart from its offset generator, which has the thread's number.
const DATA_PURPOSE: u64 = 1 << 32;

/// One thread.
pub(super) fn run(job: &Job, worker: &mut Worker<'_>) -> Result<(), LoadError> {
    let block = job.files.block as usize;
    let mut chooser = Chooser::new(job);
    let own = own_files(job, &chooser)?;
    let mut blocks = blocks(job, variety(job.victim.threads), 0);
    let mut read_buffer =
        AlignedBuf::zeroed(if super::read_percent(&job.victim.kind) > 0 { block } else { 0 });
    let sync = sync_method(&job.victim.kind).unwrap_or(SyncMethod::Fsync);
    let eviction = Eviction::new(job);

    let Some(begin) = worker.arrive() else { return Ok(()) };
    let mut schedule = Schedule::new(job, begin);
    while let Some(due) = schedule.wait_for_turn(worker) {
        let target = chooser.next()?;
        let file = match &own {
            None => &job.files.files[target.file],
            Some((first, files)) => &files[target.file - first],
        };
        let recorder = worker.recorder;
        if target.is_read {
            let start = Instant::now();
            file.read_exact_at(read_buffer.bytes_mut(), target.offset)?;
            let end = Instant::now();
            recorder.record(Op::Read, ns_between(due.unwrap_or(start), end));
            eviction.after_read(file, target.offset)?;
        } else {
            let bytes = blocks.next(block);
            let start = Instant::now();
            file.write_all_at(bytes, target.offset)?;
            let written = Instant::now();
            recorder.record(Op::Write, ns_between(start, written));
            if sync.is_open_flag() {
                recorder.record(Op::Commit, ns_between(due.unwrap_or(start), written));
            } else {
                make_stable(file, sync, target.offset, block as u64)?;
                let stable = Instant::now();
                recorder.record(Op::Sync, ns_between(written, stable));
                recorder.record(Op::Commit, ns_between(due.unwrap_or(start), stable));
            }
        }
        recorder.add_bytes(block as u64);
        chooser.done();
    }
    schedule.close(worker);
    Ok(())
}

/// What a thread writes, if it writes; a supply for each of its operations in flight.
pub(super) fn blocks(job: &Job, variety: usize, supply: u64) -> Blocks {
    let len = if job.victim.kind.writes() { job.files.block as usize } else { 0 };
    let variety = if len == 0 { 0 } else { variety };
    let purpose = DATA_PURPOSE * (1 + supply) + u64::from(job.thread);
    Blocks::new(len, variety, Data::Random, &mut rng(job.seed, purpose))
}

/// Files of a scanning thread's own, from the first: the kernel's read-ahead state belongs to a descriptor, and scans that share one
/// would look random to it. `None` for all others, which share the victim's.
pub(super) fn own_files(
    job: &Job,
    chooser: &Chooser<'_>,
) -> Result<Option<(usize, Vec<NamedFile>)>, LoadError> {
    if !matches!(job.victim.kind, VictimKind::Scan { .. }) {
        return Ok(None);
    }
    let range = chooser.file_range();
    let first = range.start;
    let files = job.files.files.iter().skip(first).take(range.len());
    let own = files.map(|file| NamedFile::open(&file.path, job.files.flags)).collect::<Result<_, _>>()?;
    Ok(Some((first, own)))
}

/// The sync after a write.
#[inline]
pub(super) fn make_stable(
    file: &NamedFile,
    sync: SyncMethod,
    offset: u64,
    len: u64,
) -> Result<(), LoadError> {
    match sync {
        SyncMethod::Fsync => file.sync(),
        SyncMethod::Fdatasync => file.sync_data(),
        SyncMethod::SyncFileRange => retry(|| sync_file_range(file.fd.as_fd(), offset, len, RangeSync::Wait))
            .map_err(|e: Errno| file.failed("sync_file_range", e)),
        SyncMethod::ODsync | SyncMethod::OSync => Ok(()),
    }
}

/// Drops from the page cache what was read, outside the timed part.
pub(super) struct Eviction {
    /// Length of the range that is dropped at once; 0: nothing is dropped.
    window: u64,
    block: u64,
    file_len: u64,
    sequential: bool,
}

impl Eviction {
    pub(super) fn new(job: &Job) -> Self {
        let block = job.files.block;
        let sequential = matches!(job.victim.kind, VictimKind::Scan { .. });
        let window = match access(&job.victim.kind) {
            Some(Access::Evict) if sequential => SCAN_WINDOW.max(block),
            Some(Access::Evict) => block,
            _ => 0,
        };
        Self { window, block, file_len: job.files.slots * block, sequential }
    }

    /// After a read of one block at `offset`.
    #[inline]
    pub(super) fn after_read(&self, file: &NamedFile, offset: u64) -> Result<(), LoadError> {
        if self.window == 0 {
            return Ok(());
        }
        if !self.sequential {
            return file.evict(offset, self.block);
        }
        // The window that this block has ended, if it has; the last one of a file is shorter.
        let end = offset + self.block;
        if end / self.window > offset / self.window || end == self.file_len {
            let start = (offset / self.window) * self.window;
            return file.evict(start, end - start);
        }
        Ok(())
    }
}
