//! Journals in a directory: `/var/lib/floodwall/journal` unless told otherwise.
//!
//! The path is opened from `/` one name at a time, without following links. A directory whose
//! entries other users could change is refused: a user who can write a journal can have root write
//! any knob.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use floodwall_model::printable::printable;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::store::{JournalError, Mark, Store};

/// A transaction takes a few KiB; a lowered limit some more; a hold of a thousand devices some MiB.
/// Anything larger is not a journal.
const MAX_FILE_BYTES: u64 = 32 << 20;
const LOCK: &str = "lock";
/// Locked by the process that steers, until it has ended and its last write is over. flock(2) works
/// across PID namespaces. The kernel unlocks the file with the process.
const MARK: &str = "steering";
/// A process that looks for the mark locks the file for a moment. So taking it is tried again.
const MARK_ATTEMPTS: u32 = 10;
/// Between two attempts.
const MARK_NAP: Duration = Duration::from_millis(5);

/// The locked file. A child that is between fork(2) and execve(2) has it open too, so closing it
/// here is not enough to unlock it.
#[derive(Debug)]
struct Lock(OwnedFd);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// A journal's directory, and the lock on it.
#[derive(Debug)]
pub struct DiskStore {
    directory: OwnedFd,
    path: PathBuf,
    /// Held until dropped; the kernel drops it with the process.
    lock: Option<Lock>,
}

impl DiskStore {
    /// Opens a directory to change things, making it if needed, and takes its lock. `holder` names
    /// us to whom we keep out.
    ///
    /// # Errors
    /// [`JournalError::Held`] if another process has it; the others if it can't be used.
    pub fn open(path: &Path, holder: &str) -> Result<Self, JournalError> {
        let mut store = Self { directory: walk(path, true)?, path: path.to_owned(), lock: None };
        store.lock = Some(store.take_lock(holder)?);
        Ok(store)
    }

