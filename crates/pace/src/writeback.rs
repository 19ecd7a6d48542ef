//! Writeback of files in small pieces: each is started early and waited for.
//!
//! A piece is a part of a large file, or several small files. A disk that seeks takes files that
//! were made one after the other in one go, but only if they are started together.

use std::collections::VecDeque;
use std::mem;
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
    /// Dirty ranges that are shorter than a piece together. The next range may continue the last.
    pending: Vec<Range>,
    pending_bytes: u64,
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
        Self {
            pacer,
            pending: Vec::new(),
            pending_bytes: 0,
            started: VecDeque::new(),
            under_way: 0,
            most,
        }
    }

    /// Bytes started and not yet waited for, and those of the incomplete piece.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        self.under_way + self.pending_bytes
    }

    /// Writes a newly dirtied range of a file back. Ranges are joined to pieces. Waits for the
    /// oldest ranges while more than the window is under way.
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
        let (mut offset, end) = (offset, offset + len);
        while offset < end {
            let piece = self.pacer.window().piece;
            let len = piece.saturating_sub(self.pending_bytes).min(end - offset);
            self.add(file, offset, len);
            offset += len;
            let is_full = self.pending_bytes >= piece || self.pending.len() >= self.most / 2;
            if is_full && !self.start(stop)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Starts the incomplete piece and waits for all pieces. Returns false if `stop` was raised.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(&mut self, stop: &AtomicBool) -> Result<bool, Errno> {
        if !self.start(stop)? {
            return Ok(false);
        }
        while self.wait_for_oldest()? {}
        Ok(true)
    }

    /// Waits for the turn of a piece of so many bytes, and for an idle disk if the law says so and
    /// `waits_for_idle`. Meanwhile it waits for started ranges: a silence lasts until the law has
    /// seen them end.
    ///
    /// Returns false if `stop` was raised, and an error of these ranges as [`Self::push`] does.
    pub(crate) fn take_turn(
        &mut self,
        bytes: u64,
        waits_for_idle: bool,
        stop: &AtomicBool,
    ) -> (bool, Result<(), Errno>) {
        let (pacer, mut all) = (self.pacer, Ok(()));
        let has_come = pacer.take_turn(bytes, waits_for_idle, stop, || {
            self.wait_for_oldest().unwrap_or_else(|error| {
                all = Err(error);
                true
            })
        });
        (has_come, all)
    }

    /// Adds a range to the incomplete piece.
    fn add(&mut self, file: &Arc<OwnedFd>, offset: u64, len: u64) {
        self.pending_bytes += len;
        match self.pending.last_mut() {
            Some(last) if Arc::ptr_eq(&last.file, file) && last.offset + last.len == offset => {
                last.len += len;
            }
            _ if len > 0 => self.pending.push(Range { file: Arc::clone(file), offset, len }),
            _ => {}
        }
    }

    /// Starts the incomplete piece, if there is one.
    fn start(&mut self, stop: &AtomicBool) -> Result<bool, Errno> {
        let (ranges, bytes) = (mem::take(&mut self.pending), mem::take(&mut self.pending_bytes));
        if ranges.is_empty() {
            return Ok(true);
        }
        // An error concerns one range. The others are started all the same.
        let mut all = Ok(());
        while self.started.len() + ranges.len() > self.most
            || self.under_way + bytes > self.pacer.window().under_way
        {
            match self.wait_for_oldest() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => all = Err(error),
            }
        }
        let (has_come, ended) = self.take_turn(bytes, true, stop);
        all = all.and(ended);
        if !has_come {
            return all.map(|()| false);
        }
        self.pacer.start(bytes);
        self.under_way += bytes;
        let begin = Instant::now();
        for range in ranges {
            all = all.and(range.sync(RangeSync::Start));
            self.started.push_back((range, begin));
        }
        all.map(|()| true)
    }

    /// Waits for the oldest range. Returns false if no range is under way.
    pub(crate) fn wait_for_oldest(&mut self) -> Result<bool, Errno> {
        let Some((oldest, begin)) = self.started.pop_front() else { return Ok(false) };
        let waited = oldest.sync(RangeSync::Wait);
        self.under_way -= oldest.len;
        self.pacer.end(oldest.len, Some(begin.elapsed()));
        waited.map(|()| true)
    }
}

