//! The io_uring engine: `depth` operations outstanding in each thread, a write linked to its sync (IOSQE_IO_LINK).
//!
//! ```text
//! slot: free ─ choose, push ─▶ write in flight ─ completion ─▶ sync in flight ─ completion ─▶ free
//!                              read in flight ─────────────── completion ─────────────────▶ free
//! ```
//!
//! Times are taken when a completion is reaped: write from push to the write's completion, sync from there to the sync's. What a ring
//! does not finish by itself (a short or interrupted transfer) is finished with plain calls.
#![expect(
    unsafe_code,
    reason = "the kernel reads and writes buffers after the call that names them has returned"
)]

use std::mem;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use floodwall_model::scenario::SyncMethod;
use floodwall_stats::recorder::{Op, Recorder};
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use rustix::io::Errno;

use super::choose::{Chooser, Schedule, Target, Turn, ns_between};
use super::psync::{Eviction, blocks, make_stable, own_files};
use super::{Job, sync_method};
use crate::buffer::{AlignedBuf, Blocks};
use crate::error::LoadError;
use crate::file::NamedFile;
use crate::pace::sleep_until;
use crate::running::Worker;
use crate::sys::RangeSync;

/// Longest wait for a completion while a ticket is held, so that the stop flag stays in view.
const SLICE: Duration = Duration::from_millis(20);

/// Whether the kernel lets us have a ring of this depth.
pub(super) fn probe(depth: u32) -> Result<(), LoadError> {
    new_ring(depth).map(drop)
}

fn new_ring(depth: u32) -> Result<IoUring, LoadError> {
    // Two entries an operation: the write and its sync.
    let entries = depth.saturating_mul(2);
    // One thread submits and reaps, and completions are handled when it asks for them (kernel 6.1); an older kernel has the plain ring.
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)
        .or_else(|_| IoUring::new(entries))
        .map_err(|e| LoadError::NoUring { errno: Errno::from_io_error(&e).unwrap_or(Errno::NOSYS) })
}

/// An operation in flight, and the memory that the kernel uses meanwhile.
struct Slot {
    /// What it writes. A pool of one block: the stamps tell its blocks apart.
    blocks: Blocks,
    /// What it reads into.
    read_buffer: AlignedBuf,
    target: Target,
    /// From when its latency counts.
    since: Instant,
    pushed: Instant,
    /// When the write's completion was seen.
    written: Option<Instant>,
    /// Completions still to come.
    pending: u8,
    /// The ring did not do all of it.
    unfinished: bool,
    /// It failed, and does not count.
    failed: bool,
}

/// One thread.
pub(super) fn run(job: &Job, worker: &mut Worker<'_>) -> Result<(), LoadError> {
    let chooser = Chooser::new(job);
    let own = own_files(job, &chooser)?;
    let ring = new_ring(job.victim.depth)?;
    let reads = super::read_percent(&job.victim.kind) > 0;
    let now = Instant::now();
    let slots: Vec<Slot> = (0..job.victim.depth)
        .map(|i| Slot {
            blocks: blocks(job, 0, u64::from(i)),
            read_buffer: AlignedBuf::zeroed(if reads { job.files.block as usize } else { 0 }),
            target: Target { file: 0, offset: 0, is_read: false },
            since: now,
            pushed: now,
            written: None,
            pending: 0,
            unfinished: false,
            failed: false,
        })
        .collect();
    let free = (0..slots.len()).rev().collect();
    let mut queue = Queue {
        job,
        own,
        sync: sync_method(&job.victim.kind).unwrap_or(SyncMethod::Fsync),
        eviction: Eviction::new(job, &chooser),
        ring,
        slots,
        free,
        chooser,
    };
    let Some(begin) = worker.arrive() else { return Ok(()) };
    let mut schedule = Schedule::new(job, begin);
    let result = queue.work(worker, &mut schedule);
    // The kernel may still use the buffers: whatever happened, wait for it.
    let drained = queue.drain(worker.recorder);
    schedule.close(worker);
    result.and(drained)
}

/// A thread's ring and what is in it.
struct Queue<'a> {
    job: &'a Job,
    /// Files of its own from the first, for a scan.
    own: Option<(usize, Vec<NamedFile>)>,
    sync: SyncMethod,
    eviction: Eviction,
    ring: IoUring,
    slots: Vec<Slot>,
    /// Slots with nothing in flight.
    free: Vec<usize>,
    chooser: Chooser<'a>,
}

