//! The directory in which the tools' files are: gone when the comparison is over, however it ends,
//! short of SIGKILL.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// A directory that is removed with everything in it when this is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes one below `dir`.
    pub(crate) fn make(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join(format!("agree-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("can't make '{}'", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_dir_all(&self.0) {
            eprintln!("can't remove '{}': {e}; remove it by hand", self.0.display());
        }
    }
}
