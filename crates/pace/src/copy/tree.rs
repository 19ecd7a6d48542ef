//! Carries out a plan: directories with their entries, symlinks, hard links, special files.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::{self as rfs, FileType, Mode, Stat};
use rustix::io::Errno;

use super::attributes;
use super::error::CopyError;
use super::file;
use super::finish::Finish;
use super::folder::{FileId, Folder, Place, kind, kind_in_words};
use super::job::{Job, Target};
use super::names::{directory_of, is_part, last_name, rank};
use super::part::{place_of_part, refuse_source, rename};
use super::pending::Pending;
use super::plan::Plan;
use super::request::Progress;
use super::source::Source;
use super::stream::{Origin, Output, open_input, open_output, pump};
use super::summary::Summary;
use super::work::{Totals, Work};
use crate::Pacer;

/// The owner's permissions for an unfinished directory.
const OWN: u32 = 0o700;

/// Carries out a plan. `progress` is called after each block of data and each file.
///
/// Entries that can't be read, or that the destination doesn't take, are left out, and the others
/// are copied ([`CopyError::Partly`]). Any other failure ends the copy, and complete files then get
/// their names, unless written data was lost ([`CopyError::Lost`]). `stop` ends it soon: once the
/// writeback under way has ended, complete files get their names for a second at most, unless they
/// have to be compared. Unfinished files are removed, or kept with `resume`, as far as no data was
/// lost.
///
/// # Errors
/// [`CopyError::Partly`] if entries were left out, [`CopyError::Interrupted`] after `stop`,
/// [`CopyError::Lost`] if written data did not reach the disk; else the failure that ended the
/// copy.
pub fn run<'a>(
    plan: &Plan,
    pacer: &'a Pacer,
    progress: &'a mut dyn FnMut(Progress<'_>),
    stop: &'a AtomicBool,
) -> Result<Summary, CopyError> {
    let opened = Folder::open(&plan.directory);
    let root = Arc::new(opened.map_err(CopyError::io("open", &plan.directory))?);
    // Each byte is written, and compared with `verify`.
    let passes = if plan.options.verify { 2 } else { 1 };
    let is_single = matches!(plan.jobs.as_slice(), [job] if !kind(&job.stat).is_dir());
    let totals = Totals { bytes: Some(plan.bytes() * passes), files: plan.files(), is_single };
    let mut tree = Tree {
        work: Work::new(plan.options, totals, pacer, progress, stop),
        finish: Finish::new(&root),
        root,
        links: HashMap::new(),
        made: Vec::new(),
        part_names: HashSet::new(),
    };
    let copied = plan.jobs.iter().try_for_each(|job| {
        let done = tree.job(job);
        tree.work.unless_of_one_entry(done)
    });
    tree.end(copied, plan)
}

struct Tree<'a> {
    work: Work<'a>,
    finish: Finish,
    /// The destination's directory.
    root: Arc<Folder>,
    /// Copied files that have more names, the paths of their copies below the root, and the copies.
    links: HashMap<FileId, (PathBuf, FileId)>,
    /// Copies of directories that the caller named.
    made: Vec<FileId>,
    /// Copies with names like those of unfinished ones, and their directories.
    part_names: HashSet<(FileId, OsString)>,
}

