//! The regular files that a command has open for writing.
//!
//! Each is opened through /proc/PID/fd/N, so that it can be written back. It is closed once the
//! command has closed it and its last range was handed over. Files that were deleted before they
//! were found are left alone: their data never has to reach the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use floodwall_host::SysRoot;
use floodwall_host::open_files::{RegularFile, is_for_writing, open_flags, regular_file};
use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::Errno;

use super::maps::shared_files;
use super::progress::{Pressure, Progress};
use super::range::{Range, Span};
use super::regular::open_regular;
use super::tree::{Id, Process};

/// Files that are open at once, at most.
const MOST: usize = 64;
/// Descriptors of a process that are looked at, at most. A server may have a hundred thousand.
const MOST_DESCRIPTORS: usize = 4096;
/// Looks between two searches for mapped files, since /proc/PID/maps may be long.
const MAPS_EVERY: u64 = 10;

/// A file's identity, which is the same under all its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    dev: u64,
    ino: u64,
}

impl Key {
    pub(super) fn of(stat: &Stat) -> Self {
        Self { dev: stat.st_dev, ino: stat.st_ino }
    }
}

impl From<RegularFile> for Key {
    fn from(file: RegularFile) -> Self {
        Self { dev: file.device, ino: file.inode }
    }
}

#[derive(Debug)]
struct Open {
    file: Arc<OwnedFd>,
    progress: Progress,
    is_new: bool,
    /// The last look at which it counts as open.
    until: u64,
}

/// The files that a command writes to.
#[derive(Debug, Default)]
pub(super) struct Files {
    open: BTreeMap<Key, Open>,
    /// Descriptors of the last look that are open for reading only.
    read_only: BTreeSet<(Id, String, Key)>,
    refused: BTreeSet<Key>,
    /// Bytes of each open deleted file that is left alone, …
    deleted: BTreeMap<Key, u64>,
    /// … of all of them, and the most that may be.
    deleted_bytes: u64,
    most_deleted: u64,
    /// How many were opened so far.
    found: u64,
    /// Directories of files that were opened since they were last asked for.
    directories: Vec<PathBuf>,
    look: u64,
}

impl Files {
    /// Leaves alone so many bytes of deleted files, at most.
    pub(super) fn new(most_deleted: u64) -> Self {
        Self { most_deleted, ..Self::default() }
    }

    /// Looks at all processes, and returns the ranges to write back. Leaves out files on devices
    /// for which `is_known` is false, by `st_dev`.
    pub(super) fn look(
        &mut self,
        root: &SysRoot,
        processes: &[Process],
        is_known: &dyn Fn(u64) -> bool,
        pressure: Pressure,
    ) -> Vec<Range> {
        self.look += 1;
        let left_before = std::mem::take(&mut self.deleted);
        self.deleted_bytes = 0;
        let with_maps = pressure.rose && self.look.is_multiple_of(MAPS_EVERY);
        let before = std::mem::take(&mut self.read_only);
        for process in processes.iter().filter(|process| !process.has_ended()) {
            self.descriptors(root, process.id, is_known, &before, &left_before);
            if with_maps {
                self.mapped(root, process.id.pid, is_known);
            }
        }
        self.ranges(pressure)
    }

    /// The ranges to write back by the sizes of the last look. This makes no call to a filesystem.
    pub(super) fn again(&mut self, pressure: Pressure) -> Vec<Range> {
        let range = |open: &mut Open| {
            let span = open.progress.again(pressure)?;
            Some(Range { file: Arc::clone(&open.file), span })
        };
        self.open.values_mut().filter_map(range).collect()
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.open.contains_key(&key)
    }

    /// Bytes of open deleted files that are left alone.
    pub(super) fn deleted_bytes(&self) -> u64 {
        self.deleted_bytes
    }

    pub(super) fn found(&self) -> u64 {
        self.found
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.len() as u64
    }