    /// Opens a directory to read it alone, without its lock. `None` if it does not exist.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open_to_read(path: &Path) -> Result<Option<Self>, JournalError> {
        match walk(path, false) {
            Ok(directory) => Ok(Some(Self { directory, path: path.to_owned(), lock: None })),
            Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn take_lock(&self, holder: &str) -> Result<Lock, JournalError> {
        let open = |how| {
            let flags = how | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(&self.directory, LOCK, flags, Mode::from_raw_mode(0o600))
        };
        // A filesystem that has become read-only must not keep values in force: undoing goes on
        // without records. A change can't begin.
        let lock = match open(OFlags::RDWR | OFlags::CREATE) {
            Err(Errno::ROFS) => open(OFlags::RDONLY).map_err(|_| Errno::ROFS),
            other => other,
        };
        let lock = lock.map_err(|e| self.failed("open", LOCK, e))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // Only a courtesy to processes that wait: a full disk must not prevent an undoing.
                let _ = rustix::fs::ftruncate(&lock, 0);
                let _ = rustix::io::pwrite(&lock, holder.as_bytes(), 0);
                Ok(Lock(lock))
            }
            Err(Errno::WOULDBLOCK) => {
                let mut text = [0_u8; 512];
                let length = rustix::io::pread(&lock, &mut text[..], 0).unwrap_or(0);
                let said = String::from_utf8_lossy(&text[..length]);
                let said = printable(said.trim());
                let holder =
                    if said.is_empty() { "another process".to_owned() } else { said.into_owned() };
                Err(JournalError::Held { holder })
            }
            Err(e) => Err(self.failed("lock", LOCK, e)),
        }
    }

    fn failed(&self, what: &'static str, name: &str, error: Errno) -> JournalError {
        JournalError::Io { what, path: self.path.join(name), source: error.into() }
    }

    fn writable(&self) -> Result<(), JournalError> {
        if self.lock.is_some() { Ok(()) } else { Err(JournalError::ReadOnly) }
    }

    fn open_file(&self, name: &str, flags: OFlags) -> Result<OwnedFd, JournalError> {
        // Non-blocking: a FIFO in our place must not hang us.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::from_raw_mode(0o600))
            .map_err(|e| match e {
                Errno::LOOP => JournalError::Foreign {
                    name: name.to_owned(),
                    why: "it is a symbolic link".to_owned(),
                },
                e => self.failed("open", name, e),
            })?;
        let stat = rustix::fs::fstat(&file).map_err(|e| self.failed("look at", name, e))?;
        let foreign =
            |why: &str| JournalError::Foreign { name: name.to_owned(), why: why.to_owned() };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(foreign("it is not a plain file"));
        }
        if !is_ours(stat.st_uid) {
            return Err(foreign("it belongs to somebody else"));
        }
        if stat.st_mode & 0o022 != 0 {
            return Err(foreign("others can write it"));
        }
        if stat.st_nlink > 1 {
            return Err(foreign("it has a second name"));
        }
        if u64::try_from(stat.st_size).unwrap_or(u64::MAX) > MAX_FILE_BYTES {
            return Err(foreign("it is too large"));
        }
        Ok(file)
    }

    fn sync_directory(&self) -> Result<(), JournalError> {
        rustix::fs::fsync(&self.directory).map_err(|e| self.failed("sync", "", e))
    }

    /// Appends all or nothing: the part of a record that found room on a full disk would spoil the
    /// next one.
    fn append_whole(&self, name: &str, bytes: &[u8], synced: bool) -> Result<(), JournalError> {
        let file = self.open_file(name, OFlags::WRONLY | OFlags::APPEND)?;
        let before = rustix::fs::fstat(&file).map_err(|e| self.failed("look at", name, e))?.st_size;
        let appended = self.write_all(file.as_fd(), name, bytes).and_then(|()| {
            if synced {
                rustix::fs::fdatasync(&file).map_err(|e| self.failed("sync", name, e))
            } else {
                Ok(())
            }
        });
        if appended.is_err() {
            let _ = rustix::fs::ftruncate(&file, u64::try_from(before).unwrap_or(0));
        }
        appended
    }

    fn write_all(
        &self,
        file: BorrowedFd<'_>,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), JournalError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::write(file, rest) {
                Ok(n) => rest = &rest[n..],
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.failed("write", name, e)),
            }
        }
        Ok(())
    }
}

impl Store for DiskStore {
    fn names(&self) -> Result<Vec<String>, JournalError> {
        let entries = Dir::read_from(&self.directory).map_err(|e| self.failed("list", "", e))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| self.failed("list", "", e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !matches!(name.as_str(), "." | ".." | LOCK | MARK) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, JournalError> {
        let file = self.open_file(name, OFlags::RDONLY)?;
        let mut bytes = Vec::new();
        loop {
            bytes.reserve(16 << 10);
            match rustix::io::read(&file, rustix::buffer::spare_capacity(&mut bytes)) {
                Ok(0) => return Ok(bytes),
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(self.failed("read", name, e)),
            }
        }
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.writable()?;
        match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(self.failed("remove", name, e)),
        }
        let file = self.open_file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        self.write_all(file.as_fd(), name, bytes)?;
        rustix::fs::fsync(&file).map_err(|e| self.failed("sync", name, e))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), JournalError> {
        self.writable()?;
        rustix::fs::renameat(&self.directory, from, &self.directory, to)
            .map_err(|e| self.failed("rename", from, e))?;
        self.sync_directory()
    }

    fn append(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.writable()?;
        self.append_whole(name, bytes, false)
    }

    fn append_synced(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        self.writable()?;
        self.append_whole(name, bytes, true)
    }

    fn length(&self, name: &str) -> Result<u64, JournalError> {
        let file = self.open_file(name, OFlags::RDONLY)?;
        let stat = rustix::fs::fstat(&file).map_err(|e| self.failed("look at", name, e))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    fn truncate(&self, name: &str, bytes: u64) -> Result<(), JournalError> {
        self.writable()?;
        let file = self.open_file(name, OFlags::WRONLY)?;
        rustix::fs::ftruncate(&file, bytes).map_err(|e| self.failed("cut", name, e))
    }

    fn remove(&self, name: &str) -> Result<(), JournalError> {
        self.writable()?;
        rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())
            .map_err(|e| self.failed("remove", name, e))
    }

    fn mark(&self) -> Result<Option<Mark>, JournalError> {
        self.writable()?;
        let file = self.open_file(MARK, OFlags::RDWR | OFlags::CREATE)?;
        for _ in 0..MARK_ATTEMPTS {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(file.into())),
                Err(Errno::WOULDBLOCK) => std::thread::sleep(MARK_NAP),
                Err(e) => return Err(self.failed("lock", MARK, e)),
            }
        }
        Ok(None)
    }

    fn is_marked(&self) -> Result<bool, JournalError> {
        let file = match self.open_file(MARK, OFlags::RDONLY) {
            Ok(file) => file,
            Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(false);
            }
            Err(e) => return Err(e),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(e) => Err(self.failed("lock", MARK, e)),
        }
    }
}

