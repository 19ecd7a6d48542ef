//! The root directory below which everything is read: `/`, or a captured tree.
//!
//! A captured tree keeps the kernel's relative symbolic links (`/sys/block/sda → ../devices/…`).
//! The kernel itself resolves them, with the tree as the root (openat2(2), `RESOLVE_IN_ROOT`), so
//! an absolute link or a `..` stays inside the tree whatever it says.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use floodwall_model::Reading;
use floodwall_model::printable::printable;
use rustix::fs::{Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// No file of /proc or /sys that this crate reads comes near this; a captured tree may hold
/// anything.
const MAX_FILE_BYTES: usize = 16 << 20;
/// Where debugfs is mounted by convention, below the root.
const DEBUGFS: &str = "sys/kernel/debug/";
/// What a captured tree's kernel is taken to use, unless told otherwise; so do x86-64 and most of
/// ARM64.
const USUAL_PAGE_BYTES: u64 = 4096;

/// A root directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// It can't be opened.
    #[error("can't open the root directory '{path}': {source}; name a directory that holds proc \
        and sys", path = path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel can't confine path resolution.
    #[error("can't read the captured tree '{path}': openat2 is missing (Linux before 5.6, or \
        forbidden in this container); read it on another machine", path = path.display())]
    NoOpenat2 {
        /// Which tree.
        path: PathBuf,
    },
}

/// The directory that stands for `/`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SysRoot {
    directory: Arc<OwnedFd>,
    path: Arc<Path>,
    live: bool,
    page_bytes: u64,
    /// A private mount of debugfs, looked for when the first file of it is wanted.
    debugfs: Arc<OnceLock<Option<OwnedFd>>>,
    /// The paths that were found, if a caller wants to know.
    seen: Option<Arc<Mutex<BTreeSet<String>>>>,
}

impl SysRoot {
    /// The machine that this process runs on.
    ///
    /// # Errors
    /// [`RootError::Open`].
    pub fn live() -> Result<Self, RootError> {
        Self::new(Path::new("/"))
    }

