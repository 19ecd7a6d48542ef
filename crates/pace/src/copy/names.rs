//! Names of files: the last name of a path, and the name of an unfinished copy.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The end of an unfinished copy's name.
pub const PART_SUFFIX: &str = ".floodwall-part";

/// Longest name on Linux's filesystems.
const NAME_MAX: usize = 255;
/// `~` and eight hexadecimal digits.
const HASH_LEN: usize = 9;

/// Whether a path ends in a slash, and so names a directory.
pub(super) fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

/// The last name of a path. `None` for `/`, and for `.` and `..`, which [`Path::file_name`] skips.
pub(super) fn last_name(path: &Path) -> Option<&OsStr> {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/')? + 1;
    let start = bytes[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let name = &bytes[start..end];
    (name != b"." && name != b"..").then(|| OsStr::from_bytes(name))
}

/// The directory of a path that has a last name.
pub(super) fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The name of a copy until its data is on the disk.
pub(super) fn part_name(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    let mut part = bytes.to_vec();
    if bytes.len() + PART_SUFFIX.len() > NAME_MAX {
        let mut end = NAME_MAX - PART_SUFFIX.len() - HASH_LEN;
        // Some filesystems refuse a name that ends within a character of UTF-8.
        while end > 0 && bytes[end] & 0xc0 == 0x80 {
            end -= 1;
        }
        part.truncate(end);
        part.extend(format!("~{:08x}", fnv1a(bytes)).as_bytes());
    }
    part.extend(PART_SUFFIX.as_bytes());
    OsString::from_vec(part)
}

/// Whether a name is that of an unfinished copy.
pub(super) fn is_part(name: &OsStr) -> bool {
    name.as_bytes().ends_with(PART_SUFFIX.as_bytes())
}

/// The place of a name in the order of copies: names of unfinished copies come last, shorter ones
/// first, since their unfinished copies have longer names.
pub(super) fn rank(name: &OsStr) -> usize {
    if is_part(name) { name.len() } else { 0 }
}

/// The hash FNV-1a, which stays the same from one release to the next.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_is_the_kernels() {
        for (path, name) in [
            ("a", Some("a")),
            ("/b/a//", Some("a")),
            ("a/.", None),
            ("..", None),
            ("/", None),
            ("", None),
            ("a/...", Some("...")),
        ] {
            assert_eq!(last_name(Path::new(path)), name.map(OsStr::new), "{path}");
        }
        assert_eq!(directory_of(Path::new("a")), Path::new("."));
        assert_eq!(directory_of(Path::new("/a")), Path::new("/"));
        assert_eq!(directory_of(Path::new("b/a/")), Path::new("b"));
    }

    #[test]
    fn a_parts_name_fits_and_tells_long_names_apart() {
        assert_eq!(part_name(OsStr::new("a.iso")), "a.iso.floodwall-part");
        assert_eq!(part_name(OsStr::new(&"x".repeat(240))).len(), 255);
        let names = ["é".repeat(127), format!("{}e", "é".repeat(126))];
        let parts = names.map(|name| part_name(OsStr::new(&name)));
        assert!(parts.iter().all(|part| is_part(part) && part.len() <= NAME_MAX));
        assert!(parts.iter().all(|part| part.to_str().is_some()));
        assert_ne!(parts[0], parts[1]);
    }
}
