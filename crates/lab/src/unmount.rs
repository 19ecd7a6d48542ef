//! Unmounting what may be dead, and ending the waits for it.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter};
use rustix::mount::UnmountFlags;

use crate::error::LabError;
use crate::mounts::Mount;
use crate::process;

/// How often a busy filesystem is tried again.
const TRY_EVERY: Duration = Duration::from_millis(20);

/// How hard to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Force {
    /// Like umount(8), again and again while it is busy, for this long.
    No(Duration),
    /// Out of the tree at once; it ends when its last user does.
    Lazy,
}

/// Unmounts; a directory where nothing is mounted (any more) is fine.
///
/// # Errors
/// [`LabError::Busy`], or what the kernel answers.
pub(crate) fn unmount(dir: &Path, force: Force) -> Result<(), LabError> {
    let flags = match force {
        Force::No(_) => UnmountFlags::NOFOLLOW,
        Force::Lazy => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    let began = Instant::now();
    let mut done = rustix::mount::unmount(dir, flags);
    while done == Err(Errno::BUSY)
        && matches!(force, Force::No(patience) if began.elapsed() < patience)
    {
        thread::sleep(TRY_EVERY);
        done = rustix::mount::unmount(dir, flags);
    }
    match done {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(Errno::BUSY) => {
            Err(LabError::Busy { device: dir.into(), pids: process::users_of_directory(dir) })
        }
        Err(errno) => Err(LabError::io("unmount", dir, errno)),
    }
}

/// `FS_IOC_SHUTDOWN`, `_IOR('X', 125, __u32)`: understood by xfs, ext4, f2fs and btrfs from 6.19
/// on.
const FS_IOC_SHUTDOWN: Opcode = rustix::ioctl::opcode::read::<u32>(b'X', 125);
/// Without writing the log first.
const NO_LOG_FLUSH: u32 = 2;

/// Makes a filesystem fail every access from now on, so that no process goes on writing into it, or
/// waits for it. Says whether the filesystem could.
#[allow(unsafe_code, reason = "ioctl")]
pub(crate) fn shut_down(dir: &Path) -> bool {
    let Ok(root) = File::open(dir) else { return false };
    // SAFETY: the request reads one u32, which Setter points at.
    unsafe { rustix::ioctl::ioctl(&root, Setter::<FS_IOC_SHUTDOWN, u32>::new(NO_LOG_FLUSH)) }
        .is_ok()
}

/// Ends a FUSE connection from outside: every process that waits for its server gets an error.
/// `mount` is its mount.
pub(crate) fn abort_fuse(mount: &Mount) {
    // The connection's name is the minor number of the mount's device
    // (Documentation/filesystems/fuse.rst).
    let number = mount.dev.split_once(':').map_or("", |(_, minor)| minor);
    let control = Path::new("/sys/fs/fuse/connections").join(number).join("abort");
    let aborted = File::options().write(true).open(control).and_then(|mut f| f.write_all(b"1"));
    if aborted.is_err() {
        // Where that filesystem is not mounted: a forced unmount does the same (fuse_umount_begin).
        let flags = UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        let _ = rustix::mount::unmount(&mount.dir, flags);
    }
}