    /// Directories of files that were opened since the last call.
    pub(super) fn take_directories(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.directories)
    }

    fn descriptors(
        &mut self,
        root: &SysRoot,
        id: Id,
        is_known: &dyn Fn(u64) -> bool,
        before: &BTreeSet<(Id, String, Key)>,
        left_before: &BTreeMap<Key, u64>,
    ) {
        let directory = format!("/proc/{}/fd", id.pid);
        let descriptors = root.list(&directory).into_value().unwrap_or_default();
        for descriptor in descriptors.into_iter().take(MOST_DESCRIPTORS) {
            let name = format!("{directory}/{descriptor}");
            let path = root.path().join(name.trim_start_matches('/'));
            let Some(file) = regular_file(&path).filter(|file| is_known(file.device)) else {
                continue;
            };
            let key = Key::from(file);
            if let Some(open) = self.open.get_mut(&key) {
                open.until = open.until.max(self.look);
                continue;
            }
            if left_before.contains_key(&key) && self.leave(key, &file) {
                continue;
            }
            let known = (id, descriptor, key);
            let flags = || open_flags(root, id.pid.unsigned_abs(), &known.1);
            let written = if before.contains(&known) { None } else { flags() };
            let Some(flags) = written.filter(|flags| is_for_writing(*flags)) else {
                self.read_only.insert(known);
                continue;
            };
            // A file without a first name may get one (linkat(2)).
            if !flags.contains(OFlags::TMPFILE) && self.leave(key, &file) {
                continue;
            }
            if self.add(&path, key, self.look)
                && let Some(target) = root.link_target(&name).into_value()
                && let Some(directory) = Path::new(&target).parent()
                && directory.is_absolute()
            {
                self.directories.push(directory.to_owned());
            }
        }
    }

    /// Leaves a file alone if it is deleted, and if there are few bytes in such files. This process
    /// must have no descriptor of it. The kernel counts the cancelled pages for the process that
    /// closes the last one, and that has to be the command.
    fn leave(&mut self, key: Key, file: &RegularFile) -> bool {
        if self.deleted.contains_key(&key) {
            return true;
        }
        let bytes = file.size.min(file.allocated);
        let all = self.deleted_bytes.saturating_add(bytes);
        let is_left = file.is_deleted && all <= self.most_deleted;
        if is_left {
            self.deleted.insert(key, bytes);
            self.deleted_bytes = all;
        }
        is_left
    }

    fn mapped(&mut self, root: &SysRoot, pid: i32, is_known: &dyn Fn(u64) -> bool) {
        let maps = root.read(&format!("/proc/{pid}/maps")).into_value().unwrap_or_default();
        for (path, inode) in shared_files(&maps) {
            let is_it = |file: &RegularFile| file.inode == inode && is_known(file.device);
            let Some(file) = regular_file(path).filter(is_it) else { continue };
            let (key, until) = (Key::from(file), self.look + MAPS_EVERY);
            match self.open.get_mut(&key) {
                Some(open) => open.until = open.until.max(until),
                None => {
                    self.add(Path::new(path), key, until);
                }
            }
        }
    }

    fn add(&mut self, path: &Path, key: Key, until: u64) -> bool {
        if self.open.len() >= MOST || self.refused.contains(&key) {
            return false;
        }
        match open_regular(path, OFlags::empty()) {
            Ok((file, stat)) if Key::of(&stat) == key => {
                let progress = Progress::new(size(&stat));
                let open = Open { file: Arc::new(file), progress, is_new: true, until };
                self.open.insert(key, open);
                self.found += 1;
                true
            }
            Err(Errno::ACCESS | Errno::PERM) => {
                self.refused.insert(key);
                false
            }
            // The command has closed it meanwhile.
            Ok(_) | Err(_) => false,
        }
    }

    fn ranges(&mut self, pressure: Pressure) -> Vec<Range> {
        let look = self.look;
        let mut ranges = Vec::new();
        self.open.retain(|_, open| {
            let Ok(stat) = fstat(&*open.file) else { return false };
            let (size, is_open) = (size(&stat), open.until >= look);
            let span = if std::mem::take(&mut open.is_new) {
                (size > 0).then_some(Span::Dirty { to: size })
            } else if is_open {
                open.progress.step(size, pressure)
            } else if stat.st_nlink > 0 {
                open.progress.close(size)
            } else {
                None
            };
            ranges.extend(span.map(|span| Range { file: Arc::clone(&open.file), span }));
            is_open
        });
        ranges
    }
}

