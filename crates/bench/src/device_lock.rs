//! One benchmark a device: two at once would measure each other.
//!
//! The lock is a listening Unix socket in the abstract namespace, named after the device. It needs no file and no privilege, it is the
//! same for every user, the kernel removes it with its holder, and the kernel tells the second comer who that is
//! (`SO_PEERCRED`, unix(7)). Its reach is the network namespace: a benchmark in a container of its own is not seen.
//!
//! ```text
//! dm-1 → md0 → sdb + sdc:   locks dm-1, sdb, sdc       what is shared is a queue, or a disk at the bottom
//! btrfs on sdd + sde:       locks sdd, sde
//! loop0 → file on sda:      locks loop0, sda
//! NFS:                      locks the mount's own device number (0:51): the server is shared
//! ```

use std::collections::BTreeMap;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use floodwall_host::locate::Location;
use floodwall_host::{SysRoot, block};
use floodwall_model::DeviceId;

/// Why the device can't be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another benchmark has it.
    #[error(
        "another floodwall bench{holder} is running on {name} ({device}); wait for it: two at once measure each other"
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
        /// What the kernel said.
        source: io::Error,
    },
}

/// The devices that writes to a place share with other places, and their names: the queues that they meet first and the disks at the bottom;
/// without any block device the filesystem itself. Each once, in the order of their numbers.
#[must_use]
pub fn shared_devices(root: &SysRoot, location: &Location) -> BTreeMap<DeviceId, String> {
    let mut shared: BTreeMap<DeviceId, String> =
        location.leaves.iter().map(|leaf| (leaf.id, leaf.name.clone())).collect();
    for id in location.queue_devices.iter().copied().chain(location.queue_device) {
        shared
            .entry(id)
            .or_insert_with(|| block::read_name(root, id).into_value().unwrap_or("a device".into()));
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
    _listeners: Vec<UnixListener>,
}

impl DeviceLock {
    /// Takes the locks of devices: all of them or none.
    ///
    /// # Errors
    /// [`LockError::Held`] with the holder's process number if somebody has one of them.
    pub fn take(devices: &BTreeMap<DeviceId, String>) -> Result<Self, LockError> {
        let listeners = devices.iter().map(|(id, name)| listen(*id, name)).collect::<Result<_, _>>()?;
        Ok(Self { _listeners: listeners })
    }
}

fn listen(device: DeviceId, name: &str) -> Result<UnixListener, LockError> {
    let failed = |source| LockError::Failed { name: name.to_owned(), device, source };
    let address = SocketAddr::from_abstract_name(format!("floodwall-bench-{device}")).map_err(failed)?;
    UnixListener::bind_addr(&address).map_err(|e| match e.kind() {
        io::ErrorKind::AddrInUse => {
            LockError::Held { name: name.to_owned(), device, holder: holder(&address) }
        }
        _ => failed(e),
    })
}

fn holder(address: &SocketAddr) -> String {
    UnixStream::connect_addr(address)
        .ok()
        .and_then(|stream| rustix::net::sockopt::socket_peercred(stream).ok())
        .map_or_else(String::new, |peer| format!(" (process {})", peer.pid.as_raw_nonzero()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Devices of a driver that does not exist.
    fn devices(minors: &[u32]) -> BTreeMap<DeviceId, String> {
        let id = |n| DeviceId { major: 4_000 + n, minor: std::process::id() };
        minors.iter().map(|n| (id(*n), format!("disk{n}"))).collect()
    }

    #[test]
    fn the_second_is_refused_and_told_who_holds_it() {
        let first = DeviceLock::take(&devices(&[0])).unwrap();
        let message = DeviceLock::take(&devices(&[0])).unwrap_err().to_string();
        assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
        assert!(message.contains(&format!("disk0 (4000:{})", std::process::id())), "{message}");
        drop(first);
        DeviceLock::take(&devices(&[0])).unwrap();
    }

    #[test]
    fn two_that_share_a_disk_at_the_bottom_exclude_each_other() {
        let first = DeviceLock::take(&devices(&[11, 13])).unwrap();
        let message = DeviceLock::take(&devices(&[12, 13])).unwrap_err().to_string();
        assert!(message.contains("disk13"), "{message}");
        // What the refused one had taken is free again, and what nobody shares is nobody's business.
        let other = DeviceLock::take(&devices(&[12])).unwrap();
        drop((first, other));
        DeviceLock::take(&devices(&[11, 12, 13])).unwrap();
    }

    #[test]
    fn what_is_shared_is_every_queue_and_every_disk_below() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/server-md-crypt-lvm");
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
        assert_eq!(names("/run"), Vec::<String>::new(), "memory: nothing drains, nothing is shared");
    }
}
