//! A lab's state directory: its description, its server process, and everything to undo.
//!
//! ```text
//! /run/floodwall/lab/NAME/     0700, root
//!   spec.json      what was asked for; written first, so that every later state can be taken down
//!   maker.json  guardian.json  server.json   their processes
//!   ready          the last step of bringing it up is done
//!   control        the server's socket
//!   fuse/          mount of the file that the loop device stands on: NAME.TOKEN.floodwall-lab
//!   mnt/           mount of the filesystem on it, if no other place was named
//!   error          why the server could not start
//!   log            what server and guardian had to say
//!   lock           held by whoever starts a part of the lab or takes it down
//!   going          somebody began to take it down: no part of it may start any more
//! ```
//!
//! Facts that can be looked up are not stored: the loop device is the one whose backing file has
//! the token in its name. The mounts are those of that device. So a state that was left half-way is
//! read like any other.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_model::Bytes;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::filesystem::Filesystem;
use crate::process::Process;

/// Where labs are unless told otherwise.
pub const DEFAULT_ROOT: &str = "/run/floodwall/lab";

/// What to do with contents beyond the memory limit.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// Writes fail with `ENOSPC`, as on a thin volume that is full.
    #[default]
    NoSpace,
    /// Pages go to a file in this directory. The file has no name: it goes when the lab does.
    Spill(PathBuf),
}

/// Where a filesystem on the lab's device is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountAt {
    /// The directory.
    pub dir: PathBuf,
    /// Which filesystem.
    pub filesystem: Filesystem,
}

/// What a lab was asked to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) preset: String,
    /// The preset's text, so that the file it came from may change.
    pub(crate) text: String,
    pub(crate) seed: u64,
    pub(crate) size: Bytes,
    pub(crate) block_size: u32,
    pub(crate) memory: Bytes,
    pub(crate) overflow: Overflow,
    pub(crate) mount: Option<MountAt>,
    #[serde(default)]
    pub(crate) scheduler: Option<String>,
    /// Tells this lab's file from every other.
    pub(crate) token: String,
    pub(crate) boot_id: String,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
}

impl Spec {
    /// Name of the file that the loop device stands on.
    pub(crate) fn file_name(&self) -> String {
        format!("{}.{}.floodwall-lab", self.name, self.token)
    }
}

/// The directory of one lab.
#[derive(Clone, Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
}

impl StateDir {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn name(&self) -> String {
        self.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }

    pub(crate) fn exists(&self) -> bool {
        self.path.is_dir()
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.path.join("control")
    }

    pub(crate) fn fuse(&self) -> PathBuf {
        self.path.join("fuse")
    }

    /// Where the filesystem is mounted if no other place is named.
    pub(crate) fn mnt(&self) -> PathBuf {
        self.path.join("mnt")
    }

    /// Claims the name. The process that makes the directory has it.
    ///
    /// # Errors
    /// [`LabError::NameTaken`], or what the kernel answers.
    pub(crate) fn create(root: &Path, spec: &Spec) -> Result<Self, LabError> {
        let mut private = DirBuilder::new();
        private.mode(0o700);
        if let Some(parent) = root.parent() {
            fs::create_dir_all(parent).map_err(|e| LabError::io("make", parent, e))?;
        }
        match private.create(root) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(LabError::io("make", root, e));
            }
            _ => {}
        }
        let state = Self::new(root.join(&spec.name));
        match private.create(&state.path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(LabError::NameTaken {
                    name: spec.name.clone(),
                    half_made: !state.server_alive(),
                });
            }
            Err(e) => return Err(LabError::io("make", &state.path, e)),
        }
        for dir in [state.fuse(), state.mnt()] {
            private.create(&dir).map_err(|e| LabError::io("make", &dir, e))?;
        }
        state.write("spec.json", spec)?;
        state.enter("maker")?;
        Ok(state)
    }

    /// What the lab was asked to be. Absent only if its maker died in its first moment.
    ///
    /// # Errors
    /// [`LabError::State`] if it is not there or can't be understood.
    pub(crate) fn spec(&self) -> Result<Spec, LabError> {
        let path = self.path.join("spec.json");
        let refused = |why: String| LabError::State { path: path.clone(), why };
        let text = fs::read(&path).map_err(|e| refused(e.to_string()))?;
        serde_json::from_slice(&text).map_err(|e| refused(e.to_string()))
    }

    /// Writes a file in one step: it is there whole, or not at all.
    fn write(&self, name: &str, what: &impl Serialize) -> Result<(), LabError> {
        let (path, unfinished) = (self.path.join(name), self.path.join(format!(".{name}")));
        let text = serde_json::to_vec(what)
            .map_err(|e| LabError::State { path: path.clone(), why: e.to_string() })?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options
            .open(&unfinished)
            .and_then(|mut f| f.write_all(&text))
            .and_then(|()| fs::rename(&unfinished, &path))
            .map_err(|e| LabError::io("write", &path, e))
    }

    fn process(&self, role: &str) -> Option<Process> {
        serde_json::from_slice(&fs::read(self.path.join(format!("{role}.json"))).ok()?).ok()
    }

    /// Notes the calling process as this lab's maker, guardian or server.
    pub(crate) fn enter(&self, role: &str) -> Result<(), LabError> {
        match Process::this() {
            Some(this) => self.write(&format!("{role}.json"), &this),
            None => Err(LabError::State {
                path: "/proc/self/stat".into(),
                why: "it can't be understood".into(),
            }),
        }
    }

    pub(crate) fn server(&self) -> Option<Process> {
        self.process("server")
    }

    pub(crate) fn guardian(&self) -> Option<Process> {
        self.process("guardian")
    }

    pub(crate) fn server_alive(&self) -> bool {
        self.server().is_some_and(Process::is_alive)
    }

    /// Notes that the lab is whole.
    pub(crate) fn mark_ready(&self) -> Result<(), LabError> {
        self.write("ready", &())
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.path.join("ready").exists()
    }

    /// Whether a process is still bringing it up.
    pub(crate) fn maker_alive(&self) -> bool {
        self.process("maker").is_some_and(Process::is_alive)
    }

    /// Leaves word why the server can't start.
    pub(crate) fn leave_error(&self, error: &LabError) {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(self.path.join("error"));
        let _ = file.and_then(|mut f| f.write_all(error.to_string().as_bytes()));
    }

    pub(crate) fn error(&self) -> Option<String> {
        fs::read_to_string(self.path.join("error")).ok()
    }

    /// Where child processes may write their messages.
    pub(crate) fn log(&self) -> Result<File, LabError> {
        let path = self.path.join("log");
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .map_err(|e| LabError::io("open", path, e))
    }

    /// Marks the lab as going. Parts that have not started by then will not.
    pub(crate) fn mark_going(&self) {
        // A directory that was never finished, or is gone, has nothing that could start.
        let _ = self.write("going", &());
    }

    pub(crate) fn is_going(&self) -> bool {
        self.path.join("going").exists()
    }

    /// Takes the lock for starting a part of the lab.
    ///
    /// # Errors
    /// [`LabError::Interrupted`] if the lab is on its way out, or gone.
    pub(crate) fn lock_to_start(&self, patience: Duration) -> Result<File, LabError> {
        let lock = self.lock(patience).ok_or(LabError::Interrupted)?;
        if self.is_going() || !self.exists() { Err(LabError::Interrupted) } else { Ok(lock) }
    }

    /// Keeps others from starting or taking down parts of the lab at the same time. Gives up
    /// waiting after `patience`: every step can be taken twice, and the holder of the lock may
    /// wait for this lab.
    pub(crate) fn lock(&self, patience: Duration) -> Option<File> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.path.join("lock"))
            .ok()?;
        let deadline = Instant::now() + patience;
        while rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        }
        Some(file)
    }

    /// Removes the directory; its name is free from the first moment on.
    pub(crate) fn remove(&self) -> Result<(), LabError> {
        let gone = self.path.with_file_name(format!(".{}.{}", self.name(), std::process::id()));
        match fs::rename(&self.path, &gone) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(LabError::io("remove", &self.path, e)),
        }
        fs::remove_dir_all(&gone).map_err(|e| LabError::io("remove", gone, e))
    }
}

