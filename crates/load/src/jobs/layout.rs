//! The files of a job, made before it begins: as long as its requests go, allocated, and written if
//! it reads them.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use floodwall_model::Bytes;
use rustix::fs::{self as rfs, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::plan::{Allocate, JobFile, JobPlan};
use crate::error::{LoadError, MAKE_DIRECTORY};
use crate::file::NamedFile;
use crate::fileio::Target;

/// Of a file that is made, before the mask of the process.
const MODE: Mode = Mode::from_raw_mode(0o644);

/// Why files can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// They do not fit.
    #[error(
        "the files take {wanted} and {free} are free in '{}'; lower size, or name another \
         directory",
        path.display()
    )]
    NoSpace {
        /// Their bytes.
        wanted: Bytes,
        /// What the filesystem has left.
        free: Bytes,
        /// A directory of it.
        path: PathBuf,
    },
    /// A file would have to be made or extended.
    #[error(
        "'{}' is missing or too short, and may only be read; name another file, or lower size",
        path.display()
    )]
    ReadOnly {
        /// Its name.
        path: PathBuf,
    },
    /// A call failed.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Makes the files of a job that are not there or too short. `announce` gets their number and bytes
/// before the first is made.
///
/// # Errors
/// [`LayoutError::ReadOnly`] and [`LayoutError::NoSpace`] before anything is written;
/// [`LoadError::Interrupted`] once `stop` is raised; [`LoadError::Io`]. A file that was begun is
/// removed then: the next run would take it for a whole one.
pub fn lay_out(
    plan: &JobPlan,
    announce: &mut dyn FnMut(u32, u64),
    stop: &AtomicBool,
) -> Result<(), LayoutError> {
    if plan.makes_late {
        return Ok(());
    }
    let mut missing: Vec<(&JobFile, u64)> = Vec::new();
    for file in &plan.files {
        missing.extend(lacks(file)?.map(|bytes| (file, bytes)));
    }
    let bytes = missing.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let Some((first, _)) = missing.first() else { return Ok(()) };
    if !plan.may_make {
        return Err(LayoutError::ReadOnly { path: first.path.clone() });
    }
    for (file, _) in &missing {
        make_directories(&file.path)?;
    }
    if plan.allocate != Allocate::Never || plan.fills {
        check_space(&first.path, bytes)?;
    }
    let planned = missing.iter().fold(0_u64, |sum, (file, _)| sum.saturating_add(file.len));
    announce(missing.len() as u32, planned);
    for (number, (file, _)) in missing.iter().enumerate() {
        make(plan, file, plan.seed.wrapping_add(number as u64), stop)?;
    }
    Ok(())
}

/// A file that would have to be written before the job begins, because the job reads it.
#[must_use]
pub fn missing(plan: &JobPlan) -> Option<&Path> {
    let is_written = !plan.makes_late && (plan.reads || plan.fills);
    let is_missing = |file: &&JobFile| is_written && lacks(file).is_ok_and(|lacks| lacks.is_some());
    plan.files.iter().find(is_missing).map(|file| file.path.as_path())
}

/// How much longer a file has to be, in bytes; `None` if it is there and long enough.
fn lacks(file: &JobFile) -> Result<Option<u64>, LoadError> {
    let end = file.from + file.len;
    Ok(match Target::at(&file.path)? {
        Some(target) if target.is_device || target.size >= end => None,
        there => Some(end - there.map_or(0, |target| target.size)),
    })
}

/// The directories above a file, as fio makes them.
fn make_directories(path: &Path) -> Result<(), LoadError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let made = parent.map_or(Ok(()), std::fs::create_dir_all);
    made.map_err(|e| LoadError::Io {
        operation: MAKE_DIRECTORY,
        path: parent.map(Path::to_owned).unwrap_or_default(),
        errno: Errno::from_io_error(&e).unwrap_or(Errno::IO),
    })
}

fn check_space(path: &Path, bytes: u64) -> Result<(), LayoutError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let stat = rfs::statvfs(directory).map_err(|e| LoadError::io("look at", directory, e))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if bytes <= free {
        return Ok(());
    }
    let path = directory.to_owned();
    Err(LayoutError::NoSpace { wanted: Bytes(bytes), free: Bytes(free), path })
}

/// Makes one file anew.
fn make(plan: &JobPlan, file: &JobFile, seed: u64, stop: &AtomicBool) -> Result<(), LayoutError> {
    match rfs::unlink(&file.path) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(e) => return Err(LoadError::io("remove", &file.path, e).into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let fd =
        rfs::open(&file.path, flags, MODE).map_err(|e| LoadError::io("make", &file.path, e))?;
    let made = NamedFile { fd, path: file.path.clone() };
    let filled = fill(plan, &made, file.from + file.len, seed, stop);
    if filled.is_err() {
        // The first error is the one to tell.
        let _ = rfs::unlink(&file.path);
    }
    filled
}

/// Gives a new file its length, its blocks and its data.
fn fill(
    plan: &JobPlan,
    made: &NamedFile,
    end: u64,
    seed: u64,
    stop: &AtomicBool,
) -> Result<(), LayoutError> {
    let allocated = |flags| match rfs::fallocate(&made.fd, flags, 0, end) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(e) => Err(made.failed("allocate", e)),
    };
    if end > 0 {
        match plan.allocate {
            Allocate::Blocks => allocated(FallocateFlags::empty())?,
            Allocate::BlocksAlone => allocated(FallocateFlags::KEEP_SIZE)?,
            Allocate::Length => made.truncate(end)?,
            Allocate::Never => {}
        }
    }
    if plan.reads || plan.fills {
        made.fill(end, seed, &mut |_| {}, stop)?;
    }
    Ok(())
}

/// Files that are removed when this is dropped: those of jobs that ask for it.
#[derive(Debug, Default)]
pub struct Removal(Vec<PathBuf>);

impl Removal {
    /// Adds the files of a job, if it asks for it.
    pub fn add(&mut self, plan: &JobPlan) {
        if plan.removes {
            self.0.extend(plan.files.iter().map(|file| file.path.clone()));
        }
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        // A device stays. Jobs may have had a file together.
        for path in self.0.iter().filter(|path| path.is_file()) {
            let _ = rfs::unlink(path);
        }
    }
}
