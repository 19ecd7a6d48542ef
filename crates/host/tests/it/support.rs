//! Copies of the captured trees, so that a test may change them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use floodwall_host::SysRoot;

/// `fixtures/hosts/NAME`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts").join(name)
}

/// A tree in its first state, and its content one second later.
pub(crate) struct Machine {
    dir: tempfile::TempDir,
    name: &'static str,
}

impl Machine {
    pub(crate) fn copy_of(name: &'static str) -> Self {
        let dir = scratch();
        copy(&fixture(name), dir.path(), &|path| path.ends_with("later"));
        Self { dir, name }
    }

    pub(crate) fn root(&self) -> SysRoot {
        SysRoot::new(self.dir.path()).unwrap()
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file of the tree.
    #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// One second passes.
    pub(crate) fn later(&self) {
        copy(&fixture(self.name).join("later"), self.dir.path(), &|_| false);
    }
}

/// A directory in memory where there is one: a tree is thousands of small files.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a test's own directory")]
fn copy(from: &Path, to: &Path, skip: &dyn Fn(&Path) -> bool) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if skip(&source) {
        } else if kind.is_dir() {
            copy(&source, &target, skip);
        } else if kind.is_symlink() {
            symlink(fs::read_link(&source).unwrap(), &target).unwrap();
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
}
