//! Files that a command has closed, by inotify(7). Small files are open too briefly to be found
//! among the descriptors of a process.
//!
//! ```text
//! working directory, directories of arguments ─┐
//! directories of files that were seen ─────────┤ watched
//! directories that were made in those ─────────┘   │
//!                           a file was closed, or renamed to ─▶ its path, once
//! ```
//!
//! A path may lead to another file by then, so it must be opened without following a symlink.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// Directories that are watched, at most; the kernel may allow fewer (`max_user_watches`).
const MOST_WATCHES: usize = 8192;
/// Paths that wait to be taken, at most.
const MOST_FILES: usize = 1 << 16;
/// Time for the directories that existed at the start, in all …
const EXISTING: Duration = Duration::from_millis(50);
/// … and at one look, for each: events, directories that were made, and existing ones. One read and
/// one new directory take longer.
const ONE_LOOK: Duration = Duration::from_millis(5);
/// Bytes of events of one read: some 2000 events.
const EVENTS: usize = 1 << 16;

/// The directories that are watched below a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Below {
    /// Directories that are made later.
    New,
    /// Existing directories as well.
    Existing,
}

/// Watched directories, and files that were closed in them.
#[derive(Debug)]
pub(super) struct Notified {
    /// None if the user has too many instances (`max_user_instances`).
    inotify: Option<OwnedFd>,
    directories: BTreeMap<i32, PathBuf>,
    /// Watched directories whose entries have to be listed: those that existed at the start, and
    /// those that were made since. Files of the latter may have been closed before the watch began.
    existing: VecDeque<PathBuf>,
    made: VecDeque<PathBuf>,
    existing_left: Duration,
    files: VecDeque<PathBuf>,
    /// Whether the last look left events to the next one.
    has_unread: bool,
    is_incomplete: bool,
    /// [`ONE_LOOK`]
    one_look: Duration,
}

impl Notified {
    pub(super) fn new() -> Self {
        Self {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok(),
            directories: BTreeMap::new(),
            existing: VecDeque::new(),
            made: VecDeque::new(),
            existing_left: EXISTING,
            files: VecDeque::new(),
            has_unread: false,
            is_incomplete: false,
            one_look: ONE_LOOK,
        }
    }

    /// Whether the kernel dropped events (`max_queued_events`).
    pub(super) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Watches a directory, if `is_paced` is true for its device, by `st_dev`.
    pub(super) fn watch(&mut self, path: &Path, below: Below, is_paced: &dyn Fn(u64) -> bool) {
        if self.add(path, is_paced) && below == Below::Existing {
            self.existing.push_back(path.to_owned());
        }
    }

    /// Reads the events since the last look. Closed files are remembered only if they are `wanted`.
    pub(super) fn look(&mut self, is_paced: &dyn Fn(u64) -> bool, wanted: bool) {
        for path in self.read_events(wanted) {
            if self.add(&path, is_paced) {
                self.made.push_back(path);
            }
        }
        let begin = Instant::now();
        while let Some(path) = self.made.pop_front() {
            for (path, is_directory) in contents(&path) {
                if !is_directory {
                    remember(&mut self.files, path);
                } else if self.add(&path, is_paced) {
                    self.made.push_back(path);
                }
            }
            if begin.elapsed() >= self.one_look {
                break;
            }
        }
        if self.existing.is_empty() {
            return;
        }
        let begin = Instant::now();
        while begin.elapsed() < self.existing_left.min(self.one_look)
            && let Some(path) = self.existing.pop_front()
        {
            for (path, is_directory) in contents(&path) {
                if is_directory && self.add(&path, is_paced) {
                    self.existing.push_back(path);
                }
            }
        }
        self.existing_left = self.existing_left.saturating_sub(begin.elapsed());
        if self.existing_left.is_zero() {
            self.existing.clear();
        }
    }

    /// Whether the last look left events, or directories that were made, to the next one.
    pub(super) fn has_more(&self) -> bool {
        self.has_unread || !self.made.is_empty()
    }

    /// Whether no path of a closed file is left, and the last look has found all of them.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && !self.has_more()
    }

    /// Takes paths of closed files, the oldest first.
    pub(super) fn take(&mut self, most: usize) -> Vec<PathBuf> {
        self.files.drain(..most.min(self.files.len())).collect()
    }

    /// Remembers files, and returns directories that were made.
    fn read_events(&mut self, wanted: bool) -> Vec<PathBuf> {
        let mut made = Vec::new();
        let Some(inotify) = &self.inotify else { return made };
        let mut buffer: Vec<u8> = Vec::with_capacity(EVENTS);
        let mut events = Reader::new(inotify, buffer.spare_capacity_mut());
        let (begin, mut reads) = (Instant::now(), 0);
        loop {
            if events.is_buffer_empty() {
                // A fast command makes events as fast as this reads them.
                self.has_unread = reads > 0 && begin.elapsed() >= self.one_look;
                if self.has_unread {
                    return made;
                }
                reads += 1;
            }
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(_) => return made,
            };
            let what = event.events();
            self.is_incomplete |= what.contains(ReadFlags::QUEUE_OVERFLOW);
            if what.contains(ReadFlags::IGNORED) {
                self.directories.remove(&event.wd());
                continue;
            }
            let Some((directory, name)) = self.directories.get(&event.wd()).zip(event.file_name())
            else {
                continue;
            };
            let path = directory.join(OsStr::from_bytes(name.to_bytes()));
            if what.contains(ReadFlags::ISDIR) {
                made.push(path);
            } else if wanted && what.intersects(ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO) {
                remember(&mut self.files, path);
            }
        }
    }

    fn add(&mut self, path: &Path, is_paced: &dyn Fn(u64) -> bool) -> bool {
        let Some(inotify) = &self.inotify else { return false };
        let is_wanted = self.directories.len() < MOST_WATCHES
            && rustix::fs::stat(path).is_ok_and(|stat| is_paced(stat.st_dev));
        if !is_wanted {
            return false;
        }
        let events = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::CREATE;
        let how = WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
        match inotify::add_watch(inotify, path, events | how) {
            Ok(watch) => {
                self.directories.insert(watch, path.to_owned());
                true
            }
            Err(_) => false,
        }
    }
}

