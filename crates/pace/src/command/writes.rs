//! The first write of a command that has paused, by inotify(7).
//!
//! A program may dirty pages at 5 GB/s. Looks at a command that dirties none are 20 ms apart or
//! more: 100 MB. Its first write therefore makes a look due.
//!
//! A call makes its event when it ends. Writes in directories that are not known yet, to unlinked
//! files, and those through mmap(2), make none.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// Directories that are watched, at most. Each write to a file in them makes an event.
const MOST: usize = 64;
/// Bytes of events of one read: some 500 events.
const EVENTS: usize = 1 << 14;
/// Events that are forgotten at once, at most, which is what the kernel keeps
/// (`max_queued_events`). A fast command makes events as fast as they are read, and those that are
/// left only make one more look due.
const MOST_EVENTS: u32 = 16_384;

/// Writes to files in some directories.
#[derive(Debug)]
pub(super) struct Writes {
    /// None if the user has too many instances (`max_user_instances`).
    inotify: Option<OwnedFd>,
    /// Numbers of the watches. A directory has one, however often it is watched.
    directories: BTreeSet<i32>,
}

impl Writes {
    pub(super) fn new() -> Self {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        Self { inotify, directories: BTreeSet::new() }
    }

    /// Watches a directory, if `is_paced` is true for its device, by `st_dev`.
    pub(super) fn watch(&mut self, path: &Path, is_paced: &dyn Fn(u64) -> bool) {
        let Some(inotify) = &self.inotify else { return };
        let is_wanted = self.directories.len() < MOST
            && rustix::fs::stat(path).is_ok_and(|stat| is_paced(stat.st_dev));
        let how = WatchFlags::MODIFY | WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
        if is_wanted && let Ok(watch) = inotify::add_watch(inotify, path, how) {
            self.directories.insert(watch);
        }
    }

    /// Readable if there was a write since the last [`Self::forget`].
    pub(super) fn events(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Forgets the writes until now, and the directories that are gone.
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

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(writes: &Writes) -> bool {
        let events = writes.events().unwrap();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&events, PollFlags::IN)], Some(&now)).unwrap() > 0
    }

    #[test]
    fn a_write_is_an_event_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let mut writes = Writes::new();
        writes.watch(dir.path(), &|_| true);
        writes.watch(other.path(), &|_| false);
        fs::write(other.path().join("a"), "text").unwrap();
        fs::File::create(dir.path().join("a")).unwrap();
        assert!(!is_readable(&writes), "nothing was written, or to another disk");
        for round in 0..3000 {
            fs::write(dir.path().join((round % 2).to_string()), "text").unwrap();
        }
        assert!(is_readable(&writes));
        writes.forget();
        assert!(!is_readable(&writes));
        fs::write(dir.path().join("a"), "text").unwrap();
        assert!(is_readable(&writes));
    }

    #[test]
    fn directories_that_are_gone_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let mut writes = Writes::new();
        for n in 0..3 * MOST {
            let new = dir.path().join(n.to_string());
            fs::create_dir(&new).unwrap();
            writes.watch(&new, &|_| true);
            assert_eq!(writes.directories.len(), 1);
            fs::remove_dir(&new).unwrap();
            writes.forget();
            assert!(writes.directories.is_empty());
        }
    }
}
