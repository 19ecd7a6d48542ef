//! The lock that makes a guard the only one: `/run/floodwall/guard.lock`, flock(2), with the
//! holder's process number and its socket, a line each. The kernel frees it with its holder.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::directory;
use crate::error::{DaemonError, Doing};

const LOCK: &str = "guard.lock";
/// Mode of the lock. A user who can open it, even to read, can lock it and so keep the guard from
/// starting.
const LOCK_MODE: u32 = 0o600;

/// Held while a guard runs; its name goes with it.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
}

/// Where the lock of a guard is: one a machine, and one a simulated machine's socket.
pub(crate) fn path(directory: &Path, simulated: Option<&Path>) -> PathBuf {
    match simulated {
        Some(socket) => socket.with_extension("lock"),
        None => directory.join(LOCK),
    }
}

impl Lock {
    /// Takes it.
    ///
    /// # Errors
    /// With the holder's process number and socket if another guard runs.
    pub(crate) fn take(path: &Path, socket: &Path) -> Result<Self, DaemonError> {
        directory::prepare(path)?;
        loop {
            let lock = Self::take_file(path, socket)?;
            // The last holder may have removed the name between open and flock, and another guard
            // may have made a new file since.
            if lock.has_its_name() {
                return Ok(lock);
            }
        }
    }

    fn take_file(path: &Path, socket: &Path) -> Result<Self, DaemonError> {
        let fail = || format!("can't lock '{}'", path.display());
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(LOCK_MODE)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)
            .map_err(|e| match e.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    let without = "run as root; floodwall guard --sim hdd-7200 works without";
                    DaemonError::Missing(format!("{}: {e}; {without}", fail()))
                }
                _ => DaemonError::Io { what: fail(), source: e },
            })?;
        // Any user could open, and so lock, the file of an earlier version.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(LOCK_MODE)).doing(fail)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                return Err(DaemonError::Failed(refusal(&holder)));
            }
            Err(e) => return Err(e).doing(fail),
        }
        // For whom we keep out.
        let us = format!("{}\n{}\n", std::process::id(), socket.display());
        file.set_len(0).and_then(|()| file.write_all(us.as_bytes())).doing(fail)?;
        Ok(Self { file, path: path.to_owned() })
    }

    fn has_its_name(&self) -> bool {
        let file = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let named = fs::symlink_metadata(&self.path).map(file);
        named.is_ok_and(|named| self.file.metadata().is_ok_and(|ours| file(ours) == named))
    }

    /// The process that holds it, if any, according to the kernel's list. To try the lock would be
    /// in the way of a guard that starts.
    pub(crate) fn holder(path: &Path) -> Option<u32> {
        let meta = fs::metadata(path).ok()?;
        let locks = fs::read_to_string("/proc/locks").ok()?;
        holder_in(
            &locks,
            (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev())),
            meta.ino(),
        )
    }

    /// Where its holder answers. `None` without a holder, and for all but the holder's user and
    /// root, who can't read it.
    pub(crate) fn socket(path: &Path) -> Option<PathBuf> {
        Self::holder(path)?;
        fs::read_to_string(path).ok()?.lines().nth(1).map(PathBuf::from)
    }
}

/// Why a second guard does not start, and what to do, from the text that the first has left in the
/// lock.
fn refusal(holder: &str) -> String {
    let mut lines = holder.lines().map(str::trim).filter(|line| !line.is_empty());
    let (pid, socket) = (lines.next(), lines.next());
    let process = pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
    let at = socket.map_or_else(String::new, |socket| format!(" at the socket '{socket}'"));
    let named = socket.map_or_else(String::new, |socket| format!(" --socket '{socket}'"));
    let stop = pid.map_or_else(String::new, |pid| format!(": kill {pid}"));
    format!(
        "another guard{process} runs here and answers{at}: only one can steer; ask it with \
         floodwall guard status{named}, or stop it first{stop}"
    )
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.has_its_name() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The process that holds a flock(2) on a file, from the text of /proc/locks (proc_locks(5)):
/// `1: FLOCK ADVISORY WRITE 4711 00:19:1234 0 EOF`. The device is in hexadecimal. A line with `->`
/// is of a process that waits.
fn holder_in(locks: &str, device: (u32, u32), inode: u64) -> Option<u32> {
    let file = format!("{:02x}:{:02x}:{inode}", device.0, device.1);
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", "ADVISORY", "WRITE", pid, its_file, ..] if its_file == file => {
                pid.parse().ok()
            }
            _ => None,
        }
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test's own files")]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_was_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard.lock");
        let socket = Path::new("/run/x.sock");
        let first = Lock::take(&path, socket).unwrap();
        let said = Lock::take(&path, Path::new("/run/y.sock")).unwrap_err().to_string();
        let us = std::process::id();
        assert_eq!(
            said,
            format!(
                "another guard (process {us}) runs here and answers at the socket '/run/x.sock': \
                 only one can steer; ask it with floodwall guard status --socket '/run/x.sock', \
                 or stop it first: kill {us}"
            )
        );
        // An earlier version has left its number alone.
        let earlier = refusal("4711\n");
        assert!(earlier.contains("(process 4711) runs here and answers: only one"), "{earlier}");
        assert_eq!(Lock::holder(&path), Some(us));
        assert_eq!(Lock::socket(&path).as_deref(), Some(socket));
        drop(first);
        assert_eq!(Lock::holder(&path), None);
        // One that was killed leaves its text.
        fs::write(&path, "4711\n/run/x.sock\n").unwrap();
        assert_eq!(Lock::socket(&path), None);
        fs::remove_file(&path).unwrap();
        assert!(!path.exists(), "nothing is left");
        drop(Lock::take(&path, socket).unwrap());
    }

    #[test]
    fn a_lock_whose_name_has_gone_is_not_taken_for_the_one_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard.lock");
        let first = Lock::take(&path, Path::new("/run/x.sock")).unwrap();
        fs::remove_file(&path).unwrap();
        let second = Lock::take(&path, Path::new("/run/x.sock")).unwrap();
        assert!(!first.has_its_name() && second.has_its_name());
        drop(first);
        assert!(path.exists(), "it is the second's");
        assert!(Lock::take(&path, Path::new("/run/x.sock")).is_err());
    }

    #[test]
    fn nobody_else_can_open_the_lock_and_asking_for_its_holder_takes_nothing() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard.lock");
        fs::write(&path, "4711\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let lock = Lock::take(&path, Path::new("/run/x.sock")).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(lock);

        let locks = "1: POSIX  ADVISORY  WRITE 1 00:19:1234 0 EOF\n\
                     2: FLOCK  ADVISORY  READ 2 00:19:1234 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 4711 00:19:1234 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 4712 00:19:99 0 EOF\n";
        assert_eq!(holder_in(locks, (0, 0x19), 1234), Some(4711));
        assert_eq!(holder_in(locks, (0, 0x19), 99), None, "who waits holds nothing");
        assert_eq!(holder_in(locks, (8, 0x19), 1234), None);
    }
}
