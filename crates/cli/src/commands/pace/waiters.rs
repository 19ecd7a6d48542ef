//! The processes that wait while a command yields.

use std::fs;
use std::io::ErrorKind;

use floodwall_host::SysRoot;
use floodwall_host::blocked::read_blocked;
use floodwall_host::open_files::regular_file;
use floodwall_model::DeviceId;
use rustix::fs::{major, minor};

use super::filesystems::is_on;

/// Their names, each once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Waiters {
    /// Those that have a file of the command's disk open.
    pub(super) here: Vec<String>,
    /// Those of other users, whose files are not known.
    pub(super) somewhere: Vec<String>,
}

/// The processes that wait in the kernel now, of other process groups than this one. Those that
/// have files of other disks alone are left out.
pub(super) fn waiters(root: &SysRoot, disk: DeviceId) -> Waiters {
    let own = rustix::process::getpgrp().as_raw_nonzero().get();
    let mut waiters = Waiters::default();
    for blocked in read_blocked(root, own) {
        let names = match has_file_on(root, blocked.pid, disk) {
            Some(true) => &mut waiters.here,
            None => &mut waiters.somewhere,
            Some(false) => continue,
        };
        if !names.contains(&blocked.name) {
            names.push(blocked.name);
        }
    }
    waiters
}

/// Whether a process has a file of the disk open; none if it may not be looked at.
fn has_file_on(root: &SysRoot, pid: i32, disk: DeviceId) -> Option<bool> {
    let folder = root.path().join(format!("proc/{pid}/fd"));
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return (error.kind() != ErrorKind::PermissionDenied).then_some(false),
    };
    let mut files = entries.flatten().filter_map(|entry| regular_file(entry.path()));
    Some(files.any(|file| {
        let id = DeviceId { major: major(file.device), minor: minor(file.device) };
        is_on(root, disk, id)
    }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use floodwall_testing::tree::put;

    use super::*;

    #[test]
    fn a_process_waits_here_only_with_a_file_of_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let root = SysRoot::new(dir.path()).unwrap();
        let file = dir.path().join("file");
        put(&file, "");
        let dev = file.metadata().unwrap().dev();
        let id = DeviceId { major: major(dev), minor: minor(dev) };
        put(&dir.path().join("sys/devices/disk/dev"), &format!("{id}\n"));
        put(&dir.path().join(format!("sys/dev/block/{id}")), "->../../devices/disk");
        put(&dir.path().join("proc/7/fd/3"), &format!("->{}", file.display()));
        assert_eq!(has_file_on(&root, 7, id), Some(id.major != 0));
        let other = DeviceId { major: 259, minor: 4_000 };
        assert_eq!(has_file_on(&root, 7, other), Some(false));
        assert_eq!(has_file_on(&root, 8, id), Some(false), "it has ended");
    }
}
