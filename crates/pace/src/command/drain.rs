//! The thread that writes ranges back, at idle I/O priority.
//!
//! sync_file_range(2) submits the writeback in the context of its caller. An elevator that honours
//! priorities therefore sees the priority of this thread.
//!
//! No signal ends that call. If the disk does not answer, the thread is left behind. It therefore
//! owns all that it uses. The kernel ends a process with its last thread, so the parent of this
//! process waits for the disk all the same.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_load::{RangeSync, sync_file_range};
use rustix::fs::fstat;

use super::dense::{Part, dirty_parts};
use super::range::{Range, Span};
use super::sys::{be_idle, dirty_bytes};
use crate::pacer::Pacer;
use crate::writeback::Writeback;

/// The time that an incomplete piece waits for the range that continues it.
const PATIENCE: Duration = Duration::from_millis(5);
/// A piece that takes so long was dirty. A clean one takes some microseconds.
const DIRTY: Duration = Duration::from_micros(100);
/// The wait for ranges that wait for admission, and then for pieces that the disk has.
const LAST: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default)]
struct Counts {
    /// Ranges that were handed over and are not finished.
    waiting: usize,
    /// Bytes that were started, or found clean.
    dealt: u64,
    /// Bytes among them that are not written yet.
    under_way: u64,
    /// Bytes of the command among them, by the `st_dev` of their files: those that were started,
    /// and appended ones.
    by_filesystem: BTreeMap<u64, u64>,
}

impl Counts {
    /// Counts bytes of the command, by the `st_dev` of their file.
    fn deal(&mut self, filesystem: u64, bytes: u64) {
        self.dealt += bytes;
        *self.by_filesystem.entry(filesystem).or_default() += bytes;
    }
}

/// The state of the thread, and its counts.
#[derive(Debug, Default)]
pub(super) struct Drain {
    counts: Mutex<Counts>,
    command_has_ended: AtomicBool,
    /// Waiting ranges are left to the kernel.
    closing: AtomicBool,
    stop: AtomicBool,
}

impl Drain {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a range that is handed over.
    pub(super) fn announce(&self) {
        self.counts().waiting += 1;
    }

    /// Ranges that are not finished.
    pub(super) fn waiting(&self) -> usize {
        self.counts().waiting
    }

    /// Whether all ranges are written.
    pub(super) fn is_idle(&self) -> bool {
        let counts = self.counts();
        counts.waiting == 0 && counts.under_way == 0
    }

    /// Bytes that were written, by this thread or before it reached them.
    pub(super) fn written(&self) -> u64 {
        let counts = self.counts();
        counts.dealt.saturating_sub(counts.under_way)
    }

    /// Bytes of the command that were started, or that it had written itself, by the `st_dev` of
    /// their files.
    pub(super) fn by_filesystem(&self) -> BTreeMap<u64, u64> {
        self.counts().by_filesystem.clone()
    }

    /// Takes note of the command's end.
    pub(super) fn command_ended(&self) {
        self.command_has_ended.store(true, Ordering::Relaxed);
    }

    /// Starts no more ranges.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Starts the thread. It ends after the sender of the ranges, and then closes the channel that
    /// this returns.
    pub(super) fn spawn(
        self: &Arc<Self>,
        pacer: &Arc<Pacer>,
        ranges: Receiver<Range>,
    ) -> io::Result<Receiver<()>> {
        let (drain, pacer) = (Arc::clone(self), Arc::clone(pacer));
        let (running, ended) = channel();
        let writes = move || {
            let _running = running;
            drain.run(&ranges, &pacer);
        };
        thread::Builder::new().name("fw-pace-drain".into()).spawn(writes).map(|_| ended)
    }

    /// Waits for the end of the thread. Returns false if the disk does not answer.
    pub(super) fn ends(&self, ended: &Receiver<()>) -> bool {
        let has_ended = || ended.recv_timeout(LAST) == Err(RecvTimeoutError::Disconnected);
        if has_ended() {
            return true;
        }
        // This ends a wait for admission.
        self.stop.store(true, Ordering::Relaxed);
        has_ended()
    }

