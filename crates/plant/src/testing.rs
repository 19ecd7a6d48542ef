//! For tests alone: a captured tree of kernel files.

use std::fs;
use std::io::Write;
use std::path::Path;

/// Puts a file with one line below `tree`.
pub(crate) fn put(tree: &Path, path: &str, line: &str) {
    let path = tree.join(path);
    let directory = path.parent().unwrap();
    fs::create_dir_all(directory).unwrap();
    let mut file = tempfile::NamedTempFile::new_in(directory).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
    file.persist(path).unwrap();
}
