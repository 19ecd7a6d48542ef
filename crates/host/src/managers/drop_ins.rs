//! Drop-in directories as systemd and procps read them (sysctl.d(5), tmpfiles.d(5), udev(7)). The
//! files of all directories come in the order of their names; of two with one name the earlier
//! directory's is read alone.

use std::collections::BTreeMap;

use floodwall_model::Reading;

use super::found::Found;

/// The paths of the files with an ending that are read, in that order, in directories of falling
/// precedence.
pub(super) fn list(found: &mut Found<'_>, directories: &[&str], ending: &str) -> Vec<String> {
    let mut by_name: BTreeMap<String, String> = BTreeMap::new();
    for directory in directories {
        match found.root.list(directory) {
            Reading::Value(names) => {
                for name in names.into_iter().filter(|n| n.ends_with(ending) && !n.starts_with('.'))
                {
                    let path = format!("{directory}/{name}");
                    by_name.entry(name).or_insert(path);
                }
            }
            Reading::Absent(_) => {}
            Reading::Unreadable(why) => found.unread(directory, &format!("unreadable: {why}")),
        }
    }
    by_name.into_values().collect()
}

/// How to get rid of a line: a file that a package owns is masked, one of the administrator's is
/// edited.
pub(super) fn how_to_settle(path: &str, line: u32, mask_in: &str, then: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    if path.starts_with("/usr/") || path.starts_with("/lib/") {
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
        assert_eq!(listed, ["/usr/lib/x.d/10-a.conf", "/etc/x.d/20-b.conf"]);
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
