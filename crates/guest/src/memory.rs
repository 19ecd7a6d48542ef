//! Where the guest's memory is, and how much it gets.
//!
//! User-mode Linux maps its memory from a nameless file, executable. The file takes what the guest
//! has touched. QEMU's memory needs no file.

use std::io;
use std::path::{Path, PathBuf};

use floodwall_model::Bytes;
use rustix::fs::StatVfsMountFlags;

use crate::error::{GuestError, LEAST};

/// `TMPFS_MAGIC` of linux/magic.h.
const TMPFS: u64 = 0x0102_1994;

/// The first of `dirs` on a tmpfs without noexec, and the guest's RAM. That is the requested size,
/// or half of the least of the free space there and `available`, the host's free RAM.
///
/// # Errors
/// [`GuestError::MemoryDir`], [`GuestError::Memory`].
pub fn choose(
    dirs: &[PathBuf],
    asked: Option<Bytes>,
    available: Option<Bytes>,
) -> Result<(PathBuf, Bytes), GuestError> {
    let mut refused = Vec::new();
    for dir in dirs {
        match room(dir) {
            Ok(free) => {
                let free = Bytes(free.0.min(available.map_or(u64::MAX, |bytes| bytes.0)));
                let ram = size(asked, free, &format!("in '{}' and in RAM", dir.display()))?;
                return Ok((dir.clone(), ram));
            }
            Err(why) => refused.push(format!("'{}' {why}", dir.display())),
        }
    }
    Err(GuestError::MemoryDir { why: refused.join(", ") })
}

/// The RAM of a guest without such a directory: the requested size, or half of `available`, the
/// host's free RAM.
///
/// # Errors
/// [`GuestError::Memory`].
pub fn of_the_host(asked: Option<Bytes>, available: Option<Bytes>) -> Result<Bytes, GuestError> {
    // The host's free RAM is unknown: the requested size, or the least.
    let free = available.or(asked).unwrap_or(Bytes(2 * LEAST.0));
    size(asked, free, "in RAM")
}

fn size(asked: Option<Bytes>, free: Bytes, place: &str) -> Result<Bytes, GuestError> {
    let wanted = asked.unwrap_or(Bytes((free.0 / 2).max(LEAST.0)));
    if wanted < LEAST {
        return Err(GuestError::Small { asked: wanted });
    }
    if wanted > free {
        return Err(GuestError::Memory { asked: wanted, place: place.to_owned(), available: free });
    }
    Ok(wanted)
}

/// The free space of a directory, or the reason why it can't hold a guest's memory.
fn room(dir: &Path) -> Result<Bytes, String> {
    let failed = |errno: rustix::io::Errno| format!("can't be used: {}", io::Error::from(errno));
    let kind = rustix::fs::statfs(dir).map_err(failed)?.f_type as u64;
    if kind != TMPFS {
        return Err("is on no tmpfs".into());
    }
    let of = rustix::fs::statvfs(dir).map_err(failed)?;
    if of.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err("is mounted noexec".into());
    }
    Ok(Bytes(of.f_bavail.saturating_mul(of.f_frsize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_can_not_hold_it_is_named_with_the_reason() {
        let dirs = [PathBuf::from("/nowhere/at/all"), PathBuf::from("/proc")];
        let said = choose(&dirs, None, None).unwrap_err().to_string();
        assert!(said.contains("'/nowhere/at/all' can't be used: No such file"), "{said}");
        assert!(said.contains("'/proc' is on no tmpfs"), "{said}");
    }

    #[test]
    fn too_little_is_told_from_more_than_there_is() {
        let shm = [PathBuf::from("/dev/shm")];
        if room(&shm[0]).is_err() {
            // The next test has no such need; a machine without a tmpfs can't have a guest.
            return;
        }
        let ram =
            |asked: Option<Bytes>, available: u64| choose(&shm, asked, Some(Bytes::mib(available)));
        assert_eq!(ram(None, 1200).unwrap().1, Bytes::mib(600));
        assert_eq!(ram(None, 600).unwrap().1, LEAST, "not less than what boots");
        assert!(matches!(ram(None, 500), Err(GuestError::Memory { .. })));
        assert!(matches!(ram(Some(Bytes::mib(700)), 600), Err(GuestError::Memory { .. })));
        assert!(matches!(ram(Some(Bytes::mib(100)), 600), Err(GuestError::Small { .. })));
    }
}
