//! The directories in which a command may write, found by its words.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The directories that the arguments name, the last one first, the current one, and that of the
/// file that stdout is.
pub(super) fn destinations(arguments: &[OsString]) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = named(arguments).collect();
    directories.push(PathBuf::from("."));
    directories.extend(redirected());
    directories
}

/// The directory of the file that stdout is.
fn redirected() -> Option<PathBuf> {
    let is_file = fs::metadata("/proc/self/fd/1").is_ok_and(|out| out.is_file());
    let path = fs::canonicalize("/proc/self/fd/1").ok().filter(|_| is_file)?;
    path.parent().map(Path::to_owned)
}

/// The directories that the arguments name, and those of files and of something new.
fn named(arguments: &[OsString]) -> impl Iterator<Item = PathBuf> {
    let words = arguments.iter().rev();
    words.flat_map(|word| paths(word).into_iter().filter_map(directory))
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

/// The directory at a path, or the directory of a file or of something new there.
fn directory(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.to_owned());
    }
    // A bare word is in the current directory, if it is a path.
    path.parent().filter(|parent| parent.is_dir()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_tells_a_directory_and_the_last_one_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let (path, file) = (dir.path().display().to_string(), dir.path().join("file"));
        fs::write(&file, "").unwrap();
        let (file, new) = (file.to_str().unwrap(), format!("{path}/new"));
        let of = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let found: Vec<String> = named(&words).map(|path| path.display().to_string()).collect();
            found.join(" ")
        };
        assert_eq!(of(&["xf", "/etc/passwd", "-C", &path]), format!("{path} /etc"));
        assert_eq!(of(&[&format!("-C{path}")]), path);
        assert_eq!(of(&["if=/dev/zero", &format!("of={new}"), "bs=1M"]), format!("{path} /dev"));
        assert_eq!(of(&["/etc/passwd", file]), format!("{path} /etc"));
        assert_eq!(of(&["cf", &new, "/etc"]), format!("/etc {path}"));
        assert_eq!(of(&[file, "new"]), path, "'new' is in the current directory");
        assert_eq!(of(&["-c", &format!("cat {path}/file; true")]), "");
        assert_eq!(of(&["--flag", "-j8", "/no/such/place"]), "");
        assert_eq!(of(&["--rate=1MB/s", "10MB/s", "host:/etc/new"]), "");
    }
}
