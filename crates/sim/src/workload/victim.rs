//! Victims: one operation after the other, each waited for (crates/load, victim/psync.rs, is the
//! same on a real host).
//!
//! ```text
//! commit   write ─▶ fsync (or one of its kin)      read   pread, past the page cache or through it
//! ```

use floodwall_device::{Nanos, Op};
use floodwall_model::scenario::{Access, SyncMethod};

use super::meter::Kind;
use super::task::{Program, State};
use crate::block::{Bio, End, Times};
use crate::cost;
use crate::explain::Explained;
use crate::fs::{Extent, SyncJob};
use crate::machine::Machine;
use crate::page_cache::PAGE_SHIFT;
use crate::request::{Flags, ProcessIndex};

/// Pages that bytes `offset..offset + len` touch.
pub(super) fn pages_of(offset: u64, len: u64) -> (u64, u64) {
    (offset >> PAGE_SHIFT, (offset + len).div_ceil(1 << PAGE_SHIFT))
}

impl Machine {
    /// The next operation, when it is due.
    pub(super) fn begin_victim(&mut self, t: usize) -> bool {
        let now = self.now;
        let task = &mut self.tasks[t];
        let load = &mut self.loads[task.load];
        let mut since = now;
        if let Some(tickets) = &mut load.tickets {
            if !matches!(task.state, State::Due) {
                task.op.since = load.began + tickets.take();
                task.state = State::Due;
            }
            since = task.op.since;
            if since > now {
                let process = task.process;
                self.sleep_until(process, since);
                return false;
            }
        }
        let Program::Victim(program) = &mut task.program else { return false };
        let target = program.chooser.next(&mut task.rng, &mut load.logs);
        let (direct, access, sync) = (program.direct, program.access, program.sync);
        let block = load.block;
        let inode = load.files[target.file];
        task.op.inode = inode;
        task.op.offset = target.slot * block;
        task.op.is_read = target.is_read;
        (task.op.since, task.op.began) = (since, now);
        (task.throttled, task.busy) = (Nanos::ZERO, true);
        let offset = task.op.offset;
        let growing_lap =
            !target.is_read && target.slot == 0 && self.cache.inode(inode).written > 0;
        if growing_lap && self.loads[self.tasks[t].load].cuts_logs {
            self.cache.truncate(inode);
        }
        let (begin, end) = pages_of(offset, block);
        match (target.is_read, direct || target.is_read && access == Access::Direct) {
            (true, true) => self.direct_read(t, block),
            (true, false) => self.spend(t, cost::SYSCALL, State::ReadPages { page: begin, end }),
            (false, true) => self.direct_write(t, block, sync),
            (false, false) => {
                let cpu = cost::SYSCALL + cost::pages(cost::PAGE, end - begin);
                self.spend(t, cpu, State::Copy { begin, end, bytes: block })
            }
        }
    }

    /// A write past the page cache: synchronous, and more of the kind may follow
    /// (`REQ_SYNC | REQ_IDLE`).
    fn direct_write(&mut self, t: usize, block: u64, sync: SyncMethod) -> bool {
        let _ = sync;
        let task = &mut self.tasks[t];
        let (process, inode, offset) = (task.process, task.op.inode, task.op.offset);
        task.state = State::DirectWrite;
        let (begin, end) = pages_of(offset, block);
        self.fs_before_dirty(inode, begin, end);
        let at = self.cache.inode(inode).device_offset + offset;
        let flags = Flags { sync: true, idle: true, ..Flags::default() };
        self.put_pieces(process, Op::Write { fua: false }, at, block, flags);
        true
    }

    /// Reads past the page cache.
    fn direct_read(&mut self, t: usize, block: u64) -> bool {
        let task = &mut self.tasks[t];
        let (process, inode, offset) = (task.process, task.op.inode, task.op.offset);
        task.state = State::Read;
        let at = self.cache.inode(inode).device_offset + offset;
        self.put_pieces(
            process,
            Op::Read,
            at,
            block,
            Flags { sync: true, idle: true, ..Flags::default() },
        );
        true
    }

    /// One transfer in requests of at most the longest length.
    fn put_pieces(&mut self, process: ProcessIndex, op: Op, at: u64, len: u64, flags: Flags) {
        let most = self.block.max_bytes();
        let mut done = 0;
        while done < len {
            let part = (len - done).min(most);
            self.put(process, Bio::new(op, at + done, part, flags, End::Process(process)));
            done += part;
        }
    }

