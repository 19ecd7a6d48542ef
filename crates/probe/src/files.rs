//! The open files and names of processes: /proc/PID/fdinfo, /proc/PID/comm. Remembered for some
//! windows.
//!
//! A path is never opened and no file's own attributes are asked for: those of a dead network
//! filesystem would not come.

use std::collections::HashMap;

use floodwall_host::mounts::{self, Mount, read_mounts};
use floodwall_host::{SysRoot, block, topology};
use floodwall_model::{DeviceId, Reading};

use crate::hash::Fast;
use crate::open_file::{Files, OpenFile};

/// Windows for which an answer is believed. Numbers of files and processes are used again, but
/// seldom for another device within seconds.
const BELIEVED: u32 = 16;
/// Answers remembered; some 64 bytes each.
const REMEMBERED: usize = 4096;
/// Open files of one process that are looked at to find its target device.
const FILES_LOOKED_AT: usize = 64;
/// Files looked at in one window; a look takes some 10 µs. Further files stay unknown.
const LOOKS: usize = 2048;
/// The flags of open(2), as /proc/PID/fdinfo prints them in octal; they are the same on all
/// supported architectures of Linux, save `O_DIRECT`.
const O_DSYNC: u32 = libc::O_DSYNC as u32;
const O_DIRECT: u32 = libc::O_DIRECT as u32;
const O_ACCMODE: u32 = libc::O_ACCMODE as u32;

/// Looks up files and names.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    root: SysRoot,
    window: u32,
    files: HashMap<(u32, i32), (u32, Option<OpenFile>), Fast>,
    names: HashMap<u32, (u32, String), Fast>,
    targets: HashMap<u32, (u32, Target), Fast>,
    mounts: HashMap<i32, Option<DeviceId>, Fast>,
    /// Mounts that a process uses and does not list, and the window in which that was found.
    unlisted: HashMap<(u32, i32), u32, Fast>,
    filesystems: HashMap<DeviceId, Option<DeviceId>, Fast>,
    /// Window in which the mounts were read; a mount that is not known is looked for once a
    /// window.
    mounts_read: Option<u32>,
    /// Looks left in this window.
    looks: usize,
    buffer: Vec<u8>,
}

impl OpenFiles {
    pub(crate) fn new(root: SysRoot) -> Self {
        Self {
            root,
            window: 0,
            files: HashMap::default(),
            names: HashMap::default(),
            targets: HashMap::default(),
            mounts: HashMap::default(),
            unlisted: HashMap::default(),
            filesystems: HashMap::default(),
            mounts_read: None,
            looks: LOOKS,
            buffer: Vec::new(),
        }
    }

    /// Another window begins: entries that are too old, or too many, are forgotten.
    pub(crate) fn next_window(&mut self) {
        self.window = self.window.wrapping_add(1);
        self.looks = LOOKS;
        if self.window.is_multiple_of(BELIEVED) {
            self.filesystems.clear();
        }
        let now = self.window;
        let young = |since: u32| now.wrapping_sub(since) < BELIEVED;
        self.files.retain(|_, (since, _)| young(*since));
        self.names.retain(|_, (since, _)| young(*since));
        self.targets.retain(|_, (since, _)| young(*since));
        self.unlisted.retain(|_, since| young(*since));
        let lengths = [self.files.len(), self.names.len(), self.targets.len(), self.unlisted.len()];
        if lengths.into_iter().any(|length| length > REMEMBERED) {
            self.files.clear();
            self.names.clear();
            self.targets.clear();
            self.unlisted.clear();
        }
    }

    fn read(&mut self, path: &str) -> Option<&str> {
        self.root.read_attribute_into(path, &mut self.buffer).ok()?;
        std::str::from_utf8(&self.buffer).ok()
    }

    /// A process's name; its number if it is gone by now.
    pub(crate) fn name(&mut self, pid: u32) -> &str {
        if !self.names.contains_key(&pid) {
            let name = match self.read(&format!("/proc/{pid}/comm")) {
                Some(name) => name.trim_end().to_owned(),
                None => "gone".to_owned(),
            };
            self.names.insert(pid, (self.window, name));
        }
        self.names.get(&pid).map_or("gone", |(_, name)| name)
    }

    /// Whether a process has a file open that it writes to synchronously or past the page cache.
    pub(crate) fn writes_synchronously(&mut self, pid: u32) -> bool {
        self.open_files(pid).iter().flatten().any(|open| open.file.sync || open.file.direct)
    }