fn size(stat: &Stat) -> u64 {
    stat.st_size.max(0).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    use floodwall_testing::tree::put;

    use super::*;
    use crate::command::tree::Tree;
    use crate::command::tree::testing::process;

    const PRESS: Pressure = Pressure { rose: true, press: true, idle: true, piece: 4096 };

    /// Process 20 with descriptors 3 and 4, of a file that it writes and one that it reads.
    struct Machine {
        dir: tempfile::TempDir,
        root: SysRoot,
        tree: Tree,
        files: Files,
    }

    impl Machine {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            process(dir.path(), 10, 1, 'S', "");
            let root = SysRoot::new(dir.path()).unwrap();
            let tree = Tree::below(&root, 10);
            process(dir.path(), 10, 1, 'S', "20 ");
            process(dir.path(), 20, 10, 'S', "");
            put(&dir.path().join("proc/20/fd/none"), "");
            let machine = Self { dir, root, tree, files: Files::default() };
            machine.descriptor(3, "written", "0100001");
            machine.descriptor(4, "read", "0100000");
            machine
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn descriptor(&self, fd: u32, name: &str, flags: &str) {
            put(&self.path(name), "");
            symlink(self.path(name), self.path(&format!("proc/20/fd/{fd}"))).unwrap();
            let info = format!("pos:\t0\nflags:\t{flags}\n");
            put(&self.path(&format!("proc/20/fdinfo/{fd}")), &info);
        }

        fn look(&mut self) -> Vec<Span> {
            let processes = self.tree.processes();
            let ranges = self.files.look(&self.root, &processes, &|_| true, PRESS);
            ranges.into_iter().map(|range| range.span).collect()
        }
    }

    #[test]
    fn a_file_is_followed_from_its_first_byte_to_its_last() {
        let mut machine = Machine::new();
        assert!(machine.look().is_empty(), "it is empty");
        assert_eq!((machine.files.open.len(), machine.files.found()), (1, 1));
        assert_eq!(machine.files.take_directories(), [machine.dir.path()]);
        fs::write(machine.path("written"), [0; 8192]).unwrap();
        fs::write(machine.path("read"), [0; 8192]).unwrap();
        assert_eq!(machine.look(), [Span::Grown { from: 0, to: 8192 }]);
        fs::write(machine.path("written"), [0; 8200]).unwrap();
        fs::remove_file(machine.path("proc/20/fd/3")).unwrap();
        assert_eq!(machine.look(), [Span::Grown { from: 8192, to: 8200 }]);
        assert_eq!(machine.files.open.len(), 0);
        assert!(machine.look().is_empty() && machine.files.take_directories().is_empty());
    }

    #[test]
    fn the_rest_of_a_file_is_handed_over_without_a_look_at_it() {
        let mut machine = Machine::new();
        machine.look();
        fs::write(machine.path("written"), [0; 8200]).unwrap();
        assert_eq!(machine.look(), [Span::Grown { from: 0, to: 8192 }]);
        fs::write(machine.path("written"), [0; 9000]).unwrap();
        fs::remove_dir_all(machine.path("proc")).unwrap();
        let spans: Vec<Span> = machine.files.again(PRESS).iter().map(|range| range.span).collect();
        assert_eq!(spans, [Span::Grown { from: 8192, to: 8200 }]);
    }

    #[test]
    fn a_file_that_has_bytes_already_is_looked_at_as_a_whole() {
        let mut machine = Machine::new();
        fs::write(machine.path("written"), [0; 5000]).unwrap();
        assert_eq!(machine.look(), [Span::Dirty { to: 5000 }]);
        assert_eq!(machine.look(), [Span::Grown { from: 4096, to: 5000 }]);
        assert_eq!(machine.look(), [Span::Dirty { to: 5000 }], "written in place");
    }

    #[test]
    fn a_file_that_was_deleted_at_once_is_left_alone_unless_it_is_large() {
        const MOST: u64 = 100 << 12;
        let mut machine = Machine { files: Files::new(MOST), ..Machine::new() };
        fs::remove_file(machine.path("proc/20/fd/3")).unwrap();
        let named = fs::OpenOptions::new().append(true).open(machine.path("written")).unwrap();
        let mut file = named;
        symlink(format!("/proc/self/fd/{}", file.as_raw_fd()), machine.path("proc/20/fd/3"))
            .unwrap();
        fs::remove_file(machine.path("written")).unwrap();
        file.write_all(&[1; 5000]).unwrap();
        assert!(machine.look().is_empty());
        assert_eq!((machine.files.open.len(), machine.files.deleted_bytes()), (0, 5000));
        // It is sparse.
        file.set_len(10 * MOST).unwrap();
        assert!(machine.look().is_empty());
        assert!((5000..MOST).contains(&machine.files.deleted_bytes()));
        file.set_len(5000).unwrap();
        file.write_all(&[1; MOST as usize]).unwrap();
        assert_eq!(machine.look(), [Span::Dirty { to: MOST + 5000 }]);
        assert_eq!((machine.files.open.len(), machine.files.deleted_bytes()), (1, 0));
        file.set_len(0).unwrap();
        machine.look();
        assert_eq!(machine.files.open.len(), 1, "it is not left alone once more");
    }

    #[test]
    fn a_file_that_is_deleted_later_or_may_get_a_name_is_written_back() {
        let mut machine = Machine { files: Files::new(1 << 20), ..Machine::new() };
        let link = machine.path("proc/20/fd/3");
        fs::remove_file(&link).unwrap();
        fs::write(machine.path("written"), [0; 5000]).unwrap();
        let file = fs::File::open(machine.path("written")).unwrap();
        symlink(format!("/proc/self/fd/{}", file.as_raw_fd()), &link).unwrap();
        assert_eq!(machine.look(), [Span::Dirty { to: 5000 }]);
        fs::remove_file(machine.path("written")).unwrap();
        machine.look();
        assert_eq!((machine.files.open.len(), machine.files.deleted_bytes()), (1, 0));
        fs::remove_file(&link).unwrap();
        assert!(machine.look().is_empty(), "nothing of a deleted file has to reach the disk");
        assert_eq!(machine.files.open.len(), 0);
        symlink(format!("/proc/self/fd/{}", file.as_raw_fd()), &link).unwrap();
        let flags = (OFlags::TMPFILE | OFlags::RDWR).bits();
        put(&machine.path("proc/20/fdinfo/3"), &format!("flags:\t0{flags:o}\n"));
        assert_eq!(machine.look(), [Span::Dirty { to: 5000 }]);
    }

    #[test]
    fn files_of_other_disks_are_left_out() {
        let mut machine = Machine::new();
        let processes = machine.tree.processes();
        machine.files.look(&machine.root, &processes, &|_| false, PRESS);
        assert_eq!(machine.files.found(), 0);
    }

    #[test]
    fn no_more_than_some_are_open_at_once() {
        let mut machine = Machine::new();
        for fd in 100..200 {
            machine.descriptor(fd, &format!("file{fd}"), "0100002");
        }
        machine.look();
        assert_eq!(machine.files.open.len(), MOST);
    }

    #[test]
    fn a_mapped_file_is_found_though_it_was_closed() {
        let mut machine = Machine::new();
        fs::remove_file(machine.path("proc/20/fd/3")).unwrap();
        let path = machine.path("written");
        fs::write(&path, [0; 4096]).unwrap();
        let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap());
        let maps = format!("7f00-7f10 rw-s 00000000 00:00 {inode}   {}\n", path.display());
        put(&machine.path("proc/20/maps"), &maps);
        let spans: Vec<Span> = (0..MAPS_EVERY).flat_map(|_| machine.look()).collect();
        assert_eq!(spans, [Span::Dirty { to: 4096 }]);
        assert_eq!(machine.look(), [Span::Dirty { to: 4096 }], "written in place");
    }
}
