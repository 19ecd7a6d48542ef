//! Results on stdout, everything else on stderr. A reader that went away (`| head`, a closed terminal) is no reason to panic.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::exit::UsageError;

/// Writes a result to stdout.
///
/// # Errors
/// If stdout can't be written, except that a closed pipe is the reader's choice and no error.
pub(crate) fn result(text: &str) -> anyhow::Result<()> {
    result_with(|out| Ok(out.write_all(text.as_bytes())?))
}

/// The same for a result that is too large to be held as one text.
///
/// # Errors
/// As [`result`], and what `write` says.
pub(crate) fn result_with(write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let written = write(&mut out).and_then(|()| Ok(out.flush()?));
    let is_closed_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    match written {
        Err(error) if error.chain().any(is_closed_pipe) => {
            // What is still in the buffer would be tried again when it is dropped.
            let _ = out.into_parts();
            Ok(())
        }
        other => other.context("can't write to stdout"),
    }
}

/// Writes one line to stderr; if nobody listens any more, nobody is told.
pub(crate) fn notice(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// An error with its causes in one line; a cause that the message before it quotes already is not said twice.
pub(crate) fn message(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |mut line, cause| {
        if !line.contains(&cause) {
            let separator = if line.is_empty() { "" } else { ": " };
            line.push_str(separator);
            line.push_str(&cause);
        }
        line
    })
}

/// Whether stderr is a terminal on which a progress bar may move.
pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Writes a file whole or not at all: into a temporary neighbour, synced, then renamed over the name. A symbolic link's target is replaced, not the
/// link; what is not a regular file (a pipe, `/dev/null`) is written in place.
///
/// # Errors
/// With the path, if it can't be written; a regular file that was there before is then still there.
pub(crate) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let fail = || format!("can't write '{}'", path.display());
    // A file that does not exist yet has no other name.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&path).is_ok_and(|m| !m.is_file()) {
        let mut file = OpenOptions::new().write(true).open(&path).with_context(fail)?;
        return write(&mut file).with_context(fail);
    }
    let mut name =
        path.file_name().with_context(|| format!("'{}' names no file", path.display()))?.to_owned();
    name.push(format!(".tmp-{}", std::process::id()));
    let temporary: PathBuf = path.with_file_name(name);
    let written = File::create(&temporary).map_err(anyhow::Error::from).and_then(|file| {
        let mut buffered = BufWriter::new(file);
        write(&mut buffered)?;
        buffered.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok(fs::rename(&temporary, &path)?)
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.with_context(fail)
}

/// Checks that a file could be written later, so that an hour's measurement is not lost for a misspelt directory.
///
/// # Errors
/// [`UsageError`] with what is wrong, if its directory does not exist or can't be written.
pub(crate) fn check_writable(path: &Path) -> anyhow::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let usage = |why: String| Err(UsageError(format!("can't write '{}': {why}", path.display())).into());
    if path.is_dir() {
        return usage("it is a directory; name a file".into());
    }
    if !parent.is_dir() {
        return usage(format!("there is no directory '{}'; make it first", parent.display()));
    }
    let (place, name) = if path.exists() { (path, "it") } else { (parent, "its directory") };
    match rustix::fs::access(place, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Ok(()),
        Err(e) => usage(format!("{name} can't be written ({}); name another file", io::Error::from(e))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
        write_file(path, |out| Ok(out.write_all(text.as_bytes())?))
    }

    #[test]
    fn a_cause_is_said_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("can't open 'x': {source}; name another")]
        struct Quoting {
            source: io::Error,
        }
        let quoting = Quoting { source: io::Error::from_raw_os_error(2) };
        let text = "can't open 'x': No such file or directory (os error 2); name another";
        assert_eq!(message(&anyhow::Error::from(quoting)), text);
        assert_eq!(message(&anyhow::anyhow!("inner").context("outer")), "outer: inner");
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        write_text(&path, "one").unwrap();
        write_text(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        let broken = write_file(&path, |out| {
            out.write_all(b"half")?;
            anyhow::bail!("no more")
        });
        assert!(broken.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_are_followed_and_what_is_no_file_stays_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::File::create(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write_text(&link, "through").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "through");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        // Any device node would do; this one is everywhere, and a rename over it would be noticed by everybody.
        use std::os::unix::fs::FileTypeExt;
        let null = dir.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        write_text(&null, "gone").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_path_that_can_not_be_written_is_noticed_before_the_work() {
        let message = check_writable(Path::new("/nonexistent/result.json")).unwrap_err().to_string();
        assert!(message.contains("there is no directory '/nonexistent'"), "{message}");
    }
}
