//! The destination of each source, by the rules of cp(1) for the names on its command line.
//!
//! ```text
//! DST a directory ─▶ SRC goes into it by its last name; the entries of SRC/. go into DST itself
//! DST a file or missing ─▶ the one SRC becomes DST; a symlink DST is followed
//! DST a FIFO or a character device ─▶ written in place
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat, lstat, stat};
use rustix::io::Errno;

use super::error::CopyError;
use super::folder::{FileId, kind, kind_in_words};
use super::names::{directory_of, ends_in_slash, last_name};
use super::request::{Options, Request};

/// One source and its destination.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// The source's path, without a symlink that is followed.
    pub(super) source: PathBuf,
    /// Whether the path is a symlink all the same: the file behind it has no path.
    pub(super) is_nameless: bool,
    pub(super) stat: Stat,
    pub(super) target: Target,
}

/// The destination of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A name in the destination's directory.
    Named(OsString),
    /// The entries of the source go into the destination's directory.
    Contents,
    /// A FIFO or a character device.
    InPlace(PathBuf),
}

/// The destination of the command line.
pub(super) enum Destination {
    /// A directory.
    Inside(PathBuf),
    /// A name in a directory, and whether it ends in a slash. With a slash it is a directory's.
    Named(PathBuf, OsString, bool),
    /// A FIFO or a character device.
    InPlace(PathBuf),
}

impl Destination {
    pub(super) fn of(request: &Request) -> Result<Self, CopyError> {
        let path = &request.destination;
        let has_several = request.sources.len() > 1;
        let failed = |errno| Err(CopyError::io("look at", path)(errno));
        let is_link = || lstat(path).is_ok_and(|found| kind(&found).is_symlink());
        match stat(path) {
            Ok(found) if kind(&found).is_dir() => Ok(Self::Inside(path.clone())),
            Ok(_) | Err(Errno::NOENT) if has_several => {
                Err(CopyError::NotADirectory { path: path.clone() })
            }
            Ok(found) => match kind(&found) {
                FileType::RegularFile if is_link() => match path.canonicalize() {
                    Ok(real) => Self::named(&real),
                    Err(error) => failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
                },
                FileType::RegularFile => Self::named(path),
                FileType::BlockDevice => Err(CopyError::BlockDevice { path: path.clone() }),
                _ => Ok(Self::InPlace(path.clone())),
            },
            Err(Errno::NOENT) if is_link() => Err(CopyError::Dangling { path: path.clone() }),
            Err(Errno::NOENT) => Self::named(path),
            Err(errno) => failed(errno),
        }
    }

    fn named(path: &Path) -> Result<Self, CopyError> {
        let Some(name) = last_name(path) else {
            return Err(CopyError::NoDirectory { path: path.to_owned() });
        };
        let directory = directory_of(path);
        if !stat(&directory).is_ok_and(|found| kind(&found).is_dir()) {
            return Err(CopyError::NoDirectory { path: directory });
        }
        Ok(Self::Named(directory, name.to_owned(), ends_in_slash(path)))
    }

    /// The directory that gets new entries.
    pub(super) fn directory(&self) -> PathBuf {
        match self {
            Self::Inside(directory) | Self::Named(directory, ..) => directory.clone(),
            Self::InPlace(path) => directory_of(path),
        }
    }

    /// The destination of a source. Fails if the source can't be copied there.
    pub(super) fn job(&self, named: &Path, options: Options) -> Result<Job, CopyError> {
        let (source, found, is_nameless) = resolved(named, options)?;
        let is_folder = kind(&found).is_dir();
        if is_folder && !options.is_deep() {
            return Err(CopyError::NeedsRecursive { path: source });
        }
        let target = match self {
            // The copy of a symlink that is followed has the symlink's name.
            Self::Inside(directory) => match last_name(named) {
                Some(name) => in_directory(directory, name.to_owned(), &source, &found, options)?,
                None => Target::Contents,
            },
            Self::Named(directory, name, has_slash) => {
                if *has_slash && !is_folder {
                    return Err(CopyError::NoDirectory { path: directory.join(name) });
                }
                in_directory(directory, name.clone(), &source, &found, options)?
            }
            Self::InPlace(path) => in_place(path, &source, &found, options)?,
        };
        let directory = self.directory();
        if is_folder && is_within(&directory, FileId::of(&found))? {
            return Err(CopyError::IntoItself { source_path: source, destination: directory });
        }
        Ok(Job { source, is_nameless, stat: found, target })
    }
}

