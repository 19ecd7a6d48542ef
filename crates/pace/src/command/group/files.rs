//! The files of the command's control group that are written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use floodwall_host::SysRoot;
use floodwall_load::groups::write;
use floodwall_model::DeviceId;

/// Limits of a group; none for `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) memory: Option<u64>,
    pub(super) writes: Option<Writes>,
}

/// A limit of the writes to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writes {
    pub(super) disk: DeviceId,
    pub(super) per_s: u64,
}

/// The files that hold a group back. Each works where its controller is there.
#[derive(Clone, Debug)]
pub(in crate::command) struct GroupFiles {
    /// The group's directory below the root …
    pub(super) name: String,
    /// … and with it.
    pub(in crate::command) directory: PathBuf,
    /// Whether it has `memory.high`.
    pub(in crate::command) has_memory: bool,
    /// The disks that `io.max` may limit: those where the group is charged for writeback, if it has
    /// that file.
    pub(in crate::command) disks: Vec<DeviceId>,
    /// `cgroup.freeze`. It is open all the time: a thaw must not fail for want of a descriptor.
    freezer: Option<Arc<File>>,
    /// The limits in force, for the thread that keeps them and for a stop of this process.
    in_force: Arc<Mutex<Limits>>,
    /// Dirty bytes of the command that will be written at the pacer's rate, or never.
    known_dirty: Arc<AtomicU64>,
}

impl GroupFiles {
    pub(in crate::command) fn of(root: &SysRoot, name: &str, disks: &[DeviceId]) -> Self {
        let directory = root.path().join(name.trim_start_matches('/'));
        let has = |name: &str| directory.join(name).exists();
        Self {
            name: name.to_owned(),
            has_memory: has("memory.high"),
            disks: if has("io.max") { disks.to_vec() } else { Vec::new() },
            freezer: File::options()
                .write(true)
                .open(directory.join("cgroup.freeze"))
                .ok()
                .map(Arc::new),
            in_force: Arc::default(),
            known_dirty: Arc::default(),
            directory,
        }
    }

    /// Stops all processes of the group and of those below it, at once and without a signal, or
    /// lets them go on.
    pub(in crate::command) fn freeze(&self, freeze: bool) -> io::Result<()> {
        let file = self.freezer.as_deref().ok_or(io::ErrorKind::NotFound)?;
        file.write_all_at(if freeze { b"1" } else { b"0" }, 0)
    }

    /// The limits in force. A thread that changes them has this lock.
    pub(super) fn in_force(&self) -> MutexGuard<'_, Limits> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of dirty bytes that will be written at the pacer's rate, or never.
    pub(in crate::command) fn note_known_dirty(&self, bytes: u64) {
        self.known_dirty.store(bytes, Ordering::Relaxed);
    }

    /// These bytes, as of the last look at the command.
    pub(super) fn known_dirty(&self) -> u64 {
        self.known_dirty.load(Ordering::Relaxed)
    }

    /// Limits its memory in bytes, or lifts the limit.
    pub(super) fn set_memory(&self, bytes: Option<u64>) -> io::Result<()> {
        if !self.has_memory {
            return Ok(());
        }
        write(&self.directory.join("memory.high"), &text(bytes))
    }

    /// Limits its writes to a disk in bytes per second, or lifts the limit.
    pub(super) fn set_writes(&self, disk: DeviceId, per_s: Option<u64>) -> io::Result<()> {
        if !self.disks.contains(&disk) {
            return Ok(());
        }
        write(&self.directory.join("io.max"), &format!("{disk} wbps={}", text(per_s)))
    }

    /// The names of the means, for people. `disk` is the paced one.
    pub(super) fn means(&self, disk: Option<DeviceId>) -> String {
        let mut words = vec!["freezer"];
        words.extend(self.has_memory.then_some("memory.high"));
        words.extend(disk.filter(|disk| self.disks.contains(disk)).map(|_| "io.max"));
        words.join(", ")
    }
}

fn text(limit: Option<u64>) -> String {
    limit.map_or_else(|| "max".to_owned(), |limit| limit.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use floodwall_testing::tree::put;

    use super::*;

    fn files(path: &Path, disks: &[DeviceId]) -> GroupFiles {
        GroupFiles::of(&SysRoot::new(path).unwrap(), "/", disks)
    }

    const DISK: DeviceId = DeviceId { major: 8, minor: 16 };

    #[test]
    fn what_a_group_lacks_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        put(&dir.path().join("cgroup.freeze"), "0");
        let files = files(dir.path(), &[DISK]);
        assert_eq!(files.means(Some(DISK)), "freezer");
        files.set_memory(Some(5)).unwrap();
        files.set_writes(DISK, Some(5)).unwrap();
        files.freeze(true).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("cgroup.freeze")).unwrap(), "1");
        files.freeze(false).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("cgroup.freeze")).unwrap(), "0");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn limits_have_the_kernels_form() {
        let dir = tempfile::tempdir().unwrap();
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        for name in ["memory.high", "io.max"] {
            put(&dir.path().join(name), "");
        }
        let files = files(dir.path(), &[DISK]);
        assert_eq!(files.means(Some(DISK)), "freezer, memory.high, io.max");
        assert_eq!(files.means(None), "freezer, memory.high");
        files.set_memory(None).unwrap();
        files.set_writes(DISK, Some(1_000_000)).unwrap();
        files.set_writes(DeviceId { major: 8, minor: 0 }, Some(1)).unwrap();
        assert_eq!(
            (text("memory.high"), text("io.max")),
            ("max".into(), "8:16 wbps=1000000".into())
        );
    }
}
