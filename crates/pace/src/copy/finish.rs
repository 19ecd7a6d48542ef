//! The end of small files, links and directories: synced and renamed in groups.
//!
//! ```text
//! file written, pushed ─▶ add ─▶ pending ─▶ flush: writeback ends ─▶ fsync each, or one syncfs
//!                                                 ─▶ compared ─▶ renamed, linked, in order
//! end: flush ─▶ fsync of each directory with new entries, or one syncfs
//! end_soon (interrupted): writes under way end ─▶ fsync and rename each, for a second at most
//! ```
//!
//! A group ends after [`EVERY`], also while a large file is copied. While other programs wait, it
//! has [`ONE_BY_ONE`] files at most. syncfs(2) writes the data of other programs as well, and they
//! would wait for it. It is called only while no other program waits, or for an entry that can't be
//! opened again.
//!
//! The kernel reports lost data only once: a second sync succeeds. After the first such error
//! ([`CopyError::Lost`]) no pending file gets its name.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{self as rfs, AtFlags, OFlags};
use rustix::io::Errno;

use super::error::CopyError;
use super::folder::{FileId, Folder, Place};
use super::part::{commit, is_at, place_of_part, rename};
use super::pending::Pending;
use super::source::{DROPPED, drop_cached};
use super::verify::verify;
use super::work::Work;
use super::{attributes, file};
use crate::descriptors;

/// Files or directories that are synced one by one, at most. With more the filesystem is synced,
/// unless others wait.
const ONE_BY_ONE: usize = 64;
/// Time between the ends of two groups: the files of so many seconds may be lost by an interrupt.
const EVERY: Duration = Duration::from_secs(2);
/// The longest time for pending files after an interrupt, once the writeback that is under way has
/// ended. A sync that is under way may exceed it.
const SOON: Duration = Duration::from_secs(1);
/// Bytes of a directory's sync, for the pacer: a block.
const FOLDER: u64 = 4096;
/// Bounds of a group that is pending. Each directory takes one or two open files.
const FILES: usize = 4096;
const FOLDERS: usize = 128;
const BYTES: u64 = 1 << 30;

/// The steps that are left at the destination.
pub(super) struct Finish {
    root: Arc<Folder>,
    pending: VecDeque<Pending>,
    /// The time of the first step that is pending.
    since: Option<Instant>,
    files: usize,
    /// The pending files with their paths, as long as they are synced one by one. An error of the
    /// writeback is certainly reported only on descriptors that were open then.
    open: Vec<(PathBuf, Arc<OwnedFd>)>,
    folders: usize,
    bytes: u64,
    last_folder: Option<FileId>,
    /// Directories that have new entries, by their paths below the root.
    dirty: HashMap<FileId, PathBuf>,
    /// [`ONE_BY_ONE`] and [`FOLDERS`], as far as this process may open files.
    one_by_one: usize,
    most_folders: usize,
}

impl Finish {
    /// For a directory and everything below it.
    pub(super) fn new(root: &Arc<Folder>) -> Self {
        Self {
            root: Arc::clone(root),
            pending: VecDeque::new(),
            since: None,
            files: 0,
            open: Vec::new(),
            folders: 0,
            bytes: 0,
            last_folder: None,
            dirty: HashMap::new(),
            one_by_one: descriptors::at_most(ONE_BY_ONE),
            most_folders: descriptors::at_most(FOLDERS),
        }
    }

    /// Whether a directory is on the filesystem that is synced.
    pub(super) fn covers(&self, folder: &Folder) -> bool {
        folder.id().device == self.root.id().device
    }

    /// Adds a file, which is open.
    pub(super) fn add_file(
        &mut self,
        work: &mut Work<'_>,
        what: Pending,
        path: PathBuf,
        file: Arc<OwnedFd>,
    ) -> Result<(), CopyError> {
        if self.files < self.one_by_one {
            self.open.push((path, file));
        } else {
            self.open.clear();
        }
        self.add(work, what)
    }

    /// Adds a step that has to wait.
    pub(super) fn add(&mut self, work: &mut Work<'_>, what: Pending) -> Result<(), CopyError> {
        let folder = match &what {
            Pending::File { to, size, .. } => {
                self.files += 1;
                self.bytes += size;
                &to.folder
            }
            Pending::Link { to, .. } => &to.folder,
            Pending::Folder { to, .. } => to,
        };
        let folder = folder.id();
        if self.last_folder.replace(folder) != Some(folder) {
            self.folders += 1;
        }
        self.pending.push_back(what);
        self.since.get_or_insert_with(Instant::now);
        let is_shared = self.files >= self.one_by_one && !work.is_alone();
        let is_full = is_shared
            || self.pending.len() >= FILES
            || self.folders >= self.most_folders
            || self.bytes >= BYTES;
        if is_full { self.flush(work) } else { self.flush_if_due(work) }
    }

