//! Operations that the kernel works on after the call that begins them has returned, and the memory
//! that they use.
//!
//! ```text
//! read, write ─ push ─▶ Ring ─ wait ─▶ kernel ─▶ next: a completion
//!   ─▶ the slot's buffers may be used again
//! ```
//!
//! What keeps memory and kernel apart: [`Flight`] owns the buffers. It gives out those of idle
//! slots alone, and counts each entry from its push to its completion. Dropped, in a panic too, it
//! waits until nothing is in flight. If the ring itself fails, the buffers are leaked.
#![expect(
    unsafe_code,
    reason = "the kernel reads and writes buffers after the call that names them has returned"
)]

use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use floodwall_model::scenario::SyncMethod;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use rustix::io::Errno;

use crate::buffer::{AlignedBuf, Blocks};
use crate::sys::RangeSync;

/// One entry of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Reads `len` bytes at `offset` into a buffer.
    Read { fd: RawFd, buffer: *mut u8, len: u32, offset: u64 },
    /// Writes `len` bytes from a buffer at `offset`.
    Write { fd: RawFd, buffer: *const u8, len: u32, offset: u64 },
    /// Makes `len` bytes at `offset` stable.
    Sync { fd: RawFd, sync: SyncMethod, len: u32, offset: u64 },
}

/// Where entries go in and completions come out: io_uring, or what stands in for it in tests.
pub(crate) trait Ring {
    /// Queues an entry. One that is linked to its successor ends before that begins.
    ///
    /// # Safety
    /// The entry's buffer must be valid, and not used otherwise, until [`Self::next`] has returned
    /// its tag, or the ring is dropped without a wait.
    unsafe fn push(&mut self, step: Step, tag: u64, is_linked: bool) -> Result<(), Errno>;

    /// Submits the queued entries.
    fn submit(&mut self) -> Result<(), Errno>;

    /// Submits the queued entries and waits for a completion, not longer than `timeout`. Fails if
    /// the ring does.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Errno>;

    /// A completion that has arrived: its tag and what the operation returned.
    fn next(&mut self) -> Option<(u64, i32)>;
}

/// A ring of the kernel's.
pub(crate) struct Kernel(IoUring);

impl Kernel {
    /// A ring for as many operations, each a write and its sync.
    pub(crate) fn new(depth: u32) -> std::io::Result<Self> {
        let entries = depth.saturating_mul(2);
        // One thread submits and reaps, and completions are handled when it asks for them (kernel
        // 6.1); an older kernel has the plain ring.
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
        ring.or_else(|_| IoUring::new(entries)).map(Self)
    }
}

impl Ring for Kernel {
    unsafe fn push(&mut self, step: Step, tag: u64, is_linked: bool) -> Result<(), Errno> {
        let entry = match step {
            Step::Read { fd, buffer, len, offset } => {
                Some(opcode::Read::new(Fd(fd), buffer, len).offset(offset).build())
            }
            Step::Write { fd, buffer, len, offset } => {
                Some(opcode::Write::new(Fd(fd), buffer, len).offset(offset).build())
            }
            Step::Sync { fd, sync, len, offset } => sync_entry(sync, Fd(fd), offset, len),
        };
        let flags = if is_linked { Flags::IO_LINK } else { Flags::empty() };
        let entry = entry.ok_or(Errno::INVAL)?.user_data(tag).flags(flags);
        // SAFETY: the caller keeps the buffer until the completion. A full queue takes nothing.
        unsafe { self.0.submission().push(&entry) }.map_err(|_| Errno::NOBUFS)
    }