impl Tree<'_> {
    fn job(&mut self, job: &Job) -> Result<(), CopyError> {
        let root = Arc::clone(&self.root);
        let source = job.source.as_path();
        let opened =
            |path: &Path| Folder::open(path).map(Arc::new).map_err(CopyError::source("open", path));
        match &job.target {
            Target::InPlace(path) => self.in_place(source, path),
            Target::Contents => {
                let from = opened(source)?;
                // Its entries may replace those of another source, and be replaced.
                self.finish.flush(&mut self.work)?;
                self.contents(&from, &root)?;
                self.finish.flush(&mut self.work)?;
                if !self.work.options.archive {
                    return Ok(());
                }
                self.finish.add(
                    &mut self.work,
                    Pending::Folder { from, to: root, stat: job.stat, added: 0 },
                )
            }
            Target::Named(name) => {
                let to = Place::new(&root, name);
                if kind(&job.stat).is_dir() {
                    self.make_way(&to)?;
                    return self.folder(opened(source)?, &job.stat, &to);
                }
                let name = last_name(source).unwrap_or_default();
                let from = Place::new(&opened(&directory_of(source))?, name);
                let from = if job.is_nameless { from.followed() } else { from };
                self.entry(&from, &to)
            }
        }
    }

    fn entry(&mut self, from: &Place, to: &Place) -> Result<(), CopyError> {
        self.work.check()?;
        let failed = |errno| CopyError::source("open", from.path())(errno);
        let stat = from.stat().map_err(failed)?.ok_or_else(|| failed(Errno::NOENT))?;
        self.make_way(to)?;
        let is_deep = self.work.options.is_deep();
        match kind(&stat) {
            FileType::Directory if is_deep => {
                let inner = from.folder.enter(&from.name).map_err(failed)?;
                return self.folder(Arc::new(inner), &stat, to);
            }
            FileType::Directory => return Err(CopyError::NeedsRecursive { path: from.path() }),
            _ => self.refuse_part(from, &stat, to)?,
        }
        if is_deep && !kind(&stat).is_file() {
            self.node(from, &stat, to)?;
        } else {
            self.file(from, &stat, to)?;
        }
        if is_part(&to.name) {
            self.part_names.insert((to.folder.id(), to.name.clone()));
        }
        self.work.file_done(&from.path());
        Ok(())
    }

    /// Finishes the pending copies if one of them may have this name until then.
    fn make_way(&mut self, to: &Place) -> Result<(), CopyError> {
        if is_part(&to.name) { self.finish.flush(&mut self.work) } else { Ok(()) }
    }

    /// Refuses an entry whose unfinished copy would take the name of the source or of another copy.
    fn refuse_part(&self, from: &Place, stat: &Stat, to: &Place) -> Result<(), CopyError> {
        let part = place_of_part(to);
        let is_taken = || self.part_names.contains(&(part.folder.id(), part.name.clone()));
        if !self.part_names.is_empty() && is_taken() {
            return Err(CopyError::Twice { destination: part.path() });
        }
        refuse_source(from, stat, to)
    }

    fn folder(&mut self, from: Arc<Folder>, stat: &Stat, to: &Place) -> Result<(), CopyError> {
        let is_archive = self.work.options.archive;
        let existing = to.stat().map_err(CopyError::io("look at", to.path()))?;
        match &existing {
            Some(existing) if kind(existing).is_dir() => {}
            Some(existing) => return Err(kinds(from.path(), stat, to, existing)),
            None => {
                // Other users may not read it before it has its owner.
                let mode = if is_archive {
                    Mode::from_raw_mode(OWN)
                } else {
                    attributes::mode_of_new(stat, OWN)
                };
                rfs::mkdirat(&to.folder, to.name.as_os_str(), mode)
                    .map_err(CopyError::io("make directory", to.path()))?;
                self.finish.note(&to.folder)?;
            }
        }
        let opened = to.folder.enter(&to.name);
        let target = Arc::new(opened.map_err(CopyError::io("open", to.path()))?);
        if to.folder.id() == self.root.id() {
            self.made.push(target.id());
        }
        self.contents(&from, &target)?;
        let added = if existing.is_none() { OWN } else { 0 };
        if is_archive || added & !stat.st_mode != 0 {
            let last = Pending::Folder { from, to: target, stat: *stat, added };
            self.finish.add(&mut self.work, last)?;
        }
        Ok(())
    }

    fn contents(&mut self, from: &Arc<Folder>, to: &Arc<Folder>) -> Result<(), CopyError> {
        if self.made.contains(&from.id()) {
            let (source_path, destination) = (from.path().to_owned(), to.path().to_owned());
            return Err(CopyError::IntoItself { source_path, destination });
        }
        let mut entries = from.entries().map_err(CopyError::source("read", from.path()))?;
        // Inodes with near numbers are near on the disk.
        entries.sort_by_key(|(name, inode)| (rank(name), *inode));
        for (name, _) in entries {
            let done = self.entry(&Place::new(from, &name), &Place::new(to, &name));
            self.work.unless_of_one_entry(done)?;
        }
        Ok(())
    }

    fn file(&mut self, from: &Place, stat: &Stat, to: &Place) -> Result<(), CopyError> {
        let is_linked = self.work.options.archive && kind(stat).is_file() && stat.st_nlink > 1;
        if is_linked && let Some((first, id)) = self.links.get(&FileId::of(stat)) {
            let (first, id, from, to) = (first.clone(), *id, from.clone(), to.clone());
            let link = Pending::Link { first, id, from, stat: *stat, to };
            return self.finish.add(&mut self.work, link);
        }
        if !kind(stat).is_file() {
            // A stream may last.
            self.finish.flush(&mut self.work)?;
        }
        let may_wait = self.finish.covers(&to.folder);
        let (work, finish) = (&mut self.work, &mut self.finish);
        let between = &mut |work: &mut Work<'_>| finish.flush_if_due(work);
        let copied = file::copy(work, from, stat, to, may_wait, between)?;
        if is_linked && let Ok(below) = to.path().strip_prefix(self.root.path()) {
            self.links.insert(FileId::of(stat), (below.to_owned(), copied.id));
        }
        match copied.pending {
            Some((pending, path, file)) => {
                self.finish.add_file(&mut self.work, pending, path, file)
            }
            None => self.finish.note(&to.folder),
        }
    }

    /// A symlink, FIFO, socket or device node.
    fn node(&mut self, from: &Place, stat: &Stat, to: &Place) -> Result<(), CopyError> {
        let existing = to.stat().map_err(CopyError::io("look at", to.path()))?;
        if let Some(existing) = existing.filter(|existing| kind(existing).is_dir()) {
            return Err(kinds(&from.path(), stat, to, &existing));
        }
        let part = place_of_part(to);
        let (folder, name) = (&part.folder, part.name.as_os_str());
        folder.remove(name).map_err(CopyError::io("remove", part.path()))?;
        let made = if kind(stat).is_symlink() {
            let read = rfs::readlinkat(&from.folder, from.name.as_os_str(), Vec::new());
            let target = read.map_err(CopyError::source("read", from.path()))?;
            rfs::symlinkat(target, folder, name)
        } else {
            let mode = attributes::mode_of_new(stat, 0);
            rfs::mknodat(folder, name, kind(stat), mode, stat.st_rdev)
        };
        made.map_err(CopyError::io("create", to.path()))?;
        if self.work.options.archive {
            attributes::keep_by_name(stat, &part, &to.path(), &mut self.work.summary);
        }
        if let Err(error) = rename(&part, to) {
            let _ = folder.remove(name);
            return Err(error);
        }
        self.work.summary.files += 1;
        self.finish.note(folder)
    }

    /// Writes a file into a FIFO or a character device.
    fn in_place(&mut self, source: &Path, path: &Path) -> Result<(), CopyError> {
        let from = open_input(source).map_err(CopyError::source("open", source))?;
        let stat = rfs::fstat(&from).map_err(CopyError::source("look at", source))?;
        let to = Arc::new(open_output(&self.work, path)?);
        let output = Output::new(&to, path)?;
        if output.is_paced {
            // Another process has put another file there.
            return Err(CopyError::io("open", path)(Errno::INVAL));
        }
        if kind(&stat).is_file() {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            let mut file = Source::new(Arc::new(from), source.to_owned(), size);
            pump(&mut self.work, Origin::File(&mut file), &output)?;
        } else {
            pump(&mut self.work, Origin::Stream(from.as_fd(), source), &output)?;
        }
        self.work.summary.files += 1;
        self.work.summary.streamed += 1;
        self.work.file_done(source);
        Ok(())
    }

    /// Finishes the complete files, and removes the others.
    fn end(mut self, copied: Result<(), CopyError>, plan: &Plan) -> Result<Summary, CopyError> {
        let mut finished = match &copied {
            Err(CopyError::Interrupted | CopyError::Lost { .. }) => Ok(()),
            // Complete files get their names.
            _ => self.finish.end(&mut self.work),
        };
        if [&copied, &finished].contains(&&Err(CopyError::Interrupted)) {
            finished = self.finish.end_soon(&mut self.work).and(Err(CopyError::Interrupted));
        }
        let is_lost = |done: &Result<(), CopyError>| matches!(done, Err(CopyError::Lost { .. }));
        if !plan.options.resume || is_lost(&copied) || is_lost(&finished) {
            self.finish.abandon();
        }
        // A second failure would hide the first one, unless that is an interrupt.
        match copied {
            Err(CopyError::Interrupted) if is_lost(&finished) => finished?,
            copied => copied.and(finished)?,
        }
        self.work.into_summary()
    }
}

fn kinds(source: &Path, stat: &Stat, to: &Place, existing: &Stat) -> CopyError {
    CopyError::Kinds {
        source_path: source.to_owned(),
        new: kind_in_words(kind(stat)),
        destination: to.path(),
        existing: kind_in_words(kind(existing)),
    }
}