    pub(super) fn direct_written(&mut self, t: usize) -> bool {
        let (inode, offset) = (self.tasks[t].op.inode, self.tasks[t].op.offset);
        let (begin, end) = pages_of(offset, self.loads[self.tasks[t].load].block);
        let grew = end > self.cache.inode(inode).written;
        self.cache.inode_mut(inode).written = self.cache.inode(inode).written.max(end);
        self.fs_after_write(inode, begin, end, grew);
        self.victim_written(t)
    }

    /// The write call returns; then comes the sync, as a separate call or as part of the write.
    pub(super) fn victim_written(&mut self, t: usize) -> bool {
        let now = self.now;
        let Program::Victim(program) = &self.tasks[t].program else { return false };
        let (sync, direct) = (program.sync, program.direct);
        let extent = match sync {
            SyncMethod::Fsync | SyncMethod::OSync => Extent::Full,
            SyncMethod::Fdatasync | SyncMethod::ODsync => Extent::DataSync,
            SyncMethod::SyncFileRange => Extent::Data,
        };
        let task = &mut self.tasks[t];
        task.op.written = now;
        let load = &mut self.loads[task.load];
        if !sync.is_open_flag() {
            load.meter.record(Kind::Write, now.since(task.op.began));
        }
        let (begin, end) = pages_of(task.op.offset, load.block);
        let job = if direct {
            SyncJob::after_direct(task.op.inode, extent, now)
        } else {
            let whole = matches!(sync, SyncMethod::Fsync | SyncMethod::Fdatasync);
            SyncJob::new(task.op.inode, (begin, end), whole, extent, now)
        };
        task.state = State::Sync(job);
        true
    }

    /// Its data is stable: the operation is over.
    pub(super) fn victim_synced(&mut self, t: usize, job: &SyncJob) -> bool {
        let now = self.now + cost::WAKE;
        let task = &mut self.tasks[t];
        let load = &mut self.loads[task.load];
        let Program::Victim(program) = &task.program else { return false };
        if program.sync.is_open_flag() {
            load.meter.record(Kind::Write, now.since(task.op.began));
        } else {
            load.meter.record(Kind::Sync, now.since(task.op.written));
        }
        #[cfg(test)]
        if let Some(served) = &mut self.served {
            let at = self.cache.inode(task.op.inode).device_offset + task.op.offset;
            served.push((at, load.block, task.op.copied, now));
        }
        load.meter.record(Kind::Commit, now.since(task.op.since));
        load.meter.add_bytes(load.block);
        self.end_operation(t, Some(job));
        true
    }

    /// A read past the page cache is over.
    pub(super) fn read_done(&mut self, t: usize) -> bool {
        let now = self.now + cost::WAKE;
        let task = &mut self.tasks[t];
        let load = &mut self.loads[task.load];
        load.meter.record_read(now.since(task.op.since), now.since(task.op.began));
        load.meter.add_bytes(load.block);
        self.end_operation(t, None);
        true
    }

    /// Counts what an operation cost and goes on to the next.
    pub(super) fn end_operation(&mut self, t: usize, job: Option<&SyncJob>) {
        self.explain_operation(t, job);
        let task = &mut self.tasks[t];
        task.cpu += cost::WAKE;
        task.busy = false;
        task.state = State::Next;
    }

    /// An operation is over: notes the parts of its time if an explainer is there.
    fn explain_operation(&mut self, t: usize, job: Option<&SyncJob>) {
        let Some(explainer) = &mut self.explainer else { return };
        let Some(since) = explainer.since else { return };
        let task = &self.tasks[t];
        let end = self.now + cost::WAKE;
        let times = match job {
            Some(job) if job.waited_for_pages() => job.critical,
            _ => self.processes[task.process.0 as usize].last,
        };
        let began = task.op.since;
        let clipped = |from: Nanos, to: Nanos| to.since(from.max(began));
        let Times { asked, gated, queued, dispatched, done } = times;
        let [_, journal, flush] = job.map_or([Nanos::ZERO; 3], |j| j.waited);
        explainer.operations.push(Explained {
            at: end.since(since),
            latency: end.since(began),
            throttled: task.throttled,
            gate: clipped(asked, gated),
            slot: clipped(gated, queued),
            elevator: clipped(queued, dispatched),
            device: clipped(dispatched, done),
            journal,
            flush,
        });
    }
}
