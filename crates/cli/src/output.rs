//! Results on stdout, everything else on stderr. A reader that went away (`| head`, a closed terminal) is no reason to panic.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Writes a result to stdout.
///
/// # Errors
/// If stdout can't be written, except that a closed pipe is the reader's choice and no error.
pub(crate) fn result(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("can't write to stdout"),
    }
}

/// Writes one line to stderr; if nobody listens any more, nobody is told.
pub(crate) fn notice(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Whether stderr is a terminal on which a progress bar may move.
pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Writes a file whole or not at all: into a temporary neighbour, synced, then renamed over the name.
///
/// # Errors
/// With the path, if it can't be written; what was there before is then still there.
pub(crate) fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let fail = || format!("can't write '{}'", path.display());
    let mut name =
        path.file_name().with_context(|| format!("'{}' names no file", path.display()))?.to_owned();
    name.push(format!(".tmp-{}", std::process::id()));
    let temporary: PathBuf = path.with_file_name(name);
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.with_context(fail)
}

/// Checks that a file could be written later, so that an hour's measurement is not lost for a misspelt directory.
///
/// # Errors
/// With the path, if its directory does not exist or can't be written.
pub(crate) fn check_writable(path: &Path) -> anyhow::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    anyhow::ensure!(
        !path.is_dir(),
        crate::exit::UsageError(format!("'{}' is a directory; name a file", path.display()))
    );
    let writable = rustix::fs::access(parent, rustix::fs::Access::WRITE_OK);
    writable.map_err(|e| {
        crate::exit::UsageError(format!("can't write '{}': {}", path.display(), io::Error::from(e))).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        write_file(&path, "one").unwrap();
        write_file(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_path_that_can_not_be_written_is_noticed_before_the_work() {
        let message = check_writable(Path::new("/nonexistent/result.json")).unwrap_err().to_string();
        assert!(message.contains("/nonexistent/result.json"), "{message}");
    }
}