    /// The device that a process is believed to write to, by the files that it has open for
    /// writing. A process that is gone has the device that it had last. `None` if it has no such
    /// file, or its device can't be told.
    pub(crate) fn target(&mut self, pid: u32) -> Option<DeviceId> {
        let last = self.targets.get(&pid).map(|(_, target)| *target);
        if let Some(Target::Only(device)) = last {
            return device;
        }
        if self.looks == 0 {
            return None;
        }
        let Some(files) = self.open_files(pid) else {
            return last.and_then(Target::device);
        };
        let written: Vec<Written> = files.iter().filter_map(OpenFd::written).collect();
        let all = one_device(written.iter());
        let target = if all.is_some() || written.is_empty() {
            Target::Only(all)
        } else {
            let beside_messages = one_device(written.iter().filter(|file| file.fd > STDERR));
            Target::Likely(beside_messages.or_else(|| mostly_written(&written)))
        };
        self.targets.insert(pid, (self.window, target));
        target.device()
    }

    /// The files that a process has open, of very many the first; `None` if it is gone.
    fn open_files(&mut self, pid: u32) -> Option<Vec<OpenFd>> {
        if self.looks == 0 {
            return Some(Vec::new());
        }
        let names = match self.root.list(&format!("/proc/{pid}/fdinfo")) {
            Reading::Absent(_) => return None,
            names => names.into_value().unwrap_or_default(),
        };
        let fds = names.iter().filter_map(|name| name.parse().ok()).take(FILES_LOOKED_AT);
        Some(fds.filter_map(|fd: i32| self.look(pid, fd)).collect())
    }

    fn look(&mut self, pid: u32, fd: i32) -> Option<OpenFd> {
        self.looks = self.looks.checked_sub(1)?;
        let Fdinfo { position, flags, mount } =
            parse(self.read(&format!("/proc/{pid}/fdinfo/{fd}"))?)?;
        let file = OpenFile {
            device: self.mounted(pid, mount),
            sync: flags & O_DSYNC != 0,
            direct: flags & O_DIRECT != 0,
        };
        Some(OpenFd { fd, file, writable: flags & O_ACCMODE != libc::O_RDONLY as u32, position })
    }

    /// The device below a filesystem whose files' `st_dev` is this.
    pub(crate) fn device_of_filesystem(&mut self, id: DeviceId) -> Option<DeviceId> {
        if let Some(device) = self.filesystems.get(&id) {
            return *device;
        }
        let device = if id.major != 0 {
            queue_below(&self.root, id)
        } else {
            let mounts = read_mounts(&self.root).into_value().unwrap_or_default();
            mounts.iter().find(|m| m.device == id).and_then(|m| draining(&self.root, m))
        };
        self.filesystems.insert(id, device);
        device
    }

    /// A process's name, learned elsewhere.
    pub(crate) fn called(&mut self, pid: u32, name: &str) {
        self.names.insert(pid, (self.window, name.to_owned()));
    }

    /// The device below a mount of a process.
    ///
    /// A container has a mount namespace, and so has a service that systemd protects, as the
    /// guard's does. The mounts of each namespace have numbers that no other mount has
    /// (`mnt_alloc_id` of fs/namespace.c).
    fn mounted(&mut self, pid: u32, mount: i32) -> Option<DeviceId> {
        if !self.mounts.contains_key(&mount) && self.mounts_read != Some(self.window) {
            self.mounts_read = Some(self.window);
            let mounts = read_mounts(&self.root).into_value().unwrap_or_default();
            self.mounts = mounts.iter().map(|m| (m.id, draining(&self.root, m))).collect();
        }
        if let Some(device) = self.mounts.get(&mount) {
            return *device;
        }
        if self.unlisted.contains_key(&(pid, mount)) || self.looks == 0 {
            return None;
        }
        self.looks -= 1;
        let theirs = self.root.read(&format!("/proc/{pid}/mountinfo")).into_value()?;
        let Some(theirs) = mounts::parse(&theirs).into_iter().find(|theirs| theirs.id == mount)
        else {
            // Pipes and sockets; and files that were opened elsewhere, which another process may
            // list.
            self.unlisted.insert((pid, mount), self.window);
            return None;
        };
        let device = draining(&self.root, &theirs);
        self.mounts.insert(mount, device);
        device
    }
}

