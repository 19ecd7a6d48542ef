//! Copies of files and directories, compared with what cp(1) makes of them.

mod attributes;
mod cache;
mod cat;
mod content;
mod fifo;
pub(crate) mod groups;
mod lost;
mod names;
mod refused;
mod resumed;
mod syncs;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use floodwall_host::SysRoot;
use floodwall_pace::copy::{CopyError, Options, Progress, Request, Summary, plan, run};
use floodwall_pace::{Goal, Pacer};
use floodwall_testing::Trial;
use tempfile::TempDir;

/// The data alone.
const PLAIN: Options = Options { recursive: false, archive: false, resume: false, verify: false };
/// `-r`
const DEEP: Options = Options { recursive: true, ..PLAIN };
/// `-a`
const ARCHIVE: Options = Options { archive: true, ..PLAIN };
/// `--resume`
const RESUME: Options = Options { resume: true, ..PLAIN };

const MIB: usize = 1 << 20;

pub(crate) fn tests() -> Vec<Trial> {
    [
        attributes::tests(),
        cache::tests(),
        cat::tests(),
        content::tests(),
        fifo::tests(),
        groups::tests(),
        lost::tests(),
        names::tests(),
        refused::tests(),
        resumed::tests(),
        syncs::tests(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A directory with files of some contents. A name with a slash makes directories.
fn directory(files: &[(&str, &[u8])]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in files {
        put(&directory.path().join(name), content);
    }
    directory
}

fn put(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::File::create(path).unwrap().write_all(content).unwrap();
}

/// Bytes without a pattern that repeats within a megabyte.
fn noise(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn pacer(directory: &Path) -> Pacer {
    Pacer::open(&SysRoot::live().unwrap(), directory, Goal::default(), None).unwrap()
}

fn copy(
    sources: &[&Path],
    destination: impl AsRef<Path>,
    options: Options,
) -> Result<Summary, CopyError> {
    copy_with(sources, destination, options, &mut |_, _| {})
}

/// Copies; `each` gets the progress, and the flag that ends the copy.
fn copy_with(
    sources: &[&Path],
    destination: impl AsRef<Path>,
    options: Options,
    each: &mut dyn FnMut(Progress<'_>, &AtomicBool),
) -> Result<Summary, CopyError> {
    let sources = sources.iter().map(|path| path.to_path_buf()).collect();
    let destination = destination.as_ref().to_owned();
    let plan = plan(&Request { sources, destination, options })?;
    let stop = AtomicBool::new(false);
    run(&plan, &pacer(plan.directory()), &mut |progress| each(progress, &stop), &stop)
}

/// The paths below a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut ahead = vec![directory.to_owned()];
    while let Some(next) = ahead.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            names.push(path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned());
            if path.symlink_metadata().unwrap().is_dir() {
                ahead.push(path);
            }
        }
    }
    names.sort();
    names
}
