//! The data of one file: read without its holes, written, and written back early.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::ftruncate;
use rustix::io::{Errno, pwrite, retry_on_intr};

use super::behind::Behind;
use super::error::CopyError;
use super::holes::{self, Segment, next_segment};
use super::source::{DROPPED, Source};
use super::work::{Between, Work};

/// Copies a file's data from `at` up to `size`, and returns the offset of its end. That is below
/// `size` if a read found the end of a source that was shortened meanwhile. Calls `between` after
/// each batch.
pub(super) fn copy(
    work: &mut Work<'_>,
    source: &mut Source,
    (target, path): (&Arc<OwnedFd>, &Path),
    mut at: u64,
    size: u64,
    between: Between<'_>,
) -> Result<u64, CopyError> {
    let mut behind = Behind::new(at);
    let mut ends_in_hole = false;
    let mut segment = Segment { end: at, is_data: false };
    while at < size {
        // Not for each batch: tmpfs looks at every page up to the next hole.
        if at >= segment.end {
            segment = next_segment(source.as_fd(), at, size);
            // Where the copy can't have a hole, it is read as zeros.
            segment.is_data = segment.is_data || !holes::can_have(target.as_fd());
        }
        if !segment.is_data {
            ends_in_hole = true;
            work.summary.hole_bytes += segment.end - at;
            work.passed(segment.end - at, source.path());
            at = segment.end;
            continue;
        }
        let (start, end) = (at, segment.end.min(work.batch_end(at)));
        let file = Arc::clone(source.file());
        let (ended, is_at_end) = work.reading(&file, target, end - start, |work| {
            batch(work, source, target, path, start, end)
        })?;
        at = ended;
        // Nothing is read at the end of a source that was shortened.
        ends_in_hole &= at == start;
        // Not before the whole batch is read: the pacer takes reads that are under way while the
        // copy waits for its writes for those of another program.
        work.push(target, path, start, at - start)?;
        if size >= DROPPED {
            behind.pushed(target.as_fd(), at, at - start, work.under_way());
        }
        between(work)?;
        if is_at_end {
            break;
        }
    }
    if ends_in_hole {
        ftruncate(target, at).map_err(CopyError::io("set the size of", path))?;
    }
    Ok(at)
}

/// Reads and writes a range, and returns where it ended and whether the source did.
fn batch(
    work: &mut Work<'_>,
    source: &mut Source,
    target: &Arc<OwnedFd>,
    path: &Path,
    mut at: u64,
    end: u64,
) -> Result<(u64, bool), CopyError> {
    source.ask(at, end - at);
    while at < end {
        work.check()?;
        let len = usize::try_from(Source::chunk(at).min(end - at)).unwrap_or(0);
        let read = source.read_at(&mut work.buffer[..len], at)?;
        write_all(target.as_fd(), &work.buffer[..read], at, work.write_len())
            .map_err(CopyError::io("write", path))?;
        at += read as u64;
        work.summary.bytes += read as u64;
        work.moved(read as u64, source.path());
        if read < len {
            return Ok((at, true));
        }
    }
    Ok((at, false))
}

fn write_all(file: BorrowedFd<'_>, mut data: &[u8], mut at: u64, most: usize) -> Result<(), Errno> {
    while !data.is_empty() {
        let next = &data[..data.len().min(most)];
        let written = match retry_on_intr(|| pwrite(file, next, at))? {
            0 => return Err(Errno::IO),
            written => written,
        };
        data = &data[written..];
        at += written as u64;
    }
    Ok(())
}
