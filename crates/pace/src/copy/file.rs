//! One file's copy, from opening the source to the name of the copy.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{self as rfs, FileType, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::error::CopyError;
use super::folder::{FileId, Place, kind, kind_in_words};
use super::part::Part;
use super::pending::Pending;
use super::source::{DROPPED, Source, drop_cached};
use super::stream::{Origin, Output, pump};
use super::verify::verify;
use super::work::{Between, Work};
use super::{attributes, data, resume};

/// Size from which a file is synced by itself: that takes a fraction of its writing. A smaller one
/// waits for others, and shares the commit of the filesystem's journal with them.
const ALONE: u64 = 64 << 20;
/// The owner's permissions for an unfinished file.
const OWN: u32 = 0o600;

/// The copy of a file.
pub(super) struct Copied {
    pub(super) id: FileId,
    /// The pending file and its path, if it waits for its name. Otherwise the copy has its name
    /// and is on the disk.
    pub(super) pending: Option<(Pending, PathBuf, Arc<OwnedFd>)>,
}

/// Copies a file's data and attributes. The copy waits for its name if it may and is small. Calls
/// `between` after each batch of data.
pub(super) fn copy(
    work: &mut Work<'_>,
    from: &Place,
    looked_up: &Stat,
    to: &Place,
    may_wait: bool,
    between: Between<'_>,
) -> Result<Copied, CopyError> {
    let replaced = replaced(from, looked_up, to)?;
    let (mut source, stat, size) = open(from, kind(looked_up))?;
    let is_regular = kind(&stat).is_file();
    if let Some(existing) = &replaced
        && work.options.resume
        && is_regular
        && resume::is_complete(work, &mut source, &stat, existing, to)?
    {
        let id = FileId::of(existing);
        return skip(work, &source, to, size).map(|()| Copied { id, pending: None });
    }
    let (part, at) = part(work, &mut source, &stat, to, replaced.is_some())?;
    let id = part.id();
    let written = fill(work, &mut source, &stat, &part, (at, size), between).and_then(|end| {
        work.summary.files += 1;
        let waits = may_wait && is_regular && end < ALONE;
        if !waits {
            work.finish_writeback(&part.path())?;
            if work.options.verify && size > 0 {
                sync(&part, end)?;
                let (file, target) = (Arc::clone(source.file()), Arc::clone(part.file()));
                verify(work, file, source.path(), target, &part.path(), end)?;
            }
        }
        // Late: of a part file with another owner nothing can be resumed.
        keep_attributes(work, &source, &stat, &part, to, replaced.as_ref());
        if !waits {
            sync(&part, end)?;
        }
        Ok((end, waits))
    });
    match written {
        Ok((size, true)) => {
            let (path, file) = (part.path(), Arc::clone(part.file()));
            let (from, to) = (from.clone(), to.clone());
            let pending = Pending::File { from, to, part: part.defer(), id, size };
            Ok(Copied { id, pending: Some((pending, path, file)) })
        }
        Ok((_, false)) => {
            part.commit()?;
            Ok(Copied { id, pending: None })
        }
        Err(error) => {
            if error.is_of_data() {
                part.discard();
            }
            Err(error)
        }
    }
}

/// Waits until the file is on the disk, and drops a large one from the page cache.
fn sync(part: &Part, end: u64) -> Result<(), CopyError> {
    rfs::fsync(part.file()).map_err(CopyError::lost("sync", part.path()))?;
    if end >= DROPPED {
        drop_cached(part.file().as_fd(), 0, 0);
    }
    Ok(())
}

/// The regular file that the copy replaces, whose owner and mode it keeps; `None` without one.
fn replaced(from: &Place, stat: &Stat, to: &Place) -> Result<Option<Stat>, CopyError> {
    let existing = to.stat().map_err(CopyError::io("look at", to.path()))?;
    let Some(existing) = existing else { return Ok(None) };
    match kind(&existing) {
        FileType::RegularFile if FileId::of(&existing) == FileId::of(stat) => {
            Err(CopyError::Same { source_path: from.path(), destination: to.path() })
        }
        FileType::RegularFile => {
            // rename(2) would replace a file that this user may not write to.
            let name = to.name.as_os_str();
            rfs::accessat(&to.folder, name, rfs::Access::WRITE_OK, rfs::AtFlags::EACCESS)
                .map_err(CopyError::io("replace", to.path()))?;
            Ok(Some(existing))
        }
        FileType::Symlink => Ok(None),
        other => Err(CopyError::Kinds {
            source_path: from.path(),
            new: kind_in_words(kind(stat)),
            destination: to.path(),
            existing: kind_in_words(other),
        }),
    }
}