/// The path and status of a source; of the target, if it is a symlink that is followed. Whether the
/// target has no path, as a pipe behind /dev/stdin or a deleted file.
fn resolved(path: &Path, options: Options) -> Result<(PathBuf, Stat, bool), CopyError> {
    let failed = || CopyError::source("open", path);
    let unfollowed = lstat(path).map_err(failed())?;
    if !kind(&unfollowed).is_symlink() || options.is_deep() {
        return Ok((path.to_owned(), unfollowed, false));
    }
    let found = stat(path).map_err(failed())?;
    let real = path.canonicalize().ok();
    let is_found =
        |real: &PathBuf| stat(real).is_ok_and(|at| FileId::of(&at) == FileId::of(&found));
    match real.filter(is_found) {
        Some(real) => Ok((real, found, false)),
        None => Ok((path.to_owned(), found, true)),
    }
}

fn in_directory(
    directory: &Path,
    name: OsString,
    source: &Path,
    found: &Stat,
    options: Options,
) -> Result<Target, CopyError> {
    let path = directory.join(&name);
    let existing = match lstat(&path) {
        Ok(existing) => existing,
        Err(Errno::NOENT) => return Ok(Target::Named(name)),
        Err(errno) => return Err(CopyError::io("look at", path)(errno)),
    };
    // A symlink that is copied as a symlink is not followed.
    let followed = if kind(found).is_symlink() { Ok(existing) } else { stat(&path) };
    if followed.is_ok_and(|followed| FileId::of(&followed) == FileId::of(found)) {
        return Err(CopyError::Same { source_path: source.to_owned(), destination: path });
    }
    match (kind(found), kind(&existing)) {
        (FileType::Directory, FileType::Directory) => Ok(Target::Named(name)),
        (FileType::Directory, _) | (_, FileType::Directory) => {
            Err(kinds(source, found, path, &existing))
        }
        (FileType::RegularFile, FileType::Fifo | FileType::CharacterDevice) => {
            in_place(&path, source, found, options)
        }
        (FileType::RegularFile, FileType::BlockDevice) => Err(CopyError::BlockDevice { path }),
        _ => Ok(Target::Named(name)),
    }
}

fn in_place(
    path: &Path,
    source: &Path,
    found: &Stat,
    options: Options,
) -> Result<Target, CopyError> {
    let existing = stat(path).map_err(CopyError::io("look at", path))?;
    if FileId::of(&existing) == FileId::of(found) {
        let (source_path, destination) = (source.to_owned(), path.to_owned());
        return Err(CopyError::Same { source_path, destination });
    }
    let is_node = options.is_deep() && !kind(found).is_file();
    if is_node || kind(&existing) == FileType::Socket {
        return Err(kinds(source, found, path.to_owned(), &existing));
    }
    Ok(Target::InPlace(path.to_owned()))
}

fn kinds(source: &Path, found: &Stat, destination: PathBuf, existing: &Stat) -> CopyError {
    CopyError::Kinds {
        source_path: source.to_owned(),
        new: kind_in_words(kind(found)),
        destination,
        existing: kind_in_words(kind(existing)),
    }
}

/// Whether a directory is a certain one, or anywhere below it.
fn is_within(directory: &Path, id: FileId) -> Result<bool, CopyError> {
    let real = directory.canonicalize().map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        CopyError::io("look at", directory)(errno)
    })?;
    Ok(real.ancestors().any(|above| stat(above).is_ok_and(|above| FileId::of(&above) == id)))
}