    /// A captured tree, or the live machine if `path` is `/`.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn new(path: &Path) -> Result<Self, RootError> {
        let live = path == Path::new("/");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| RootError::Open { path: path.to_owned(), source: e.into() })?;
        let root = Self {
            directory: Arc::new(directory),
            path: path.into(),
            live,
            page_bytes: if live { rustix::param::page_size() as u64 } else { USUAL_PAGE_BYTES },
            debugfs: Arc::default(),
            seen: None,
        };
        match root.open(".", flags) {
            Err(Errno::NOSYS | Errno::PERM) if !live => {
                Err(RootError::NoOpenat2 { path: path.to_owned() })
            }
            _ => Ok(root),
        }
    }

    /// The same tree, of a kernel with another page size.
    #[cfg(test)]
    pub(crate) fn with_page_bytes(mut self, page_bytes: u64) -> Self {
        self.page_bytes = page_bytes;
        self
    }

    /// The same tree, which remembers every path that is looked at from here on and is there.
    #[must_use]
    pub(crate) fn remembering(&self) -> Self {
        Self { seen: Some(Arc::default()), ..self.clone() }
    }

    /// The paths that were looked at and are there, readable or not; empty unless this tree
    /// remembers.
    pub(crate) fn seen(&self) -> BTreeSet<String> {
        let lock = |seen: &Arc<Mutex<BTreeSet<String>>>| {
            seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        self.seen.as_ref().map(lock).unwrap_or_default()
    }

    /// Size of a page in bytes; /proc/vmstat counts pages.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Whether this is the machine that the process runs on.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The directory that stands for `/`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let opened = self.open_unseen(path, flags);
        if let Some(seen) = &self.seen
            && !matches!(opened, Err(Errno::NOENT | Errno::NOTDIR))
        {
            seen.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        }
        opened
    }

    fn open_unseen(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let relative = path.trim_start_matches('/');
        let relative = if relative.is_empty() { "." } else { relative };
        let flags = flags | OFlags::CLOEXEC;
        if self.live {
            let opened = rustix::fs::openat(&*self.directory, relative, flags, Mode::empty());
            return match (opened, relative.strip_prefix(DEBUGFS)) {
                (Err(Errno::NOENT), Some(file)) => self.open_debugfs(file, flags),
                (opened, _) => opened,
            };
        }
        loop {
            match rustix::fs::openat2(
                &*self.directory,
                relative,
                flags,
                Mode::empty(),
                ResolveFlags::IN_ROOT,
            ) {
                // A `..` raced with a rename elsewhere in the tree (openat2(2)).
                Err(Errno::AGAIN) => {}
                other => return other,
            }
        }
    }

    /// Opens a file of debugfs where it is not mounted, through a detached mount (fsmount(2)) that
    /// no other process sees. Needs CAP_SYS_ADMIN.
    fn open_debugfs(&self, file: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let mount = self.debugfs.get_or_init(|| detached("debugfs").ok());
        let mount = mount.as_ref().ok_or(Errno::NOENT)?;
        rustix::fs::openat(mount, file, flags, Mode::empty())
    }

    /// Reads a file into `buffer`, which it empties first.
    ///
    /// # Errors
    /// The kernel's error number, unchanged: some files mean something by it (`wbt_lat_usec`).
    pub fn read_into(&self, path: &str, buffer: &mut Vec<u8>) -> rustix::io::Result<()> {
        self.fill(path, buffer, false)
    }

    /// The same for an attribute of sysfs, a sysctl or a small file of a process. The kernel gives
    /// those whole in one read into a buffer of a page or more (fs/kernfs/file.c, fs/seq_file.c
    /// `single_open`), so a short read is the end. This saves one system call in four.
    ///
    /// # Errors
    /// As [`Self::read_into`].
    pub fn read_attribute_into(&self, path: &str, buffer: &mut Vec<u8>) -> rustix::io::Result<()> {
        self.fill(path, buffer, true)
    }

    fn fill(
        &self,
        path: &str,
        buffer: &mut Vec<u8>,
        short_is_whole: bool,
    ) -> rustix::io::Result<()> {
        buffer.clear();
        // Non-blocking: a captured tree may hold a FIFO.
        let file = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        loop {
            if buffer.capacity() - buffer.len() < 1024 {
                buffer.reserve(4096.max(buffer.len()));
            }
            match rustix::io::read(&file, rustix::buffer::spare_capacity(buffer)) {
                Ok(0) => return Ok(()),
                Ok(_) if short_is_whole && buffer.len() < buffer.capacity() => return Ok(()),
                Ok(_) if buffer.len() > MAX_FILE_BYTES => return Err(Errno::FBIG),
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// A whole file as text; bytes that are not UTF-8 are replaced.
    pub fn read(&self, path: &str) -> Reading<String> {
        let mut buffer = Vec::new();
        match self.read_into(path, &mut buffer) {
            Ok(()) => Reading::Value(text_of(buffer)),
            Err(e) => refused(path, e),
        }
    }

    /// A one-line file without its line end.
    pub fn read_line(&self, path: &str) -> Reading<String> {
        let mut buffer = Vec::new();
        match self.read_attribute_into(path, &mut buffer) {
            Ok(()) => Reading::Value(text_of(buffer).trim().to_owned()),
            Err(e) => refused(path, e),
        }
    }

    /// A file that holds one value.
    pub fn parse<T: FromStr>(&self, path: &str) -> Reading<T> {
        self.read_line(path).and_then(|text| match text.parse() {
            Ok(value) => Reading::Value(value),
            Err(_) => not_understood(path, &text),
        })
    }

    /// The names in a directory, sorted.
    pub fn list(&self, path: &str) -> Reading<Vec<String>> {
        let names = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY).and_then(|directory| {
            let mut names = Vec::new();
            for entry in Dir::read_from(directory)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if name != "." && name != ".." {
                    names.push(name);
                }
            }
            names.sort_unstable();
            Ok(names)
        });
        match names {
            Ok(names) => Reading::Value(names),
            Err(e) => refused(path, e),
        }
    }

    /// What a symbolic link points to.
    pub fn link_target(&self, path: &str) -> Reading<String> {
        let target = self
            .open(path, OFlags::PATH | OFlags::NOFOLLOW)
            .and_then(|link| rustix::fs::readlinkat(link, "", Vec::new()));
        match target {
            Ok(target) => Reading::Value(target.to_string_lossy().into_owned()),
            Err(e) => refused(path, e),
        }
    }

    /// The last part of what a symbolic link points to.
    pub fn link_name(&self, path: &str) -> Reading<String> {
        self.link_target(path)
            .map(|target| target.rsplit('/').next().unwrap_or_default().to_owned())
    }

    /// Whether a visible file is at a path.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.open(path, OFlags::PATH).is_ok()
    }
}

