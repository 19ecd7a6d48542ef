//! State of one copy that all its steps share: options, writeback, the caller's flag, counts.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use floodwall_host::text::number_after;
use rustix::fs::fstat;

use super::error::CopyError;
use super::request::{Options, Progress};
use super::resident::BLOCK;
use super::source::BATCH;
use super::summary::Summary;
use crate::{Pacer, State, Writeback};

/// A step between two batches of a file.
pub(super) type Between<'a> = &'a mut dyn FnMut(&mut Work<'_>) -> Result<(), CopyError>;

/// The stop flag after an interrupt, while steps that take little time are finished.
static GOES_ON: AtomicBool = AtomicBool::new(false);

/// A copy that runs.
pub(super) struct Work<'a> {
    pub(super) options: Options,
    pub(super) summary: Summary,
    /// A block of data between source and copy.
    pub(super) buffer: Vec<u8>,
    pacer: &'a Pacer,
    writeback: Writeback<'a>,
    stop: &'a AtomicBool,
    progress: &'a mut dyn FnMut(Progress<'_>),
    started: Instant,
    totals: Totals,
    bytes_done: u64,
    bytes_moved: u64,
    files_done: u64,
    /// Entries that could not be copied.
    failed: u64,
    first_failure: Option<CopyError>,
}