impl Queue<'_> {
    /// Keeps the ring full until told to stop.
    fn work(&mut self, worker: &Worker<'_>, schedule: &mut Schedule<'_>) -> Result<(), LoadError> {
        while !worker.stopping() {
            let mut next = None;
            while let Some(&slot) = self.free.last() {
                let since = match schedule.turn() {
                    Turn::Now => None,
                    Turn::Since(due) => Some(due),
                    Turn::NotBefore(due) => {
                        next = Some(due);
                        break;
                    }
                };
                self.push(slot, since)?;
                self.free.pop();
            }
            match next {
                // Nothing in flight: sleep until the next operation falls due.
                Some(due) if self.free.len() == self.slots.len() => {
                    sleep_until(due.min(Instant::now() + SLICE), worker.stop_flag());
                }
                _ => {
                    self.wait(next)?;
                    self.reap(worker.recorder)?;
                }
            }
        }
        Ok(())
    }

    /// Waits for everything in flight. On an error of the ring itself the buffers are left to the kernel for ever.
    fn drain(&mut self, recorder: &Recorder) -> Result<(), LoadError> {
        let mut result = Ok(());
        while self.free.len() < self.slots.len() {
            if let Err(error) = self.wait(None) {
                mem::forget(mem::take(&mut self.slots));
                return result.and(Err(error));
            }
            result = result.and(self.reap(recorder));
        }
        result
    }

    /// Submits what was pushed and waits for a completion, not longer than until `next`.
    fn wait(&mut self, next: Option<Instant>) -> Result<(), LoadError> {
        let waited = match next {
            Some(due) if self.ring.params().is_feature_ext_arg() => {
                let left = due.saturating_duration_since(Instant::now()).min(SLICE);
                let timeout = Timespec::from(left);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
            _ => self.ring.submit_and_wait(1),
        };
        match waited.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO)) {
            // Time is up, a signal came, or completions must be reaped first.
            Ok(_) | Err(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            Err(errno) => Err(LoadError::Ring { errno }),
        }
    }

    /// Chooses the next operation and queues it in a free slot.
    fn push(&mut self, index: usize, since: Option<Instant>) -> Result<(), LoadError> {
        let target = self.chooser.next()?;
        let file = file_of(self.job, &self.own, target.file);
        let fd = Fd(file.fd.as_raw_fd());
        let block = self.job.files.block;
        if target.is_read {
            self.eviction.before_read(file, target, block)?;
        }
        let len = u32::try_from(block).map_err(|_| LoadError::Ring { errno: Errno::INVAL })?;
        let slot = &mut self.slots[index];
        // The slot's number and whether it is the sync, to be told by the completion.
        let tag = (index as u64) << 1;
        let (first, second) = if target.is_read {
            let buffer = slot.read_buffer.bytes_mut().as_mut_ptr();
            (opcode::Read::new(fd, buffer, len).offset(target.offset).build().user_data(tag), None)
        } else {
            let bytes = slot.blocks.next(block as usize);
            let write =
                opcode::Write::new(fd, bytes.as_ptr(), len).offset(target.offset).build().user_data(tag);
            match sync_entry(self.sync, fd, target.offset, len) {
                None => (write, None),
                Some(sync) => (write.flags(Flags::IO_LINK), Some(sync.user_data(tag | 1))),
            }
        };
        let now = Instant::now();
        slot.target = target;
        (slot.since, slot.pushed, slot.written) = (since.unwrap_or(now), now, None);
        (slot.unfinished, slot.failed) = (false, false);
        let entries = [Some(first), second];
        slot.pending = entries.iter().flatten().count() as u8;
        for entry in entries.iter().flatten() {
            // SAFETY: the entry points into a buffer of `slot`, which is neither moved, freed nor used until the completion is reaped:
            // the slot is not free till then, `drain` waits for it on every way out, and if it can't, leaks the slots. The
            // heap blocks stay where they are when the `Slot` itself moves.
            let pushed = unsafe { self.ring.submission().push(entry) };
            // There are two entries for each slot, so the queue can't be full.
            pushed.map_err(|_| LoadError::Ring { errno: Errno::NOBUFS })?;
        }
        Ok(())
    }

    /// Handles the completions that have arrived.
    fn reap(&mut self, recorder: &Recorder) -> Result<(), LoadError> {
        let mut result = Ok(());
        loop {
            let entry = self.ring.completion().next();
            let Some(entry) = entry else { return result };
            let now = Instant::now();
            let (index, is_sync) = ((entry.user_data() >> 1) as usize, entry.user_data() & 1 == 1);
            result = result.and(self.complete(index, is_sync, entry.result(), now, recorder));
        }
    }

    /// One completion.
    fn complete(
        &mut self,
        index: usize,
        is_sync: bool,
        outcome: i32,
        now: Instant,
        recorder: &Recorder,
    ) -> Result<(), LoadError> {
        let block = self.job.files.block;
        let slot = &mut self.slots[index];
        slot.pending = slot.pending.saturating_sub(1);
        let mut failure = None;
        if outcome >= 0 {
            if !is_sync {
                slot.unfinished = outcome.cast_unsigned() as u64 != block;
            }
        } else {
            match Errno::from_raw_os_error(-outcome) {
                // The sync of a write that failed or was cut short is cancelled with it.
                Errno::INTR | Errno::AGAIN => slot.unfinished = true,
                Errno::CANCELED if is_sync => slot.unfinished = true,
                errno => failure = Some(errno),
            }
        }
        slot.failed |= failure.is_some();
        if !is_sync {
            slot.written = Some(now);
        }
        let (pending, target, failed) = (slot.pending, slot.target, slot.failed);
        if pending == 0 {
            self.free.push(index);
        }
        if let Some(errno) = failure {
            let operation = match (is_sync, target.is_read) {
                (true, _) => sync_name(self.sync),
                (false, true) => "read",
                (false, false) => "write",
            };
            return Err(file_of(self.job, &self.own, target.file).failed(operation, errno));
        }
        if pending == 0 && !failed { self.finish(index, now, recorder) } else { Ok(()) }
    }

    /// An operation whose completions are all in: finishes it by hand if need be, and counts it.
    fn finish(&mut self, index: usize, now: Instant, recorder: &Recorder) -> Result<(), LoadError> {
        let block = self.job.files.block;
        let slot = &mut self.slots[index];
        let target = slot.target;
        let file = file_of(self.job, &self.own, target.file);
        let mut end = now;
        if slot.unfinished {
            if target.is_read {
                file.read_exact_at(slot.read_buffer.bytes_mut(), target.offset)?;
            } else {
                file.write_all_at(slot.blocks.next(block as usize), target.offset)?;
                make_stable(file, self.sync, target.offset, block)?;
            }
            end = Instant::now();
        }
        if target.is_read {
            recorder.record(Op::Read, ns_between(slot.since, end));
        } else {
            let written = slot.written.unwrap_or(end);
            recorder.record(Op::Write, ns_between(slot.pushed, written));
            if !self.sync.is_open_flag() {
                recorder.record(Op::Sync, ns_between(written, end));
            }
            recorder.record(Op::Commit, ns_between(slot.since, end));
        }
        recorder.add_bytes(block);
        self.eviction.after(file, target, block)?;
        self.chooser.done();
        Ok(())
    }
}

/// The file that a target means: a scan's own, or the shared one.
fn file_of<'f>(job: &'f Job, own: &'f Option<(usize, Vec<NamedFile>)>, index: usize) -> &'f NamedFile {
    match own {
        None => &job.files.files[index],
        Some((first, files)) => &files[index - first],
    }
}

/// The sync after a write as a ring entry; `None` if the write itself makes the data stable.
fn sync_entry(sync: SyncMethod, fd: Fd, offset: u64, len: u32) -> Option<Entry> {
    match sync {
        SyncMethod::Fsync => Some(opcode::Fsync::new(fd).build()),
        SyncMethod::Fdatasync => Some(opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build()),
        SyncMethod::SyncFileRange => {
            Some(opcode::SyncFileRange::new(fd, len).offset(offset).flags(RangeSync::Wait.flags()).build())
        }
        SyncMethod::ODsync | SyncMethod::OSync => None,
    }
}

fn sync_name(sync: SyncMethod) -> &'static str {
    match sync {
        SyncMethod::Fdatasync => "fdatasync",
        SyncMethod::SyncFileRange => "sync_file_range",
        _ => "fsync",
    }
}
