//! Files one after the other, or standard input, into a file that is open already.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::{self as rfs, FileType, Stat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::error::CopyError;
use super::folder::{FileId, kind};
use super::request::{Options, Progress};
use super::source::Source;
use super::stream::{Origin, Output, open_input, pump};
use super::summary::Summary;
use super::work::{Totals, Work};
use crate::Pacer;

/// Names of standard input and output in messages.
const INPUT: &str = "standard input";
const OUTPUT: &str = "standard output";

/// The origin of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

/// Writes the inputs one after the other to an open file. Data for a disk is written back in
/// pieces, as that of a copy, and is on the disk at the end. To a pipe or a terminal it is only
/// copied.
///
/// # Errors
/// The first open, read, write or sync that failed; [`CopyError::Same`] if an input is the output,
/// [`CopyError::Interrupted`] after `stop`.
pub fn cat<'a>(
    inputs: &[Input],
    output: BorrowedFd<'_>,
    pacer: &'a Pacer,
    progress: &'a mut dyn FnMut(Progress<'_>),
    stop: &'a AtomicBool,
) -> Result<Summary, CopyError> {
    let path = Path::new(OUTPUT);
    let file = fcntl_dupfd_cloexec(output, 0).map_err(CopyError::io("use", path))?;
    let file = Arc::new(file);
    let stat = rfs::fstat(&file).map_err(CopyError::io("look at", path))?;
    let output = Output::new(&file, path)?;
    let sizes: Option<Vec<u64>> = inputs.iter().map(size).collect();
    let bytes = sizes.map(|sizes| sizes.iter().sum());
    let is_single = inputs.len() <= 1;
    let totals = Totals { bytes, files: inputs.len() as u64, is_single };
    let mut work = Work::new(Options::default(), totals, pacer, progress, stop);
    for input in inputs {
        let name = match input {
            Input::Stdin => {
                let stdin = std::io::stdin();
                let found = rfs::fstat(&stdin).map_err(CopyError::source("look at", INPUT))?;
                refuse_itself(&found, &stat, Path::new(INPUT))?;
                pump(&mut work, Origin::Stream(stdin.as_fd(), Path::new(INPUT)), &output)?;
                Path::new(INPUT)
            }
            Input::File(name) => {
                from_file(&mut work, name, &stat, &output)?;
                name
            }
        };
        work.summary.files += 1;
        work.summary.streamed += u64::from(!output.is_paced);
        work.file_done(name);
    }
    if output.is_paced {
        work.finish_writeback(path)?;
        rfs::fdatasync(&file).map_err(CopyError::io("sync", path))?;
    }
    work.into_summary()
}

fn from_file(
    work: &mut Work<'_>,
    name: &Path,
    output_stat: &Stat,
    output: &Output<'_>,
) -> Result<(), CopyError> {
    let file = open_input(name).map_err(CopyError::source("open", name))?;
    let stat = rfs::fstat(&file).map_err(CopyError::source("look at", name))?;
    refuse_itself(&stat, output_stat, name)?;
    match kind(&stat) {
        FileType::Directory => return Err(CopyError::source("read", name)(Errno::ISDIR)),
        FileType::RegularFile => {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            let mut source = Source::new(Arc::new(file), name.to_owned(), size);
            pump(work, Origin::File(&mut source), output)?
        }
        _ => pump(work, Origin::Stream(file.as_fd(), name), output)?,
    };
    Ok(())
}

/// Refuses an input that is the output: it would grow while it is read, and never end.
fn refuse_itself(input: &Stat, output: &Stat, name: &Path) -> Result<(), CopyError> {
    let is_disk_file = kind(output).is_file() || kind(output).is_block_device();
    if is_disk_file && FileId::of(input) == FileId::of(output) {
        let (source_path, destination) = (name.to_owned(), OUTPUT.into());
        return Err(CopyError::Same { source_path, destination });
    }
    Ok(())
}

/// The size of an input; `None` if only reading tells it.
fn size(input: &Input) -> Option<u64> {
    let Input::File(name) = input else { return None };
    let stat = rfs::stat(name).ok().filter(|stat| kind(stat).is_file())?;
    u64::try_from(stat.st_size).ok()
}
