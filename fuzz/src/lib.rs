//! A captured machine whose files a fuzz target exchanges one at a time.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use floodwall_host::SysRoot;

/// A copy of `fixtures/hosts/NAME` in the directory for temporary files. It stays until the process
/// that runs the targets removes that directory (`scripts/fuzz`).
#[derive(Debug)]
pub struct Tree {
    dir: tempfile::TempDir,
    root: SysRoot,
    files: Vec<String>,
}

impl Tree {
    /// The one copy of this process, made at the first call. `name` is the same in all calls.
    pub fn shared(name: &str) -> &'static Self {
        static TREE: OnceLock<Tree> = OnceLock::new();
        TREE.get_or_init(|| Self::copy_of(name))
    }

    fn copy_of(name: &str) -> Self {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/hosts").join(name);
        let dir = tempfile::tempdir().expect("the directory for temporary files can be written");
        let mut files = Vec::new();
        copy(&fixture, dir.path(), Path::new(""), &mut files).expect("the fixture can be copied");
        files.sort();
        let root = SysRoot::new(dir.path()).expect("a directory");
        Self { dir, root, files }
    }

    /// The root directory of the copy.
    pub fn root(&self) -> &SysRoot {
        &self.root
    }

    /// Paths of its regular files, sorted.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Calls `body` while the file at `path` has another content.
    pub fn with(&self, path: &str, content: &[u8], body: impl FnOnce()) {
        let path = self.dir.path().join(path);
        let before = match fs::read(&path) {
            Ok(before) => Some(before),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => panic!("can't read {}: {e}", path.display()),
        };
        fs::create_dir_all(path.parent().expect("a file in the tree")).expect("can be made");
        fs::write(&path, content).expect("can be written");
        body();
        match before {
            Some(before) => fs::write(&path, before).expect("can be written"),
            None => fs::remove_file(&path).expect("can be removed"),
        }
    }
}

fn copy(from: &Path, to: &Path, at: &Path, files: &mut Vec<String>) -> std::io::Result<()> {
    fs::create_dir_all(to.join(at))?;
    for entry in fs::read_dir(from.join(at))? {
        let entry = entry?;
        let path: PathBuf = at.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(from, to, &path, files)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, to.join(&path))?;
        } else {
            fs::copy(entry.path(), to.join(&path))?;
            files.push(path.to_string_lossy().into_owned());
        }
    }
    Ok(())
}
