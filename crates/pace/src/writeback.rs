//! Writeback of files in small pieces: each is started early and waited for.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use floodwall_load::{RangeSync, sync_file_range};
use rustix::io::Errno;

use crate::descriptors;
use crate::pacer::Pacer;

/// Ranges that are started at once, at most. Each keeps its file open.
const RANGES: usize = 128;

/// A range of a file.
#[derive(Debug)]
struct Range {
    file: Arc<OwnedFd>,
    offset: u64,
    len: u64,
}

impl Range {
    fn sync(&self, what: RangeSync) -> Result<(), Errno> {
        sync_file_range(self.file.as_fd(), self.offset, self.len, what)
    }
}

/// Starts pieces of files and waits for them, within the pacer's window.
///
/// The kernel writes pieces that were started and not waited for, so dropping this loses no data.
#[derive(Debug)]
pub struct Writeback<'a> {
    pacer: &'a Pacer,
    /// A dirty range shorter than a piece. The next range may continue it.
    pending: Option<Range>,
    started: VecDeque<(Range, Instant)>,
    under_way: u64,
    /// [`RANGES`], as far as this process may open files.
    most: usize,
}

impl<'a> Writeback<'a> {
    /// With nothing under way.
    #[must_use]
    pub fn new(pacer: &'a Pacer) -> Self {
        let most = descriptors::at_most(RANGES);
        Self { pacer, pending: None, started: VecDeque::new(), under_way: 0, most }
    }

    /// Bytes started and not yet waited for, and those of the incomplete piece.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        self.under_way + self.pending.as_ref().map_or(0, |range| range.len)
    }

    /// Writes a newly dirtied range of a file back. Contiguous ranges are joined to pieces. Waits
    /// for the oldest pieces while more than the window is under way.
    ///
    /// Returns false if `stop` was raised.
    ///
    /// # Errors
    /// The kernel's answer to sync_file_range(2): an I/O error, or a file that can't be synced
    /// (ESPIPE).
    pub fn push(
        &mut self,
        file: &Arc<OwnedFd>,
        offset: u64,
        len: u64,
        stop: &AtomicBool,
    ) -> Result<bool, Errno> {
        let mut range = Range { file: Arc::clone(file), offset, len };
        if let Some(before) = self.pending.take() {
            let end = before.offset + before.len;
            if Arc::ptr_eq(&before.file, file) && end == offset {
                (range.offset, range.len) = (before.offset, before.len + len);
            } else if !self.start(before, stop)? {
                return Ok(false);
            }
        }
        loop {
            let piece = self.pacer.window().piece;
            if range.len < piece {
                break;
            }
            let first = Range { file: Arc::clone(file), offset: range.offset, len: piece };
            (range.offset, range.len) = (range.offset + piece, range.len - piece);
            if !self.start(first, stop)? {
                return Ok(false);
            }
        }
        self.pending = (range.len > 0).then_some(range);
        Ok(true)
    }

    /// Starts the incomplete piece and waits for all pieces. Returns false if `stop` was raised.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(&mut self, stop: &AtomicBool) -> Result<bool, Errno> {
        if let Some(last) = self.pending.take()
            && !self.start(last, stop)?
        {
            return Ok(false);
        }
        while self.wait_for_oldest()? {}
        Ok(true)
    }

    fn start(&mut self, range: Range, stop: &AtomicBool) -> Result<bool, Errno> {
        while self.started.len() >= self.most
            || self.under_way + range.len > self.pacer.window().under_way
        {
            if !self.wait_for_oldest()? {
                break;
            }
        }
        if !self.pacer.admit(range.len, stop) {
            return Ok(false);
        }
        self.pacer.start(range.len);
        self.under_way += range.len;
        let begin = Instant::now();
        let started = range.sync(RangeSync::Start);
        self.started.push_back((range, begin));
        started.map(|()| true)
    }

    /// Waits for the oldest piece. Returns false if no piece is under way.
    pub(crate) fn wait_for_oldest(&mut self) -> Result<bool, Errno> {
        let Some((oldest, begin)) = self.started.pop_front() else { return Ok(false) };
        let waited = oldest.sync(RangeSync::Wait);
        self.under_way -= oldest.len;
        self.pacer.end(oldest.len, begin.elapsed());
        waited.map(|()| true)
    }
}

impl Drop for Writeback<'_> {
    fn drop(&mut self) {
        // The pacer no longer counts them as under way.
        for (range, begin) in &self.started {
            self.pacer.end(range.len, begin.elapsed());
        }
    }
}
