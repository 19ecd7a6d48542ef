//! For tests alone: a captured tree of kernel files.

use std::path::Path;

/// Puts a file with one line below `tree`.
pub(crate) fn put(tree: &Path, path: &str, line: &str) {
    floodwall_testing::tree::put(&tree.join(path), &format!("{line}\n"));
}
