//! Copies of the captured trees, so that a test may change them.

use std::path::Path;

use floodwall_host::SysRoot;
use floodwall_testing::tree::{copy, copy_host, host, put};

/// A tree in its first state, and its content one second later.
pub(crate) struct Machine {
    dir: tempfile::TempDir,
    name: &'static str,
}

impl Machine {
    pub(crate) fn copy_of(name: &'static str) -> Self {
        let dir = scratch();
        copy_host(name, dir.path()).unwrap();
        Self { dir, name }
    }

    pub(crate) fn root(&self) -> SysRoot {
        SysRoot::new(self.dir.path()).unwrap()
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file of the tree.
    pub(crate) fn put(&self, path: &str, text: &str) {
        put(&self.dir.path().join(path), text);
    }

    /// One second passes.
    pub(crate) fn later(&self) {
        copy(&host(self.name).join("later"), self.dir.path(), &|_| false).unwrap();
    }
}

/// A directory in memory where there is one: a tree is thousands of small files.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
