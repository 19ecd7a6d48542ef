//! Captured machines, and copies of them that a test may change.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The trees of captured machines: `fixtures/hosts`.
#[must_use]
pub fn hosts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts")
}

/// One of them.
#[must_use]
pub fn host(name: &str) -> PathBuf {
    hosts().join(name)
}

/// Writes a file of a tree, with the directories above it; a text that starts with `->` makes a
/// symbolic link.
///
/// # Panics
/// If it can't be written.
#[expect(clippy::panic, reason = "without its files a test fails")]
pub fn put(path: &Path, text: &str) {
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        match text.strip_prefix("->") {
            Some(target) => symlink(target.trim_end(), path),
            None => fs::write(path, text),
        }
    };
    write().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// Copies a directory with everything in it, except paths that `leaves_out` names. Files that are
/// there already are overwritten, and all copies are writable.
///
/// # Errors
/// What can't be read or written.
pub fn copy(from: &Path, to: &Path, leaves_out: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if leaves_out(&source) {
        } else if kind.is_dir() {
            copy(&source, &target, leaves_out)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
        } else {
            fs::write(&target, fs::read(&source)?)?;
        }
    }
    Ok(())
}

/// Copies the tree of a captured machine, without what its files read a second later.
///
/// # Errors
/// What can't be read or written.
pub fn copy_host(name: &str, to: &Path) -> io::Result<()> {
    copy(&host(name), to, &|path| path.ends_with("later"))
}
