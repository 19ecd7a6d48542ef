//! A file that is read once from its beginning to its end. Pages that were cached before stay so.

use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, pread, retry_on_intr};

use super::error::CopyError;
use super::resident::{BLOCK, Resident};

/// Bytes that are requested at once, at most. A disk that holds source and destination seeks twice
/// for each batch.
pub(super) const BATCH: u64 = 8 << 20;
/// Bytes that the kernel reads for one fadvise(2). `max_sectors_kb` of a queue is rarely less.
const AHEAD: u64 = 512 << 10;
/// Size from which a file is dropped from the page cache behind the copy.
pub(super) const DROPPED: u64 = 1 << 20;

/// A file being read.
pub(super) struct Source {
    file: Arc<OwnedFd>,
    path: PathBuf,
    size: u64,
    /// `None` for files that stay in the cache.
    resident: Option<Resident>,
}

impl Source {
    pub(super) fn new(file: Arc<OwnedFd>, path: PathBuf, size: u64) -> Self {
        // No reading ahead: the pacer takes reads that are under way while the copy waits for its
        // writes for those of another program. An error is ignored, since this is only advice.
        let _ = fadvise(&file, 0, None, Advice::Random);
        let resident = (size >= DROPPED).then(|| Resident::new(size));
        Self { file, path, size, resident }
    }

    /// Another reader of the same file.
    pub(super) fn again(&self) -> Self {
        Self::new(Arc::clone(&self.file), self.path.clone(), self.size)
    }

    /// The open file.
    pub(super) fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// Its path, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts reading a range that is read next, so that the disk gets requests of full length, and
    /// several at once.
    pub(super) fn ask(&mut self, at: u64, len: u64) {
        let (file, end) = (self.file.as_fd(), at + len);
        // A small file takes one request anyway.
        let Some(resident) = &mut self.resident else { return };
        let blocks = (at / BLOCK..end.div_ceil(BLOCK)).map(|block| block * BLOCK);
        for block in blocks.filter(|block| !resident.was(file, *block)) {
            for ahead in block.max(at) / AHEAD..end.min(block + BLOCK).div_ceil(AHEAD) {
                let _ = fadvise(file, ahead * AHEAD, NonZeroU64::new(AHEAD), Advice::WillNeed);
            }
        }
    }

    /// Bytes that may be read at an offset at once: the rest of its block.
    pub(super) fn chunk(at: u64) -> u64 {
        BLOCK - at % BLOCK
    }

    /// Reads until the buffer is full or the file ends.
    pub(super) fn read_at(&mut self, buffer: &mut [u8], at: u64) -> Result<usize, CopyError> {
        let file = self.file.as_fd();
        let was_cached = self.resident.as_mut().is_none_or(|resident| resident.was(file, at));
        let read = read_full(file, buffer, at).map_err(CopyError::source("read", &self.path))?;
        if !was_cached && read > 0 {
            drop_cached(file, at, read as u64);
        }
        Ok(read)
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Reads until the buffer is full or the file ends.
pub(super) fn read_full(file: BorrowedFd<'_>, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut read = 0;
    while read < buffer.len() {
        match retry_on_intr(|| pread(file, &mut buffer[read..], at + read as u64))? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

/// Drops the clean pages of a range from the page cache. `len` 0 means to the end of the file.
pub(super) fn drop_cached(file: BorrowedFd<'_>, at: u64, len: u64) {
    // An error is ignored, since pages that stay only cost memory.
    let _ = fadvise(file, at, NonZeroU64::new(len), Advice::DontNeed);
}
