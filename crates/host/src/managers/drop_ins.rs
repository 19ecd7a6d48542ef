//! Drop-in directories as systemd and procps read them (sysctl.d(5), tmpfiles.d(5), udev(7)). The
//! files of all directories come in the order of their names; of two with one name the earlier
//! directory's counts.

use std::collections::BTreeMap;

use floodwall_model::Reading;

use super::Found;

/// A drop-in file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DropIn {
    /// Its name, by which it is sorted.
    pub(super) name: String,
    /// Where it is.
    pub(super) path: String,
    /// The file that is read in its place, if there is one.
    pub(super) masked_by: Option<String>,
}

/// The files with an ending in directories of falling precedence: those that are read in the order
/// in which they are, each followed by those that it masks.
pub(super) fn list(found: &mut Found<'_>, directories: &[&str], ending: &str) -> Vec<DropIn> {
    let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for directory in directories {
        if is_same_as_usr(found, directory) {
            continue;
        }
        match found.root.list(directory) {
            Reading::Value(names) => {
                for name in names.into_iter().filter(|n| n.ends_with(ending) && !n.starts_with('.')) {
                    let path = format!("{directory}/{name}");
                    by_name.entry(name).or_default().push(path);
                }
            }
            Reading::Absent(_) => {}
            Reading::Unreadable(why) => found.unread(directory, &format!("unreadable: {why}")),
        }
    }
    by_name.into_iter().flat_map(|(name, paths)| with_masked(&name, &paths)).collect()
}

fn with_masked(name: &str, paths: &[String]) -> Vec<DropIn> {
    let read = paths.first();
    let drop_in = |path: &String| DropIn {
        name: name.to_owned(),
        path: path.clone(),
        masked_by: read.filter(|first| *first != path).cloned(),
    };
    paths.iter().map(drop_in).collect()
}

/// Whether `/lib/x` is `/usr/lib/x` by another name, as on merged systems.
fn is_same_as_usr(found: &Found<'_>, directory: &str) -> bool {
    directory.starts_with("/lib/")
        && found.root.link_target("/lib").value().is_some_and(|target| target.trim_matches('/') == "usr/lib")
}

/// Whether a file is a link to /dev/null: there to mask others, and empty itself.
pub(super) fn is_null(found: &Found<'_>, path: &str) -> bool {
    found.root.link_target(path).value().is_some_and(|target| target == "/dev/null")
}

/// How to get rid of a file: one that a package owns is masked, one of the administrator's is
/// edited.
pub(super) fn how_to_settle(path: &str, line: u32, mask_in: &str, then: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let vendors = path.starts_with("/usr/") || path.starts_with("/lib/");
    if vendors {
        format!("mask the file (ln -s /dev/null {mask_in}/{name}){then}")
    } else {
        format!("edit line {line} of {path}{then}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    const DIRECTORIES: [&str; 3] = ["/etc/x.d", "/usr/lib/x.d", "/lib/x.d"];

    #[test]
    fn files_are_sorted_by_name_and_masked_by_directory() {
        let (_dir, root) = tree(&[
            ("etc/x.d/20-b.conf", ""),
            ("etc/x.d/README", ""),
            ("etc/x.d/.hidden.conf", ""),
            ("usr/lib/x.d/10-a.conf", ""),
            ("usr/lib/x.d/20-b.conf", ""),
            ("lib", "->usr/lib"),
        ]);
        let mut found = Found::new(&root);
        let listed = list(&mut found, &DIRECTORIES, ".conf");
        let shown: Vec<(&str, Option<&str>)> =
            listed.iter().map(|file| (file.path.as_str(), file.masked_by.as_deref())).collect();
        assert_eq!(
            shown,
            [
                ("/usr/lib/x.d/10-a.conf", None),
                ("/etc/x.d/20-b.conf", None),
                ("/usr/lib/x.d/20-b.conf", Some("/etc/x.d/20-b.conf")),
            ]
        );
        assert!(found.managers.unread.is_empty());
    }

    #[test]
    fn a_directory_that_is_none_is_told() {
        let (_dir, root) = tree(&[("etc/x.d", "->x.d")]);
        let mut found = Found::new(&root);
        assert!(list(&mut found, &DIRECTORIES, ".conf").is_empty());
        assert_eq!(found.managers.unread[0].what, "/etc/x.d");
    }

    #[test]
    fn vendors_files_are_masked_and_the_administrators_edited() {
        let settle = |path| how_to_settle(path, 3, "/etc/x.d", "; then reload");
        assert_eq!(
            settle("/usr/lib/x.d/10-a.conf"),
            "mask the file (ln -s /dev/null /etc/x.d/10-a.conf); then reload"
        );
        assert_eq!(settle("/etc/x.d/20-b.conf"), "edit line 3 of /etc/x.d/20-b.conf; then reload");
    }
}
