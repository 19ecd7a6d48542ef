//! Files that a command line names and that may come from another user: opened without waiting,
//! regular, of a bounded size.
//!
//! A FIFO without a writer would keep the command waiting for ever, and a file of any size would be
//! read until memory is full.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use floodwall_model::Bytes;
use rustix::fs::OFlags;

/// The largest result that is read. A second of a phase takes 1.3 kB, so that two days of measuring
/// fit; a search of a night takes 40 MB.
const MAX_RESULT: Bytes = Bytes(256 << 20);
/// The largest recording of a lab that is read. A request is a line of some 50 bytes, so that it
/// holds twenty million of them: a day of a busy disk.
const MAX_RECORDING: Bytes = Bytes(1 << 30);

/// A stored result's bytes.
///
/// # Errors
/// The reason why it can't be read: its type if not a regular file, or its size and the limit. The
/// caller names the file.
pub(crate) fn result(path: &Path) -> io::Result<Vec<u8>> {
    read(path, MAX_RESULT)
}

/// A stored result's bytes from standard input.
///
/// # Errors
/// If it can't be read, or has more bytes than a result may have.
pub(crate) fn result_on_stdin() -> io::Result<Vec<u8>> {
    bounded(io::stdin().lock(), MAX_RESULT)
}

/// A small file's bytes, up to a limit.
///
/// # Errors
/// As [`result`].
pub(crate) fn small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read(path, Bytes(limit))
}

/// A recording's text.
///
/// # Errors
/// As [`result`], and if it is not UTF-8.
pub(crate) fn recording(path: &Path) -> io::Result<String> {
    text(read(path, MAX_RECORDING)?)
}

/// Bytes as text, without the byte order mark with which some editors begin it.
///
/// # Errors
/// If they are not UTF-8.
pub(crate) fn text(bytes: Vec<u8>) -> io::Result<String> {
    let text = String::from_utf8(bytes)
        .map_err(|e| io::Error::other(format!("it is not UTF-8 text: {}", e.utf8_error())))?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

fn read(path: &Path, limit: Bytes) -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let meta = file.metadata()?;
    let kind = match meta.file_type() {
        kind if kind.is_file() => None,
        kind if kind.is_dir() => Some("a directory"),
        kind if kind.is_fifo() => Some("a pipe"),
        kind if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    };
    if let Some(kind) = kind {
        return Err(io::Error::other(format!("it is {kind}; name a regular file")));
    }
    if meta.len() > limit.0 { Err(too_large(limit)) } else { bounded(file, limit) }
}

/// All bytes of a reader. A file may grow, and those of /proc have no size.
fn bounded(reader: impl Read, limit: Bytes) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = reader.take(limit.0 + 1).read_to_end(&mut bytes)?;
    if length as u64 > limit.0 { Err(too_large(limit)) } else { Ok(bytes) }
}

fn too_large(limit: Bytes) -> io::Error {
    io::Error::other(format!(
        "it has more than {limit}, the most that is read; name a smaller file"
    ))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let said = |path: &Path| read(path, Bytes(10)).unwrap_err().to_string();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(said(&fifo), "it is a pipe; name a regular file");
        assert_eq!(said(dir.path()), "it is a directory; name a regular file");
        assert_eq!(said(Path::new("/dev/zero")), "it is a device; name a regular file");
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_no_further() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(read(&path, Bytes(10)).unwrap(), b"0123456789");
        let said = |path: &Path| read(path, Bytes(9)).unwrap_err().to_string();
        assert_eq!(said(&path), "it has more than 9 B, the most that is read; name a smaller file");
        // It says 0 bytes of itself.
        assert_eq!(
            said(Path::new("/proc/self/status")),
            "it has more than 9 B, the most that is read; name a smaller file"
        );
    }
}
