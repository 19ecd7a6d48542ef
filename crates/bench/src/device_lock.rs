//! One benchmark a device: two at once would measure each other.
//!
//! A device has two locks, named after it. The kernel releases both with their holder and names the
//! holder to the next process that asks.
//!
//! - Every benchmark listens on the Unix socket `floodwall-bench-8:0` in the abstract namespace
//!   (unix(7)). The socket keeps out other users. It keeps root out only if root holds it.
//! - Root also takes a flock(2) on `/run/floodwall/bench-8:0.lock`, which no other user can open.
//!   The file keeps out a second benchmark of root.
//!
//! A socket needs neither a file nor a privilege, so any user can hold one for ever. The kernel
//! tells its holder's user (`SO_PEERCRED`); root goes on beside another user's, with a note. The
//! lock file is removed with its lock. The socket reaches as far as the network namespace, the file
//! as far as `/run`; a benchmark in a container with both to itself is not seen.
//!
//! ```text
//! dm-1 → md0 → sdb + sdc:   locks dm-1, sdb, sdc:
//!                           what is shared is a queue, or a disk at the bottom
//! btrfs on sdd + sde:       locks sdd, sde
//! loop0 → file on sda:      locks loop0, sda
//! NFS:                      locks the mount's own device number (0:51): the server is shared
//! ```

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use floodwall_host::locate::Location;
use floodwall_host::{SysRoot, block};
use floodwall_model::DeviceId;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, UCred, connect, socket_with,
};

/// Where root's locks are.
const DIRECTORY: &str = "/run/floodwall";
/// The kernel shows this user as the owner of a file if this user namespace does not have the real
/// one (user_namespaces(7), the default of `kernel.overflowuid`).
const UNMAPPED: u32 = 65_534;
/// Bytes of a lock that are read: a process number.
const HOLDER_BYTES: u64 = 32;

/// Why the device can't be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another benchmark has it.
    #[error(
        "another floodwall bench{holder} is running on {name} ({device}); wait for it: two at once \
         measure each other"
    )]
    Held {
        /// Its name for people.
        name: String,
        /// The device.
        device: DeviceId,
        /// ` (process N)`, or nothing if the kernel did not tell.
        holder: String,
    },
    /// The socket could not be made.
    #[error("can't lock {name} ({device}): {source}")]
    Failed {
        /// Its name for people.
        name: String,
        /// The device.
        device: DeviceId,
        /// The kernel's error.
        source: io::Error,
    },
}

/// The devices that a directory shares with other directories, and their names: the queues that its
/// writes meet first and the disks at the bottom. Without any block device it is the filesystem
/// itself. Each once, in the order of their numbers.
#[must_use]
pub fn shared_devices(root: &SysRoot, location: &Location) -> BTreeMap<DeviceId, String> {
    let mut shared: BTreeMap<DeviceId, String> =
        location.leaves.iter().map(|leaf| (leaf.id, leaf.name.clone())).collect();
    for id in location.queue_devices.iter().copied().chain(location.queue_device) {
        shared.entry(id).or_insert_with(|| {
            block::read_name(root, id).into_value().unwrap_or("a device".into())
        });
    }
    if shared.is_empty() && location.has_own_writeback() {
        let mount = &location.mount;
        let name = format!("the {} at '{}'", mount.fs_type, mount.mountpoint.display());
        shared.insert(mount.device, name);
    }
    shared
}

/// Held while the benchmark runs.
#[derive(Debug)]
pub struct DeviceLock {
    _files: Vec<LockFile>,
    _listeners: Vec<UnixListener>,
    notes: Vec<String>,
}

impl DeviceLock {
    /// Takes the locks of devices: all of them or none.
    ///
    /// # Errors
    /// [`LockError::Held`] with the holder's process number if another process holds one of them
    /// and this one must wait for it.
    pub fn take(devices: &BTreeMap<DeviceId, String>) -> Result<Self, LockError> {
        let is_root = rustix::process::geteuid().is_root();
        Self::take_as(devices, is_root.then_some(Path::new(DIRECTORY)), |user| user == 0)
    }

