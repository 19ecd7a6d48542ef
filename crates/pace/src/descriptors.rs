//! The number of files that this process may have open.

use rustix::process::{Resource, getrlimit};

/// Uses of open files that share the limit.
const USES: u64 = 8;

/// `most` open files for one use, or its share of the process's limit (`ulimit -n`) if that is
/// less. At least one.
pub(crate) fn at_most(most: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let share = limit.and_then(|limit| usize::try_from(limit / USES).ok());
    share.unwrap_or(most).min(most).max(1)
}
