//! The files that are copied. They are in memory, so no read of another disk limits the copy.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::devices;

const FOLDER: &str = "/dev/shm/floodwall-pace-source";
/// Bytes of the single file.
const FILE_BYTES: u64 = 2 << 30;
/// Bytes of the large file in the tree.
const LARGE_BYTES: u64 = 512 << 20;
/// Bytes of a small file in the tree, and how many there are.
const SMALL: (u64, u32) = (16 << 10, 4096);

/// A file, and a tree of files in three forms. Those that were made are removed when this is
/// dropped.
pub(super) struct Source {
    is_made: bool,
    file: PathBuf,
    files: PathBuf,
    archive: PathBuf,
    repository: PathBuf,
}

impl Source {
    /// Makes the files if they are needed. Else it knows the paths alone, which a guest's file has
    /// as well.
    pub(super) fn new(is_needed: bool) -> anyhow::Result<Self> {
        let folder = Path::new(FOLDER);
        let source = Self {
            is_made: is_needed,
            file: folder.join("file"),
            files: folder.join("files"),
            archive: folder.join("files.tar"),
            repository: folder.join("repository"),
        };
        if is_needed {
            fs::create_dir_all(&source.files).with_context(|| format!("can't make '{FOLDER}'"))?;
            source.fill()?;
        }
        Ok(source)
    }

    fn fill(&self) -> anyhow::Result<()> {
        write(&self.file, Path::new("/dev/zero"), FILE_BYTES)?;
        // Programs that compress or deduplicate would write less of anything else.
        let random = Path::new("/dev/urandom");
        write(&self.files.join("large"), random, LARGE_BYTES)?;
        for number in 0..SMALL.1 {
            write(&self.files.join(number.to_string()), random, SMALL.0)?;
        }
        let in_folder = |program: &str| {
            let mut command = Command::new(program);
            command.current_dir(FOLDER);
            command
        };
        devices::run(in_folder("tar").args(["cf", "files.tar", "files"]))?;
        let git = |words: &[&str]| {
            let identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
            let tree = ["--git-dir=repository", "--work-tree=files"];
            devices::run(in_folder("git").args(identity).args(tree).args(words))
        };
        devices::run(in_folder("git").args(["init", "--quiet", "--bare", "repository"]))?;
        git(&["add", "."])?;
        git(&["commit", "--quiet", "--message=files"])?;
        Ok(())
    }

    /// Makes the single file in a guest, at the same path. It is smaller there, as is the memory.
    pub(super) fn script() -> String {
        format!("mkdir {FOLDER} && head -c 1G /dev/zero > {FOLDER}/file")
    }

    /// A file of zeros.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// A directory with a large and many small files.
    pub(super) fn files(&self) -> &Path {
        &self.files
    }

    /// The same as a tar archive.
    pub(super) fn archive(&self) -> &Path {
        &self.archive
    }

    /// The same as a git repository.
    pub(super) fn repository(&self) -> &Path {
        &self.repository
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if self.is_made {
            let _ = fs::remove_dir_all(FOLDER);
        }
    }
}

fn write(path: &Path, from: &Path, bytes: u64) -> anyhow::Result<()> {
    let copied = File::open(from).and_then(|from| {
        let mut to = File::create(path)?;
        io::copy(&mut io::Read::take(from, bytes), &mut to)
    });
    copied.map(drop).with_context(|| format!("can't write '{}'", path.display()))
}
