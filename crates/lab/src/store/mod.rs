//! The contents of a lab device: a sparse map of 4 KiB pages that reads back exactly.
//!
//! ```text
//! write ─▶ zero? ─ yes ─▶ hole (free)
//!             └─ no ──▶ frame in memory ─ full ─▶ spill file, or ENOSPC
//! the frame it replaces ─▶ free, or kept in the undo log
//!                          while a power cut could still take the write
//! ```
//!
//! Pages that hold only zeros are not stored, whether they were never written, written as zeros or
//! discarded. The memory limit counts the frames of contents and undo log; the map itself adds 2
//! KiB for every 2 MiB of the device that holds anything.
//!
//! **Undo log.** A write that a volatile cache holds may be lost with the power, and then the page
//! must show what it held before. A write with a version keeps the frame it replaces, without
//! copying it. [`Store::forget_below`] drops frames of stable writes, [`Store::roll_back`] undoes
//! lost writes. When memory is used up the oldest entries are dropped first. Their writes then
//! survive a power cut in which a real device might have lost them. That does not harm programs
//! that rely on fsync, and it is counted.

mod frames;
mod pages;
mod undo;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub(crate) use frames::{Beyond, StoreError};
use frames::{Frame, Frames};
use pages::{PAGE, SECTOR, pieces, sectors};
pub(crate) use undo::Gone;
use undo::Undo;

/// Pages in a leaf of the map: 2 MiB of the device.
const LEAF_PAGES: usize = 512;
/// What holes read as; as long as the longest read (1 MiB). As an array it would be a megabyte of
/// zeros in the binary.
static ZEROS: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; 1 << 20].into());

/// What a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Memory of contents and undo log.
    pub(crate) memory_bytes: u64,
    /// Bytes in the spill file.
    pub(crate) spilled_bytes: u64,
    /// Pages kept for a power cut.
    pub(crate) undo_bytes: u64,
    /// Undo entries dropped for want of memory.
    pub(crate) undo_dropped: u64,
}

/// See the [module](self).
pub(crate) struct Store {
    map: BTreeMap<u64, Box<[Frame; LEAF_PAGES]>>,
    frames: Frames,
    undo: Undo,
}

impl Store {
    /// A device of zeros that may use `memory_bytes`.
    pub(crate) fn new(memory_bytes: u64, beyond: Beyond) -> Self {
        // Now: a read of a hole may have to make room in memory.
        LazyLock::force(&ZEROS);
        Self {
            map: BTreeMap::new(),
            frames: Frames::new(memory_bytes / PAGE as u64, beyond),
            undo: Undo::default(),
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            memory_bytes: self.frames.in_memory() * PAGE as u64,
            spilled_bytes: self.frames.spilled() * PAGE as u64,
            undo_bytes: self.undo.pages() * PAGE as u64,
            undo_dropped: self.undo.dropped(),
        }
    }

    fn frame(&self, page: u64) -> Frame {
        let leaf = self.map.get(&(page / LEAF_PAGES as u64));
        leaf.map_or(Frame::HOLE, |leaf| leaf[(page % LEAF_PAGES as u64) as usize])
    }

    /// Puts a frame into the map and returns the one it replaces.
    fn replace(&mut self, page: u64, frame: Frame) -> Frame {
        let number = page / LEAF_PAGES as u64;
        if frame.is_hole() && !self.map.contains_key(&number) {
            return Frame::HOLE;
        }
        let leaf = self.map.entry(number).or_insert_with(|| Box::new([Frame::HOLE; LEAF_PAGES]));
        std::mem::replace(&mut leaf[(page % LEAF_PAGES as u64) as usize], frame)
    }

    /// Writes `data`. With a version, the replaced frame is kept until [`Self::forget_below`] a
    /// higher one.
    ///
    /// # Errors
    /// When a page finds no room; the pages before it are written then.
    pub(crate) fn write(
        &mut self,
        offset: u64,
        data: &[u8],
        version: Option<u64>,
    ) -> Result<(), StoreError> {
        for (page, at, range) in pieces(offset, data.len() as u64) {
            self.write_page(page, at, &data[range], version)?;
        }
        Ok(())
    }

    fn write_page(
        &mut self,
        page: u64,
        at: usize,
        bytes: &[u8],
        version: Option<u64>,
    ) -> Result<(), StoreError> {
        let old = self.frame(page);
        if bytes.len() == PAGE {
            if is_zero(bytes) {
                self.settle(page, Frame::HOLE, version, 0, PAGE);
                return Ok(());
            }
            if version.is_none() && !old.is_hole() {
                return self.frames.patch(old, 0, bytes);
            }
            let new = self.make_room_and_store(bytes)?;
            self.settle(page, new, version, 0, PAGE);
            return Ok(());
        }
        if old.is_hole() && is_zero(bytes) {
            return Ok(());
        }
        if version.is_none() && !old.is_hole() {
            return self.frames.patch(old, at, bytes);
        }
        let mut whole = [0; PAGE];
        self.frames.copy(old, 0, &mut whole)?;
        whole[at..at + bytes.len()].copy_from_slice(bytes);
        let new = self.make_room_and_store(&whole)?;
        self.settle(page, new, version, at, bytes.len());
        Ok(())
    }

