//! The first root filesystem of a kernel's image: everything needed to reach the host's files.
//!
//! ```text
//! host   program · its libraries · modules, unpacked ─▶ archive, a nameless file ─▶ QEMU
//! guest  modules, in the order of their names ─▶ 9p: the host's files, read-only ─▶ the root
//!        ─▶ the program once more
//! ```
//!
//! The program starts again from the host's files, so that the guest keeps nothing of the archive
//! in its memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::MemfdFlags;
use rustix::mount::{MountFlags, mount};

use crate::cpio::Archive;
use crate::error::GuestError;
use crate::machine::HOST_TAG;
use crate::modules::{self, ModuleError, Modules};

/// Modules that reach the host's files.
const MODULES: [&str; 3] = ["virtio_pci", "9pnet_virtio", "9p"];
/// Loaded before all others where it is a module: libcrc32c, which filesystems depend on, asks for
/// the algorithm by its name (lib/libcrc32c.c), which `depends=` does not tell.
const CRC32C: &str = "crc32c_generic";
/// Where the modules are. Their names begin with their place in the order of loading.
const DIR: &str = "/floodwall-modules";
/// Tells the program that it was started again. (Through 9p, statfs(2) tells the host's type of
/// filesystem.)
const LEFT: &str = "FLOODWALL_FIRST_ROOT_LEFT";
/// Where the host's files are mounted first.
const HOST: &str = "/floodwall-host";
/// How the host's files are mounted. A change of theirs need not be seen while a guest runs.
const READ_ONLY: &std::ffi::CStr = c"trans=virtio,version=9p2000.L,msize=262144,cache=loose";
/// How the directories that may be written are mounted: each write is the host's at once.
pub(crate) const WRITABLE: &str = "trans=virtio,version=9p2000.L,msize=262144";

/// Writes the archive, and names modules of `names` that the kernel has in no form. A kernel
/// without a directory of modules is taken to have all built in. The file stays open in programs
/// that this process starts.
///
/// # Errors
/// [`GuestError::FirstRoot`].
pub(crate) fn archive(
    program: &Path,
    modules_dir: Option<&Path>,
    names: &[String],
) -> Result<(File, Vec<String>), GuestError> {
    let failed = |why: &dyn std::fmt::Display| GuestError::FirstRoot { why: why.to_string() };
    let mut contents: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    let mut missing = Vec::new();
    if let Some(dir) = modules_dir {
        let modules = Modules::below(dir)
            .map_err(|e| failed(&format!("can't list '{}': {e}", dir.display())))?;
        let mut files: Vec<&Path> = Vec::new();
        for name in [CRC32C].into_iter().chain(MODULES).chain(names.iter().map(String::as_str)) {
            match modules.order(name) {
                Ok(order) => files.extend(order),
                // Kernels from 6.15 have the algorithm without a module.
                Err(ModuleError::Absent(_)) if name == CRC32C => {}
                Err(ModuleError::Absent(absent)) => missing.push(absent),
                Err(e) => return Err(failed(&e)),
            }
        }
        let mut loaded = BTreeSet::new();
        for file in files.into_iter().filter(|file| loaded.insert(file.to_owned())) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let name = format!("{:03}-{name}", contents.len());
            contents.insert(
                Path::new(DIR).join(name),
                modules::contents(file).map_err(|e| failed(&e))?,
            );
        }
    }
    for file in
        libraries_of(program).map_err(|e| failed(&e))?.into_iter().chain([program.to_owned()])
    {
        let bytes = fs::read(&file)
            .map_err(|e| failed(&format!("can't read '{}': {e}", file.display())))?;
        contents.insert(file, bytes);
    }
    let file = write(&contents).map_err(|e| failed(&e))?;
    Ok((file, missing))
}

