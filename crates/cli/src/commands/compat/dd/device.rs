//! A block device in use is not written by mistake: `--destructive` says that it is meant.
//!
//! The kernel decides: it refuses to open a device with `O_EXCL` that a filesystem, swap, a mapping
//! or an array holds, or one of its partitions. /proc and /sys only say which.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use floodwall_compat::dd::quote;
use floodwall_host::block::whole_disk;
use floodwall_host::mounts::read_mounts;
use floodwall_host::{SysRoot, block};
use floodwall_model::{DeviceId, printable};
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::failed::Failed;

/// Where stdout can be opened once more.
const STDOUT: &str = "/proc/self/fd/1";
/// Another dd or udev may open the device with `O_EXCL` for a moment.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// Checks the output, if it is a block device.
///
/// # Errors
/// With who holds it.
pub(super) fn check(output: Option<&OsStr>) -> Result<(), Failed> {
    let path = output.unwrap_or(OsStr::new(STDOUT));
    let Ok(stat) = fs::stat(path) else { return Ok(()) };
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice || !is_held(path) {
        return Ok(());
    }
    let id = DeviceId { major: fs::major(stat.st_rdev), minor: fs::minor(stat.st_rdev) };
    let name = quote::file(output.unwrap_or(OsStr::new("standard output")).as_bytes());
    let why = holder(id).unwrap_or_else(|| "another program holds it".to_owned());
    let why = printable::printable(&why).into_owned();
    Err(Failed::early(format!(
        "{name} is in use: {why}; free it, or write 'floodwall compat --destructive dd …'"
    )))
}

/// Whether it stays held for a while.
fn is_held(path: &OsStr) -> bool {
    let flags = OFlags::WRONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    for _ in 0..TRIES {
        // Of other errors the copy itself says more.
        if !matches!(fs::open(path, flags, Mode::empty()), Err(Errno::BUSY)) {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}

/// Who holds a device or a part of it, as far as it can be seen.
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