    /// Puts a page's new frame in place; the old one goes to the undo log or is freed.
    fn settle(&mut self, page: u64, new: Frame, version: Option<u64>, at: usize, len: usize) {
        let old = self.replace(page, new);
        match version {
            Some(version) => self.undo.push(version, page, sectors(at, len), old),
            None => {
                self.frames.free(old);
            }
        }
    }

    fn make_room_and_store(&mut self, page: &[u8]) -> Result<Frame, StoreError> {
        loop {
            match self.frames.store(page) {
                Err(StoreError::Full) => {
                    if !self.undo.drop_oldest(&mut self.frames) {
                        return Err(StoreError::Full);
                    }
                }
                other => return other,
            }
        }
    }

    /// Writes zeros; the replaced frames are kept as by [`Self::write`].
    ///
    /// # Errors
    /// As [`Self::write`] (the pages at both ends may be written in part).
    pub(crate) fn zero(
        &mut self,
        offset: u64,
        len: u64,
        version: Option<u64>,
    ) -> Result<(), StoreError> {
        let (first, last) = (offset / PAGE as u64, (offset + len).div_ceil(PAGE as u64));
        let mut page = first;
        while page < last {
            // A leaf that is not there needs no visit: a device may be terabytes of zeros.
            let number = page / LEAF_PAGES as u64;
            if !self.map.contains_key(&number) {
                let next =
                    self.map.range(number..).next().map_or(last, |(n, _)| n * LEAF_PAGES as u64);
                page = next.max(page + 1);
                continue;
            }
            let (from, to) =
                (offset.max(page * PAGE as u64), (offset + len).min((page + 1) * PAGE as u64));
            let at = (from % PAGE as u64) as usize;
            if !self.frame(page).is_hole() {
                self.write_page(page, at, &ZEROS[..(to - from) as usize], version)?;
            }
            page += 1;
        }
        Ok(())
    }

    /// Forgets whole pages; they read as zeros. Nothing is kept: discarded data are lost.
    ///
    /// # Errors
    /// Zeroing the pages at both ends that are covered in part can fail as a write can.
    pub(crate) fn discard(&mut self, offset: u64, len: u64) -> Result<(), StoreError> {
        self.zero(offset, len, None)?;
        let leaves = offset.div_ceil((LEAF_PAGES * PAGE) as u64)
            ..(offset + len) / (LEAF_PAGES * PAGE) as u64;
        if !leaves.is_empty() {
            let empty: Vec<u64> = self.map.range(leaves).map(|(n, _)| *n).collect();
            for number in empty {
                self.map.remove(&number);
            }
        }
        Ok(())
    }

    /// Fills `out` from `offset` on.
    ///
    /// # Errors
    /// [`StoreError::Spill`].
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), StoreError> {
        for (page, at, range) in pieces(offset, out.len() as u64) {
            self.frames.copy(self.frame(page), at, &mut out[range])?;
        }
        Ok(())
    }

    /// The contents of a range without copying them, where they happen to lie in one piece of
    /// memory (or are all zeros).
    pub(crate) fn slice(&self, offset: u64, len: usize) -> Option<&[u8]> {
        if len == 0 {
            return Some(&[]);
        }
        let first = offset / PAGE as u64;
        let pages = ((offset + len as u64).div_ceil(PAGE as u64) - first) as usize;
        let start = self.frame(first);
        let mut last = start;
        for page in first + 1..first + pages as u64 {
            let next = self.frame(page);
            let follows =
                if start.is_hole() { next.is_hole() } else { Frames::adjacent(last, next) };
            if !follows {
                return None;
            }
            last = next;
        }
        if start.is_hole() {
            return ZEROS.get(..len);
        }
        self.frames.run(start, pages)?.get((offset % PAGE as u64) as usize..)?.get(..len)
    }

    /// Writes below this version have become stable: the frames that they replaced are no longer
    /// needed.
    pub(crate) fn forget_below(&mut self, version: u64) {
        self.undo.forget_below(version, &mut self.frames);
    }

    /// Undoes the writes that a power cut took, sector by sector, and forgets the rest. Returns how
    /// many bytes changed back.
    ///
    /// # Errors
    /// When a page that comes back in part finds no room, or the spill file can't be read.
    pub(crate) fn roll_back(&mut self, gone: &Gone) -> Result<u64, StoreError> {
        let mut undone = 0;
        let mut settled = BTreeMap::new();
        while let Some(entry) = self.undo.pop_newest() {
            let settled: &mut u8 = settled.entry(entry.page).or_default();
            let lost = gone.sectors(entry.page, entry.version) & entry.sectors & !*settled;
            *settled |= entry.sectors & !lost;
            undone += u64::from(lost.count_ones()) * SECTOR as u64;
            if lost == u8::MAX {
                let new = self.replace(entry.page, entry.old);
                self.frames.free(new);
                continue;
            }
            for sector in (0..8).filter(|s| lost & (1 << s) != 0) {
                let mut bytes = [0; SECTOR];
                self.frames.copy(entry.old, sector * SECTOR, &mut bytes)?;
                self.write_page(entry.page, sector * SECTOR, &bytes, None)?;
            }
            self.frames.free(entry.old);
        }
        Ok(undone)
    }
}

/// Whether all bytes are zero. Looks at 64 bytes at a time, which compiles to vector instructions,
/// and stops at the first that are not.
fn is_zero(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<64>();
    blocks.iter().all(|b| b.iter().fold(0, |acc, x| acc | x) == 0) && rest.iter().all(|b| *b == 0)
}

#[cfg(test)]
mod tests;