impl Drop for Writeback<'_> {
    fn drop(&mut self) {
        // The pacer no longer counts them as under way.
        for (range, begin) in &self.started {
            self.pacer.end(range.len, Some(begin.elapsed()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use floodwall_host::SysRoot;

    use super::*;
    use crate::law::Goal;

    const SMALL: u64 = 16 << 10;
    static GOES_ON: AtomicBool = AtomicBool::new(false);

    /// A pacer of the disk below a directory.
    fn pacer(directory: &tempfile::TempDir) -> Pacer {
        let root = SysRoot::live().unwrap();
        Pacer::open(&root, directory.path(), Goal::default(), None).unwrap()
    }

    fn file_of(len: u64) -> Arc<OwnedFd> {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![1; len as usize], 0).unwrap();
        Arc::new(file.into())
    }

    #[test]
    fn small_files_are_started_together() {
        let directory = tempfile::tempdir().unwrap();
        let pacer = pacer(&directory);
        let piece = pacer.window().piece;
        let mut writeback = Writeback::new(&pacer);
        writeback.most = usize::try_from(2 * piece / SMALL).unwrap();
        let in_piece = usize::try_from(piece / SMALL).unwrap();
        for count in 1..in_piece {
            assert!(writeback.push(&file_of(SMALL), 0, SMALL, &GOES_ON).unwrap());
            assert_eq!((writeback.pending.len(), writeback.started.len()), (count, 0));
            assert_eq!(writeback.under_way(), count as u64 * SMALL);
        }
        // The last one is longer than the rest of the piece.
        let last = file_of(2 * SMALL);
        assert!(writeback.push(&last, 0, 2 * SMALL, &GOES_ON).unwrap());
        assert_eq!((writeback.pending.len(), writeback.started.len()), (1, in_piece));
        let begins: Vec<_> = writeback.started.iter().map(|(_, begin)| *begin).collect();
        assert!(begins.windows(2).all(|pair| pair[0] == pair[1]), "one piece");
        assert!(writeback.finish(&GOES_ON).unwrap());
        assert_eq!(writeback.under_way(), 0);
    }

    #[test]
    fn a_large_file_is_started_in_pieces_and_contiguous_ranges_are_joined() {
        let directory = tempfile::tempdir().unwrap();
        let pacer = pacer(&directory);
        let piece = pacer.window().piece;
        let mut writeback = Writeback::new(&pacer);
        let file = file_of(3 * piece);
        for offset in (0..3 * piece).step_by(SMALL as usize) {
            assert!(writeback.push(&file, offset, SMALL, &GOES_ON).unwrap());
            assert!(writeback.pending.len() <= 1);
        }
        assert!(writeback.pending.is_empty());
        assert!(writeback.started.iter().all(|(range, _)| range.len == piece));
        assert!(writeback.finish(&GOES_ON).unwrap());
    }

    #[test]
    fn ended_ranges_are_seen_before_the_next_turn() {
        let directory = tempfile::tempdir().unwrap();
        let root = SysRoot::live().unwrap();
        // A piece takes more than a second of this rate.
        let goal = Goal::Rate(f64::from(100 << 10));
        let pacer = Pacer::open(&root, directory.path(), goal, None).unwrap();
        let piece = pacer.window().piece;
        assert!(pacer.window().under_way >= 2 * piece);
        let mut writeback = Writeback::new(&pacer);
        assert!(writeback.push(&file_of(2 * piece), 0, 2 * piece, &GOES_ON).unwrap());
        assert_eq!(writeback.started.len(), 1);
    }

    #[test]
    fn few_open_files_make_short_pieces() {
        let directory = tempfile::tempdir().unwrap();
        let pacer = pacer(&directory);
        let mut writeback = Writeback::new(&pacer);
        for (most, pending) in [(1, 0), (4, 1)] {
            writeback.most = most;
            for _ in 0..3 {
                assert!(writeback.push(&file_of(SMALL), 0, SMALL, &GOES_ON).unwrap());
                assert!(writeback.started.len() <= most);
            }
            assert_eq!(writeback.pending.len(), pending);
            assert!(writeback.finish(&GOES_ON).unwrap());
        }
    }

    #[test]
    fn an_error_of_one_range_leaves_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let pacer = pacer(&directory);
        let mut writeback = Writeback::new(&pacer);
        let (_reader, pipe) = std::io::pipe().unwrap();
        assert!(writeback.push(&Arc::new(pipe.into()), 0, SMALL, &GOES_ON).unwrap());
        assert!(writeback.push(&file_of(SMALL), 0, SMALL, &GOES_ON).unwrap());
        assert_eq!(writeback.start(&GOES_ON), Err(Errno::SPIPE));
        assert_eq!(writeback.started.len(), 2);
        assert_eq!(writeback.finish(&GOES_ON), Err(Errno::SPIPE));
        assert!(writeback.finish(&GOES_ON).unwrap());
        assert_eq!(writeback.under_way(), 0);
    }
}