/// The device whose queue a filesystem's requests go through: its whole disk, or the device below,
/// as long as there is exactly one. Devices of the device mapper and of md have no queue.
fn draining(root: &SysRoot, mount: &Mount) -> Option<DeviceId> {
    queue_below(root, *topology::backing(root, mount).devices.first()?)
}

fn queue_below(root: &SysRoot, device: DeviceId) -> Option<DeviceId> {
    let mut device = block::whole_disk(root, device).into_value()?;
    // Stacks are not that deep; a damaged tree may go round.
    for _ in 0..8 {
        match block::slaves(root, device).as_slice() {
            [below] => device = block::whole_disk(root, *below).into_value()?,
            _ => break,
        }
    }
    Some(device)
}

/// Where a process writes, as its open files tell.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// All files that it may write to are on this device; `None` if it has none.
    Only(Option<DeviceId>),
    /// Its files are on several devices, and it may turn to another one.
    Likely(Option<DeviceId>),
}

impl Target {
    fn device(self) -> Option<DeviceId> {
        match self {
            Self::Only(device) | Self::Likely(device) => device,
        }
    }
}

/// An open file of a process.
#[derive(Clone, Copy, Debug)]
struct OpenFd {
    fd: i32,
    file: OpenFile,
    writable: bool,
    position: u64,
}

/// One that may be written to, on a device that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    fd: i32,
    device: DeviceId,
    /// Where the next write goes, in bytes; 0 for a process that gives an offset with each write.
    position: u64,
}

/// The last of the files that a process gets from its parent: a log as often as not.
const STDERR: i32 = 2;

impl OpenFd {
    fn written(&self) -> Option<Written> {
        let device = self.file.device.filter(|_| self.writable)?;
        Some(Written { fd: self.fd, device, position: self.position })
    }
}

/// The device that all of them are on.
fn one_device<'a>(mut files: impl Iterator<Item = &'a Written>) -> Option<DeviceId> {
    let first = files.next()?.device;
    files.all(|file| file.device == first).then_some(first)
}

/// The device on which more than three quarters were written, as far as positions tell.
fn mostly_written(files: &[Written]) -> Option<DeviceId> {
    let all: u64 = files.iter().map(|file| file.position).fold(0, u64::saturating_add);
    let on =
        |device| files.iter().filter(move |file| file.device == device).map(|file| file.position);
    files
        .iter()
        .map(|file| file.device)
        .find(|device| on(*device).fold(0, u64::saturating_add) / 3 > all / 4)
}

/// What /proc/PID/fdinfo/FD tells.
#[derive(Debug)]
struct Fdinfo {
    position: u64,
    flags: u32,
    mount: i32,
}

fn parse(fdinfo: &str) -> Option<Fdinfo> {
    let (mut position, mut flags, mut mount) = (0, None, None);
    for line in fdinfo.lines() {
        match line.split_once(':') {
            Some(("pos", text)) => position = text.trim().parse().unwrap_or(0),
            Some(("flags", text)) => flags = u32::from_str_radix(text.trim(), 8).ok(),
            Some(("mnt_id", text)) => mount = text.trim().parse().ok(),
            _ => {}
        }
    }
    Some(Fdinfo { position, flags: flags?, mount: mount? })
}

impl Files for OpenFiles {
    fn file(&mut self, pid: u32, fd: i32) -> Option<OpenFile> {
        if let Some((_, file)) = self.files.get(&(pid, fd)) {
            return *file;
        }
        if self.looks == 0 {
            return None;
        }
        let file = self.look(pid, fd).map(|open| open.file);
        self.files.insert((pid, fd), (self.window, file));
        file
    }

