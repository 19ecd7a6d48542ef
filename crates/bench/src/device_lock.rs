//! One benchmark a device: two at once would measure each other.
//!
//! The lock is a listening Unix socket in the abstract namespace, named after the device. It needs no file and no privilege, it is the
//! same for every user, the kernel removes it with its holder, and the kernel tells the second comer who that is
//! (`SO_PEERCRED`, unix(7)). Its reach is the network namespace: a benchmark in a container of its own is not seen.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use floodwall_model::DeviceId;

/// Why the device can't be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another benchmark has it.
    #[error(
        "another floodwall bench{holder} is running on device {device}; wait for it: two at once measure each other"
    )]
    Held {
        /// The device.
        device: DeviceId,
        /// ` (process N)`, or nothing if the kernel did not tell.
        holder: String,
    },
    /// The socket could not be made.
    #[error("can't lock device {device}: {source}")]
    Failed {
        /// The device.
        device: DeviceId,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Held while the benchmark runs.
#[derive(Debug)]
pub struct DeviceLock {
    _listener: UnixListener,
}

impl DeviceLock {
    /// Takes the lock of a device.
    ///
    /// # Errors
    /// [`LockError::Held`] with the holder's process number if somebody has it.
    pub fn take(device: DeviceId) -> Result<Self, LockError> {
        let failed = |source| LockError::Failed { device, source };
        let address = SocketAddr::from_abstract_name(format!("floodwall-bench-{device}")).map_err(failed)?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => Ok(Self { _listener: listener }),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                Err(LockError::Held { device, holder: holder(&address) })
            }
            Err(e) => Err(failed(e)),
        }
    }
}

fn holder(address: &SocketAddr) -> String {
    UnixStream::connect_addr(address)
        .ok()
        .and_then(|stream| rustix::net::sockopt::socket_peercred(stream).ok())
        .map_or_else(String::new, |peer| format!(" (process {})", peer.pid.as_raw_nonzero()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_and_told_who_holds_it() {
        // A major number that no driver has.
        let device = DeviceId { major: 4_000, minor: std::process::id() };
        let first = DeviceLock::take(device).unwrap();
        let message = DeviceLock::take(device).unwrap_err().to_string();
        assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
        drop(first);
        DeviceLock::take(device).unwrap();
    }
}
