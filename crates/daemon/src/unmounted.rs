//! Named directories whose filesystem is not mounted: the disk that a guard steers for them is the
//! one below.
//!
//! ```text
//! directories, their mount points, /etc/fstab ─▶ warnings
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What mount(8) reads (fstab(5)).
const FSTAB: &str = "/etc/fstab";

/// A warning for each empty directory that fstab has as a mount point and that is none now.
/// `mounted`: where the filesystem of each directory is mounted.
pub(crate) fn warnings(mounted: &BTreeMap<String, PathBuf>) -> Vec<String> {
    let fstab = fs::read_to_string(FSTAB).unwrap_or_default();
    let is_empty =
        |directory: &Path| fs::read_dir(directory).is_ok_and(|mut all| all.next().is_none());
    warnings_by(mounted, &fstab, is_empty)
}

fn warnings_by(
    mounted: &BTreeMap<String, PathBuf>,
    fstab: &str,
    is_empty: impl Fn(&Path) -> bool,
) -> Vec<String> {
    let points: Vec<PathBuf> = fstab.lines().filter_map(mount_point).collect();
    let is_unmounted = |directory: &Path, mount: &Path| {
        directory != mount && points.iter().any(|point| point == directory) && is_empty(directory)
    };
    mounted
        .iter()
        .filter(|(directory, mount)| is_unmounted(Path::new(directory), mount))
        .map(|(directory, mount)| {
            format!(
                "'{directory}' is empty, and {FSTAB} mounts a filesystem there, which is not \
                 mounted now: the guard steers the disk of '{}' instead; mount '{directory}' and \
                 start the guard again",
                mount.display()
            )
        })
        .collect()
}

/// The mount point of a line. A blank in it is `\040`, a tab `\011`.
fn mount_point(line: &str) -> Option<PathBuf> {
    let mut fields = line.split_whitespace();
    fields.next().filter(|source| !source.starts_with('#'))?;
    let point = fields.next().filter(|point| point.starts_with('/'))?;
    Some(PathBuf::from(point.replace("\\040", " ").replace("\\011", "\t")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_directory_that_fstab_mounts_is_told_until_it_is_mounted() {
        let fstab = "# /dev/sdc /old ext4\n/dev/sda1 / ext4\n/dev/sdb1 /srv/my\\040data xfs\n\
                     /dev/sdb2 /data xfs\n/dev/sda2 none swap\n";
        let at = |directory: &str, mount: &str| {
            [(directory.to_owned(), PathBuf::from(mount))].into_iter().collect()
        };
        let told = |directory: &str, mount: &str, empty: bool| {
            warnings_by(&at(directory, mount), fstab, |_| empty)
        };
        assert_eq!(
            told("/srv/my data", "/", true),
            ["'/srv/my data' is empty, and /etc/fstab mounts a filesystem there, which is not \
                 mounted now: the guard steers the disk of '/' instead; mount '/srv/my data' and \
                 start the guard again"]
        );
        assert!(told("/srv/my data", "/", false).is_empty(), "it has files of its own");
        assert!(told("/data", "/data", true).is_empty(), "it is mounted");
        assert!(told("/old", "/", true).is_empty() && told("/home", "/", true).is_empty());
    }
}