/// Root's, or the user's that we are.
fn is_ours(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Opens a directory from `/` on, one name at a time.
fn walk(path: &Path, make: bool) -> Result<OwnedFd, JournalError> {
    let mut components = path.components();
    if components.next() != Some(Component::RootDir) {
        return Err(JournalError::NotAbsolute(path.to_owned()));
    }
    let names: Vec<&OsStr> = components
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(JournalError::NotAbsolute(path.to_owned())),
        })
        .collect::<Result<_, _>>()?;
    let mut here = PathBuf::from("/");
    let io = |what: &'static str, at: &Path, e: Errno| JournalError::Io {
        what,
        path: at.to_owned(),
        source: e.into(),
    };
    let mut directory =
        rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| io("open", &here, e))?;
    for (index, name) in names.iter().enumerate() {
        let last = index + 1 == names.len();
        here.push(name);
        let next = match open_directory(directory.as_fd(), name, last) {
            Err(Errno::NOENT) if make => {
                let mode = if last { 0o700 } else { 0o755 };
                match rustix::fs::mkdirat(&directory, *name, Mode::from_raw_mode(mode)) {
                    Ok(()) | Err(Errno::EXIST) => open_directory(directory.as_fd(), name, last),
                    Err(e) => return Err(io("make", &here, e)),
                }
            }
            other => other,
        };
        let next = next.map_err(|e| {
            let link = rustix::fs::statat(&directory, *name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
            if link { JournalError::Symlink(here.clone()) } else { io("open", &here, e) }
        })?;
        check_directory(next.as_fd(), &here, last)?;
        directory = next;
    }
    Ok(directory)
}

