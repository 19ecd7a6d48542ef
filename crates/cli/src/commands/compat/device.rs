//! A block device in use is not written by mistake: `--destructive` says that it is meant.
//!
//! The kernel decides: it refuses to open a device with `O_EXCL` that a filesystem, swap, a mapping
//! or an array holds, or one of its partitions. /proc and /sys only say which.

use std::ffi::OsStr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use floodwall_host::block::whole_disk;
use floodwall_host::mounts::read_mounts;
use floodwall_host::{SysRoot, block};
use floodwall_model::{DeviceId, printable};
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Another program or udev may open the device with `O_EXCL` for a moment.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// The holder of a path, in words; `None` unless it is a block device in use.
pub(super) fn user_of(path: &OsStr) -> Option<String> {
    let stat = fs::stat(path).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice || !is_held(path) {
        return None;
    }
    let id = DeviceId { major: fs::major(stat.st_rdev), minor: fs::minor(stat.st_rdev) };
    let who = holder(id).unwrap_or_else(|| "another program holds it".to_owned());
    Some(printable::printable(&who).into_owned())
}

/// Whether it stays held for a while.
fn is_held(path: &OsStr) -> bool {
    let flags = OFlags::WRONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    for _ in 0..TRIES {
        // Of other errors the tool itself says more.
        if !matches!(fs::open(path, flags, Mode::empty()), Err(Errno::BUSY)) {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}

/// The holder of a device or of a part of it, in words; `None` if it can't be seen.
fn holder(id: DeviceId) -> Option<String> {
    let root = SysRoot::live().ok()?;
    let is_part =
        |other: DeviceId| other == id || whole_disk(&root, other).into_value() == Some(id);
    let mounts = read_mounts(&root).into_value().unwrap_or_default();
    if let Some(mount) = mounts.iter().find(|mount| is_part(mount.device)) {
        return Some(format!("mounted at '{}'", mount.mountpoint.display()));
    }
    let swaps = root.read("/proc/swaps").into_value().unwrap_or_default();
    for area in swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()) {
        if block::by_path(&root, area).into_value().is_some_and(is_part) {
            return Some(format!("'{area}' is swap"));
        }
    }
    let holders = root.list(&format!("/sys/dev/block/{id}/holders")).into_value()?;
    let first = holders.first()?;
    Some(format!("'{}' is on it", Path::new("/dev").join(first).display()))
}
