//! Mounts: finding them by device, making a filesystem, mounting, and unmounting what may be dead.
//!
//! Mounts are always looked up in `/proc/self/mountinfo` (proc_pid_mountinfo(5)), never by looking
//! at a path: a path below a dead mount can block.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_model::Bytes;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter};
use rustix::mount::{MountFlags, UnmountFlags};
use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// A filesystem that the lab can make and mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Filesystem {
    /// xfs.
    Xfs,
    /// ext4.
    Ext4,
    /// btrfs.
    Btrfs,
}

impl Filesystem {
    /// As `mount -t` calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xfs => "xfs",
            Self::Ext4 => "ext4",
            Self::Btrfs => "btrfs",
        }
    }

    /// The Debian package with its tools.
    #[must_use]
    pub const fn package(self) -> &'static str {
        match self {
            Self::Xfs => "xfsprogs",
            Self::Ext4 => "e2fsprogs",
            Self::Btrfs => "btrfs-progs",
        }
    }

    /// The smallest device that its mkfs takes (mkfs.xfs since xfsprogs 5.19; mkfs.btrfs with one
    /// device and its defaults; mke2fs with a journal of 1,024 blocks).
    #[must_use]
    pub const fn least(self) -> Bytes {
        match self {
            Self::Xfs => Bytes::mib(300),
            Self::Ext4 => Bytes::mib(2),
            Self::Btrfs => Bytes::mib(109),
        }
    }

    fn mkfs(self) -> String {
        format!("mkfs.{}", self.name())
    }

    /// mkfs is quiet and does not ask. It discards nothing, since the device is empty, and leaves
    /// nothing for later: ext4 would initialise its tables in the background, during the first
    /// minutes of a measurement.
    const fn mkfs_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Xfs => &["-q", "-f", "-K"],
            Self::Ext4 => &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
            Self::Btrfs => &["-q", "-f", "-K"],
        }
    }

    /// Where its mkfs is: root's `PATH` often lacks the sbin directories.
    fn find_mkfs(self) -> Result<PathBuf, LabError> {
        let name = self.mkfs();
        ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin", "/bin"]
            .iter()
            .map(|dir| Path::new(dir).join(&name))
            .find(|path| path.exists())
            .ok_or(LabError::NoMkfs { program: name, package: self.package() })
    }

    /// Whether its mkfs is there.
    ///
    /// # Errors
    /// [`LabError::NoMkfs`], with the package.
    pub fn check(self) -> Result<(), LabError> {
        self.find_mkfs().map(drop)
    }

    /// Makes the filesystem on a device.
    pub(crate) fn make(self, device: &Path) -> Result<(), LabError> {
        let program = self.find_mkfs()?;
        let output = Command::new(&program)
            .args(self.mkfs_arguments())
            .arg(device)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| LabError::Command { command: program.display().to_string(), error })?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let mut lines = said.lines().map(str::trim).filter(|l| !l.is_empty());
        // mkfs.xfs explains its options after the error, the others begin with their version.
        let telling = if self == Self::Xfs { lines.next() } else { lines.next_back() };
        let said = telling.map_or_else(|| output.status.to_string(), str::to_owned);
        Err(LabError::MkfsFailed { program: self.mkfs(), device: device.into(), said })
    }

    /// Mounts a device.
    pub(crate) fn mount(self, device: &Path, dir: &Path) -> Result<(), LabError> {
        rustix::mount::mount(device, dir, self.name(), MountFlags::empty(), None)
            .map_err(|e| LabError::io("mount", dir, e))
    }
}

/// One line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// `MAJOR:MINOR`; an anonymous number for btrfs and FUSE.
    pub(crate) dev: String,
    pub(crate) dir: PathBuf,
    pub(crate) fs_type: String,
    pub(crate) source: PathBuf,
}

/// All mounts, in the order in which they were made.
///
/// # Errors
/// When /proc is not there.
pub(crate) fn all() -> Result<Vec<Mount>, LabError> {
    let path = Path::new("/proc/self/mountinfo");
    let text = fs::read(path).map_err(|e| LabError::io("read", path, e))?;
    Ok(read(&text).collect())
}

/// The mounts in a mountinfo's text.
pub(crate) fn read(text: &[u8]) -> impl Iterator<Item = Mount> {
    text.split(|b| *b == b'\n').filter_map(parse)
}