/// Mounts a kernel filesystem read-only at no directory. The mount lasts as long as the descriptor.
///
/// # Errors
/// The kernel's: without CAP_SYS_ADMIN, before Linux 5.2, or where it is not built in.
pub fn detached(filesystem: &str) -> rustix::io::Result<OwnedFd> {
    let context = fsopen(filesystem, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)
}

fn text_of(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
    }
}

/// Why a path gave nothing: absent if the kernel says that it is not there, unreadable for every
/// other reason.
pub(crate) fn refused<T>(path: &str, error: Errno) -> Reading<T> {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NODEV | Errno::NXIO => {
            Reading::Absent(format!("{path} does not exist"))
        }
        Errno::ACCESS | Errno::PERM => Reading::Unreadable(format!("{path}: permission denied")),
        Errno::OPNOTSUPP => Reading::Absent(format!("{path} is not supported here")),
        other => Reading::Unreadable(format!("{path}: {}", io::Error::from(other))),
    }
}

/// A file whose content is not what its documentation says. Quotes at most 40 characters of it.
pub(crate) fn not_understood<T>(path: &str, text: &str) -> Reading<T> {
    let shown: String = text.chars().take(40).collect();
    Reading::Unreadable(format!("{path}: '{}' is not understood", printable(&shown)))
}

/// Trees for tests.
#[cfg(test)]
pub(crate) mod testing {
    pub(crate) use floodwall_testing::tree::put;

    use super::SysRoot;

    /// A tree of these files; a content that starts with `->` makes a symbolic link.
    pub(crate) fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, SysRoot) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            put(&dir.path().join(path), text);
        }
        let root = SysRoot::new(dir.path()).unwrap();
        (dir, root)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{put, tree};
    use super::*;

    /// A tree whose links try everything.
    fn linked() -> (tempfile::TempDir, SysRoot) {
        tree(&[
            ("sys/devices/sda/queue/nr_requests", "64\n"),
            ("sys/block/sda", "->../devices/sda"),
            ("sys/block/absolute", "->/sys/devices/sda"),
            ("sys/block/escape", "->../../../../../../etc/hostname"),
            ("sys/block/round", "->round"),
        ])
    }

    #[test]
    fn links_resolve_inside_the_tree_and_never_leave_it() {
        let (_dir, root) = linked();
        assert_eq!(root.parse::<u64>("/sys/block/sda/queue/nr_requests"), Reading::Value(64));
        assert_eq!(root.parse::<u64>("/sys/block/absolute/queue/nr_requests"), Reading::Value(64));
        assert_eq!(
            root.parse::<u64>("/sys/block/sda/../sda/queue/nr_requests"),
            Reading::Value(64)
        );
        assert!(matches!(root.read("/sys/block/escape"), Reading::Absent(_)));
        assert!(matches!(root.read("/../../../../../../etc/passwd"), Reading::Absent(_)));
        assert!(matches!(root.read("/sys/block/round"), Reading::Unreadable(_)));
        assert_eq!(root.link_name("/sys/block/sda"), Reading::Value("sda".into()));
    }

    #[test]
    fn absent_unreadable_and_zero_are_three_values() {
        let (dir, root) = linked();
        put(&dir.path().join("zero"), "0\n");
        put(&dir.path().join("words"), "many words\n");
        assert_eq!(root.parse::<u64>("/zero"), Reading::Value(0));
        assert_eq!(root.parse::<u64>("/none"), Reading::Absent("/none does not exist".into()));
        assert_eq!(
            root.parse::<u64>("/words"),
            Reading::Unreadable("/words: 'many words' is not understood".into())
        );
        assert_eq!(
            root.parse::<u64>("/sys"),
            Reading::Unreadable("/sys: Is a directory (os error 21)".into())
        );
    }

    #[test]
    fn an_attribute_of_any_length_is_read_whole() {
        let (dir, root) = linked();
        let mut buffer = Vec::new();
        for length in [0, 1, 4095, 4096, 4097, 100_000] {
            put(&dir.path().join("long"), &"x".repeat(length));
            root.read_attribute_into("/long", &mut buffer).unwrap();
            assert_eq!(buffer.len(), length);
        }
    }

    #[test]
    fn a_fifo_does_not_hang_the_reader() {
        let (dir, root) = linked();
        let path = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        assert_eq!(root.read("/pipe"), Reading::Value(String::new()));
    }

    #[test]
    fn a_root_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("tree");
        let error = SysRoot::new(&missing).unwrap_err().to_string();
        let expected =
            format!("can't open the root directory '{}': No such file", missing.display());
        assert!(error.starts_with(&expected), "{error}");
    }
}
