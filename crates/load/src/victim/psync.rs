//! The default engine: pread and pwrite, then fsync or one of its kin, one operation per thread.
//!
//! The loop allocates nothing, takes no lock (but for a growing log's, see [`super::files::Log`])
//! and reads the clock three times a commit (four times in an open loop). `examples/engine_cost.rs`
//! measures it against fio.

use std::time::Instant;

use floodwall_model::scenario::{Access, Data, SyncMethod, VictimKind};
use floodwall_stats::recorder::Op;

use super::choose::{Chooser, Schedule, Target, ns_between};
use super::files::file_name;
use super::job::Job;
use super::kind::{access, read_percent, sync_method};
use crate::buffer::{AlignedBuf, Blocks, rng};
use crate::error::LoadError;
use crate::file::NamedFile;
use crate::running::Worker;
use crate::sys::RangeSync;

/// How often a scan drops the pages that it has read: behind it, so that read-ahead still works in
/// front.
const SCAN_WINDOW: u64 = 1 << 20;
/// How much longer than a block each thread's pool of random bytes is. Small enough to stay in the
/// CPU's own cache: a commit must not pay for a memory access that the victim it stands for does
/// not make.
const VARIETY: usize = 64 << 10;
/// Keeps a thread's data generator apart from its offset generator, which has the thread's number.
const DATA_PURPOSE: u64 = 1 << 32;

/// One thread.
pub(super) fn run(job: &Job, worker: &mut Worker<'_>) -> Result<(), LoadError> {
    let block = job.files.block as usize;
    let mut chooser = Chooser::new(job);
    let own = own_files(job, &chooser)?;
    let mut blocks = blocks(job, VARIETY, 0);
    let mut read_buffer =
        AlignedBuf::zeroed(if read_percent(&job.victim.kind) > 0 { block } else { 0 });
    let sync = sync_method(&job.victim.kind).unwrap_or(SyncMethod::Fsync);
    let eviction = Eviction::new(job, &chooser);

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
            eviction.before_read(file, target, block as u64)?;
            let start = Instant::now();
            file.read_exact_at(read_buffer.bytes_mut(), target.offset)?;
            let end = Instant::now();
            recorder.record(Op::Read, ns_between(due.unwrap_or(start), end));
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
        eviction.after(file, target, block as u64)?;
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

/// Files of a scanning thread's own, from the first: the kernel's read-ahead state belongs to a
/// descriptor, and scans that share one would look random to it. `None` for all others, which share
/// the victim's.
pub(super) fn own_files(
    job: &Job,
    chooser: &Chooser<'_>,
) -> Result<Option<(usize, Vec<NamedFile>)>, LoadError> {
    if !matches!(job.victim.kind, VictimKind::Scan { .. }) {
        return Ok(None);
    }
    let range = chooser.file_range();
    let first = range.start;
    let files = &job.files;
    let own = range.map(|i| NamedFile::open(&files.dir, &file_name(i), files.flags));
    let own = own.collect::<Result<_, _>>()?;
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
        SyncMethod::SyncFileRange => file.sync_range(offset, len, RangeSync::Wait),
        SyncMethod::ODsync | SyncMethod::OSync => Ok(()),
    }
}

/// Drops read or committed pages from the page cache, outside the timed part. A committed block is
/// clean, and would serve the next read of it from memory.
pub(super) enum Eviction {
    /// Cached pages stay cached, or the load never caches any.
    Never,
    /// Each block after it was read or committed.
    Block {
        /// Before it is read as well. A committed block may stay: the kernel keeps a page that
        /// another thread's fsync of the same file is gathering to write or to wait for
        /// (mm/truncate.c, mapping_evict_folio).
        before_reads: bool,
    },
    /// All that lies behind, each time that the scan has passed a multiple of [`SCAN_WINDOW`].
    /// Read-ahead fills the cache with folios of up to 2 MiB and more. The kernel keeps a folio
    /// that is only partly inside the range (mm/truncate.c), so dropping just the last window would
    /// drop nothing.
    Behind {
        /// Where the thread's region begins: in this file …
        first_file: usize,
        /// … at this offset; in later files at 0.
        begin: u64,
        file_len: u64,
    },
}

impl Eviction {
    pub(super) fn new(job: &Job, chooser: &Chooser<'_>) -> Self {
        match (access(&job.victim.kind), &job.victim.kind) {
            (Some(Access::Evict), VictimKind::Scan { .. }) => {
                let (first_file, begin) = chooser.region_begin();
                Self::Behind { first_file, begin, file_len: job.files.slots * job.files.block }
            }
            (Some(Access::Evict), kind) => Self::Block { before_reads: kind.writes() },
            _ => Self::Never,
        }
    }

    /// Before a read of `block` bytes.
    #[inline]
    pub(super) fn before_read(
        &self,
        file: &NamedFile,
        target: Target,
        block: u64,
    ) -> Result<(), LoadError> {
        match *self {
            Self::Block { before_reads: true } => file.evict(target.offset, block),
            _ => Ok(()),
        }
    }

    /// After a read or a commit of `block` bytes.
    #[inline]
    pub(super) fn after(
        &self,
        file: &NamedFile,
        target: Target,
        block: u64,
    ) -> Result<(), LoadError> {
        match *self {
            Self::Never => Ok(()),
            Self::Block { .. } => file.evict(target.offset, block),
            Self::Behind { first_file, begin, file_len } => {
                let end = target.offset + block;
                if end / SCAN_WINDOW == target.offset / SCAN_WINDOW && end != file_len {
                    return Ok(());
                }
                let begin = if target.file == first_file { begin } else { 0 };
                file.evict(begin, end.saturating_sub(begin))
            }
        }
    }
}