/// `ID PARENT MAJ:MIN ROOT DIR OPTIONS [TAG…] - TYPE SOURCE SUPER`
fn parse(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let dash = fields.iter().skip(6).position(|f| *f == b"-")? + 6;
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    Some(Mount {
        dev: text(fields[2]),
        dir: unescape(fields[4]),
        fs_type: text(fields.get(dash + 1)?),
        source: unescape(fields.get(dash + 2)?),
    })
}

/// Space, tab, newline and backslash are written as `\040` and so on.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal =
            after.get(..3).filter(|d| byte == b'\\' && d.iter().all(|c| (b'0'..=b'7').contains(c)));
        match octal {
            Some(digits) => {
                out.push(
                    digits.iter().fold(0u8, |acc, c| acc.wrapping_mul(8).wrapping_add(c - b'0')),
                );
                rest = &after[3..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(out).into()
}

/// The mounts of a block device, the last made first. btrfs is known by its source: its device
/// number is anonymous.
pub(crate) fn of_device(device: &Path, dev: Option<&str>) -> Result<Vec<Mount>, LabError> {
    Ok(all()?
        .into_iter()
        .rev()
        .filter(|m| m.source == device || Some(m.dev.as_str()) == dev)
        .collect())
}

/// The last mount on a directory, if there is one.
pub(crate) fn on(dir: &Path) -> Result<Option<Mount>, LabError> {
    Ok(all()?.into_iter().rfind(|m| m.dir == dir))
}

/// Whether a filesystem can be mounted on a directory.
///
/// # Errors
/// [`LabError::MountPoint`] with the reason.
pub(crate) fn check_mount_point(dir: &Path) -> Result<PathBuf, LabError> {
    let refused = |why| LabError::MountPoint { dir: dir.into(), why };
    let real = match fs::canonicalize(dir) {
        Ok(real) => real,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(refused("there is no such directory; make it first"));
        }
        Err(e) => return Err(LabError::io("look at", dir, e)),
    };
    if !real.is_dir() {
        return Err(refused("it is not a directory; name one"));
    }
    if on(&real)?.is_some() {
        return Err(refused("something is mounted there; choose another directory, or unmount it"));
    }
    Ok(real)
}

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
        Err(Errno::BUSY) => Err(LabError::Busy {
            device: dir.into(),
            pids: crate::process::users_of_directory(dir),
        }),
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
    let aborted = File::options()
        .write(true)
        .open(control)
        .and_then(|mut f| io::Write::write_all(&mut f, b"1"));
    if aborted.is_err() {
        // Where that filesystem is not mounted: a forced unmount does the same (fuse_umount_begin).
        let flags = UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        let _ = rustix::mount::unmount(&mount.dir, flags);
    }
}

/// A figure of `/proc/meminfo`; `None` where the kernel does not say.
pub(crate) fn memory(name: &str) -> Option<Bytes> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
    Some(Bytes::kib(line.trim().strip_suffix("kB")?.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_lines_are_read_with_and_without_tags() {
        let plain = b"36 35 98:0 /mnt1 /mnt2 rw,noatime - ext3 /dev/root rw,errors=continue";
        let tagged =
            b"37 35 0:54 / /run/a\\040b rw master:1 shared:2 - fuse.floodwall-lab lab:x rw";
        assert_eq!(
            parse(tagged),
            Some(Mount {
                dev: "0:54".into(),
                dir: "/run/a b".into(),
                fs_type: "fuse.floodwall-lab".into(),
                source: "lab:x".into(),
            })
        );
        assert_eq!(parse(plain).map(|m| (m.dev, m.fs_type)), Some(("98:0".into(), "ext3".into())));
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"36 35 98:0 / /mnt rw"), None);
    }

    #[test]
    fn a_mount_point_must_be_a_directory_without_a_mount() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check_mount_point(dir.path()).is_ok());
        let absent = check_mount_point(&dir.path().join("no")).unwrap_err().to_string();
        assert!(absent.ends_with("there is no such directory; make it first"), "{absent}");
        let taken = check_mount_point(Path::new("/proc")).unwrap_err().to_string();
        assert!(taken.contains("something is mounted there"), "{taken}");
    }
}
