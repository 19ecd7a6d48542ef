//! Directories in which a command may make files, by its arguments.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Arguments that are looked at, at most. A list of files may be long.
const MOST: usize = 1000;

/// A directory in which a command may make files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    /// Whether it may make them in directories below as well.
    pub(super) is_deep: bool,
}

/// The directories that a command's arguments name, the directories of files that they name, and
/// the working directory. An argument `--option=PATH` names a path as well.
pub(super) fn roots(arguments: &[OsString], working_directory: Option<PathBuf>) -> Vec<Root> {
    let mut roots: Vec<Root> = Vec::new();
    let named = arguments.iter().take(MOST).filter_map(|argument| root_of(argument));
    let working = working_directory.map(|path| Root { path, is_deep: true });
    for root in named.chain(working) {
        match roots.iter_mut().find(|known| known.path == root.path) {
            Some(known) => known.is_deep |= root.is_deep,
            None => roots.push(root),
        }
    }
    roots
}

fn root_of(argument: &OsStr) -> Option<Root> {
    let bytes = argument.as_bytes();
    let path = if bytes.starts_with(b"-") {
        let equals = bytes.iter().position(|b| *b == b'=')?;
        &bytes[equals + 1..]
    } else {
        bytes
    };
    let path = Path::new(OsStr::from_bytes(path));
    if path.is_dir() {
        return Some(Root { path: path.to_owned(), is_deep: true });
    }
    let parent =
        path.parent().filter(|parent| !parent.as_os_str().is_empty() && parent.is_dir())?;
    Some(Root { path: parent.to_owned(), is_deep: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_come_from_paths_and_options() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["a", "b", "c"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let words = ["xf", "-C", "/no/such", "--to="].map(OsString::from).to_vec();
        let mut arguments = words;
        arguments.push(at("a").into());
        arguments.push(at("b/new").into());
        arguments.push(format!("--directory={}", at("c").display()).into());
        arguments.push(at("b").into());
        let expected = ["a", "b", "c"].map(|name| Root { path: at(name), is_deep: true });
        assert_eq!(roots(&arguments, Some(at("c"))), expected);
        let shallow = Root { path: at("b"), is_deep: false };
        assert_eq!(roots(&arguments[5..6], None), [shallow]);
    }
}