    /// `directory`: where root's files are, for root. `holds`: whether a user's socket keeps root
    /// out.
    fn take_as(
        devices: &BTreeMap<DeviceId, String>,
        directory: Option<&Path>,
        holds: impl Fn(u32) -> bool,
    ) -> Result<Self, LockError> {
        let mut lock = Self { _files: Vec::new(), _listeners: Vec::new(), notes: Vec::new() };
        for (id, name) in devices {
            let failed = |source| LockError::Failed { name: name.clone(), device: *id, source };
            let held = |holder| LockError::Held { name: name.clone(), device: *id, holder };
            if let Some(directory) = directory {
                match LockFile::take(directory, *id) {
                    Ok(Taken::Ours(file)) => lock._files.push(file),
                    Ok(Taken::Theirs(holder)) => return Err(held(holder)),
                    // In a container there may be no /run, or none that can be written or that is
                    // this root's.
                    Err(e) if is_no_place(&e) => lock.note(format!(
                        "another benchmark of {name} by root is seen by its socket alone: '{}' \
                         can't be used ({e})",
                        directory.display()
                    )),
                    Err(e) => return Err(failed(e)),
                }
            }
            let address = format!("floodwall-bench-{id}");
            let socket = SocketAddr::from_abstract_name(&address).map_err(failed)?;
            match UnixListener::bind_addr(&socket) {
                Ok(listener) => lock._listeners.push(listener),
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                    let peer = peer(&address);
                    let user = peer.map(|peer| peer.uid.as_raw());
                    if directory.is_none() || user.is_some_and(&holds) {
                        return Err(held(peer.map_or_else(String::new, process)));
                    }
                    let whose = match (user, peer) {
                        (Some(user), Some(peer)) => format!("user {user}{}", process(peer)),
                        _ => "an unknown user".to_owned(),
                    };
                    lock.note(format!(
                        "{whose} holds the benchmark lock of {name} ({id}): if that is a \
                         benchmark, the two measure each other"
                    ));
                }
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(lock)
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Disturbances of the figures, in words.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

fn process(peer: UCred) -> String {
    format!(" (process {})", peer.pid.as_raw_nonzero())
}

/// The error for a directory that can't hold root's locks.
fn not_ours(directory: &Path, owner: u32) -> io::Error {
    if owner == UNMAPPED {
        let why = format!("its owner is user {UNMAPPED}: nobody, or outside this user namespace");
        return io::Error::new(io::ErrorKind::PermissionDenied, why);
    }
    io::Error::other(format!(
        "'{}' is no directory that only we can write; remove it",
        directory.display()
    ))
}

fn is_no_place(error: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), NotFound | PermissionDenied | ReadOnlyFilesystem)
}

/// The listener at an abstract name; `None` if the kernel does not tell. Never waits: a listener
/// that accepts no connection is full after a few.
fn peer(name: &str) -> Option<UCred> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?).ok()?;
    socket_peercred(socket).ok()
}

/// A file of root's, locked; its name goes with it.
#[derive(Debug)]
struct LockFile {
    file: File,
    path: PathBuf,
}

enum Taken {
    Ours(LockFile),
    /// ` (process N)`, or nothing if it has not written that yet.
    Theirs(String),
}