    /// Finishes all pending steps if the first one has waited long.
    pub(super) fn flush_if_due(&mut self, work: &mut Work<'_>) -> Result<(), CopyError> {
        let is_due = self.since.is_some_and(|since| since.elapsed() >= EVERY);
        if is_due { self.flush(work) } else { Ok(()) }
    }

    /// Notes that a directory has a new entry.
    pub(super) fn note(&mut self, folder: &Arc<Folder>) -> Result<(), CopyError> {
        match folder.path().strip_prefix(self.root.path()) {
            Ok(below) if self.covers(folder) => {
                self.dirty.entry(folder.id()).or_insert_with(|| below.to_owned());
                Ok(())
            }
            _ => sync_folder(folder),
        }
    }

    /// Finishes all pending steps.
    pub(super) fn flush(&mut self, work: &mut Work<'_>) -> Result<(), CopyError> {
        let root = Arc::clone(&self.root);
        work.finish_writeback(root.path())?;
        if self.files > 0 {
            self.sync(work)?;
        }
        while let Some(what) = self.pending.pop_front() {
            match finish(work, &root, &what) {
                Ok(None) => {}
                Ok(Some(folder)) => self.note(&folder)?,
                Err(CopyError::Interrupted) => {
                    self.pending.push_front(what);
                    return Err(CopyError::Interrupted);
                }
                Err(error) => {
                    if !work.options.resume {
                        remove(&what);
                    }
                    work.unless_of_one_entry(Err(error))?;
                }
            }
        }
        self.open.clear();
        (self.files, self.folders, self.bytes, self.last_folder) = (0, 0, 0, None);
        self.since = None;
        Ok(())
    }

    /// Finishes all pending steps, and syncs the directories.
    pub(super) fn end(&mut self, work: &mut Work<'_>) -> Result<(), CopyError> {
        self.flush(work)?;
        if self.dirty.len() > ONE_BY_ONE && work.is_alone() {
            return sync_filesystem(&self.root);
        }
        for (id, path) in &self.dirty {
            work.admit(FOLDER, path)?;
            match self.root.below(path) {
                Ok(folder) if folder.id() == *id => sync_folder(&folder)?,
                // Another process has moved it, or its mode forbids its owner to read it.
                _ => return sync_filesystem(&self.root),
            }
        }
        Ok(())
    }

    /// Finishes the pending steps that take little time, after an interrupt. Their data is on the
    /// disk, or under way. The names may be lost if the power fails soon.
    pub(super) fn end_soon(&mut self, work: &mut Work<'_>) -> Result<(), CopyError> {
        // To compare them would take as long as to copy them.
        if work.options.verify {
            return Ok(());
        }
        let root = Arc::clone(&self.root);
        work.finish_started(root.path())?;
        let begin = Instant::now();
        while begin.elapsed() < SOON
            && let Some(what) = self.pending.pop_front()
        {
            let done = match &what {
                Pending::File { to, part, .. } => sync_part(&Place::new(&to.folder, part))
                    .and_then(|()| finish(work, &root, &what).map(drop)),
                // Where no link can be made, the data would be copied.
                Pending::Link { first, id, to, .. } => link(&root, first, *id, to).map(drop),
                Pending::Folder { .. } => finish(work, &root, &what).map(drop),
            };
            if let Err(error) = done {
                if matches!(error, CopyError::Lost { .. }) || !work.options.resume {
                    remove(&what);
                }
                work.unless_of_one_entry(Err(error))?;
            }
        }
        Ok(())
    }

    /// Removes the unfinished files.
    pub(super) fn abandon(&mut self) {
        self.open.clear();
        self.pending.drain(..).for_each(|what| remove(&what));
    }

    /// Syncs the pending files. Their data was written back before, so mostly only the first fsync
    /// costs a commit of the filesystem's journal.
    fn sync(&self, work: &Work<'_>) -> Result<(), CopyError> {
        if self.files <= self.one_by_one {
            for (path, file) in &self.open {
                work.check()?;
                rfs::fsync(file).map_err(CopyError::lost("sync", path))?;
            }
            return Ok(());
        }
        if work.is_alone() {
            return sync_filesystem(&self.root);
        }
        for what in &self.pending {
            if let Pending::File { to, part, .. } = what {
                work.check()?;
                sync_part(&Place::new(&to.folder, part))?;
            }
        }
        Ok(())
    }
}

