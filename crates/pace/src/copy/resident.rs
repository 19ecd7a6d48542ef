//! The parts of a file that were in the page cache before they are read, by mincore(2).
//!
//! The kernel tells this to users that own the file or may write to it. For others every page
//! counts as cached, so no page is dropped.
#![expect(unsafe_code, reason = "a mapping, which is never dereferenced")]

use std::os::fd::BorrowedFd;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

/// Length of a part of a file that is dropped or kept as a whole.
pub(super) const BLOCK: u64 = 1 << 20;
/// Length that is looked up at once. The kernel reads ahead less.
const WINDOW: u64 = 128 << 20;

/// The page cache's content as it was before this process read there.
pub(super) struct Resident {
    size: u64,
    /// Two windows at most: their numbers, and which of their blocks were cached.
    known: Vec<(u64, Vec<bool>)>,
}

impl Resident {
    /// For a file with this size.
    pub(super) fn new(size: u64) -> Self {
        Self { size, known: Vec::new() }
    }

    /// Whether any page of a block was cached. Offsets must ascend from call to call.
    pub(super) fn was(&mut self, file: BorrowedFd<'_>, at: u64) -> bool {
        let window = at / WINDOW;
        self.known.retain(|(number, _)| *number >= window);
        // Reading ahead crosses into the next window, which is therefore looked up as well.
        for number in [window, window + 1] {
            if self.known.iter().all(|(known, _)| *known != number) {
                self.known.push((number, blocks(file, number * WINDOW, self.size)));
            }
        }
        let block = usize::try_from(at % WINDOW / BLOCK).unwrap_or(usize::MAX);
        let blocks = self.known.iter().find(|(number, _)| *number == window);
        blocks.and_then(|(_, blocks)| blocks.get(block)).copied().unwrap_or(true)
    }
}

/// The blocks of the window at an offset that have a page in the cache; all if that is unknown.
fn blocks(file: BorrowedFd<'_>, offset: u64, size: u64) -> Vec<bool> {
    let Ok(len) = usize::try_from(WINDOW.min(size.saturating_sub(offset))) else {
        return Vec::new();
    };
    if len == 0 {
        return Vec::new();
    }
    let mut pages = vec![1u8; len.div_ceil(page_size())];
    // SAFETY: a new mapping at an address of the kernel's choice, which nothing refers to.
    let mapped =
        unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, offset) };
    if let Ok(base) = mapped {
        // SAFETY: the range is mapped, and the vector has a byte for each of its pages.
        if unsafe { libc::mincore(base, len, pages.as_mut_ptr()) } != 0 {
            pages.fill(1);
        }
        // SAFETY: the mapping made above. It fails only for arguments that are no mapping.
        let _ = unsafe { munmap(base, len) };
    }
    let per_block = usize::try_from(BLOCK).unwrap_or(1 << 20) / page_size();
    pages.chunks(per_block.max(1)).map(|block| block.iter().any(|page| page & 1 != 0)).collect()
}
