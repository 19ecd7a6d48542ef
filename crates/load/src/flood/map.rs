//! Dirtying pages through a shared memory mapping.
#![expect(unsafe_code, reason = "a mapping is memory that the borrow checker knows nothing of")]

use std::ptr;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::buffer::ALIGN;
use crate::error::LoadError;
use crate::file::NamedFile;

/// A file mapped shared and writable, from its beginning.
pub(crate) struct Mapping<'f> {
    file: &'f NamedFile,
    base: *mut u8,
    len: usize,
    /// Whether the kernel has MADV_POPULATE_WRITE (5.14).
    populate: bool,
}

impl<'f> Mapping<'f> {
    /// Maps the first `len` bytes of a file that is at least as long.
    pub(crate) fn new(file: &'f NamedFile, len: u64) -> Result<Self, LoadError> {
        let len = len as usize;
        // SAFETY: the kernel chooses the place, so no memory of this process is replaced.
        let base = unsafe {
            mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file.fd,
                0,
            )
        };
        let base = base.map_err(|e| file.failed("map", e))?.cast();
        Ok(Self { file, base, len, populate: true })
    }

    /// Copies a block into the mapping, which dirties its pages.
    ///
    /// A page that can't be read or allocated raises SIGBUS when it is touched. The file is fully
    /// written, so on most filesystems that takes a failing device; where a rewrite allocates
    /// (btrfs) it takes a full disk too. So the pages are made present and writable first by
    /// madvise(2), which returns an error instead. (A page that is written back and write-protected
    /// again between the two calls is faulted in by the copy; its block is reserved by then.)
    pub(crate) fn write(&mut self, block: &[u8], offset: u64) -> Result<(), LoadError> {
        let offset = offset as usize;
        let end = offset.checked_add(block.len()).filter(|end| *end <= self.len);
        let Some(end) = end else {
            return Err(self.file.failed("write past the mapping of", Errno::INVAL));
        };
        if self.populate {
            let from = offset / ALIGN * ALIGN;
            loop {
                // SAFETY: the range lies in the mapping (its end is rounded up to the page by the
                // kernel), and the advice changes no content.
                let result = unsafe {
                    madvise(self.base.add(from).cast(), end - from, Advice::LinuxPopulateWrite)
                };
                match result {
                    Ok(()) => break,
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Err(Errno::INVAL) => {
                        self.populate = false;
                        break;
                    }
                    // The kernel's word for what would have been SIGBUS (mm/gup.c, faultin_page).
                    Err(Errno::FAULT) => {
                        return Err(self.file.failed("dirty a page of", Errno::IO));
                    }
                    Err(e) => return Err(self.file.failed("dirty a page of", e)),
                }
            }
        }
        // SAFETY: `offset..end` lies in the mapping, which is writable and lives as long as `self`;
        // `block` is memory of ours and can't overlap it. No reference into the mapping is ever
        // made, so another process that changes the file breaks no rule of ours.
        unsafe { ptr::copy_nonoverlapping(block.as_ptr(), self.base.add(offset), block.len()) };
        Ok(())
    }
}

impl Drop for Mapping<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new` with this length, and nothing points into it any more.
        let _ = unsafe { munmap(self.base.cast(), self.len) };
    }
}