fn open_directory(parent: BorrowedFd<'_>, name: &OsStr, last: bool) -> rustix::io::Result<OwnedFd> {
    let access = if last { OFlags::RDONLY } else { OFlags::PATH };
    let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Other users must not be able to replace the directory. Only its owner may write to it. Above the
/// last component, a sticky bit (/tmp) is enough.
fn check_directory(directory: BorrowedFd<'_>, path: &Path, last: bool) -> Result<(), JournalError> {
    let stat = rustix::fs::fstat(directory).map_err(|e| JournalError::Io {
        what: "look at",
        path: path.to_owned(),
        source: e.into(),
    })?;
    let refused = |why: String| Err(JournalError::Unsafe { path: path.to_owned(), why });
    if !is_ours(stat.st_uid) {
        return refused(format!("belongs to user {}", stat.st_uid));
    }
    let sticky = stat.st_mode & 0o1000 != 0;
    if stat.st_mode & 0o022 != 0 && (last || !sticky) {
        return refused(format!("can be written by others (mode {:04o})", stat.st_mode & 0o7777));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A directory below which journals may be; /tmp itself may be reached through links elsewhere.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    fn refusal(path: &Path) -> String {
        DiskStore::open(path, "test").unwrap_err().to_string()
    }

    #[test]
    fn files_are_written_renamed_appended_and_cut() {
        let (_dir, path) = place();
        let store = DiskStore::open(&path.join("a/b"), "test").unwrap();
        assert_eq!(
            std::fs::metadata(path.join("a/b")).unwrap().permissions().mode() & 0o777,
            0o700
        );
        store.write_new("1.new", b"left over").unwrap();
        store.write_new("1.new", b"one\n").unwrap();
        store.rename("1.new", "1.jsonl").unwrap();
        store.append("1.jsonl", b"two\nthr").unwrap();
        store.truncate("1.jsonl", 8).unwrap();
        assert_eq!(store.read("1.jsonl").unwrap(), b"one\ntwo\n");
        assert_eq!(store.names().unwrap(), ["1.jsonl"]);
        let reader = DiskStore::open_to_read(&path.join("a/b")).unwrap().unwrap();
        assert!(matches!(reader.remove("1.jsonl"), Err(JournalError::ReadOnly)));
        store.remove("1.jsonl").unwrap();
        assert!(store.names().unwrap().is_empty() && store.remove("1.jsonl").is_err());
    }

    #[test]
    fn a_second_changer_is_kept_out_and_told_by_whom() {
        let (_dir, path) = place();
        let first = DiskStore::open(&path, "pid 4711 (floodwall apply)").unwrap();
        assert_eq!(
            refusal(&path),
            "settings are being changed by pid 4711 (floodwall apply); wait for it to end"
        );
        let reader = DiskStore::open_to_read(&path).unwrap().unwrap();
        assert!(matches!(reader.append("x", b"x"), Err(JournalError::ReadOnly)));
        drop(first);
        assert!(DiskStore::open(&path, "again").is_ok());
        assert!(DiskStore::open_to_read(&path.join("none")).unwrap().is_none());
    }

    #[test]
    fn directories_that_others_can_change_and_links_are_refused() {
        let (_dir, path) = place();
        let open = path.join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(refusal(&open).ends_with(
            "open' in the journal's path can be written by others (mode 0777); make it root's, \
             mode 0700"
        ));
        assert!(refusal(&open.join("below")).contains("can be written by others"));
        // The sticky bit is enough above, never for the directory itself.
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(refusal(&open).contains("can be written by others"));
        assert!(DiskStore::open(&open.join("below"), "test").is_ok());
        symlink(open.join("below"), path.join("link")).unwrap();
        assert!(refusal(&path.join("link")).contains("is a symbolic link"));
        assert!(refusal(&path.join("link/x")).contains("is a symbolic link"));
        assert!(refusal(Path::new("var/lib")).contains("must be an absolute path"));
        assert!(refusal(Path::new("/var/../lib")).contains("must be an absolute path"));
    }

    #[test]
    fn files_that_are_not_ours_alone_are_refused() {
        let (_dir, path) = place();
        let store = DiskStore::open(&path.join("j"), "test").unwrap();
        let at = |name: &str| path.join("j").join(name);
        symlink("/etc/passwd", at("1.jsonl")).unwrap();
        store.write_new("2.jsonl", b"x").unwrap();
        std::fs::set_permissions(at("2.jsonl"), std::fs::Permissions::from_mode(0o666)).unwrap();
        store.write_new("3.jsonl", b"x").unwrap();
        std::fs::hard_link(at("3.jsonl"), at("4.jsonl")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("5.jsonl"), FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        for (name, why) in [
            ("1.jsonl", "a symbolic link"),
            ("2.jsonl", "others can write it"),
            ("3.jsonl", "a second name"),
            ("5.jsonl", "not a plain file"),
        ] {
            let error = store.read(name).unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
    }
}