/// Finishes one step whose data is on the disk, and returns the directory with a new entry.
fn finish(
    work: &mut Work<'_>,
    root: &Arc<Folder>,
    what: &Pending,
) -> Result<Option<Arc<Folder>>, CopyError> {
    match what {
        Pending::File { from, to, part, id, size } => {
            let part = Place::new(&to.folder, part);
            check(work, from, &part, *size)?;
            commit(&part, *id, to)?;
            Ok(Some(Arc::clone(&to.folder)))
        }
        Pending::Link { first, id, from, stat, to } => {
            if link(root, first, *id, to)? {
                work.summary.files += 1;
            } else {
                file::copy(work, from, stat, to, false, &mut |_| Ok(()))?;
            }
            Ok(Some(Arc::clone(&to.folder)))
        }
        Pending::Folder { from, to, stat, added } => {
            let (path, summary) = (to.path(), &mut work.summary);
            if work.options.archive {
                attributes::keep(from.as_fd(), stat, to.as_fd(), path, summary);
            } else {
                attributes::settle_mode(stat, *added, to.as_fd(), path, summary);
            }
            Ok(None)
        }
    }
}

/// Drops a file's pages, or compares it, if either is wanted.
fn check(work: &mut Work<'_>, from: &Place, part: &Place, size: u64) -> Result<(), CopyError> {
    work.check()?;
    if size < DROPPED && !work.options.verify {
        return Ok(());
    }
    let path = part.path();
    let target = match part.open(OFlags::RDONLY) {
        Ok(target) => target,
        // The mode forbids its owner to read it.
        Err(Errno::ACCESS) if !work.options.verify => return Ok(()),
        Err(errno) => return Err(CopyError::io("open", path)(errno)),
    };
    if !work.options.verify {
        drop_cached(target.as_fd(), 0, 0);
        return Ok(());
    }
    let source = from.open(OFlags::RDONLY).map_err(CopyError::io("compare with", from.path()))?;
    let verified = verify(work, Arc::new(source), &from.path(), Arc::new(target), &path, size);
    if matches!(verified, Err(CopyError::Differs { .. })) {
        // A wrong file must not be continued.
        let _ = part.folder.remove(&part.name);
    }
    verified
}

/// Removes the unfinished file of a step, if it has one. Another copy may have taken its name.
fn remove(what: &Pending) {
    if let Pending::File { to, part, id, .. } = what
        && is_at(&Place::new(&to.folder, part), *id).unwrap_or(false)
    {
        // An error is ignored: the copy has failed already.
        let _ = to.folder.remove(part);
    }
}

/// Gives another name to a copy. False if that can't be: another file has replaced the copy, the
/// filesystem has no links, or the copy has as many as are possible.
fn link(root: &Arc<Folder>, first: &Path, id: FileId, to: &Place) -> Result<bool, CopyError> {
    let part = place_of_part(to);
    part.folder.remove(&part.name).map_err(CopyError::io("remove", part.path()))?;
    let parent = first.parent().unwrap_or(Path::new(""));
    let name = first.file_name().unwrap_or_default();
    let linked = root.below(parent).and_then(|folder| {
        rfs::linkat(&folder, name, &part.folder, part.name.as_os_str(), AtFlags::empty())
    });
    if linked.is_err() {
        return Ok(false);
    }
    let committed = match is_at(&part, id) {
        Ok(true) => rename(&part, to).map(|()| true),
        other => other,
    };
    // rename(2) does nothing if both names are links to one file.
    let _ = part.folder.remove(&part.name);
    committed
}

fn sync_part(part: &Place) -> Result<(), CopyError> {
    match part.open(OFlags::RDONLY) {
        Ok(file) => rfs::fsync(file).map_err(CopyError::lost("sync", part.path())),
        // The mode forbids its owner to read it.
        Err(Errno::ACCESS) => sync_filesystem(&part.folder),
        // The step's end tells of it.
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(CopyError::io("open", part.path())(errno)),
    }
}

fn sync_filesystem(root: &Folder) -> Result<(), CopyError> {
    rfs::syncfs(root).map_err(CopyError::lost("sync the filesystem of", root.path()))
}

fn sync_folder(folder: &Folder) -> Result<(), CopyError> {
    match rfs::fsync(folder) {
        // Some filesystems have no sync of a directory.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(()),
        other => other.map_err(CopyError::lost("sync", folder.path())),
    }
}