    fn seen(&mut self, pid: u32) {
        self.name(pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_tell_their_flags_and_their_mount() {
        let flags = (libc::O_WRONLY | libc::O_CLOEXEC) as u32 | O_DSYNC | O_DIRECT;
        let text = format!("pos:\t4096\nflags:\t0{flags:o}\nmnt_id:\t29\nino:\t5\n");
        let Fdinfo { position, flags, mount } = parse(&text).unwrap();
        assert_eq!(
            (flags & O_DSYNC != 0, flags & O_DIRECT != 0, mount, position),
            (true, true, 29, 4096)
        );
        // A pipe is on no mount that has a device; a kernel before 3.15 has no such line.
        assert!(parse("pos:\t0\nflags:\t01\n").is_none());
        assert!(parse("flags:\t9\nmnt_id:\t1\n").is_none());
    }

    #[test]
    fn a_copy_whose_messages_go_elsewhere_writes_to_its_target() {
        let device = |minor| DeviceId { major: 8, minor };
        let file = |fd, minor, position| Written { fd, device: device(minor), position };
        // cp: its target, and a log that its caller gave it.
        let cp = [file(1, 0, 1 << 40), file(2, 0, 1 << 40), file(4, 16, 1)];
        assert_eq!(one_device(cp.iter()), None);
        assert_eq!(one_device(cp.iter().filter(|f| f.fd > STDERR)), Some(device(16)));
        // dd writes to its standard output.
        assert_eq!(mostly_written(&[file(1, 16, 5_000_000), file(2, 0, 900)]), Some(device(16)));
        assert_eq!(mostly_written(&[file(3, 16, 500), file(4, 0, 400)]), None);
        assert_eq!(mostly_written(&[file(3, 16, 0), file(4, 0, 0)]), None);
        assert_eq!((one_device([].iter()), mostly_written(&[])), (None, None));
    }

    #[test]
    fn a_file_in_another_mount_namespace_is_on_the_device_that_is_mounted_there() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::DirBuilder::new().recursive(true).create(path.parent().unwrap()).unwrap();
            let mut file =
                std::fs::OpenOptions::new().create_new(true).append(true).open(path).unwrap();
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        };
        let mount = |id: i32| format!("{id} 1 8:0 / /data rw - ext4 /dev/sda rw\n");
        write("sys/devices/sda/dev", "8:0\n");
        std::fs::DirBuilder::new()
            .recursive(true)
            .create(dir.path().join("sys/dev/block"))
            .unwrap();
        std::os::unix::fs::symlink("../../devices/sda", dir.path().join("sys/dev/block/8:0"))
            .unwrap();
        write("proc/self/mountinfo", &mount(29));
        for (pid, uses, lists) in [(1, 29, 29), (2, 77, 30), (3, 77, 77)] {
            write(&format!("proc/{pid}/fdinfo/3"), &format!("flags:\t01\nmnt_id:\t{uses}\n"));
            write(&format!("proc/{pid}/mountinfo"), &mount(lists));
        }
        write("proc/4/fdinfo/3", "flags:\t01\nmnt_id:\t77\n");
        let sda = Some(DeviceId { major: 8, minor: 0 });
        let mut files = OpenFiles::new(SysRoot::new(dir.path()).unwrap());
        let mut device = |pid| files.file(pid, 3).and_then(|file| file.device);
        assert_eq!(device(1), sda);
        // The file was opened in the namespace of process 3, and process 2 does not list its mount.
        assert_eq!(device(2), None);
        assert_eq!(device(3), sda);
        assert_eq!(device(4), sda, "its own list is not needed any more");
    }

    #[test]
    fn however_many_files_there_are_so_many_are_looked_at_in_a_window() {
        let dir = tempfile::tempdir().unwrap();
        for pid in 1..=50 {
            let fds = dir.path().join(format!("proc/{pid}/fdinfo"));
            std::fs::DirBuilder::new().recursive(true).create(&fds).unwrap();
            for fd in 0..60 {
                let mut file = std::fs::OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(fds.join(fd.to_string()))
                    .unwrap();
                std::io::Write::write_all(&mut file, b"flags:\t04010001\nmnt_id:\t1\n").unwrap();
            }
        }
        let mut files = OpenFiles::new(SysRoot::new(dir.path()).unwrap());
        let mut looked_at = 0;
        for window in 1..=3 {
            for pid in 1..=50 {
                for fd in 0..60 {
                    let _ = files.file(pid, fd);
                }
            }
            let known = files.files.values().filter(|(_, file)| file.is_some()).count();
            assert!(known - looked_at <= LOOKS && known <= 3000, "window {window}: {known}");
            looked_at = known;
            files.next_window();
        }
        assert_eq!(looked_at, 3000, "each has its turn");
        // None left: nothing is known of a process's files, and nothing of that is remembered.
        files.looks = 0;
        assert!(!files.writes_synchronously(1));
        files.next_window();
        assert!(files.writes_synchronously(1));
    }
}
