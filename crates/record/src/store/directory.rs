//! The directory of a recording, held open. Its files are opened, made and removed through its
//! descriptor, and no symbolic link is followed.

use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use rustix::fs::{self as rfs, AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::day::Day;
use super::error::RecordError;

/// Of the directory: its owner writes, its group reads.
const DIRECTORY_MODE: u32 = 0o750;
/// Of a file.
const FILE_MODE: u32 = 0o640;
/// Locked by the process that records.
const LOCK: &str = "recorder.lock";
/// The log of stalls beside the frames.
pub const LOG: &str = "stalls.jsonl";

/// An open directory.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

/// A lock that goes with the process.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "closed when it is dropped")] File);

impl Directory {
    /// Opens it to read recordings.
    pub(crate) fn open(path: &Path) -> Result<Self, RecordError> {
        Self::open_with(path, OFlags::empty())
    }

    /// Opens it to record, and makes it if it is absent.
    pub(super) fn make(path: &Path) -> Result<Self, RecordError> {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(DIRECTORY_MODE).create(path);
        made.map_err(|e| io_error("make", path, e))?;
        Self::open_with(path, OFlags::NOFOLLOW)
    }

    fn open_with(path: &Path, flags: OFlags) -> Result<Self, RecordError> {
        let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rfs::open(path, flags, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, path: path.to_owned() }),
            Err(Errno::NOENT) => Err(RecordError::NoDirectory(path.to_owned())),
            Err(Errno::NOTDIR | Errno::LOOP) if path.is_symlink() => {
                Err(RecordError::Link(path.to_owned()))
            }
            Err(e) => Err(io_error("open", path, e.into())),
        }
    }

    /// A file's path, for messages.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The days that have a file, in their order.
    pub(super) fn days(&self) -> Result<Vec<Day>, RecordError> {
        let fail = |e: Errno| io_error("list", &self.path, e.into());
        let mut days = Vec::new();
        for entry in rfs::Dir::read_from(&self.fd).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            days.extend(entry.file_name().to_str().ok().and_then(Day::of_file));
        }
        days.sort_unstable();
        days.dedup();
        Ok(days)
    }

    /// Opens a file to read it; `None` if it is absent.
    pub(crate) fn file(&self, name: &str) -> Result<Option<File>, RecordError> {
        match self.open_file(name, OFlags::RDONLY) {
            Err(RecordError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Opens a file to write it, and makes it if it is absent.
    pub(crate) fn make_file(&self, name: &str) -> Result<File, RecordError> {
        self.open_file(name, OFlags::RDWR | OFlags::CREATE)
    }

    fn open_file(&self, name: &str, flags: OFlags) -> Result<File, RecordError> {
        // A pipe would wait for its other end, and a terminal would become the process's own.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let path = || self.path.join(name);
        let file = match rfs::openat(&self.fd, name, flags, Mode::from_bits_truncate(FILE_MODE)) {
            Ok(fd) => File::from(fd),
            Err(Errno::LOOP | Errno::NXIO) => return Err(RecordError::NotAFile(path())),
            Err(e) => return Err(io_error("open", &path(), e.into())),
        };
        let is_file = file.metadata().map_err(|e| io_error("open", &path(), e))?.is_file();
        if is_file { Ok(file) } else { Err(RecordError::NotAFile(path())) }
    }

    /// Bytes of a file; 0 if it is absent.
    pub(crate) fn length(&self, name: &str) -> Result<u64, RecordError> {
        match rfs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(u64::try_from(stat.st_size).unwrap_or(0)),
            Err(Errno::NOENT) => Ok(0),
            Err(e) => Err(io_error("read", &self.path.join(name), e.into())),
        }
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&self, name: &str) -> Result<(), RecordError> {
        match rfs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(io_error("remove", &self.path.join(name), e.into())),
        }
    }

    /// Puts a file in another one's place.
    pub(crate) fn replace(&self, new: &str, name: &str) -> Result<(), RecordError> {
        let replaced = rfs::renameat(&self.fd, new, &self.fd, name);
        replaced.map_err(|e| io_error("replace", &self.path.join(name), e.into()))
    }

    /// Makes this process the one that writes here.
    pub(super) fn lock(&self) -> Result<Lock, RecordError> {
        let file = self.make_file(LOCK)?;
        match rfs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // Only the message to another recorder needs it: a full disk does not matter.
                let pid = format!("{}\n", std::process::id());
                let _ = file.set_len(0).and_then(|()| file.write_all_at(pid.as_bytes(), 0));
                Ok(Lock(file))
            }
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let _ = (&file).take(32).read_to_string(&mut text);
                let pid = text.trim().parse().ok();
                Err(RecordError::Busy { directory: self.path.clone(), pid })
            }
            Err(e) => Err(io_error("lock", &self.path.join(LOCK), e.into())),
        }
    }
}

/// An error with the file that it is about.
pub(crate) fn io_error(what: &'static str, path: &Path, source: io::Error) -> RecordError {
    RecordError::Io { what, path: path.to_owned(), source }
}
