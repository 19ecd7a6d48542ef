//! Page frames: 4 KiB pieces of memory, or of a file once memory is used up.
//!
//! ```text
//! Frame ─┬─ HOLE            a page of zeros, costs nothing
//!        ├─ block · slot    memory, in blocks of 2 MiB, given back when their last frame is free
//!        └─ spilled slot    4 KiB of the spill file
//! ```
//!
//! The limit counts frames in memory. Sizes are bytes unless they are called pages.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::pages::PAGE;

/// Frames in a block: 2 MiB, so that memory is asked for and given back in pieces that the kernel
/// likes.
const BLOCK_FRAMES: u32 = 512;
/// Marks a frame in the spill file.
const SPILLED: u32 = 1 << 31;

/// Why contents could not be kept or read.
#[derive(Debug)]
pub(crate) enum StoreError {
    /// The memory limit is reached and there is no spill file.
    Full,
    /// The spill file can't be read or written.
    Spill(std::io::Error),
}

/// Where a page's contents are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame(u32);

impl Frame {
    /// A page of zeros.
    pub(crate) const HOLE: Self = Self(0);

    pub(crate) const fn is_hole(self) -> bool {
        self.0 == 0
    }

    const fn is_spilled(self) -> bool {
        self.0 & SPILLED != 0
    }

    /// Block and slot of a frame in memory.
    const fn place(self) -> (usize, usize) {
        let n = self.0 - 1;
        ((n / BLOCK_FRAMES) as usize, (n % BLOCK_FRAMES) as usize)
    }
}

struct Block {
    bytes: Box<[u8]>,
    /// One bit a frame, set while it is free.
    free: [u64; BLOCK_FRAMES as usize / 64],
    used: u32,
}

impl Block {
    fn new() -> Self {
        Self {
            bytes: vec![0; BLOCK_FRAMES as usize * PAGE].into_boxed_slice(),
            free: [u64::MAX; BLOCK_FRAMES as usize / 64],
            used: 0,
        }
    }

    fn take(&mut self) -> Option<u32> {
        let (word, bits) = self.free.iter_mut().enumerate().find(|(_, bits)| **bits != 0)?;
        let bit = bits.trailing_zeros();
        *bits &= *bits - 1;
        self.used += 1;
        Some(word as u32 * 64 + bit)
    }

    fn put_back(&mut self, slot: usize) {
        self.free[slot / 64] |= 1 << (slot % 64);
        self.used -= 1;
    }
}

/// What to do when memory is used up.
#[derive(Debug)]
pub(crate) enum Beyond {
    /// The write fails with `ENOSPC`.
    NoSpace,
    /// Pages go to this file.
    Spill(File),
}

/// All frames of a device.
pub(crate) struct Frames {
    blocks: Vec<Option<Block>>,
    /// Blocks with free frames.
    partial: BTreeSet<usize>,
    /// Numbers of blocks that were given back.
    vacant: Vec<usize>,
    in_memory: u64,
    limit: u64,
    spill: Option<File>,
    /// Spilled slots that are free again, and the first that was never used.
    spill_free: Vec<u32>,
    spill_end: u32,
}

impl Frames {
    pub(crate) fn new(limit_pages: u64, beyond: Beyond) -> Self {
        Self {
            blocks: Vec::new(),
            partial: BTreeSet::new(),
            vacant: Vec::new(),
            in_memory: 0,
            limit: limit_pages,
            spill: match beyond {
                Beyond::NoSpace => None,
                Beyond::Spill(file) => Some(file),
            },
            spill_free: Vec::new(),
            spill_end: 0,
        }
    }

    /// Frames in memory that are in use.
    pub(crate) fn in_memory(&self) -> u64 {
        self.in_memory
    }

    /// Frames in the spill file that are in use.
    pub(crate) fn spilled(&self) -> u64 {
        u64::from(self.spill_end) - self.spill_free.len() as u64
    }

    /// A frame in memory with undefined contents; `None` when the limit is reached.
    fn take_memory(&mut self) -> Option<Frame> {
        if self.in_memory >= self.limit {
            return None;
        }
        let number = match self.partial.first() {
            Some(number) => *number,
            None => {
                let number = self.vacant.pop().unwrap_or_else(|| {
                    self.blocks.push(None);
                    self.blocks.len() - 1
                });
                self.blocks[number] = Some(Block::new());
                self.partial.insert(number);
                number
            }
        };
        let block = self.blocks[number].as_mut()?;
        let slot = block.take()?;
        if block.used == BLOCK_FRAMES {
            self.partial.remove(&number);
        }
        self.in_memory += 1;
        Some(Frame(number as u32 * BLOCK_FRAMES + slot + 1))
    }