    fn submit(&mut self) -> Result<(), Errno> {
        match self.0.submit().map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO)) {
            // What could not go in goes in with the next wait.
            Ok(_) | Err(Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Errno> {
        let waited = match timeout {
            Some(timeout) if self.0.params().is_feature_ext_arg() => {
                let timeout = Timespec::from(timeout);
                self.0.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
            _ => self.0.submit_and_wait(1),
        };
        match waited.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO)) {
            // Time is up, a signal came, or completions must be reaped first.
            Ok(_) | Err(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    fn next(&mut self) -> Option<(u64, i32)> {
        self.0.completion().next().map(|entry| (entry.user_data(), entry.result()))
    }
}

/// The sync after a write as a ring entry; `None` if the write itself makes the data stable.
fn sync_entry(sync: SyncMethod, fd: Fd, offset: u64, len: u32) -> Option<Entry> {
    match sync {
        SyncMethod::Fsync => Some(opcode::Fsync::new(fd).build()),
        SyncMethod::Fdatasync => Some(opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build()),
        SyncMethod::SyncFileRange => Some(
            opcode::SyncFileRange::new(fd, len)
                .offset(offset)
                .flags(RangeSync::Wait.flags())
                .build(),
        ),
        SyncMethod::ODsync | SyncMethod::OSync => None,
    }
}

/// The memory of one operation at a time.
pub(crate) struct Buffers {
    /// The blocks that it writes.
    pub(crate) blocks: Blocks,
    /// The buffer that it reads into.
    pub(crate) read: AlignedBuf,
}

struct Slot {
    buffers: Buffers,
    /// Completions still to come.
    pending: u8,
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) slot: usize,
    /// Of the sync after a write.
    pub(crate) is_sync: bool,
    /// Bytes, or a negative error number.
    pub(crate) outcome: i32,
    /// Whether it was the slot's last.
    pub(crate) is_last: bool,
}

/// A ring with the memory of its entries.
pub(crate) struct Flight<R: Ring> {
    ring: R,
    slots: Vec<Slot>,
    /// Completions still to come, over all slots.
    pending: usize,
}

impl<R: Ring> Flight<R> {
    /// A slot for each of `buffers`; the ring must have room for two entries a slot.
    pub(crate) fn new(ring: R, buffers: impl IntoIterator<Item = Buffers>) -> Self {
        let slots = buffers.into_iter().map(|buffers| Slot { buffers, pending: 0 }).collect();
        Self { ring, slots, pending: 0 }
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The memory of an idle slot; `None` while the kernel uses it.
    pub(crate) fn buffers(&mut self, slot: usize) -> Option<&mut Buffers> {
        self.slots.get_mut(slot).filter(|slot| slot.pending == 0).map(|slot| &mut slot.buffers)
    }

    /// Begins to read `len` bytes. Fails if the slot is in use or its buffer is shorter.
    pub(crate) fn read(
        &mut self,
        slot: usize,
        fd: BorrowedFd<'_>,
        len: u32,
        offset: u64,
    ) -> Result<(), Errno> {
        let bytes = self.buffers(slot).ok_or(Errno::BUSY)?.read.bytes_mut();
        if bytes.len() < len as usize {
            return Err(Errno::INVAL);
        }
        let step = Step::Read { fd: fd.as_raw_fd(), buffer: bytes.as_mut_ptr(), len, offset };
        self.push(slot, step, false)
    }

    /// Begins to write a block of `len` bytes and, after it, its sync. Fails if the slot is in use
    /// or the slot's blocks are shorter.
    pub(crate) fn write(
        &mut self,
        slot: usize,
        fd: BorrowedFd<'_>,
        len: u32,
        offset: u64,
        sync: SyncMethod,
    ) -> Result<(), Errno> {
        let fd = fd.as_raw_fd();
        let bytes = self.buffers(slot).ok_or(Errno::BUSY)?.blocks.next(len as usize);
        if bytes.len() < len as usize {
            return Err(Errno::INVAL);
        }
        let write = Step::Write { fd, buffer: bytes.as_ptr(), len, offset };
        let is_synced = !sync.is_open_flag();
        self.push(slot, write, is_synced)?;
        if is_synced {
            self.push(slot, Step::Sync { fd, sync, len, offset }, false)
        } else {
            Ok(())
        }
    }

    /// Begins to make a file stable.
    pub(crate) fn sync(
        &mut self,
        slot: usize,
        fd: BorrowedFd<'_>,
        sync: SyncMethod,
    ) -> Result<(), Errno> {
        self.buffers(slot).ok_or(Errno::BUSY)?;
        self.push(slot, Step::Sync { fd: fd.as_raw_fd(), sync, len: 0, offset: 0 }, false)
    }

    /// Submits the begun operations.
    pub(crate) fn submit(&mut self) -> Result<(), Errno> {
        self.ring.submit()
    }

    fn push(&mut self, index: usize, step: Step, is_linked: bool) -> Result<(), Errno> {
        let slot = self.slots.get_mut(index).ok_or(Errno::INVAL)?;
        let tag = (index as u64) << 1 | u64::from(matches!(step, Step::Sync { .. }));
        // SAFETY: the entry points into a heap buffer of `slot`. `buffers` gives it out again only
        // when the slot has no completion to come, and `drop` frees it only then. If `drop` can't
        // wait for that, it leaks the slots.
        unsafe { self.ring.push(step, tag, is_linked)? };
        slot.pending += 1;
        self.pending += 1;
        Ok(())
    }

    /// Submits the begun operations and waits for a completion, not longer than `timeout`. Fails if
    /// the ring does.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Errno> {
        self.ring.wait(timeout)
    }

    /// A completion that has arrived.
    pub(crate) fn next(&mut self) -> Option<Done> {
        let (tag, outcome) = self.ring.next()?;
        let index = (tag >> 1) as usize;
        let slot = self.slots.get_mut(index)?;
        slot.pending = slot.pending.saturating_sub(1);
        self.pending = self.pending.saturating_sub(1);
        Some(Done { slot: index, is_sync: tag & 1 == 1, outcome, is_last: slot.pending == 0 })
    }
}

impl<R: Ring> Drop for Flight<R> {
    fn drop(&mut self) {
        while self.pending > 0 {
            if self.wait(None).is_err() {
                // The kernel may still use the memory, and no completion will tell when it has
                // ended.
                mem::forget(mem::take(&mut self.slots));
                return;
            }
            while self.next().is_some() {}
        }
    }
}

#[cfg(test)]
mod tests;
