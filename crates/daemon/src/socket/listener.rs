//! A guard's sockets in the file system, 0660: for root and the group that the guard runs in.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::directory;
use crate::error::{DaemonError, Doing};

/// Of a socket.
const MODE: u32 = 0o660;
/// Connections that wait to be accepted.
const WAITING: i32 = 32;

/// A listening Unix socket; its name goes with it.
pub(crate) struct Socket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

impl Socket {
    /// Listens at a path: for the owner and the group of this process. A socket that no process
    /// serves any more is replaced; any other file is not touched.
    ///
    /// # Errors
    /// The obstacle at the path, and what to do about it.
    pub(crate) fn bind(path: &Path) -> Result<Self, DaemonError> {
        directory::prepare(path)?;
        clear(path)?;
        let fail = || format!("can't listen at '{}'", path.display());
        let listener = listen(path).map_err(|e| match e.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => DaemonError::Missing(
                format!("{}: {e}; run as root, or name another socket", fail()),
            ),
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
    let socket =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The file's first mode (unix_bind in net/unix/af_unix.c), less the umask: other users may
    // never connect.
    rustix::fs::fchmod(&socket, mode)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::fs::chmod(path, mode)?;
    net::listen(&socket, WAITING)?;
    Ok(UnixListener::from(socket))
}

/// Removes a stale socket of an earlier guard.
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
    fn a_stale_socket_is_replaced_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard.sock");
        // A killed guard's socket: the name exists, no process listens.
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
}
