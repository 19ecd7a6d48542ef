//! The guard's place in the file system: its directory, the lock that makes it the only one, its
//! sockets.
//!
//! ```text
//! /run/floodwall/            0755, ours
//!                guard.lock  flock(2), with the holder's process number; the kernel frees it with its holder
//!                guard.sock  0660: root and the group that the guard runs in
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::config::DIRECTORY;
use crate::error::{DaemonError, Doing};

const LOCK: &str = "guard.lock";
/// Of the lock: who can open it, even to read, can lock it and so keep the guard from starting.
const LOCK_MODE: u32 = 0o600;
/// Of a socket.
const MODE: u32 = 0o660;
/// Connections that wait to be accepted.
const WAITING: i32 = 32;
/// Others may not write in the directory of a socket, unless it is one where each may only remove
/// his own (`/tmp`).
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Held while a guard runs; its name goes with it.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
}

/// Where the lock of a guard is: one a machine, and one a simulated machine's socket.
pub(crate) fn lock_path(directory: &Path, simulated: Option<&Path>) -> PathBuf {
    match simulated {
        Some(socket) => socket.with_extension("lock"),
        None => directory.join(LOCK),
    }
}

impl Lock {
    /// Takes it.
    ///
    /// # Errors
    /// With the holder's process number if another guard runs.
    pub(crate) fn take(path: &Path) -> Result<Self, DaemonError> {
        prepare_directory(path)?;
        loop {
            let lock = Self::take_file(path)?;
            // The last holder may have removed the name between open and flock, and another guard
            // may have made a new file since.
            if lock.has_its_name() {
                return Ok(lock);
            }
        }
    }

    fn take_file(path: &Path) -> Result<Self, DaemonError> {
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
        // An earlier version's could be opened, and so locked, by everybody.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(LOCK_MODE)).doing(fail)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let holder = holder.trim();
                let process = if holder.is_empty() { String::new() } else { format!(" (process {holder})") };
                return Err(DaemonError::Failed(format!(
                    "another guard{process} runs here; ask it with floodwall guard status, or stop it first"
                )));
            }
            Err(e) => return Err(e).doing(fail),
        }
        // For whom we keep out.
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).doing(fail)?;
        Ok(Self { file, path: path.to_owned() })
    }

    fn has_its_name(&self) -> bool {
        let file = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let named = fs::symlink_metadata(&self.path).map(file);
        named.is_ok_and(|named| self.file.metadata().is_ok_and(|ours| file(ours) == named))
    }

    /// The process that has it, if somebody has, as far as the kernel's list tells. To try the lock
    /// would be in the way of a guard that starts.
    pub(crate) fn holder(path: &Path) -> Option<u32> {
        let meta = fs::metadata(path).ok()?;
        let locks = fs::read_to_string("/proc/locks").ok()?;
        holder_in(&locks, (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev())), meta.ino())
    }
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
            [_, "FLOCK", "ADVISORY", "WRITE", pid, its_file, ..] if its_file == file => pid.parse().ok(),
            _ => None,
        }
    })
}

/// The directory of a lock or a socket.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Refuses the directory of a path if it is not there, unless it is our own, which is made when it
/// is needed.
///
/// # Errors
/// [`DaemonError::Usage`] with what to do.
pub(crate) fn check_directory(path: &Path) -> Result<(), DaemonError> {
    let directory = directory_of(path);
    if directory == Path::new(DIRECTORY) || directory.is_dir() {
        return Ok(());
    }
    let (directory, path) = (directory.display(), path.display());
    let why = format!(
        "there is no directory '{directory}' for '{path}'; make it first, or name a socket elsewhere"
    );
    Err(DaemonError::Usage(why))
}

/// Makes our own directory if it is not there, and refuses one in which others could put something
/// else into the path's place.
fn prepare_directory(path: &Path) -> Result<(), DaemonError> {
    check_directory(path)?;
    let directory = directory_of(path);
    let made = if directory == Path::new(DIRECTORY) {
        DirBuilder::new().mode(0o755).create(directory)
    } else {
        Ok(())
    };
    match made {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        Err(e) if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
            let why = format!(
                "can't make '{}': {e}; run as root, or name a --socket elsewhere",
                directory.display()
            );
            return Err(DaemonError::Missing(why));
        }
        Err(e) => return Err(e).doing(|| format!("can't make '{}'", directory.display())),
    }
    let meta = fs::metadata(directory).doing(|| format!("can't look at '{}'", directory.display()))?;
    let us = rustix::process::geteuid().as_raw();
    let others_may = meta.mode() & OTHERS_WRITE != 0 && meta.mode() & STICKY == 0;
    if meta.uid() != us && meta.uid() != 0 || others_may {
        return Err(DaemonError::Failed(format!(
            "'{}' belongs to user {} and has mode {:o}: others could put something else into it; remove it, or name a socket elsewhere",
            directory.display(),
            meta.uid(),
            meta.mode() & 0o7777
        )));
    }
    Ok(())
}

