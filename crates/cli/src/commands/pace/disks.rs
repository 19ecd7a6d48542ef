//! The disk on which a command is paced. It begins as the one that the arguments tell, and becomes
//! another one if most of the data goes there.
//!
//! ```text
//! arguments ─▶ directories ─▶ their disks ─▶ Pacer::open_one_of
//! bytes of files, by st_dev ─▶ a disk with many more of them ─▶ Pacer::choose
//! ```

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use floodwall_host::SysRoot;

use super::filesystems::Filesystems;

/// Another disk has to get so many bytes, …
const ENOUGH: u64 = 1 << 20;
/// … and so many times as many as the paced one.
const TIMES: u64 = 4;

/// The disks that a command may write to. The pacer knows which of them is paced.
#[derive(Debug)]
pub(super) struct Disks {
    /// A directory on each disk, and the filesystems of the disk.
    places: Vec<(PathBuf, Filesystems)>,
}

impl Disks {
    /// The disks below these directories.
    ///
    /// # Errors
    /// The filesystem of the first directory can't be found.
    pub(super) fn of(root: &SysRoot, directories: Vec<PathBuf>) -> anyhow::Result<Self> {
        let mut places: Vec<(PathBuf, Filesystems)> = Vec::new();
        for directory in directories {
            let dev = directory.metadata().map(|metadata| metadata.dev());
            let is_known = |dev| places.iter().any(|(_, known)| known.has(dev));
            if dev.is_ok_and(is_known) {
                continue;
            }
            match Filesystems::of(root, &directory) {
                Ok(found) => places.push((directory, found)),
                Err(error) if places.is_empty() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(Self { places })
    }

    /// A directory on each disk.
    pub(super) fn directories(&self) -> Vec<&Path> {
        self.places.iter().map(|(directory, _)| directory.as_path()).collect()
    }

    /// Whether files with this `st_dev` are on one of the disks.
    pub(super) fn is_on(&self, disk: usize, dev: u64) -> bool {
        self.places.get(disk).is_some_and(|(_, filesystems)| filesystems.has(dev))
    }

    /// Whether they are on any of the disks.
    pub(super) fn has(&self, dev: u64) -> bool {
        self.places.iter().any(|(_, filesystems)| filesystems.has(dev))
    }

    /// The disk to pace instead of `paced`, if there is one, by the bytes of the command's files
    /// and their `st_dev`.
    pub(super) fn other(&self, paced: usize, by_filesystem: &BTreeMap<u64, u64>) -> Option<usize> {
        if self.places.len() == 1 {
            return None;
        }
        let bytes = self.places.iter().map(|(_, filesystems)| {
            let own = by_filesystem.iter().filter(|(dev, _)| filesystems.has(**dev));
            own.map(|(_, bytes)| bytes).sum()
        });
        other(&bytes.collect::<Vec<u64>>(), paced)
    }
}

/// The disk with most bytes, if it has many more than the paced one.
fn other(bytes: &[u64], paced: usize) -> Option<usize> {
    let (disk, most) = bytes.iter().enumerate().max_by_key(|(_, bytes)| **bytes)?;
    (*most >= ENOUGH && *most > bytes.get(paced)?.saturating_mul(TIMES)).then_some(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_disk_is_paced_once_it_has_many_more_bytes() {
        assert_eq!(other(&[0, ENOUGH - 1], 0), None);
        assert_eq!(other(&[0, ENOUGH, 5], 0), Some(1));
        assert_eq!(other(&[ENOUGH, 4 * ENOUGH], 0), None);
        assert_eq!(other(&[ENOUGH, 4 * ENOUGH + 1], 0), Some(1));
        assert_eq!(other(&[ENOUGH, 4 * ENOUGH + 1], 1), None);
        assert_eq!(other(&[9 * ENOUGH], 0), None);
    }

    #[test]
    fn a_disk_counts_once_and_the_first_directory_has_to_exist() {
        let root = SysRoot::live().unwrap();
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dev = |path: &Path| path.metadata().unwrap().dev();
        let (nowhere, proc) = (Path::new("/no/such"), Path::new("/proc"));
        let of = |directories: &[&Path]| {
            Disks::of(&root, directories.iter().map(|path| path.to_path_buf()).collect())
        };
        let disks = of(&[one.path(), nowhere, two.path(), proc]).unwrap();
        assert_eq!(disks.directories(), [one.path(), proc]);
        assert!(disks.is_on(0, dev(one.path())) && !disks.is_on(0, dev(proc)));
        assert!(disks.has(dev(proc)));
        let bytes = BTreeMap::from([(dev(one.path()), ENOUGH), (dev(proc), 5 * ENOUGH)]);
        assert_eq!((disks.other(0, &bytes), disks.other(1, &bytes)), (Some(1), None));
        assert!(disks.is_on(1, dev(proc)) && !disks.is_on(1, dev(one.path())));
        let error = of(&[nowhere, one.path()]).unwrap_err();
        assert!(error.to_string().contains("/no/such"), "{error}");
    }
}
