//! Files that a process has open.

use floodwall_model::Reading;
use rustix::fs::{AtFlags, CWD, FileType, OFlags, StatxFlags, makedev, statx};
use rustix::path::Arg;

use crate::root::SysRoot;

/// Descriptors that are looked at; a server may have a hundred thousand.
const MOST: usize = 4096;

/// Paths of the files that a process has open for writing, each once, in the order of their
/// descriptors. Sockets, pipes and the nodes of /dev are left out.
pub fn read_written_files(root: &SysRoot, pid: u32) -> Reading<Vec<String>> {
    let directory = format!("/proc/{pid}/fd");
    root.list(&directory).map(|mut descriptors| {
        descriptors.sort_by_key(|number| number.parse::<u32>().unwrap_or(u32::MAX));
        let mut paths: Vec<String> = Vec::new();
        for descriptor in descriptors.iter().take(MOST) {
            let link = root.link_target(&format!("{directory}/{descriptor}")).into_value();
            let is_file = |path: &String| path.starts_with('/') && !path.starts_with("/dev/");
            if let Some(path) = link.filter(is_file)
                && !paths.contains(&path)
                && is_written(root, pid, descriptor)
            {
                paths.push(path);
            }
        }
        paths
    })
}

/// Whether a descriptor is open for writing.
fn is_written(root: &SysRoot, pid: u32, descriptor: &str) -> bool {
    open_flags(root, pid, descriptor).is_some_and(is_for_writing)
}

/// Whether flags of open(2) let a program write.
#[must_use]
pub fn is_for_writing(flags: OFlags) -> bool {
    flags & OFlags::ACCMODE != OFlags::RDONLY
}

/// The flags of a descriptor, as of open(2) (/proc/PID/fdinfo/FD `flags`, octal). None if there is
/// no such descriptor, or if this process may not look at it.
#[must_use]
pub fn open_flags(root: &SysRoot, pid: u32, descriptor: &str) -> Option<OFlags> {
    let info = root.read(&format!("/proc/{pid}/fdinfo/{descriptor}")).into_value();
    let field = info.as_deref()?.lines().find_map(|line| line.strip_prefix("flags:"))?;
    u32::from_str_radix(field.trim(), 8).ok().map(OFlags::from_bits_retain)
}

/// A regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegularFile {
    /// As `st_dev`.
    pub device: u64,
    /// Its number on the device.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes that it takes on the disk, or will take once its dirty pages are written.
    pub allocated: u64,
    /// Whether it has no name.
    pub is_deleted: bool,
}

/// The regular file at a path, such as that of a descriptor below /proc. None if there is no such
/// file, or if this process may not look at it.
///
/// The kernel takes what it knows and does not ask the server of a filesystem (FUSE, NFS). That may
/// be dead, or a stopped process.
pub fn regular_file(path: impl Arg) -> Option<RegularFile> {
    let fields = StatxFlags::TYPE
        | StatxFlags::INO
        | StatxFlags::SIZE
        | StatxFlags::BLOCKS
        | StatxFlags::NLINK;
    let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, fields).ok()?;
    let is_regular = FileType::from_raw_mode(found.stx_mode.into()).is_file();
    is_regular.then(|| RegularFile {
        device: makedev(found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        size: found.stx_size,
        allocated: found.stx_blocks * 512,
        is_deleted: found.stx_nlink == 0,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    use floodwall_testing::tree::put;

    use super::*;

    #[test]
    fn a_regular_file_is_looked_at_through_its_descriptor() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let file = named.reopen().unwrap();
        file.set_len(300).unwrap();
        let found = file.metadata().unwrap();
        let (device, inode) = (found.dev(), found.ino());
        let expected = RegularFile { device, inode, size: 300, allocated: 0, is_deleted: false };
        let of = |file: &File| regular_file(format!("/proc/self/fd/{}", file.as_raw_fd()));
        assert_eq!(of(&file), Some(expected));
        drop(named);
        assert_eq!(of(&file), Some(RegularFile { is_deleted: true, ..expected }));
        assert_eq!(of(&File::open("/dev/null").unwrap()), None);
        assert_eq!(regular_file("/proc/self/fd/no"), None);
    }

    #[test]
    fn files_open_for_writing_are_told_once_each() {
        let dir = tempfile::tempdir().unwrap();
        let open = [
            (3, "/srv/a", "0100002"),
            (4, "/srv/a", "0100001"),
            (5, "/srv/read", "0100000"),
            (10, "/srv/b", "01"),
            (6, "/dev/null", "0100002"),
            (7, "socket:[5]", "02"),
        ];
        for (fd, link, flags) in open {
            put(
                &dir.path().join(format!("proc/7/fdinfo/{fd}")),
                &format!("pos:\t0\nflags:\t{flags}\n"),
            );
            put(&dir.path().join("proc/7/fd/none"), "");
            std::os::unix::fs::symlink(link, dir.path().join(format!("proc/7/fd/{fd}"))).unwrap();
        }
        let root = SysRoot::new(dir.path()).unwrap();
        assert_eq!(
            read_written_files(&root, 7),
            Reading::Value(vec!["/srv/a".into(), "/srv/b".into()])
        );
        assert!(matches!(read_written_files(&root, 8), Reading::Absent(_)));
    }
}