    /// Puts a page into a new frame, in memory if there is room, else in the spill file.
    ///
    /// # Errors
    /// [`StoreError::Full`] without room and spill file; [`StoreError::Spill`] if that can't be
    /// written.
    pub(crate) fn store(&mut self, page: &[u8]) -> Result<Frame, StoreError> {
        if let Some(frame) = self.take_memory() {
            let (block, slot) = frame.place();
            if let Some(block) = &mut self.blocks[block] {
                block.bytes[slot * PAGE..][..PAGE].copy_from_slice(page);
            }
            return Ok(frame);
        }
        let Some(file) = &self.spill else { return Err(StoreError::Full) };
        let slot = self.spill_free.pop().unwrap_or_else(|| {
            self.spill_end += 1;
            self.spill_end - 1
        });
        if let Err(e) = file.write_all_at(page, u64::from(slot) * PAGE as u64) {
            self.spill_free.push(slot);
            return Err(StoreError::Spill(e));
        }
        Ok(Frame(slot | SPILLED))
    }

    /// Overwrites part of a frame that is not a hole.
    pub(crate) fn patch(
        &mut self,
        frame: Frame,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        if frame.is_spilled() {
            let Some(file) = &self.spill else { return Ok(()) };
            let offset = u64::from(frame.0 & !SPILLED) * PAGE as u64 + at as u64;
            return file.write_all_at(bytes, offset).map_err(StoreError::Spill);
        }
        let (block, slot) = frame.place();
        if let Some(block) = &mut self.blocks[block] {
            block.bytes[slot * PAGE + at..][..bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Copies part of a frame; a hole reads as zeros.
    pub(crate) fn copy(&self, frame: Frame, at: usize, out: &mut [u8]) -> Result<(), StoreError> {
        if frame.is_spilled() {
            let Some(file) = &self.spill else { return Ok(()) };
            let offset = u64::from(frame.0 & !SPILLED) * PAGE as u64 + at as u64;
            return file.read_exact_at(out, offset).map_err(StoreError::Spill);
        }
        match self.memory(frame) {
            Some(page) => out.copy_from_slice(&page[at..][..out.len()]),
            None => out.fill(0),
        }
        Ok(())
    }

    /// The contents of a frame in memory; `None` for holes and spilled frames.
    fn memory(&self, frame: Frame) -> Option<&[u8]> {
        self.run(frame, 1)
    }

    /// The contents of `pages` frames that follow each other in memory, beginning with this one;
    /// `None` unless all are in one block.
    pub(crate) fn run(&self, first: Frame, pages: usize) -> Option<&[u8]> {
        if first.is_hole() || first.is_spilled() {
            return None;
        }
        let (block, slot) = first.place();
        self.blocks.get(block)?.as_ref()?.bytes.get(slot * PAGE..(slot + pages) * PAGE)
    }

    /// Whether `next` lies right behind `frame` in memory.
    pub(crate) fn adjacent(frame: Frame, next: Frame) -> bool {
        !frame.is_hole() && !frame.is_spilled() && frame.0 + 1 == next.0
    }

    /// Gives a frame back. Returns whether that made room in memory.
    pub(crate) fn free(&mut self, frame: Frame) -> bool {
        if frame.is_hole() {
            return false;
        }
        if frame.is_spilled() {
            self.spill_free.push(frame.0 & !SPILLED);
            return false;
        }
        let (number, slot) = frame.place();
        let Some(block) = &mut self.blocks[number] else { return false };
        block.put_back(slot);
        self.in_memory -= 1;
        // One block is kept while empty, so that a page rewritten at a boundary does not map and
        // unmap 2 MiB each time.
        let others = self.partial.len() - usize::from(self.partial.contains(&number));
        if block.used == 0 && others > 0 {
            self.blocks[number] = None;
            self.partial.remove(&number);
            self.vacant.push(number);
        } else {
            self.partial.insert(number);
        }
        true
    }
}
