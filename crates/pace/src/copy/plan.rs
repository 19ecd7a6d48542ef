//! The plan of a request: checked names, sizes, free space. Changes nothing.

use std::collections::HashSet;
use std::path::PathBuf;

use super::error::CopyError;
use super::job::{Destination, Job, Target};
use super::names::rank;
use super::request::{Options, Request};
use super::sizes::Sizes;

/// A request that can be carried out.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) options: Options,
    /// The directory that gets new entries.
    pub(super) directory: PathBuf,
    pub(super) jobs: Vec<Job>,
    bytes: u64,
    files: u64,
}

impl Plan {
    /// Bytes of the sources, holes included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Files among the sources; everything but directories is one.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files
    }

    /// The existing directory that gets new entries: the disk below it is the one to pace.
    #[must_use]
    pub fn directory(&self) -> &std::path::Path {
        &self.directory
    }
}

/// Checks sources and destination by the rules of cp(1), and the free space.
///
/// - Several sources need an existing directory. A source goes into it by its last name, and the
///   entries of `SRC/.` go into the directory itself.
/// - A directory needs `recursive` or `archive`. It is not copied into itself.
/// - With either of these a symlink is copied as a symlink. Without them it is followed.
/// - A file is not copied onto itself. An existing regular file or symlink is replaced when the
///   copy is complete. A FIFO or a character device is written to. A block device never is.
///
/// # Errors
/// [`CopyError`], before anything was changed.
pub fn plan(request: &Request) -> Result<Plan, CopyError> {
    let options = request.options;
    let destination = Destination::of(request)?;
    let directory = destination.directory();
    let mut sizes = Sizes::new(options, &directory)?;
    let mut names = HashSet::new();
    let mut jobs = Vec::with_capacity(request.sources.len());
    for source in &request.sources {
        let job = destination.job(source, options)?;
        let target = match &job.target {
            Target::Named(name) => directory.join(name),
            Target::Contents | Target::InPlace(_) => directory.clone(),
        };
        if matches!(job.target, Target::Named(_)) && !names.insert(target.clone()) {
            return Err(CopyError::Twice { destination: target });
        }
        sizes.add(&job.source, &job.stat, &target);
        jobs.push(job);
    }
    jobs.sort_by_key(|job: &Job| match &job.target {
        Target::Named(name) => rank(name),
        Target::Contents | Target::InPlace(_) => 0,
    });
    if jobs.iter().any(|job| !matches!(job.target, Target::InPlace(_))) {
        sizes.check_space(&directory)?;
    }
    let (bytes, files) = (sizes.bytes, sizes.files);
    Ok(Plan { options, directory, jobs, bytes, files })
}
