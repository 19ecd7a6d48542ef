//! The first root filesystem of a kernel's image: what it needs to reach the host's files.
//!
//! ```text
//! host   program · its libraries · modules, packed ones unpacked ─▶ archive, a nameless file ─▶ QEMU
//! guest  modules, in the order of their names ─▶ 9p: the host's files, read-only ─▶ the root
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::MemfdFlags;
use rustix::mount::{MountFlags, mount};

use crate::cpio::Archive;
use crate::error::GuestError;
use crate::machine::HOST_TAG;
use crate::modules::{self, Modules};

/// Modules that reach the host's files.
const MODULES: [&str; 3] = ["virtio_pci", "9pnet_virtio", "9p"];
/// Loaded before all others where it is a module: libcrc32c, which filesystems depend on, asks for the algorithm by
/// its name (lib/libcrc32c.c), which `depends=` does not tell.
const CRC32C: &str = "crc32c_generic";
/// Where the modules are. Their names begin with their number.
const DIR: &str = "/floodwall-modules";
/// Where the host's files are mounted first.
const HOST: &str = "/floodwall-host";
/// How the host's files are mounted. A change of theirs need not be seen while a guest runs.
const READ_ONLY: &std::ffi::CStr = c"trans=virtio,version=9p2000.L,msize=262144,cache=loose";
/// How the directories that may be written are mounted: each write is the host's at once.
pub(crate) const WRITABLE: &str = "trans=virtio,version=9p2000.L,msize=262144";

/// Writes the archive, and names modules of `names` that the kernel has in no form. A kernel without a directory of
/// modules is taken to have all built in. The file stays open in programs that this process starts.
///
/// # Errors
/// [`GuestError::FirstRoot`].
pub(crate) fn archive(
    program: &Path,
    modules_dir: Option<&Path>,
    names: &[String],
) -> Result<(File, Vec<String>), GuestError> {
    let failed = |why: String| GuestError::FirstRoot { why };
    let mut contents: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    let mut missing = Vec::new();
    if let Some(dir) = modules_dir {
        let modules =
            Modules::below(dir).map_err(|e| failed(format!("can't list '{}': {e}", dir.display())))?;
        let mut files = modules.order(CRC32C).unwrap_or_default();
        for name in MODULES.into_iter().chain(names.iter().map(String::as_str)) {
            match modules.order(name) {
                Ok(order) => files.extend(order),
                Err(_) => missing.push(name.to_owned()),
            }
        }
        let mut loaded = BTreeSet::new();
        for file in files.into_iter().filter(|file| loaded.insert(file.to_owned())) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let name = format!("{:03}-{name}", contents.len());
            contents.insert(Path::new(DIR).join(name), modules::contents(file).map_err(failed)?);
        }
    }
    for file in libraries_of(program).map_err(failed)?.into_iter().chain([program.to_owned()]) {
        let bytes = fs::read(&file).map_err(|e| failed(format!("can't read '{}': {e}", file.display())))?;
        contents.insert(file, bytes);
    }
    let file = write(&contents).map_err(|e| failed(e.to_string()))?;
    Ok((file, missing))
}

fn write(contents: &BTreeMap<PathBuf, Vec<u8>>) -> io::Result<File> {
    let file = File::from(rustix::fs::memfd_create("floodwall-first-root", MemfdFlags::empty())?);
    let mut archive = Archive::new(BufWriter::new(file));
    let relative = |path: &Path| path.to_string_lossy().trim_start_matches('/').to_owned();
    let mut dirs: BTreeSet<&Path> = ["/dev", DIR, HOST].map(Path::new).into();
    dirs.extend(contents.keys().flat_map(|path| path.ancestors().skip(1)));
    for dir in dirs.into_iter().filter(|dir| *dir != Path::new("/")) {
        archive.directory(&relative(dir))?;
    }
    for (path, bytes) in contents {
        archive.file(&relative(path), bytes)?;
    }
    let mut file = archive.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    Ok(file)
}

/// The shared libraries of a program and its interpreter, as `ldd` lists them; none of a script or a static program.
///
/// # Errors
/// There is no `ldd`; a library is missing.
pub fn libraries_of(program: &Path) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("ldd").arg(program).output().map_err(|e| format!("can't run ldd: {e}"))?;
    if !output.status.success() {
        return Ok(Vec::new());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.contains("not found") {
        return Err(format!("'{}' lacks a library: {text}", program.display()));
    }
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(|path| PathBuf::from(path.trim_end_matches(':'))).collect())
}

/// Whether this is the first root filesystem.
pub(crate) fn is_here() -> bool {
    Path::new(DIR).is_dir()
}

/// Loads the modules, mounts the host's files and moves there.
///
/// # Errors
/// What failed, and why.
pub(crate) fn leave() -> Result<(), String> {
    let entries = fs::read_dir(DIR).map_err(|e| format!("can't list '{DIR}': {e}"))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    for path in files {
        modules::insert(&path)?;
    }
    mount(HOST_TAG, HOST, "9p", MountFlags::RDONLY, READ_ONLY).map_err(|e| {
        format!("can't mount the host's files with 9p over virtio: {e}; does the kernel have both?")
    })?;
    move_to(Path::new(HOST)).map_err(|e| format!("can't move to the host's files: {e}"))
}

/// Makes a mounted directory the root of this process and its children.
pub(crate) fn move_to(root: &Path) -> rustix::io::Result<()> {
    rustix::process::chdir(root)?;
    rustix::mount::mount_move(".", "/")?;
    rustix::process::chroot(".")
}
