//! The flood: a command that writes to the device, again when it is done, until it is dropped.
//!
//! ```text
//! copy     a file without blocks ─▶ cp       ─▶ a file, two of them in turn
//! backup   a tree without blocks ─▶ tar c    ─▶ an archive, two of them in turn
//! archive  an archive in memory  ─▶ tar x    ─▶ many files, in directories in turn
//! load     rows of text ─▶ the victim's client ─▶ a table of the victim's, made anew in turn
//! ```
//!
//! Sources are on no disk: reading them costs what reading a cached file costs. Targets take turns.
//! One that comes again has been written out by then, so that few pages are dropped while dirty.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use processes::child;

use super::disk::Disk;
use super::load::name;

const SOURCE: &str = "/dev/shm";
/// Longer than any device of the lab writes in a measurement of half a minute and its lead; zeros,
/// which take no memory on a lab device. Two fit on the device.
const COPY_BYTES: u64 = 24 << 30;
/// The backup's tree: as much in files as large as those of a database.
const TREE: Tree = Tree { files: 96, bytes: 256 << 20 };
/// The archive: files as small as those of a source tree, 512 MiB, which take memory.
const ARCHIVE: Tree = Tree { files: 16_384, bytes: 32 << 10 };
/// Directories that it is unpacked into: 16 GiB, more than the dirty limit of most machines.
const ARCHIVES: u64 = 32;
/// One bulk load, and the tables in turn: 4 GiB, which take memory on a lab device.
const LOAD_BYTES: u64 = 1 << 30;
const TABLES: u64 = 4;
/// A row's text; PostgreSQL would compress one of 2 KB.
const ROW_BYTES: usize = 1000;

/// What kind of flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    /// `cp` of a large file
    Copy,
    /// `tar c` of large files
    Backup,
    /// `tar x` of small files
    Archive,
    /// A bulk load into the victim's own database; a second database with SQLite
    Load,
}

/// A flood that runs.
pub(super) struct Flood {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    progress: Mutex<Progress>,
    failure: Mutex<Option<String>>,
}

/// A pass that ends moves its bytes from one to the other.
#[derive(Default)]
struct Progress {
    /// The process whose written bytes count; 0 for none.
    pid: u32,
    /// Bytes of passes that are done, and of rows that were loaded.
    done: u64,
}

impl Shared {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All that a pass needs.
struct Passes {
    kind: Kind,
    dir: PathBuf,
    /// The control group that the flood is put into.
    group: Option<PathBuf>,
    source: PathBuf,
    /// `Database::load`.
    load: Vec<String>,
    /// A file without a name, which commands find among this process's descriptors.
    _file: Option<File>,
    _tree: Option<tempfile::TempDir>,
}

struct Tree {
    files: u32,
    bytes: u64,
}

impl Tree {
    const fn total(&self) -> u64 {
        self.files as u64 * self.bytes
    }

    /// Zeros, in files without blocks.
    fn make(&self) -> anyhow::Result<tempfile::TempDir> {
        let failed = || format!("can't make files in {SOURCE}");
        let tree = tempfile::tempdir_in(SOURCE).with_context(failed)?;
        for n in 0..self.files {
            let file = File::create(tree.path().join(n.to_string())).with_context(failed)?;
            file.set_len(self.bytes).with_context(failed)?;
        }
        Ok(tree)
    }
}

impl Passes {
    /// Makes the source. `load`: the words of the victim's bulk load.
    fn new(kind: Kind, disk: &Disk, load: Vec<String>) -> anyhow::Result<Self> {
        let (mut file, mut tree) = (None, None);
        match kind {
            Kind::Load => (),
            Kind::Backup => tree = Some(TREE.make()?),
            Kind::Copy | Kind::Archive => {
                let source = tempfile::tempfile_in(SOURCE)
                    .with_context(|| format!("can't make a file in {SOURCE}"))?;
                if kind == Kind::Copy {
                    source.set_len(COPY_BYTES).context("can't make the source of the copy")?;
                } else {
                    let files = ARCHIVE.make()?;
                    let archive = source.try_clone().context("the archive")?;
                    let mut tar = Command::new("tar");
                    tar.arg("c").arg("-C").arg(files.path()).arg(".").stdout(archive);
                    let status = tar.status().context("can't start tar")?;
                    anyhow::ensure!(status.success(), "tar ended with {status}");
                }
                file = Some(source);
            }
        }
        let source = match (&file, &tree) {
            (Some(file), _) => {
                format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
            }
            (None, Some(tree)) => tree.path().to_owned(),
            (None, None) => PathBuf::new(),
        };
        let (dir, group) = (disk.dir.clone(), disk.flood.clone());
        Ok(Self { kind, dir, group, source, load, _file: file, _tree: tree })
    }

    /// The words of the command of a pass.
    fn words(&self, pass: u64) -> anyhow::Result<Vec<OsString>> {
        let target = |of: u64| self.dir.join(format!("{}-{}", name(self.kind), pass % of));
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let source = self.source.clone().into_os_string();
        Ok(match self.kind {
            Kind::Copy => [
                words(&["cp", "--sparse=never", "--reflink=never"]),
                vec![source, target(2).into()],
            ]
            .concat(),
            Kind::Backup => {
                [words(&["tar", "cf"]), vec![target(2).into(), "-C".into(), source, ".".into()]]
                    .concat()
            }
            Kind::Archive => {
                let target = target(ARCHIVES);
                std::fs::create_dir_all(&target).context("can't make a directory for files")?;
                [words(&["tar", "xf"]), vec![source, "-C".into(), target.into()]].concat()
            }
            Kind::Load => {
                let table = format!("flood_{}", pass % TABLES);
                self.load.iter().map(|word| word.replace("FLOOD", &table).into()).collect()
            }
        })
    }

