//! The disk on which a command is paced: of those that it may write to, the one that gets its data.
//!
//! ```text
//! words ─▶ directories ─▶ their disks ─────────────▶ Pacer::open_one_of
//! bytes of its files, by st_dev ─▶ the disk with most of them ─▶ Pacer::choose
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use floodwall_host::SysRoot;

use super::filesystems::Filesystems;

/// So many bytes in the command's files tell the disk.
const ENOUGH: u64 = 1 << 20;
/// So many bytes tell it in any case, wherever they are. If none is in a file that was found, it is
/// the first disk.
const MUCH: u64 = 64 << 20;

/// The disks that a command may write to.
#[derive(Debug)]
pub(super) struct Disks {
    /// A directory on each disk, and the filesystems of the disk.
    places: Vec<(PathBuf, Filesystems)>,
    /// The disk that is paced.
    chosen: OnceLock<usize>,
}

impl Disks {
    /// The disks below these directories. Those that are written to no device or server of their
    /// own (tmpfs, /dev) are left out, if there are others.
    ///
    /// # Errors
    /// The filesystem of none of the directories can be found.
    pub(super) fn of(root: &SysRoot, directories: Vec<PathBuf>) -> anyhow::Result<Self> {
        let mut places: Vec<(PathBuf, Filesystems)> = Vec::new();
        let mut failed = None;
        for directory in directories {
            match Filesystems::of(root, &directory) {
                Ok(found) if places.iter().any(|(_, known)| known.has(found.own())) => {}
                Ok(found) => places.push((directory, found)),
                Err(error) => failed = Some(error),
            }
        }
        let has_writeback = |(_, found): &(PathBuf, Filesystems)| found.has_own_writeback();
        if places.iter().any(has_writeback) {
            places.retain(has_writeback);
        }
        match failed {
            Some(error) if places.is_empty() => Err(error),
            _ => Ok(Self { places, chosen: OnceLock::new() }),
        }
    }

    /// A directory on each disk, the likeliest first.
    pub(super) fn directories(&self) -> Vec<&Path> {
        self.places.iter().map(|(directory, _)| directory.as_path()).collect()
    }

    /// Whether files with this `st_dev` are on the paced disk. Until that is chosen, those on each
    /// of the disks count.
    pub(super) fn has(&self, dev: u64) -> bool {
        match self.chosen.get().and_then(|chosen| self.places.get(*chosen)) {
            Some((_, filesystems)) => filesystems.has(dev),
            None => self.places.iter().any(|(_, filesystems)| filesystems.has(dev)),
        }
    }

    /// Takes the bytes that the command has dirtied, and those of its files by their `st_dev`.
    /// Returns the disk that is paced from now on, once.
    pub(super) fn choose(&self, dirtied: u64, by_filesystem: &BTreeMap<u64, u64>) -> Option<usize> {
        if self.chosen.get().is_some() {
            return None;
        }
        let bytes = self.places.iter().map(|(_, filesystems)| {
            let own = by_filesystem.iter().filter(|(dev, _)| filesystems.has(**dev));
            own.map(|(_, bytes)| bytes).sum()
        });
        let disk = disk_of(&bytes.collect::<Vec<u64>>(), dirtied)?;
        self.chosen.set(disk).ok().map(|()| disk)
    }
}

/// The disk with most bytes, once there are enough.
fn disk_of(bytes: &[u64], dirtied: u64) -> Option<usize> {
    let is_known = bytes.len() == 1 || bytes.iter().sum::<u64>() >= ENOUGH || dirtied >= MUCH;
    let most = bytes.iter().max()?;
    bytes.iter().position(|bytes| bytes == most).filter(|_| is_known)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_disk_is_the_one_with_most_bytes() {
        assert_eq!(disk_of(&[0], 0), Some(0), "there is no other");
        assert_eq!(disk_of(&[0, 0], 0), None);
        assert_eq!(disk_of(&[10, ENOUGH - 11], MUCH - 1), None);
        assert_eq!(disk_of(&[10, ENOUGH - 10], 0), Some(1));
        assert_eq!(disk_of(&[ENOUGH, 10], 0), Some(0));
        assert_eq!(disk_of(&[0, 10], MUCH), Some(1));
        assert_eq!(disk_of(&[0, 0], MUCH), Some(0), "in files that were not found");
        assert_eq!(disk_of(&[], MUCH), None);
    }

    #[test]
    fn a_disk_counts_once_and_the_first_choice_stays() {
        let root = SysRoot::live().unwrap();
        let (one, two) = (tempfile::tempdir_in(".").unwrap(), tempfile::tempdir_in(".").unwrap());
        let dev = one.path().metadata().unwrap().dev();
        let directories = [one.path(), Path::new("/no/such"), two.path(), Path::new("/proc")];
        let disks = Disks::of(&root, directories.map(Path::to_owned).to_vec()).unwrap();
        assert!(disks.has(dev));
        let bytes = BTreeMap::from([(dev, ENOUGH)]);
        assert_eq!(disks.choose(0, &bytes), Some(0));
        assert_eq!(disks.choose(0, &bytes), None);
        let proc = Path::new("/proc").metadata().unwrap().dev();
        // A container's root, an overlay, has no writeback of its own either.
        if disks.directories() == [one.path()] {
            assert!(!disks.has(proc));
        }
        let error = Disks::of(&root, vec![PathBuf::from("/no/such")]).unwrap_err();
        assert!(error.to_string().contains("/no/such"), "{error}");
    }
}
