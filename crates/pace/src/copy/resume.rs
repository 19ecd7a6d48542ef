//! Decides which part files are continued, and which finished files are not copied again.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{AtFlags, OFlags, Stat, StatxFlags, fsync, ftruncate, statx};

use super::error::CopyError;
use super::folder::Place;
use super::part::Part;
use super::resident::BLOCK;
use super::source::{Source, drop_cached};
use super::verify::first_difference;
use super::work::Work;

/// Bytes of a part file that are compared before it is continued. The largest window is smaller,
/// and only its data may be missing after a power failure.
const COMPARED: u64 = 128 << 20;

/// The offset at which a part file goes on, after cutting it there; 0 if it is begun anew.
pub(super) fn continued(
    work: &mut Work<'_>,
    source: &mut Source,
    stat: &Stat,
    part: &Part,
) -> Result<u64, CopyError> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let found = statx(part.file(), c"", AtFlags::EMPTY_PATH, wanted)
        .map_err(CopyError::io("look at", part.path()))?;
    let has_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    let born = if has_birth { found.stx_btime } else { found.stx_mtime };
    let is_newer = modified(stat) > (born.tv_sec, i64::from(born.tv_nsec));
    if is_newer || found.stx_size > size(stat) {
        return Ok(0);
    }
    let at = found.stx_size / BLOCK * BLOCK;
    // The page cache keeps data that the disk refused. A sync tells of that, if no process was told
    // before, and dropped pages are read from the disk again.
    if at == 0 || fsync(part.file()).is_err() {
        return Ok(0);
    }
    drop_cached(part.file().as_fd(), 0, 0);
    if differs(work, source, part.file(), part.path(), at, COMPARED)? {
        return Ok(0);
    }
    ftruncate(part.file(), at).map_err(CopyError::io("set the size of", part.path()))?;
    Ok(at)
}

/// Whether a finished file needs no copying: it has the source's size and last block, and is not
/// older.
pub(super) fn is_complete(
    work: &mut Work<'_>,
    source: &mut Source,
    stat: &Stat,
    existing: &Stat,
    to: &Place,
) -> Result<bool, CopyError> {
    if size(existing) != size(stat) || modified(existing) < modified(stat) {
        return Ok(false);
    }
    let Ok(file) = to.open(OFlags::RDONLY) else { return Ok(false) };
    Ok(!differs(work, source, &Arc::new(file), to.path(), size(stat), BLOCK)?)
}

/// Whether the last `compared` bytes before `end` differ.
fn differs(
    work: &mut Work<'_>,
    source: &mut Source,
    target: &Arc<OwnedFd>,
    path: PathBuf,
    end: u64,
    compared: u64,
) -> Result<bool, CopyError> {
    // A second reader of the file, since `source` is read from its beginning later.
    let mut source = source.again();
    let mut target = Source::new(Arc::clone(target), path.clone(), end);
    let each = &mut |bytes| work.admit(bytes, &path);
    let start = end.saturating_sub(compared);
    first_difference(&mut source, &mut target, start, end, each).map(|found| found.is_some())
}

fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Seconds and nanoseconds.
fn modified(stat: &Stat) -> (i64, i64) {
    (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0))
}
