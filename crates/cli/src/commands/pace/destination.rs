//! The directories in which a command may write, found by its arguments.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Arguments that are looked at, at most. A shell's pattern may name many thousands of files.
const MOST: usize = 1000;

/// The likeliest directory first: the one that the arguments tell. Then that of the file to which
/// stdout is redirected, the current one, and those of all arguments.
pub(super) fn destinations(arguments: &[OsString]) -> Vec<PathBuf> {
    let words: Vec<&OsStr> = arguments.iter().map(AsRef::as_ref).collect();
    let mut directories = vec![named(&words)];
    let stdout = Some(Path::new("/proc/self/fd/1")).filter(|stdout| stdout.is_file());
    directories.extend(stdout.and_then(|stdout| directory(stdout, true)));
    directories.push(PathBuf::from("."));
    let last = words.iter().rev().take(MOST).flat_map(|word| paths(word));
    directories.extend(last.filter_map(|path| directory(path, true)));
    directories
}

/// The last argument that names a directory or something new in one, or the current directory. A
/// file that exists is a source, unless the last argument names it and another one names a source
/// (`cp new old`).
fn named(arguments: &[&OsStr]) -> PathBuf {
    let found = arguments.iter().enumerate().rev().find_map(|(at, word)| {
        let others = arguments[..at].iter().flat_map(|other| paths(other));
        let files_count = at + 1 == arguments.len() && others.into_iter().any(Path::exists);
        paths(word).into_iter().find_map(|path| directory(path, files_count))
    });
    found.unwrap_or_else(|| PathBuf::from("."))
}

/// The paths that an argument may name: all of it, the part after `=` (`of=/srv/copy`), or the part
/// after the letter of an option (`-C/srv`). In an argument with a space, which may be a shell's,
/// no path is looked for.
fn paths(word: &OsStr) -> Vec<&Path> {
    let bytes = word.as_bytes();
    let path = |start: usize| Path::new(OsStr::from_bytes(&bytes[start..]));
    let mut paths = vec![path(0)];
    if !bytes.iter().any(u8::is_ascii_whitespace) {
        paths.extend(bytes.iter().position(|byte| *byte == b'=').map(|at| path(at + 1)));
        if let [b'-', letter, b'/', ..] = bytes
            && letter.is_ascii_alphanumeric()
        {
            paths.push(path(2));
        }
    }
    paths
}

/// The directory at a path, or the directory of something new there, or of a file if files count.
fn directory(path: &Path, files_count: bool) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.to_owned());
    }
    if path.exists() {
        // Behind a symbolic link it may be on another disk.
        let file = fs::canonicalize(path).ok().filter(|_| files_count)?;
        return file.parent().map(Path::to_owned);
    }
    // A bare word is a path only if it exists: it has no parent.
    path.parent().filter(|parent| parent.is_dir()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_path_tells_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let (path, file) = (dir.path().display().to_string(), dir.path().join("file"));
        fs::write(&file, "").unwrap();
        let file = file.to_str().unwrap();
        let of =
            |words: &[&str]| named(&words.iter().map(|word| OsStr::new(*word)).collect::<Vec<_>>());
        let new = format!("{path}/new");
        assert_eq!(of(&["xf", "/etc/passwd", "-C", &path]), dir.path());
        assert_eq!(of(&[&format!("-C{path}")]), dir.path());
        assert_eq!(of(&["if=/dev/zero", &format!("of={new}"), "bs=1M"]), dir.path());
        assert_eq!(of(&["/etc/passwd", file]), dir.path(), "it is written over");
        assert_eq!(of(&["if=/dev/zero", &format!("of={file}")]), dir.path());
        assert_eq!(of(&[file, "new"]), Path::new("."), "a source");
        assert_eq!(of(&["xf", file]), Path::new("."), "a source");
        assert_eq!(of(&[file]), Path::new("."), "a script");
        assert_eq!(of(&["-c", &format!("cat {path}/file; true")]), Path::new("."));
        assert_eq!(of(&["-j8"]), Path::new("."));
        assert_eq!(of(&["--flag", "/no/such/place"]), Path::new("."));
        assert_eq!(of(&["--rate=1MB/s", "10MB/s", "host:/etc/new"]), Path::new("."));
        assert_eq!(of(&[]), Path::new("."));
    }
}