/// The totals of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    /// `None` if not known.
    pub(super) bytes: Option<u64>,
    pub(super) files: u64,
    /// Whether one file alone is copied: its failure is that of the copy.
    pub(super) is_single: bool,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        options: Options,
        totals: Totals,
        pacer: &'a Pacer,
        progress: &'a mut dyn FnMut(Progress<'_>),
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            options,
            summary: Summary::default(),
            buffer: vec![0; usize::try_from(BLOCK).unwrap_or(1 << 20)],
            pacer,
            writeback: Writeback::new(pacer),
            stop,
            progress,
            started: Instant::now(),
            totals,
            bytes_done: 0,
            bytes_moved: 0,
            files_done: 0,
            failed: 0,
            first_failure: None,
        }
    }

    /// Fails if the caller has raised the stop flag.
    pub(super) fn check(&self) -> Result<(), CopyError> {
        if self.stop.load(Ordering::Relaxed) { Err(CopyError::Interrupted) } else { Ok(()) }
    }

    /// The end of the batch that begins at an offset. A batch is as long as the window, and is read
    /// and written before it is pushed.
    pub(super) fn batch_end(&self, at: u64) -> u64 {
        let batch = self.pacer.window().in_flight.clamp(BLOCK, BATCH);
        (at + batch) / BLOCK * BLOCK
    }

    /// Bytes of one write(2) at most: a piece. Where the page cache has large folios (xfs), a write
    /// makes folios of its own length, and the kernel writes a folio back as a whole.
    pub(super) fn write_len(&self) -> usize {
        usize::try_from(self.pacer.window().piece).unwrap_or(usize::MAX)
    }

    /// Writes a newly written range back, and waits while the window is full.
    pub(super) fn push(
        &mut self,
        file: &Arc<OwnedFd>,
        path: &Path,
        at: u64,
        len: u64,
    ) -> Result<(), CopyError> {
        if len == 0 {
            return Ok(());
        }
        let pushed = self.writeback.push(file, at, len, self.stop);
        unless_stopped(pushed.map_err(CopyError::lost("write back", path))?)
    }

    /// Waits for all pushed ranges.
    pub(super) fn finish_writeback(&mut self, path: &Path) -> Result<(), CopyError> {
        let finished = self.writeback.finish(self.stop);
        unless_stopped(finished.map_err(CopyError::lost("write back", path))?)
    }

    /// Waits for all ranges that were started. From now on the caller's stop flag has no effect.
    pub(super) fn finish_started(&mut self, path: &Path) -> Result<(), CopyError> {
        self.stop = &GOES_ON;
        while self.writeback.wait_for_oldest().map_err(CopyError::lost("write back", path))? {}
        Ok(())
    }

    /// Waits until so many bytes may be read back, as for a write: reads delay others as well.
    pub(super) fn admit(&mut self, bytes: u64, path: &Path) -> Result<(), CopyError> {
        let (has_come, ended) = self.writeback.take_turn(bytes, true, self.stop);
        ended.map_err(CopyError::lost("write back", path))?;
        unless_stopped(has_come)
    }

    /// Runs `read`, which reads `bytes` of a source at most. Where the source is on the paced disk,
    /// the pacer is told beforehand, so that it takes no read for another program's. Afterwards it
    /// is told how many bytes were cached.
    pub(super) fn reading<T>(
        &mut self,
        source: &OwnedFd,
        target: &OwnedFd,
        bytes: u64,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let device = |file: &OwnedFd| fstat(file).map(|stat| stat.st_dev).ok();
        if device(source) != device(target) {
            return read(self);
        }
        let before = disk_reads();
        self.pacer.read(bytes.cast_signed());
        let done = read(self);
        let read = disk_reads().saturating_sub(before);
        self.pacer.read(read.cast_signed() - bytes.cast_signed());
        done
    }

    /// Whether no other program waits for the disk, or none is to be considered.
    pub(super) fn is_alone(&self) -> bool {
        matches!(self.pacer.status().state, State::Alone | State::Fixed)
    }

    /// Bytes pushed, not yet known to be on the disk.
    pub(super) fn under_way(&self) -> u64 {
        self.writeback.under_way()
    }

    /// Counts bytes that were copied or compared.
    pub(super) fn moved(&mut self, bytes: u64, path: &Path) {
        self.bytes_moved += bytes;
        self.passed(bytes, path);
    }

    /// Counts bytes that needed no copying.
    pub(super) fn passed(&mut self, bytes: u64, path: &Path) {
        self.bytes_done += bytes;
        self.report(path);
    }

    /// Counts a finished file.
    pub(super) fn file_done(&mut self, path: &Path) {
        self.files_done += 1;
        self.report(path);
    }

    /// Counts a failure that concerns one entry alone. Any other one is returned.
    pub(super) fn unless_of_one_entry(
        &mut self,
        done: Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        match done {
            Err(error) if error.is_of_one_entry() => {
                self.failed += 1;
                if !self.totals.is_single {
                    self.tell(Path::new(""), Some(&error));
                }
                self.first_failure.get_or_insert(error);
                Ok(())
            }
            other => other,
        }
    }

    fn report(&mut self, path: &Path) {
        self.tell(path, None);
    }

    fn tell(&mut self, path: &Path, failure: Option<&CopyError>) {
        (self.progress)(Progress {
            bytes_done: self.bytes_done,
            // Files may have grown since they were counted.
            bytes_total: self.totals.bytes.map(|total| total.max(self.bytes_done)),
            bytes_moved: self.bytes_moved,
            files_done: self.files_done,
            files_total: self.totals.files.max(self.files_done),
            path,
            elapsed: self.started.elapsed(),
            failure,
        });
    }

    /// The summary, once all data is on the disk. Fails if entries could not be copied.
    pub(super) fn into_summary(self) -> Result<Summary, CopyError> {
        let summary = Summary { elapsed: self.started.elapsed(), ..self.summary };
        match self.first_failure {
            None => Ok(summary),
            Some(first) if self.totals.is_single => Err(first),
            Some(first) => Err(CopyError::Partly {
                failed: self.failed,
                first: Box::new(first),
                summary: Box::new(summary),
            }),
        }
    }
}

/// Bytes that this thread had disks read so far (`read_bytes` of /proc/thread-self/io); 0 if the
/// kernel does not tell.
fn disk_reads() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
    number_after(&text, "read_bytes").unwrap_or(0)
}

fn unless_stopped(goes_on: bool) -> Result<(), CopyError> {
    if goes_on { Ok(()) } else { Err(CopyError::Interrupted) }
}
