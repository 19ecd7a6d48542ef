//! The directory in which the tools' files are: gone when the comparison is over, however it ends,
//! short of SIGKILL.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Raised by the signals that end a program, so that it ends by itself and what it made is dropped.
pub(crate) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .context("can't install signal handlers")?;
    }
    Ok(flag)
}

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
