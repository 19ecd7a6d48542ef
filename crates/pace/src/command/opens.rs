//! Files that a command opens, by inotify(7).
//!
//! A program may dirty pages at 5 GB/s. Looks at a command that dirties none are 20 ms apart or
//! more: 100 MB. An open file may be the begin of such a flood, and therefore makes looks due.
//! A write would be the better sign, but a database beside the command makes a thousand a second.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// Directories that are watched, at most.
const MOST: usize = 64;
/// Bytes of events of one read: some 500 events.
const EVENTS: usize = 1 << 14;
/// Events that are forgotten at once, at most, which is what the kernel keeps
/// (`max_queued_events`). A fast command makes events as fast as they are read, and those that are
/// left only make one more look due.
const MOST_EVENTS: u32 = 16_384;

/// Opened files in some directories.
#[derive(Debug)]
pub(super) struct Opens {
    /// None if the user has too many instances (`max_user_instances`).
    inotify: Option<OwnedFd>,
    /// Numbers of the watches. A directory has one, however often it is watched.
    directories: BTreeSet<i32>,
}

impl Opens {
    pub(super) fn new() -> Self {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        Self { inotify, directories: BTreeSet::new() }
    }

    /// Watches a directory, if `is_paced` is true for its device, by `st_dev`.
    pub(super) fn watch(&mut self, path: &Path, is_paced: &dyn Fn(u64) -> bool) {
        let Some(inotify) = &self.inotify else { return };
        let is_wanted = self.directories.len() < MOST
            && rustix::fs::stat(path).is_ok_and(|stat| is_paced(stat.st_dev));
        let how = WatchFlags::OPEN | WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
        if is_wanted && let Ok(watch) = inotify::add_watch(inotify, path, how) {
            self.directories.insert(watch);
        }
    }

    /// Readable if a file was opened since the last [`Self::forget`].
    pub(super) fn events(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Forgets the opened files until now, and the directories that are gone.
    pub(super) fn forget(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        let mut buffer: Vec<u8> = Vec::with_capacity(EVENTS);
        let mut events = Reader::new(inotify, buffer.spare_capacity_mut());
        for _ in 0..MOST_EVENTS {
            let Ok(event) = events.next() else { return };
            if event.events().contains(ReadFlags::IGNORED) {
                self.directories.remove(&event.wd());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(opens: &Opens) -> bool {
        let events = opens.events().unwrap();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&events, PollFlags::IN)], Some(&now)).unwrap() > 0
    }

    #[test]
    fn an_opened_file_is_an_event_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let mut opens = Opens::new();
        opens.watch(dir.path(), &|_| true);
        opens.watch(other.path(), &|_| false);
        fs::write(other.path().join("a"), "text").unwrap();
        assert!(!is_readable(&opens), "another disk");
        for round in 0..3000 {
            fs::write(dir.path().join((round % 2).to_string()), "text").unwrap();
        }
        assert!(is_readable(&opens));
        opens.forget();
        assert!(!is_readable(&opens));
        let file = fs::File::create(dir.path().join("a")).unwrap();
        assert!(is_readable(&opens));
        opens.forget();
        (&file).write_all(b"text").unwrap();
        assert!(!is_readable(&opens), "a database writes all the time");
    }

    #[test]
    fn directories_that_are_gone_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let mut opens = Opens::new();
        for n in 0..3 * MOST {
            let new = dir.path().join(n.to_string());
            fs::create_dir(&new).unwrap();
            opens.watch(&new, &|_| true);
            assert_eq!(opens.directories.len(), 1);
            fs::remove_dir(&new).unwrap();
            opens.forget();
            assert!(opens.directories.is_empty());
        }
    }
}