impl LockFile {
    fn take(directory: &Path, device: DeviceId) -> io::Result<Taken> {
        match DirBuilder::new().mode(0o755).create(directory) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let meta = fs::symlink_metadata(directory)?;
        let us = rustix::process::geteuid().as_raw();
        if !meta.is_dir() || meta.uid() != us || meta.mode() & 0o022 != 0 {
            return Err(not_ours(directory, meta.uid()));
        }
        let path = directory.join(format!("bench-{device}.lock"));
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(&path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let mut holder = String::new();
                    let _ = file.take(HOLDER_BYTES).read_to_string(&mut holder);
                    let holder = holder.trim().parse::<u32>();
                    return Ok(Taken::Theirs(
                        holder.map_or_else(|_| String::new(), |n| format!(" (process {n})")),
                    ));
                }
                Err(e) => return Err(e.into()),
            }
            // For the message of the next benchmark. A full file system is no reason to stop.
            let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
            let lock = Self { file, path: path.clone() };
            // The last holder may have removed the name between open and flock, and another process
            // may have made a new file since.
            if lock.has_its_name() {
                return Ok(Taken::Ours(lock));
            }
        }
    }

    fn has_its_name(&self) -> bool {
        let file = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let named = fs::symlink_metadata(&self.path).map(file);
        named.is_ok_and(|named| self.file.metadata().is_ok_and(|ours| file(ours) == named))
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if self.has_its_name() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Devices of a driver that does not exist.
    fn devices(minors: &[u32]) -> BTreeMap<DeviceId, String> {
        let id = |n| DeviceId { major: 4_000 + n, minor: std::process::id() };
        minors.iter().map(|n| (id(*n), format!("disk{n}"))).collect()
    }

    #[test]
    fn the_second_is_refused_and_told_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let take = || DeviceLock::take_as(&devices(&[0]), Some(dir.path()), |_| true);
        let first = take().unwrap();
        let message = take().unwrap_err().to_string();
        assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
        assert!(message.contains(&format!("disk0 (4000:{})", std::process::id())), "{message}");
        drop(first);
        take().unwrap();
    }

    #[test]
    fn another_users_lock_does_not_keep_root_out() {
        let dir = tempfile::tempdir().unwrap();
        let us = rustix::process::geteuid().as_raw();
        let of_root = |user| user != us;
        let as_root =
            |minors: &[u32]| DeviceLock::take_as(&devices(minors), Some(dir.path()), of_root);
        let theirs = DeviceLock::take_as(&devices(&[21]), None, of_root).unwrap();
        let ours = as_root(&[21]).unwrap();
        let process = format!("(process {})", std::process::id());
        let note = format!("user {us} {process} holds the benchmark lock of disk21");
        assert!(ours.notes()[0].starts_with(&note), "{:?}", ours.notes());
        // A squatted socket does not let a second benchmark of root in.
        let refused = as_root(&[21]).unwrap_err().to_string();
        assert!(refused.contains(&format!("another floodwall bench {process}")), "{refused}");
        drop((ours, theirs));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
        // Root's own sockets count, and keep all others out.
        let ours = as_root(&[21]).unwrap();
        assert!(
            ours.notes().is_empty() && DeviceLock::take_as(&devices(&[21]), None, of_root).is_err()
        );
        let elsewhere = tempfile::tempdir().unwrap();
        let by_socket =
            DeviceLock::take_as(&devices(&[21]), Some(elsewhere.path()), |user| user == us);
        assert!(
            by_socket.unwrap_err().to_string().contains(&process),
            "as from another mount namespace"
        );
    }

    #[test]
    fn a_listener_that_accepts_nobody_does_not_keep_us_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let theirs = DeviceLock::take_as(&devices(&[22]), None, |_| false).unwrap();
        let name = format!("floodwall-bench-4022:{}", std::process::id());
        // A connection that is closed before it is accepted stays in the queue.
        let calls = (0..100_000).take_while(|_| peer(&name).is_some()).count();
        assert!((1..100_000).contains(&calls), "{calls}");
        let ours = DeviceLock::take_as(&devices(&[22]), Some(dir.path()), |_| false).unwrap();
        assert!(ours.notes()[0].starts_with("an unknown user holds"), "{:?}", ours.notes());
        drop(theirs);
    }

    #[test]
    fn a_place_for_roots_locks_that_others_can_write_is_refused_and_none_is_a_note() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let said =
            DeviceLock::take_as(&devices(&[23]), Some(&open), |_| true).unwrap_err().to_string();
        assert!(said.contains("is no directory that only we can write"), "{said}");
        let nowhere = dir.path().join("no/such");
        let lock = DeviceLock::take_as(&devices(&[23]), Some(&nowhere), |_| true).unwrap();
        assert!(lock.notes()[0].contains("is seen by its socket alone"), "{:?}", lock.notes());
        assert!(is_no_place(&not_ours(&open, 65_534)), "in a container, the host's root");
        assert!(!is_no_place(&not_ours(&open, 1_000)));
    }

    #[test]
    fn two_that_share_a_disk_at_the_bottom_exclude_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let take =
            |minors: &[u32]| DeviceLock::take_as(&devices(minors), Some(dir.path()), |_| true);
        let first = take(&[11, 13]).unwrap();
        let message = take(&[12, 13]).unwrap_err().to_string();
        assert!(message.contains("disk13"), "{message}");
        // The refused lock gave back the devices that it had taken. Devices that are not shared
        // don't matter.
        let other = take(&[12]).unwrap();
        drop((first, other));
        take(&[11, 12, 13]).unwrap();
    }

    #[test]
    fn what_is_shared_is_every_queue_and_every_disk_below() {
        let tree = floodwall_testing::tree::host("server-md-crypt-lvm");
        let root = SysRoot::new(&tree).unwrap();
        let names = |dir: &str| {
            let location = floodwall_host::locate(&root, Path::new(dir)).unwrap();
            shared_devices(&root, &location).into_values().collect::<Vec<_>>()
        };
        assert_eq!(names("/srv"), ["sdb", "sdc", "dm-1"]);
        assert_eq!(names("/backup"), ["sdd", "sde"]);
        assert_eq!(names("/build"), ["loop0", "sdb", "sdc"], "through the loop");
        assert_eq!(names("/home"), ["sda"]);
        assert_eq!(names("/mnt/archive copies"), ["the nfs4 at '/mnt/archive copies'"]);
        assert_eq!(
            names("/run"),
            Vec::<String>::new(),
            "memory: nothing drains, nothing is shared"
        );
    }
}