    /// What the process of a whole pass writes; loads are counted as they go.
    fn bytes(&self) -> u64 {
        match self.kind {
            Kind::Copy => COPY_BYTES,
            Kind::Backup => TREE.total(),
            Kind::Archive => ARCHIVE.total(),
            Kind::Load => 0,
        }
    }

    /// One pass from begin to end, or until it is to stop.
    fn once(&self, shared: &Arc<Shared>, pass: u64) -> anyhow::Result<()> {
        let mut words = self.words(pass)?.into_iter();
        let program = words.next().context("no flood")?;
        let mut command = match &self.group {
            None => child::tied("KILL", &program),
            Some(group) => {
                let mut command = child::tied("KILL", "sh");
                command.args(["-c", "echo $$ >\"$1\" && shift && exec \"$@\"", "sh"]);
                command.arg(group.join("cgroup.procs")).arg(&program);
                command
            }
        };
        command.args(words);
        let is_load = self.kind == Kind::Load;
        if is_load {
            command.stdin(Stdio::piped());
        }
        let mut child =
            command.spawn().with_context(|| format!("can't start {}", program.display()))?;
        let feeder = child.stdin.take().map(|pipe| {
            let shared = Arc::clone(shared);
            std::thread::spawn(move || feed(&shared, pipe))
        });
        shared.progress().pid = if is_load { 0 } else { child.id() };
        let status = loop {
            if shared.stop.load(Relaxed) {
                child::end(&mut child, "TERM", Duration::from_secs(60))?;
                break None;
            }
            let mut progress = shared.progress();
            if let Some(status) = child.try_wait().context("can't wait for the flood")? {
                progress.pid = 0;
                progress.done += if status.success() { self.bytes() } else { 0 };
                break Some(status);
            }
            drop(progress);
            std::thread::sleep(Duration::from_millis(20));
        };
        // Its pipe is broken by now.
        if feeder.is_some_and(|feeder| feeder.join().is_err()) {
            bail!("the thread of the load panicked");
        }
        if let Some(status) = status {
            anyhow::ensure!(status.success(), "{} ended with {status}", program.display());
        }
        Ok(())
    }
}

/// Rows for a bulk load. If the command no longer reads, its status says why.
fn feed(shared: &Shared, mut pipe: ChildStdin) {
    let row = [&[b'x'; ROW_BYTES - 1][..], b"\n"].concat();
    let rows = row.repeat(64);
    for _ in 0..LOAD_BYTES / rows.len() as u64 {
        if pipe.write_all(&rows).is_err() {
            return;
        }
        shared.progress().done += rows.len() as u64;
    }
}

impl Flood {
    /// `load`: `Database::load`.
    pub(super) fn start(kind: Kind, disk: &Disk, load: Vec<String>) -> anyhow::Result<Self> {
        let passes = Passes::new(kind, disk, load)?;
        let shared = Arc::new(Shared::default());
        let mut flood = Self { shared: Arc::clone(&shared), thread: None };
        flood.thread = Some(std::thread::spawn(move || {
            let mut pass = 0;
            while !shared.stop.load(Relaxed) {
                if let Err(error) = passes.once(&shared, pass) {
                    *shared.failure.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(format!("{error:#}"));
                    return;
                }
                pass += 1;
            }
        }));
        Ok(flood)
    }

    /// Bytes that it wrote so far: into the page cache, or as rows to the database.
    pub(super) fn bytes(&self) -> anyhow::Result<u64> {
        if let Some(why) = &*self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            bail!("the flood failed: {why}");
        }
        let progress = self.shared.progress();
        Ok(progress.done + child::bytes_written(progress.pid))
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("the flood's thread panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(words: &[&str]) -> (tempfile::TempDir, Flood) {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk { path: PathBuf::new(), dir: dir.path().to_owned(), flood: None };
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let flood = Flood::start(Kind::Load, &disk, words).unwrap();
        (dir, flood)
    }

    /// Waits for a certain answer.
    fn until(flood: &Flood, wanted: impl Fn(&anyhow::Result<u64>) -> bool) -> anyhow::Result<u64> {
        loop {
            let told = flood.bytes();
            if wanted(&told) {
                return told;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_load_counts_rows_that_were_taken_and_tells_its_failure() {
        // Four bunches of rows, and at most a pipe more.
        let (_dir, flood) = load(&["sh", "-c", "head -c 256000 >/dev/null; exec sleep 1000"]);
        let bytes =
            until(&flood, |told| told.as_ref().is_ok_and(|bytes| *bytes >= 256_000)).unwrap();
        assert!(bytes <= 256_000 + (1 << 20), "{bytes}");
        let (_dir, flood) = load(&["sh", "-c", "exit 3"]);
        let why = until(&flood, Result::is_err).unwrap_err().to_string();
        assert_eq!(why, "the flood failed: sh ended with exit status: 3");
    }
}
