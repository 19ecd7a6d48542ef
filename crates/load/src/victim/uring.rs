//! The io_uring engine: `depth` operations outstanding in each thread, a write linked to its sync
//! (IOSQE_IO_LINK).
//!
//! ```text
//! slot: free ─ choose, push ─▶ write in flight ─ completion ─▶ sync in flight ─ completion ─▶ free
//!                              read in flight ─────────────── completion ─────────────────▶ free
//! ```
//!
//! Times are taken when a completion is reaped: write from push to the write's completion, sync
//! from there to the sync's. What a ring does not finish by itself (a short or interrupted
//! transfer) is finished with plain calls.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use floodwall_model::scenario::SyncMethod;
use floodwall_stats::recorder::{Op, Recorder};
use rustix::io::Errno;

use super::choose::{Chooser, Schedule, Target, Turn, ns_between};
use super::job::Job;
use super::kind::{read_percent, sync_method};
use super::psync::{Eviction, blocks, make_stable, own_files};
use crate::buffer::AlignedBuf;
use crate::error::LoadError;
use crate::file::NamedFile;
use crate::pace::sleep_until;
use crate::ring::{Buffers, Done, Flight, Kernel};
use crate::running::Worker;

/// Longest wait for a completion while a ticket is held, so that the stop flag stays in view.
const SLICE: Duration = Duration::from_millis(20);

/// Refuses a depth of which the kernel allows no ring.
pub(super) fn check(depth: u32) -> Result<(), LoadError> {
    new_ring(depth).map(drop)
}

fn new_ring(depth: u32) -> Result<Kernel, LoadError> {
    Kernel::new(depth)
        .map_err(|e| LoadError::NoUring { errno: Errno::from_io_error(&e).unwrap_or(Errno::NOSYS) })
}

/// An operation in flight.
struct Slot {
    target: Target,
    /// From when its latency counts.
    since: Instant,
    pushed: Instant,
    /// When the write's completion was seen.
    written: Option<Instant>,
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
    let reads = read_percent(&job.victim.kind) > 0;
    let now = Instant::now();
    let buffers = (0..job.victim.depth).map(|i| Buffers {
        // A pool of one block: the stamps tell its blocks apart.
        blocks: blocks(job, 0, u64::from(i)),
        read: AlignedBuf::zeroed(if reads { job.files.block as usize } else { 0 }),
    });
    let flight = Flight::new(ring, buffers);
    let slots: Vec<Slot> = (0..flight.slots())
        .map(|_| Slot {
            target: Target { file: 0, offset: 0, is_read: false },
            since: now,
            pushed: now,
            written: None,
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
        flight,
        slots,
        free,
        chooser,
    };
    let Some(begin) = worker.arrive() else { return Ok(()) };
    let mut schedule = Schedule::new(job, begin);
    let result = queue.work(worker, &mut schedule);
    // Operations in flight count.
    let drained = queue.drain(worker.recorder);
    schedule.close(worker);
    result.and(drained)
}

/// A thread's ring and its entries.
struct Queue<'a> {
    job: &'a Job,
    /// Its files from the first, for a scan.
    own: Option<(usize, Vec<NamedFile>)>,
    sync: SyncMethod,
    eviction: Eviction,
    flight: Flight<Kernel>,
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

    /// Waits for everything in flight, and counts it.
    fn drain(&mut self, recorder: &Recorder) -> Result<(), LoadError> {
        let mut result = Ok(());
        while self.free.len() < self.slots.len() {
            if let Err(error) = self.wait(None) {
                return result.and(Err(error));
            }
            result = result.and(self.reap(recorder));
        }
        result
    }

    /// Submits the pushed entries and waits for a completion, not longer than until `next`.
    fn wait(&mut self, next: Option<Instant>) -> Result<(), LoadError> {
        let left = next.map(|due| due.saturating_duration_since(Instant::now()).min(SLICE));
        self.flight.wait(left).map_err(|errno| LoadError::Ring { errno })
    }

    /// Chooses the next operation and queues it in a free slot.
    fn push(&mut self, index: usize, since: Option<Instant>) -> Result<(), LoadError> {
        let target = self.chooser.next()?;
        let file = file_of(self.job, &self.own, target.file);
        let block = self.job.files.block;
        if target.is_read {
            self.eviction.before_read(file, target, block)?;
        }
        let len = u32::try_from(block).map_err(|_| LoadError::Ring { errno: Errno::INVAL })?;
        let now = Instant::now();
        let begun = if target.is_read {
            self.flight.read(index, file.fd.as_fd(), len, target.offset)
        } else {
            self.flight.write(index, file.fd.as_fd(), len, target.offset, self.sync)
        };
        let slot = &mut self.slots[index];
        slot.target = target;
        (slot.since, slot.pushed, slot.written) = (since.unwrap_or(now), now, None);
        (slot.unfinished, slot.failed) = (false, false);
        begun.map_err(|errno| LoadError::Ring { errno })
    }

    /// Handles the completions that have arrived.
    fn reap(&mut self, recorder: &Recorder) -> Result<(), LoadError> {
        let mut result = Ok(());
        loop {
            let Some(done) = self.flight.next() else { return result };
            result = result.and(self.complete(done, Instant::now(), recorder));
        }
    }

    /// One completion.
    fn complete(&mut self, done: Done, now: Instant, recorder: &Recorder) -> Result<(), LoadError> {
        let Done { slot: index, is_sync, outcome, is_last } = done;
        let block = self.job.files.block;
        let slot = &mut self.slots[index];
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
        let (target, failed) = (slot.target, slot.failed);
        if is_last {
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
        if is_last && !failed { self.finish(index, now, recorder) } else { Ok(()) }
    }

    /// An operation whose completions are all in: finishes it by hand if need be, and counts it.
    fn finish(&mut self, index: usize, now: Instant, recorder: &Recorder) -> Result<(), LoadError> {
        let block = self.job.files.block;
        let slot = &self.slots[index];
        let target = slot.target;
        let file = file_of(self.job, &self.own, target.file);
        let mut end = now;
        if slot.unfinished {
            let buffers =
                self.flight.buffers(index).ok_or(LoadError::Ring { errno: Errno::BUSY })?;
            if target.is_read {
                file.read_exact_at(buffers.read.bytes_mut(), target.offset)?;
            } else {
                file.write_all_at(buffers.blocks.next(block as usize), target.offset)?;
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
fn file_of<'f>(
    job: &'f Job,
    own: &'f Option<(usize, Vec<NamedFile>)>,
    index: usize,
) -> &'f NamedFile {
    match own {
        None => &job.files.files[index],
        Some((first, files)) => &files[index - first],
    }
}

fn sync_name(sync: SyncMethod) -> &'static str {
    match sync {
        SyncMethod::Fdatasync => "fdatasync",
        SyncMethod::SyncFileRange => "sync_file_range",
        _ => "fsync",
    }
}