/// All labs below a root, by name. Before the first one there is no root.
///
/// # Errors
/// [`LabError::Private`] for a caller without permission, or the kernel's error.
pub(crate) fn all(root: &Path) -> Result<Vec<StateDir>, LabError> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            return Err(LabError::Private { path: root.into() });
        }
        Err(e) => return Err(LabError::io("read", root, e)),
    };
    let mut labs: Vec<_> = entries
        .flatten()
        .filter(|e| {
            e.file_type().is_ok_and(|t| t.is_dir())
                && !e.file_name().to_string_lossy().starts_with('.')
        })
        .map(|e| StateDir::new(e.path()))
        .collect();
    labs.sort_unstable_by_key(StateDir::name);
    Ok(labs)
}

/// Whether a name can be a lab's.
///
/// # Errors
/// [`LabError::BadName`].
pub(crate) fn check_name(name: &str) -> Result<(), LabError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let good = (1..=32).contains(&name.len())
        && name.chars().all(fits)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if good { Ok(()) } else { Err(LabError::BadName { name: name.into() }) }
}

/// The identity of this boot; labs of another one are gone with it.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// 64 random bits in hexadecimal.
pub(crate) fn random_token() -> Result<String, LabError> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| LabError::io("read", "/dev/urandom", e))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn spec(name: &str) -> Spec {
        Spec {
            name: name.into(),
            preset: "null".into(),
            text: String::new(),
            seed: 1,
            size: Bytes::mib(1),
            block_size: 512,
            memory: Bytes::mib(1),
            overflow: Overflow::NoSpace,
            mount: None,
            scheduler: None,
            token: random_token().unwrap(),
            boot_id: boot_id(),
            program: "/bin/false".into(),
            args: Vec::new(),
        }
    }

    #[test]
    fn a_name_is_claimed_once_and_free_when_removed() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::create(root.path(), &spec("a")).unwrap();
        assert_eq!(state.spec().unwrap().name, "a");
        let taken = StateDir::create(root.path(), &spec("a")).unwrap_err();
        assert!(matches!(taken, LabError::NameTaken { half_made: true, .. }));
        state.enter("server").unwrap();
        let taken = StateDir::create(root.path(), &spec("a")).unwrap_err();
        assert!(matches!(taken, LabError::NameTaken { half_made: false, .. }));
        assert_eq!(all(root.path()).unwrap().iter().map(StateDir::name).collect::<Vec<_>>(), ["a"]);
        state.remove().unwrap();
        assert!(all(root.path()).unwrap().is_empty());
        assert!(all(&root.path().join("none yet")).unwrap().is_empty());
        state.remove().unwrap();
        StateDir::create(root.path(), &spec("a")).unwrap();
    }

    #[test]
    fn names_are_safe_as_directories_and_file_names() {
        for good in ["a", "raid10-bbwc-2010", "x_1.b"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", ".a", "a/b", "-a", "a b", "ä", &"x".repeat(33)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_lock_has_one_holder_and_waiting_ends() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::create(root.path(), &spec("a")).unwrap();
        let held = state.lock(Duration::ZERO).unwrap();
        assert!(state.lock(Duration::from_millis(20)).is_none());
        drop(held);
        assert!(state.lock(Duration::ZERO).is_some());
    }
}
