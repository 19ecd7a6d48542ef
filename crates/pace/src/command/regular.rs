//! Opens regular files only.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open};
use rustix::io::Errno;

/// Opens a regular file for reading. Opening a device or a FIFO could have effects. `extra` is
/// `NOFOLLOW` or empty.
///
/// sync_file_range(2) takes a descriptor that was opened for reading.
pub(super) fn open_regular(path: &Path, extra: OFlags) -> Result<(OwnedFd, Stat), Errno> {
    let name = open(path, OFlags::PATH | OFlags::CLOEXEC | extra, Mode::empty())?;
    let stat = fstat(&name)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    let itself = format!("/proc/self/fd/{}", name.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok((open(itself, flags, Mode::empty())?, stat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(open_regular(&file, OFlags::NOFOLLOW).unwrap().1.st_size, 4);
        assert_eq!(open_regular(&link, OFlags::empty()).unwrap().1.st_size, 4);
        assert_eq!(open_regular(&link, OFlags::NOFOLLOW).err(), Some(Errno::INVAL));
        for other in [dir.path(), Path::new("/dev/null")] {
            assert_eq!(open_regular(other, OFlags::empty()).err(), Some(Errno::INVAL));
        }
    }
}
