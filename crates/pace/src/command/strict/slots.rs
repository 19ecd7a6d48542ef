//! Calls that were received and not answered, in memory that the keeper reads as well.
//!
//! The kernel writes a received call straight into its slot. So the keeper knows it, at whatever
//! moment this process is killed.
#![expect(unsafe_code, reason = "memory that two processes share")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{Errno, pread};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::kernel::{Notification, receive};

/// Calls at once, at most. More wait in the kernel until a slot is free.
pub(super) const SLOTS: usize = 512;
/// Bytes of a slot.
const SLOT: usize = size_of::<Notification>();

/// The slots of the process that receives calls.
#[derive(Debug)]
pub(super) struct Slots {
    file: OwnedFd,
    memory: NonNull<Notification>,
}

// SAFETY: the memory is shared with the kernel and with another process in any case. A slot is
// written by the one thread that receives calls, and by nobody else.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

impl Slots {
    pub(super) fn new() -> Result<Self, Errno> {
        let file = memfd_create("fw-pace-calls", MemfdFlags::CLOEXEC)?;
        let bytes = SLOTS * SLOT;
        ftruncate(&file, bytes as u64)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses the address, so this replaces no other memory.
        let memory = unsafe { mmap(null_mut(), bytes, protection, flags, &file, 0) }?;
        let memory = NonNull::new(memory.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { file, memory })
    }

    /// The memory as a file, for the keeper.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Receives a call into a free slot.
    ///
    /// # Errors
    /// As [`receive`].
    pub(super) fn receive(
        &self,
        slot: usize,
        listener: BorrowedFd<'_>,
    ) -> Result<Notification, Errno> {
        let received = receive(listener, self.at(slot));
        let call = *self.at(slot);
        received.map(|()| call)
    }

    /// Marks a slot as free.
    pub(super) fn free(&self, slot: usize) {
        *self.at(slot) = Notification::NONE;
    }

    #[expect(clippy::mut_from_ref, reason = "the receiving thread alone uses slots")]
    fn at(&self, slot: usize) -> &mut Notification {
        assert!(slot < SLOTS, "slot {slot}");
        // SAFETY: the slot is inside of the mapping, which lives as long as this. Only the thread
        // that receives calls comes here, and it keeps no reference beyond a statement.
        unsafe { self.memory.add(slot).as_mut() }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: the mapping is this long, and no reference into it is left.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), SLOTS * SLOT) };
    }
}

/// The numbers of the calls in all slots, by the file of another process.
pub(super) fn ids(file: BorrowedFd<'_>) -> Vec<u64> {
    let mut bytes = vec![0; SLOTS * SLOT];
    let read = pread(file, &mut bytes[..], 0).unwrap_or(0);
    let id = |slot: &[u8]| {
        let id = slot.get(..8).and_then(|id| id.try_into().ok()).map(u64::from_ne_bytes);
        // A free slot has no process.
        let has_process = slot.get(8..12).is_some_and(|pid| pid != [0; 4]);
        id.filter(|_| has_process)
    };
    bytes[..read].chunks_exact(SLOT).filter_map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_reads_the_calls_in_slots() {
        let slots = Slots::new().unwrap();
        assert!(ids(slots.file()).is_empty());
        for (slot, id) in [(0, u64::MAX - 1), (7, 0), (SLOTS - 1, 5)] {
            let mut call = Notification::NONE;
            (call.call.id, call.call.pid) = (id, 4711);
            *slots.at(slot) = call;
        }
        assert_eq!(ids(slots.file()), [u64::MAX - 1, 0, 5]);
        slots.free(7);
        assert_eq!(ids(slots.file()), [u64::MAX - 1, 5]);
    }
}