    /// Writes ranges back until the channel is closed.
    fn run(&self, ranges: &Receiver<Range>, pacer: &Pacer) {
        be_idle();
        let page = rustix::param::page_size() as u64;
        let mut writeback = Writeback::new(pacer);
        loop {
            let range = match ranges.try_recv() {
                Ok(range) => range,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    // A piece that failed is not dirty any more.
                    if writeback.wait_for_oldest().unwrap_or(true) {
                        self.counts().under_way = writeback.under_way();
                        continue;
                    }
                    match self.next(ranges, &mut writeback) {
                        Some(range) => range,
                        None => break,
                    }
                }
            };
            if !self.closing.load(Ordering::Relaxed) {
                self.write(&mut writeback, &range, pacer, page);
            }
            let mut counts = self.counts();
            counts.under_way = writeback.under_way();
            counts.waiting = counts.waiting.saturating_sub(1);
        }
        self.finish(&mut writeback);
    }

    /// The next range, while at most an incomplete piece is under way.
    fn next(&self, ranges: &Receiver<Range>, writeback: &mut Writeback<'_>) -> Option<Range> {
        if writeback.under_way() > 0 {
            match ranges.recv_timeout(PATIENCE) {
                Ok(range) => return Some(range),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.finish(writeback),
            }
        }
        ranges.recv().ok()
    }

    fn finish(&self, writeback: &mut Writeback<'_>) {
        // An error concerns one piece. The command's own fsync reports it as well.
        while writeback.finish(&self.stop).is_err() {}
        self.counts().under_way = writeback.under_way();
    }

    fn write(&self, writeback: &mut Writeback<'_>, range: &Range, pacer: &Pacer, page: u64) {
        let fd = range.file.as_fd();
        let Ok(stat) = fstat(fd) else { return };
        let size = stat.st_size.max(0).cast_unsigned();
        let (from, to) = match range.span {
            Span::Grown { from, to } => (from, to.min(size)),
            Span::Dirty { to } => (0, to.min(size)),
        };
        let kernel_tells = dirty_bytes(fd, from, page, page).is_some();
        let has_grown = matches!(range.span, Span::Grown { .. });
        if !has_grown && !kernel_tells {
            self.write_by_time(fd, to, writeback, pacer);
            return;
        }
        let piece = pacer.window().piece;
        let mut started = 0;
        let mut dirty = |part: Part| dirty_bytes(fd, part.offset, part.len, page);
        let whole = dirty_parts(from, to, page, &mut dirty, &mut |part| {
            let end = part.offset + part.len;
            let mut offset = part.offset;
            while offset < end {
                let len = piece.min(end - offset);
                if !matches!(writeback.push(&range.file, offset, len, &self.stop), Ok(true)) {
                    return false;
                }
                (offset, started) = (offset + len, started + len);
                let mut counts = self.counts();
                counts.deal(stat.st_dev, len);
                counts.under_way = writeback.under_way();
            }
            !self.closing.load(Ordering::Relaxed)
        });
        if whole && has_grown {
            let written = to.saturating_sub(from).saturating_sub(started);
            self.count_written(stat.st_dev, written, writeback, pacer);
        }
    }

    /// Counts appended bytes that had been written before: by direct I/O, by the command's fsync,
    /// or by the kernel. They have used the disk as well, so they wait for admission. After the
    /// command's end nothing would be gained by that.
    fn count_written(
        &self,
        filesystem: u64,
        bytes: u64,
        writeback: &mut Writeback<'_>,
        pacer: &Pacer,
    ) {
        let mut left = bytes;
        while left > 0 {
            if self.command_has_ended.load(Ordering::Relaxed)
                || self.closing.load(Ordering::Relaxed)
            {
                self.counts().deal(filesystem, left);
                return;
            }
            let len = pacer.window().piece.min(left);
            // A piece that failed is not dirty any more. The disk has taken these bytes already, so
            // they need not wait until it is idle.
            if !writeback.take_turn(len, false, &self.stop).0 {
                return;
            }
            pacer.start(len);
            pacer.end(len, None);
            let mut counts = self.counts();
            counts.deal(filesystem, len);
            counts.under_way = writeback.under_way();
            drop(counts);
            left -= len;
        }
    }

    /// Writes a file back up to an offset, where the kernel does not tell which pages are dirty.
    /// The time of each piece tells whether it was: only then the next waits for admission.
    fn write_by_time(
        &self,
        file: BorrowedFd<'_>,
        to: u64,
        writeback: &mut Writeback<'_>,
        pacer: &Pacer,
    ) {
        let mut offset = 0;
        while offset < to && !self.closing.load(Ordering::Relaxed) {
            let len = pacer.window().piece.min(to - offset);
            let begin = Instant::now();
            // An error concerns one piece.
            let _ = sync_file_range(file, offset, len, RangeSync::Wait);
            let took = begin.elapsed();
            self.counts().dealt += len;
            if took >= DIRTY {
                pacer.start(len);
                pacer.end(len, Some(took));
                if !writeback.take_turn(len, true, &self.stop).0 {
                    return;
                }
                self.counts().under_way = writeback.under_way();
            }
            offset += len;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use floodwall_host::SysRoot;
    use floodwall_testing::until;

    use super::*;
    use crate::law::Goal;

    fn file_of(len: u64) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().write_all_at(&vec![1; len as usize], 0).unwrap();
        file
    }

    #[test]
    fn a_file_is_written_in_pieces_where_the_kernel_does_not_tell() {
        const LEN: u64 = 20 << 20;
        let file = file_of(LEN);
        let directory = file.path().parent().unwrap();
        let root = SysRoot::live().unwrap();
        let pacer = Pacer::open(&root, directory, Goal::Rate(1e12), None).unwrap();
        let drain = Drain::default();
        drain.write_by_time(file.as_file().as_fd(), LEN, &mut Writeback::new(&pacer), &pacer);
        assert_eq!(drain.written(), LEN);
        let page = rustix::param::page_size() as u64;
        let is_tmpfs = pacer.disk().is_none();
        let dirty = dirty_bytes(file.as_file().as_fd(), 0, LEN, page).unwrap_or(0);
        assert!(is_tmpfs || dirty == 0, "{dirty}");
        drain.close();
        drain.write_by_time(file.as_file().as_fd(), LEN, &mut Writeback::new(&pacer), &pacer);
        assert_eq!(drain.written(), LEN, "what comes after the end is left alone");
    }

    #[test]
    fn what_was_appended_counts_once_it_is_written() {
        const LEN: u64 = 3 << 20;
        let file = file_of(LEN);
        let directory = file.path().parent().unwrap();
        let root = SysRoot::live().unwrap();
        let pacer = Arc::new(Pacer::open(&root, directory, Goal::default(), None).unwrap());
        let file = Arc::new(File::open(file.path()).unwrap().into());
        let drain = Arc::new(Drain::default());
        let (sender, ranges) = channel();
        let send = |span| {
            drain.announce();
            assert!(!drain.is_idle());
            sender.send(Range { file: Arc::clone(&file), span }).unwrap();
        };
        send(Span::Grown { from: 0, to: LEN - 5 });
        assert_eq!((drain.waiting(), drain.written()), (1, 0));
        let ended = drain.spawn(&pacer, ranges).unwrap();
        let idle = || until(Duration::from_secs(60), "all is written", || drain.is_idle());
        idle().unwrap();
        assert_eq!(drain.written(), LEN - 5);
        // It was written, and nothing dirtied it since.
        send(Span::Dirty { to: LEN / 3 });
        idle().unwrap();
        // The file is shorter than it was.
        send(Span::Grown { from: LEN * 2, to: LEN * 3 });
        idle().unwrap();
        drain.close();
        send(Span::Grown { from: 0, to: LEN });
        idle().unwrap();
        assert!(drain.written() < LEN * 2, "what comes after the end is left alone");
        drop(sender);
        assert!(drain.ends(&ended));
    }

    #[test]
    fn a_range_that_waits_for_admission_is_given_up_at_the_end() {
        let file = file_of(2 << 20);
        let root = SysRoot::live().unwrap();
        let directory = file.path().parent().unwrap();
        let pacer = Arc::new(Pacer::open(&root, directory, Goal::Rate(1.0), None).unwrap());
        let drain = Arc::new(Drain::default());
        let (sender, ranges) = channel();
        drain.announce();
        let file = Arc::new(File::open(file.path()).unwrap().into());
        sender.send(Range { file, span: Span::Grown { from: 0, to: 2 << 20 } }).unwrap();
        let ended = drain.spawn(&pacer, ranges).unwrap();
        drop(sender);
        assert!(drain.ends(&ended));
    }

    #[test]
    fn a_thread_that_does_not_end_is_left_behind() {
        let drain = Drain::default();
        let (running, ended) = channel();
        let begin = Instant::now();
        assert!(!drain.ends(&ended) && begin.elapsed() < LAST * 3);
        drop(running);
        assert!(drain.ends(&ended));
    }
}
