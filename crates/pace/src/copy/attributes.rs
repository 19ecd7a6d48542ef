//! Owner, mode, times and extended attributes of copies.

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{
    self as rfs, AtFlags, CWD, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::folder::{Place, kind};
use super::summary::Summary;

/// Bytes of a list of names or of a value, at most (XATTR_LIST_MAX, XATTR_SIZE_MAX).
const XATTR_BYTES: usize = 65_536;
/// ACLs that a new file inherits from its directory, and loses if its source has none.
const ACLS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];
/// Mode bits without those that the kernel clears when a file is written or changes its owner.
const PERMISSIONS: u32 = 0o777;

/// The mode of a new file without `-a`. The kernel applies the umask or the directory's ACL. The
/// bits `own` are added, so that the owner can write the copy.
pub(super) fn mode_of_new(source: &Stat, own: u32) -> Mode {
    Mode::from_raw_mode((source.st_mode & PERMISSIONS) | own)
}

/// Removes the bits `own` from a file that was made with [`mode_of_new`], as far as the source
/// lacks them.
pub(super) fn settle_mode(
    source: &Stat,
    own: u32,
    file: BorrowedFd<'_>,
    path: &Path,
    summary: &mut Summary,
) {
    let excess = own & !source.st_mode;
    if excess == 0 {
        return;
    }
    let settled = rfs::fstat(file)
        .and_then(|now| rfs::fchmod(file, Mode::from_raw_mode(now.st_mode & !excess)));
    note(summary, "mode", path, settled);
}

/// Gives a file the mode of the one that it replaces, and its owner as far as this user may.
pub(super) fn keep_of_replaced(
    replaced: &Stat,
    file: BorrowedFd<'_>,
    path: &Path,
    summary: &mut Summary,
) {
    let (owner, group) = owners(replaced);
    if rfs::fchown(file, owner, group).is_err() {
        // The file belongs to this user, as a new one does.
        let _ = rfs::fchown(file, None, group);
    }
    let mode = Mode::from_raw_mode(replaced.st_mode & PERMISSIONS);
    note(summary, "mode", path, rfs::fchmod(file, mode));
}

/// `-a` for a file or directory: `to` gets the attributes of `from`, whose `stat` is from before it
/// was read.
pub(super) fn keep(
    from: BorrowedFd<'_>,
    stat: &Stat,
    to: BorrowedFd<'_>,
    path: &Path,
    summary: &mut Summary,
) {
    // In this order: a new owner clears capabilities and the setuid bit, and an ACL sets the mode.
    let change = |owner, group| rfs::fchown(to, owner, group);
    let mode = owned_mode(stat, change, || rfs::fstat(to), path, summary);
    keep_xattrs(from, to, path, summary);
    note(summary, "mode", path, rfs::fchmod(to, mode));
    note(summary, "times", path, rfs::futimens(to, &times(stat)));
}

/// `-a` for a symlink or a special file. Those can't be opened.
pub(super) fn keep_by_name(stat: &Stat, to: &Place, path: &Path, summary: &mut Summary) {
    let folder = &to.folder;
    let name = to.name.as_os_str();
    let unfollowed = AtFlags::SYMLINK_NOFOLLOW;
    let change = |owner, group| rfs::chownat(folder, name, owner, group, unfollowed);
    let now = || rfs::statat(folder, name, unfollowed);
    let mode = owned_mode(stat, change, now, path, summary);
    // A symlink has no mode.
    if !kind(stat).is_symlink() {
        note(summary, "mode", path, change_mode(to, mode));
    }
    note(summary, "times", path, rfs::utimensat(folder, name, &times(stat), unfollowed));
}

/// chmod(2) of an entry, without following a symlink, which fchmodat(2) always does.
fn change_mode(to: &Place, mode: Mode) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    let node = to.open(rfs::OFlags::PATH)?;
    rfs::chmodat(CWD, format!("/proc/self/fd/{}", node.as_raw_fd()), mode, AtFlags::empty())
}

/// Changes owner and group, and returns the mode for the file. It has setuid only with the source's
/// owner, and setgid only with the source's group.
fn owned_mode(
    stat: &Stat,
    change: impl Fn(Option<Uid>, Option<Gid>) -> Result<(), Errno>,
    now: impl Fn() -> Result<Stat, Errno>,
    path: &Path,
    summary: &mut Summary,
) -> Mode {
    let (owner, group) = owners(stat);
    let changed = change(owner, group);
    if changed.is_err() {
        // A member of the group may set it without being root.
        let _ = change(None, group);
    }
    let errno = changed.err().unwrap_or(Errno::PERM);
    let now = now().ok();
    let mut mode = Mode::from_raw_mode(stat.st_mode);
    if now.is_none_or(|now| now.st_uid != stat.st_uid) {
        mode.remove(Mode::SUID);
        summary.note_unkept("owner", path, errno);
    }
    if now.is_none_or(|now| now.st_gid != stat.st_gid) {
        mode.remove(Mode::SGID);
        summary.note_unkept("group", path, errno);
    }
    mode
}

fn owners(stat: &Stat) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))
}

fn times(stat: &Stat) -> Timestamps {
    let time = |tv_sec, nanoseconds| Timespec {
        tv_sec,
        tv_nsec: rfs::Nsecs::try_from(nanoseconds).unwrap_or(0),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

fn keep_xattrs(from: BorrowedFd<'_>, to: BorrowedFd<'_>, path: &Path, summary: &mut Summary) {
    const WHAT: &str = "extended attributes";
    let list = match listed(from) {
        Ok(list) => list,
        Err(Errno::NOTSUP) => Vec::new(),
        Err(errno) => return summary.note_unkept(WHAT, path, errno),
    };
    let mut value = vec![0u8; if list.is_empty() { 0 } else { XATTR_BYTES }];
    let names = || list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    for name in names() {
        let kept = rfs::fgetxattr(from, name, &mut value[..])
            .and_then(|len| rfs::fsetxattr(to, name, &value[..len], XattrFlags::empty()));
        note(summary, WHAT, path, kept);
    }
    for inherited in ACLS.into_iter().filter(|acl| names().all(|name| name != *acl)) {
        // An error: mostly the file has none.
        let _ = rfs::fremovexattr(to, inherited);
    }
}

/// The names of a file's attributes, each with a NUL byte behind it.
fn listed(file: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    if rfs::flistxattr_query(file)? == 0 {
        return Ok(Vec::new());
    }
    let mut list = vec![0u8; XATTR_BYTES];
    let len = rfs::flistxattr(file, &mut list[..])?;
    list.truncate(len);
    Ok(list)
}

fn note(summary: &mut Summary, what: &'static str, path: &Path, result: Result<(), Errno>) {
    if let Err(errno) = result {
        summary.note_unkept(what, path, errno);
    }
}