fn write(contents: &BTreeMap<PathBuf, Vec<u8>>) -> io::Result<File> {
    let file = File::from(rustix::fs::memfd_create("floodwall-first-root", MemfdFlags::empty())?);
    let mut archive = Archive::new(BufWriter::new(file));
    // The program's path is UTF-8, and ldd's output is read as such.
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

/// The shared libraries of a program and its interpreter, as `ldd` lists them; none of a script or
/// a static program.
///
/// # Errors
/// There is no `ldd`; a library is missing.
pub fn libraries_of(program: &Path) -> io::Result<Vec<PathBuf>> {
    let failed = |why: String| io::Error::other(format!("ldd '{}': {why}", program.display()));
    let output = Command::new("ldd").arg(program).process_group(0).output();
    let output = output.map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Ok(Vec::new());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(line) = text.lines().find(|line| line.contains("not found")) {
        return Err(failed(line.trim().to_owned()));
    }
    Ok(text.lines().filter_map(library).collect())
}

/// The file in a line of `ldd`: `libc.so.6 => /lib/libc.so.6 (0x7f…)`,
/// `/lib64/ld-linux-x86-64.so.2 (0x7f…)`.
fn library(line: &str) -> Option<PathBuf> {
    let (file, _) = line.rsplit_once(" (0x")?;
    let file = file.rsplit_once(" => ").map_or(file, |(_, file)| file).trim();
    file.starts_with('/').then(|| file.into())
}

/// Whether this is the first root filesystem.
pub(crate) fn is_here() -> bool {
    Path::new(DIR).is_dir()
}

/// Loads the modules, mounts the host's files, frees the content of the archive and moves there.
///
/// # Errors
/// What failed, and why.
pub(crate) fn leave() -> Result<(), String> {
    let entries = fs::read_dir(DIR).map_err(|e| format!("can't list '{DIR}': {e}"))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    for path in files {
        modules::insert(&path).map_err(|e| e.to_string())?;
    }
    mount(HOST_TAG, HOST, "9p", MountFlags::RDONLY, READ_ONLY).map_err(|e| {
        format!("can't mount the host's files with 9p over virtio: {e}; does the kernel have both?")
    })?;
    let device = |path: &Path| fs::symlink_metadata(path).map(|meta| meta.dev());
    let here = device(Path::new("/")).map_err(|e| format!("can't look at the first root: {e}"))?;
    for entry in fs::read_dir("/").into_iter().flatten().flatten() {
        // A file that stays costs memory alone.
        let path = entry.path();
        if path != Path::new(HOST) && device(&path).is_ok_and(|device| device == here) {
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
    }
    move_to(Path::new(HOST)).map_err(|e| format!("can't move to the host's files: {e}"))
}

/// This program with its arguments, to be started from the host's files: its path is the same
/// there.
pub(crate) fn again() -> Command {
    let mut words = std::env::args_os();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).env(LEFT, "yes");
    command
}

/// Whether this is the program that was started again.
pub(crate) fn has_been_left() -> bool {
    std::env::var_os(LEFT).is_some()
}

/// Makes a mounted directory the root of this process and its children.
pub(crate) fn move_to(root: &Path) -> rustix::io::Result<()> {
    rustix::process::chdir(root)?;
    rustix::mount::mount_move(".", "/")?;
    rustix::process::chroot(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_ldd_names_a_file_or_none() {
        let file = |line| library(line).map(|path| path.to_str().unwrap().to_owned());
        let of = "\tlibc.so.6 => /opt/my libs/libc.so.6 (0x00007f5d5a200000)";
        assert_eq!(file(of).as_deref(), Some("/opt/my libs/libc.so.6"));
        let interpreter = "\t/lib64/ld-linux-x86-64.so.2 (0x00007f5d5a5c8000)";
        assert_eq!(file(interpreter).as_deref(), Some("/lib64/ld-linux-x86-64.so.2"));
        assert_eq!(file("\tlinux-vdso.so.1 (0x00007ffd6c9f2000)"), None);
        assert_eq!(file("\tstatically linked"), None);
    }

    #[test]
    fn a_kernels_modules_come_after_what_they_depend_on_and_what_it_lacks_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let module = |name: &str, depends: &str| {
            let path = dir.path().join(format!("kernel/{name}.ko"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("\0depends={depends}\0")).unwrap();
        };
        module("9p", "9pnet");
        module("9pnet", "");
        module("9pnet_virtio", "9pnet");
        fs::write(dir.path().join("modules.builtin"), "kernel/drivers/virtio/virtio_pci.ko\n")
            .unwrap();
        let names = ["overlay".to_owned()];
        let (archive, missing) = archive(Path::new("/bin/sh"), Some(dir.path()), &names).unwrap();
        assert_eq!(missing, ["overlay"]);
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut &archive, &mut bytes).unwrap();
        let at =
            |name: &str| bytes.windows(name.len()).position(|window| window == name.as_bytes());
        let order = ["000-9pnet.ko", "001-9pnet_virtio.ko", "002-9p.ko", "bin/sh"].map(at);
        assert!(order.iter().all(Option::is_some), "{order:?}");
        fs::write(dir.path().join("kernel/fuse.ko.xz"), "no archive").unwrap();
        let said =
            super::archive(Path::new("/bin/sh"), Some(dir.path()), &["fuse".into()]).unwrap_err();
        assert!(said.to_string().contains("fuse.ko.xz"), "{said}");
    }
}