/// A listening Unix socket; its name goes with it.
pub(crate) struct Socket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

impl Socket {
    /// Listens at a path: for the owner and the group of this process. A socket that nobody serves
    /// any more is replaced; anything else is not touched.
    ///
    /// # Errors
    /// What is there instead, and what to do about it.
    pub(crate) fn bind(path: &Path) -> Result<Self, DaemonError> {
        prepare_directory(path)?;
        clear(path)?;
        let fail = || format!("can't listen at '{}'", path.display());
        let listener = listen(path).map_err(|e| match e.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                DaemonError::Missing(format!("{}: {e}; run as root, or name another socket", fail()))
            }
            _ => DaemonError::Io { what: fail(), source: e },
        })?;
        let inode = fs::symlink_metadata(path).doing(fail)?.ino();
        Ok(Self { listener, path: path.to_owned(), inode })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let mode = Mode::from_raw_mode(MODE);
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // What the file's mode begins with (unix_bind in net/unix/af_unix.c), less the umask: from its
    // first moment nobody else may connect.
    rustix::fs::fchmod(&socket, mode)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::fs::chmod(path, mode)?;
    net::listen(&socket, WAITING)?;
    Ok(UnixListener::from(socket))
}

/// Removes a stale socket of ours.
fn clear(path: &Path) -> Result<(), DaemonError> {
    let name = path.display();
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e).doing(|| format!("can't look at '{name}'")),
    };
    if !meta.file_type().is_socket() {
        return Err(DaemonError::Failed(format!(
            "'{name}' is there and is no socket; remove it, or name another"
        )));
    }
    let us = rustix::process::geteuid().as_raw();
    if meta.uid() != us {
        return Err(DaemonError::Failed(format!(
            "'{name}' is a socket of user {}, not ours; have it removed, or name another",
            meta.uid()
        )));
    }
    match UnixStream::connect(path) {
        Ok(_) => {
            return Err(DaemonError::Failed(format!(
                "somebody serves '{name}' already; stop that first, or name another"
            )));
        }
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
        Err(e) => return Err(e).doing(|| format!("can't tell whether somebody serves '{name}'")),
    }
    fs::remove_file(path).doing(|| format!("can't replace '{name}'"))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test's own files")]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_was_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard.lock");
        let first = Lock::take(&path).unwrap();
        let said = Lock::take(&path).unwrap_err().to_string();
        let us = std::process::id();
        assert!(said.contains(&format!("another guard (process {us}) runs here")), "{said}");
        assert_eq!(Lock::holder(&path), Some(us));
        drop(first);
        assert_eq!(Lock::holder(&path), None);
        assert!(!path.exists(), "nothing is left");
        drop(Lock::take(&path).unwrap());
    }

    #[test]
    fn a_lock_whose_name_has_gone_is_not_taken_for_the_one_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard.lock");
        let first = Lock::take(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = Lock::take(&path).unwrap();
        assert!(!first.has_its_name() && second.has_its_name());
        drop(first);
        assert!(path.exists(), "it is the second's");
        assert!(Lock::take(&path).is_err());
    }

    #[test]
    fn somebody_elses_directory_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let path = missing.join("x.sock");
        let errors = [
            check_directory(&path).unwrap_err(),
            Lock::take(&lock_path(DIRECTORY.as_ref(), Some(&path))).unwrap_err(),
            Socket::bind(&path).err().unwrap(),
        ];
        for error in errors {
            let said = error.to_string();
            assert!(said.contains(&format!("there is no directory '{}'", missing.display())), "{said}");
            assert!(error.is_wrong_use());
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        check_directory(&Path::new(DIRECTORY).join("guard.sock")).unwrap();
    }

    #[test]
    fn nobody_else_can_open_the_lock_and_asking_for_its_holder_takes_nothing() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard.lock");
        fs::write(&path, "4711\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let lock = Lock::take(&path).unwrap();
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

    #[test]
    fn a_stale_socket_is_replaced_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard.sock");
        // Of a guard that was killed: the name is there, nobody listens.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let socket = Socket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o660);
        let message = |path: &Path| Socket::bind(path).err().unwrap().to_string();
        assert!(message(&path).contains("somebody serves"));
        assert!(path.exists(), "of a guard that lives");
        drop(socket);
        assert!(!path.exists());
        fs::write(&path, "mine").unwrap();
        assert!(message(&path).contains("is no socket; remove it"));
        let link = dir.path().join("link.sock");
        std::os::unix::fs::symlink("/run/elsewhere.sock", &link).unwrap();
        assert!(message(&link).contains("is no socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let said = Socket::bind(&open.join("guard.sock")).err().unwrap().to_string();
        assert!(said.contains("others could put something else into it"), "{said}");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
        Socket::bind(&open.join("guard.sock")).unwrap();
    }
}