fn remember(files: &mut VecDeque<PathBuf>, path: PathBuf) {
    if files.len() < MOST_FILES && files.back() != Some(&path) {
        files.push_back(path);
    }
}

/// The files and directories in a directory; true for a directory.
fn contents(path: &Path) -> Vec<(PathBuf, bool)> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let kind = |entry: fs::DirEntry| {
        let kind = entry.file_type().ok()?;
        (kind.is_dir() || kind.is_file()).then(|| (entry.path(), kind.is_dir()))
    };
    entries.flatten().filter_map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(notified: &mut Notified, dir: &Path) -> Vec<String> {
        notified.look(&|_| true, true);
        let mut names: Vec<String> = notified
            .take(usize::MAX)
            .iter()
            .map(|path| path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn closed_files_are_found_in_old_and_new_directories() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("old/deep")).unwrap();
        fs::write(at("before"), "").unwrap();
        let mut notified = Notified::new();
        notified.watch(dir.path(), Below::Existing, &|_| true);
        assert!(names(&mut notified, dir.path()).is_empty());
        fs::write(at("a"), "text").unwrap();
        fs::write(at("old/deep/b"), "text").unwrap();
        fs::rename(at("before"), at("after")).unwrap();
        fs::create_dir_all(at("new/deep")).unwrap();
        fs::write(at("new/deep/c"), "text").unwrap();
        std::os::unix::fs::symlink("/dev/null", at("new/link")).unwrap();
        let found = names(&mut notified, dir.path());
        assert_eq!(found, ["a", "after", "new/deep/c", "old/deep/b"]);
        fs::write(at("new/deep/d"), "text").unwrap();
        assert_eq!(names(&mut notified, dir.path()), ["new/deep/d"]);
        fs::remove_dir_all(at("new")).unwrap();
        assert!(names(&mut notified, dir.path()).is_empty());
        assert_eq!(notified.directories.len(), 3);
    }

    #[test]
    fn a_look_is_short_and_the_next_ones_find_the_rest() {
        const EACH: usize = 3000;
        let dir = tempfile::tempdir().unwrap();
        let mut notified = Notified { one_look: Duration::ZERO, ..Notified::new() };
        notified.watch(dir.path(), Below::New, &|_| true);
        for n in 0..EACH {
            fs::write(dir.path().join(format!("file {n} with a long name")), "text").unwrap();
        }
        for n in 0..20 {
            fs::create_dir_all(dir.path().join(format!("{n}/deep"))).unwrap();
            fs::write(dir.path().join(format!("{n}/deep/file")), "text").unwrap();
        }
        let first = names(&mut notified, dir.path()).len();
        assert!(first > 0 && first < EACH && notified.has_more(), "{first}");
        let (mut found, mut looks) = (first, 1);
        while notified.has_more() {
            assert!(!notified.is_empty());
            found += names(&mut notified, dir.path()).len();
            looks += 1;
        }
        assert_eq!(found, EACH + 20);
        // Two directories were made for each of the last files.
        assert!(looks >= 40 && notified.is_empty(), "{looks}");
    }

    #[test]
    fn what_is_not_wanted_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("old")).unwrap();
        let mut notified = Notified::new();
        notified.watch(dir.path(), Below::New, &|_| true);
        notified.look(&|_| true, true);
        fs::write(dir.path().join("old/a"), "text").unwrap();
        assert!(notified.take(9).is_empty(), "a directory that was there");
        fs::write(dir.path().join("b"), "text").unwrap();
        notified.look(&|_| true, false);
        assert!(notified.take(9).is_empty());
        fs::write(dir.path().join("c"), "text").unwrap();
        fs::write(dir.path().join("d"), "text").unwrap();
        notified.look(&|_| true, true);
        assert_eq!(notified.take(1), [dir.path().join("c")]);
        assert_eq!(notified.take(9), [dir.path().join("d")]);
    }

    #[test]
    fn dropped_events_are_noticed() {
        let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let most: usize = most.trim().parse().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut notified = Notified::new();
        notified.watch(dir.path(), Below::New, &|_| true);
        notified.look(&|_| true, true);
        assert!(!notified.is_incomplete());
        // The kernel joins equal events.
        for n in 0..most + 2 {
            fs::write(dir.path().join((n % 2).to_string()), "text").unwrap();
        }
        notified.look(&|_| true, true);
        // The event that tells so is the last one.
        while notified.has_more() {
            notified.look(&|_| true, true);
        }
        assert!(notified.is_incomplete());
    }

    #[test]
    fn other_disks_are_not_watched() {
        let dir = tempfile::tempdir().unwrap();
        let mut notified = Notified::new();
        notified.watch(dir.path(), Below::Existing, &|_| false);
        notified.watch(Path::new("/no/such"), Below::Existing, &|_| true);
        assert!(notified.directories.is_empty());
    }
}