/// Opens a source, which must still be of the kind that it was. Returns also its size, if it can be
/// read at any offset, else 0.
fn open(from: &Place, wanted: FileType) -> Result<(Source, Stat, u64), CopyError> {
    let path = from.path();
    let opened = if wanted.is_file() {
        from.open(OFlags::RDONLY)
    } else {
        // A signal doesn't end the wait for the writer of a FIFO. The first read waits instead.
        let waits = if wanted.is_fifo() { OFlags::NONBLOCK } else { OFlags::empty() };
        from.open_as_is(OFlags::RDONLY | OFlags::NOCTTY | waits)
    };
    let file: OwnedFd = opened.map_err(CopyError::source("open", &path))?;
    let stat = rfs::fstat(&file).map_err(CopyError::source("look at", &path))?;
    if kind(&stat) != wanted {
        return Err(CopyError::source("open", &path)(Errno::INVAL));
    }
    // 0 means reading to the end. Files of the kernel (/proc) have that size as well.
    let size = match wanted {
        FileType::RegularFile => u64::try_from(stat.st_size).unwrap_or(0),
        FileType::BlockDevice => rfs::seek(&file, SeekFrom::End(0))
            .map_err(CopyError::source("find the end of", &path))?,
        _ => 0,
    };
    Ok((Source::new(Arc::new(file), path, size), stat, size))
}

/// Leaves a finished file as it is, and compares it if that is wanted.
fn skip(work: &mut Work<'_>, source: &Source, to: &Place, size: u64) -> Result<(), CopyError> {
    work.summary.skipped += 1;
    work.passed(size, source.path());
    if !work.options.verify {
        return Ok(());
    }
    let path = to.path();
    let target = to.open(OFlags::RDONLY).map_err(CopyError::io("open", &path))?;
    verify(work, Arc::clone(source.file()), source.path(), Arc::new(target), &path, size)
}

/// The part file, and the offset at which it goes on.
fn part(
    work: &mut Work<'_>,
    source: &mut Source,
    stat: &Stat,
    to: &Place,
    is_replacing: bool,
) -> Result<(Part, u64), CopyError> {
    let keep = work.options.resume;
    if keep
        && kind(stat).is_file()
        && let Some(part) = Part::left(to)?
    {
        let at = resume::continued(work, source, stat, &part)?;
        if at > 0 {
            work.summary.resumed_bytes += at;
            work.passed(at, source.path());
            return Ok((part, at));
        }
        part.discard();
    }
    // Other users may not read it before it has its owner and mode.
    let mode = if work.options.archive || is_replacing {
        rfs::Mode::from_raw_mode(OWN)
    } else {
        attributes::mode_of_new(stat, OWN)
    };
    Ok((Part::create(to, mode, keep)?, 0))
}

/// Writes the data to the part file, and returns its length.
fn fill(
    work: &mut Work<'_>,
    source: &mut Source,
    stat: &Stat,
    part: &Part,
    (at, size): (u64, u64),
    between: Between<'_>,
) -> Result<u64, CopyError> {
    let path = part.path();
    if size == 0 {
        let output = Output::new(part.file(), &path)?;
        if kind(stat).is_file() {
            return pump(work, Origin::File(source), &output);
        }
        let (file, path) = (Arc::clone(source.file()), source.path().to_owned());
        return pump(work, Origin::Stream(file.as_fd(), &path), &output);
    }
    if at == 0 && kind(stat).is_file() && rfs::ioctl_ficlone(part.file(), source.file()).is_ok() {
        let now = rfs::fstat(part.file()).map_err(CopyError::io("look at", &path))?;
        work.summary.reflinked += 1;
        work.summary.reflinked_bytes += size;
        work.passed(size, source.path());
        return Ok(u64::try_from(now.st_size).unwrap_or(size));
    }
    data::copy(work, source, (part.file(), &path), at, size, between)
}

fn keep_attributes(
    work: &mut Work<'_>,
    source: &Source,
    stat: &Stat,
    part: &Part,
    to: &Place,
    replaced: Option<&Stat>,
) {
    let (file, path, summary) = (part.file().as_fd(), to.path(), &mut work.summary);
    if work.options.archive {
        attributes::keep(source.as_fd(), stat, file, &path, summary);
    } else if let Some(replaced) = replaced {
        attributes::keep_of_replaced(replaced, file, &path, summary);
    } else {
        attributes::settle_mode(stat, OWN, file, &path, summary);
    }
}
