//! A processor's ring buffer of events, shared with the kernel (perf_event_open(2), "MMAP layout").
#![allow(unsafe_code, reason = "memory that the kernel writes while we read")]

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::{PERF_RECORD_LOST, PERF_RECORD_SAMPLE, perf_event_mmap_page};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::ProbeError;

/// Bytes of a record's header: `struct perf_event_header`.
const HEADER: u64 = 8;
/// Where a sample's raw data begin with the options of this module: header, process and thread
/// (`PERF_SAMPLE_TID`), time (`PERF_SAMPLE_TIME`), length.
const RAW: u64 = HEADER + 8 + 8 + 4;

/// A mapped ring and the event that it belongs to.
#[derive(Debug)]
pub(crate) struct Ring {
    leader: OwnedFd,
    page: *mut perf_event_mmap_page,
    mapped: usize,
    data: *const u8,
    /// Bytes of data; a power of two.
    size: u64,
}

// SAFETY: the mapping belongs to this value alone, and the kernel does not care which of our
// threads reads it.
unsafe impl Send for Ring {}

/// A record that was read.
pub(super) enum Raw<'a> {
    /// An event's time, process, thread and data.
    Sample { at_ns: u64, pid: u32, tid: u32, data: &'a [u8] },
    /// So many events had no room.
    Lost(u64),
    /// Something else.
    Other,
}

impl Ring {
    /// Maps the ring of an event: `bytes` of data, a power of two and a multiple of the page size.
    pub(super) fn map(leader: OwnedFd, bytes: usize) -> Result<Self, ProbeError> {
        let page_bytes = rustix::param::page_size();
        let mapped = page_bytes + bytes;
        // SAFETY: a new mapping at a place of the kernel's choice, of a descriptor that is open.
        let page = unsafe {
            let flags = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), mapped, flags, MapFlags::SHARED, &leader, 0)
        };
        let page = page.map_err(|e| ProbeError::Ring { bytes, source: e.into() })?;
        Ok(Self {
            leader,
            page: page.cast(),
            mapped,
            // SAFETY: within the mapping, which is one page longer than the data.
            data: unsafe { page.cast::<u8>().add(page_bytes) },
            size: bytes as u64,
        })
    }

    /// The event that others send their records to.
    pub(super) fn leader(&self) -> &OwnedFd {
        &self.leader
    }

    pub(super) fn raw_fd(&self) -> i32 {
        self.leader.as_raw_fd()
    }

    fn counter(&self, field: *mut u64) -> &AtomicU64 {
        // SAFETY: aligned, inside the mapping, and the kernel reads and writes it as one word
        // (tools/include/linux/ring_buffer.h).
        unsafe { AtomicU64::from_ptr(field) }
    }

    /// What there is to read now.
    pub(super) fn cursor(&self) -> Cursor<'_> {
        // SAFETY: fields of the mapped page.
        let (head, tail) =
            unsafe { (&raw mut (*self.page).data_head, &raw mut (*self.page).data_tail) };
        let head = self.counter(head).load(Ordering::Acquire);
        let tail = self.counter(tail).load(Ordering::Relaxed);
        let mut cursor = Cursor { ring: self, tail, head, next_ns: u64::MAX };
        cursor.peek();
        cursor
    }

    /// The aligned word at a position that only ever grows.
    fn word(&self, position: u64) -> u64 {
        let at = (position & (self.size - 1)) as usize;
        // SAFETY: below the size, and aligned: records are multiples of 8 bytes long
        // (kernel/events/ring_buffer.c). Between tail and head the kernel does not write.
        unsafe { self.data.add(at).cast::<u64>().read() }
    }

    /// Bytes at a position; copied into `scratch` if they go round the end.
    fn bytes<'a>(&'a self, position: u64, length: usize, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let at = (position & (self.size - 1)) as usize;
        let first = length.min(self.size as usize - at);
        // SAFETY: inside the data; between tail and head the kernel does not write.
        let begin = unsafe { std::slice::from_raw_parts(self.data.add(at), first) };
        if first == length {
            return begin;
        }
        scratch.clear();
        scratch.extend_from_slice(begin);
        // SAFETY: the rest is at the beginning of the data, and no longer than it.
        scratch.extend_from_slice(unsafe {
            std::slice::from_raw_parts(self.data, (length - first).min(self.size as usize))
        });
        scratch
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this ring's mapping, without any remaining reference.
        let _ = unsafe { munmap(self.page.cast(), self.mapped) };
    }
}

/// Reads one ring up to where it was filled when the reading began. Dropping it gives the space of
/// the read records back to the kernel.
pub(super) struct Cursor<'a> {
    ring: &'a Ring,
    tail: u64,
    head: u64,
    /// Time of the next record; 0 for one that has none, [`u64::MAX`] at the end.
    pub(super) next_ns: u64,
}

impl Cursor<'_> {
    /// `(type, size)` of the next record; `None` at the end, or where the bytes can't be a record.
    fn header(&self) -> Option<(u32, u64)> {
        if self.head.wrapping_sub(self.tail) < HEADER {
            return None;
        }
        let word = self.ring.word(self.tail);
        // struct perf_event_header: type, misc, size.
        #[cfg(target_endian = "little")]
        let (kind, size) = (word as u32, word >> 48);
        #[cfg(target_endian = "big")]
        let (kind, size) = ((word >> 32) as u32, word & 0xffff);
        (size >= HEADER && size <= self.head.wrapping_sub(self.tail)).then_some((kind, size))
    }

    fn peek(&mut self) {
        self.next_ns = match self.header() {
            None => u64::MAX,
            Some((kind, size)) if kind == PERF_RECORD_SAMPLE && size >= RAW => {
                self.ring.word(self.tail + HEADER + 8)
            }
            Some(_) => 0,
        };
    }

    /// The next record, or `None` at the end.
    pub(super) fn read<R>(
        &mut self,
        scratch: &mut Vec<u8>,
        use_it: impl FnOnce(Raw<'_>) -> R,
    ) -> Option<R> {
        let Some((kind, size)) = self.header() else {
            // Nonsense in the ring would be met again and again.
            self.tail = self.head;
            self.next_ns = u64::MAX;
            return None;
        };
        let tail = self.tail;
        let done = if kind == PERF_RECORD_SAMPLE && size >= RAW {
            let who = self.ring.word(tail + HEADER).to_ne_bytes();
            let [a, b, c, d, e, f, g, h] = who;
            let length = self.ring.word(tail + HEADER + 16).to_ne_bytes();
            let length =
                u64::from(u32::from_ne_bytes([length[0], length[1], length[2], length[3]]));
            use_it(Raw::Sample {
                at_ns: self.next_ns,
                pid: u32::from_ne_bytes([a, b, c, d]),
                tid: u32::from_ne_bytes([e, f, g, h]),
                data: self.ring.bytes(tail + RAW, length.min(size - RAW) as usize, scratch),
            })
        } else if kind == PERF_RECORD_LOST && size >= HEADER + 16 {
            use_it(Raw::Lost(self.ring.word(tail + HEADER + 8)))
        } else {
            use_it(Raw::Other)
        };
        self.tail = tail + size;
        self.peek();
        Some(done)
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: a field of the mapped page.
        let tail = unsafe { &raw mut (*self.ring.page).data_tail };
        self.ring.counter(tail).store(self.tail, Ordering::Release);
    }
}
