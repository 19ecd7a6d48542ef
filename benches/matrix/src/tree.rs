//! What a guest finds: its disk and its first root filesystem.
//!
//! ```text
//! disk (ext4)     floodwall and its tests, linked statically, at the paths they were built for;
//!                 programs of this machine with their libraries; fixtures and scripts
//! first root      this program as init, and the modules
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufWriter;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use floodwall_guest::cpio::Archive;
use floodwall_guest::libraries_of;
use floodwall_guest::modules::Modules;

use crate::kernels::Kernel;

/// Programs that floodwall and its tests call. A test whose program is missing here says so.
const PROGRAMS: [&str; 41] = [
    "blkid",
    "cat",
    "chmod",
    "cp",
    "dash",
    "dd",
    "df",
    "fallocate",
    "false",
    "find",
    "findmnt",
    "fsck.ext4",
    "getconf",
    "head",
    "id",
    "ionice",
    "journalctl",
    "kill",
    "losetup",
    "ls",
    "lsblk",
    "mkfs.btrfs",
    "mkfs.ext4",
    "mkfs.xfs",
    "mount",
    "mountpoint",
    "rm",
    "setpriv",
    "sleep",
    "stat",
    "sync",
    "systemctl",
    "systemd-tmpfiles",
    "timeout",
    "touch",
    "true",
    "udevadm",
    "umount",
    "uname",
    "unshare",
    "xfs_repair",
];
/// Where programs are.
const DIRS: [&str; 5] = ["/usr/local/bin", "/usr/bin", "/usr/sbin", "/bin", "/sbin"];
/// systemd's own programs and units.
const SYSTEMD: &str = "/usr/lib/systemd";
/// Directories that are there from the start.
const EMPTY: [&str; 11] = [
    "dev",
    "etc/sysctl.d",
    "etc/udev/rules.d",
    "home",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr/bin",
    "var/lib",
];
/// Links from the root directory into /usr.
const LINKS: [&str; 4] = ["bin", "sbin", "lib", "lib64"];
/// Data that systemd, udev and mkfs read.
const DATA: [&str; 6] = [
    "etc/mke2fs.conf",
    "etc/passwd",
    "etc/group",
    "usr/lib/os-release",
    "usr/lib/tmpfiles.d",
    "usr/lib/udev/rules.d",
];
/// Of the repository, what the tests read.
const READ: [&str; 3] = ["fixtures", "packaging", "scripts"];
/// Size of the disk, sparse.
const DISK: &str = "6G";

/// Modules that the guest loads: the disk's before all others.
pub(crate) const DISK_MODULES: [&str; 3] = ["virtio_pci", "virtio_blk", "ext4"];
/// Modules that are loaded after them.
pub(crate) const MODULES: [&str; 10] = [
    "loop",
    "fuse",
    "overlay",
    "xfs",
    "btrfs",
    "bfq",
    "kyber_iosched",
    "mq_deadline",
    "null_blk",
    "dm_mod",
];

/// Programs built for the guests: name in the guest, and the file.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    pub(crate) init: PathBuf,
    pub(crate) floodwall: PathBuf,
    /// Test binaries: `knobs` is the suite `kernel` of that crate.
    pub(crate) suites: Vec<(String, PathBuf)>,
}

/// Writes the disk's image.
///
/// # Errors
/// Files that can't be copied; no `mkfs.ext4`.
pub(crate) fn write_disk(built: &Built, repository: &Path, image: &Path) -> anyhow::Result<()> {
    let dir = tempfile::tempdir_in(image.parent().context("the image has no directory")?)?;
    let root = dir.path();
    for empty in EMPTY {
        fs::create_dir_all(root.join(empty))?;
    }
    for link in LINKS {
        fs::create_dir_all(root.join("usr").join(link))?;
        symlink(format!("usr/{link}"), root.join(link))?;
    }
    symlink("dash", root.join("usr/bin/sh"))?;
    for data in DATA {
        let from = Path::new("/").join(data);
        if from.exists() {
            copy_all(&from, &root.join(data))?;
        }
    }
    let mut libraries = BTreeSet::new();
    for program in PROGRAMS {
        let Some(from) =
            DIRS.iter().map(|dir| Path::new(dir).join(program)).find(|path| path.is_file())
        else {
            continue;
        };
        copy(&from, &below(root, &from))?;
        libraries.extend(libraries_of(&from)?);
    }
    if Path::new(SYSTEMD).is_dir() {
        copy_all(Path::new(SYSTEMD), &below(root, Path::new(SYSTEMD)))?;
        for dir in [SYSTEMD, &format!("{SYSTEMD}/system-generators")] {
            for entry in fs::read_dir(dir)?.flatten().filter(|entry| entry.path().is_file()) {
                libraries.extend(libraries_of(&entry.path())?);
            }
        }
    }
    for library in libraries {
        copy(&library, &below(root, &library))?;
    }
    // The tests know where floodwall was built, and where the repository was.
    copy(&built.floodwall, &below(root, &built.floodwall))?;
    symlink(&built.floodwall, root.join("usr/bin/floodwall"))?;
    for (name, file) in &built.suites {
        copy(file, &root.join("tests").join(name))?;
    }
    for read in READ {
        copy_all(&repository.join(read), &below(root, &repository.join(read)))?;
    }
    // They look for the repository from their own crate's directory.
    for crates in ["crates", "benches"] {
        for entry in fs::read_dir(repository.join(crates))? {
            fs::create_dir_all(below(root, &entry?.path()))?;
        }
    }
    let _ = fs::remove_file(image);
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F", "-E", "root_owner=0:0", "-d"]).arg(root).arg(image).arg(DISK);
    // An ordinary user's PATH may lack it.
    mkfs.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    processes::child::said(&mut mkfs).map(drop)
}

/// Writes the first root filesystem.
///
/// # Errors
/// Files that can't be read or written.
pub(crate) fn write_first_root(built: &Built, kernel: &Kernel, to: &Path) -> anyhow::Result<()> {
    let mut archive = Archive::new(BufWriter::new(File::create(to)?));
    for dir in ["dev", "modules", "new", "proc", "sys"] {
        archive.directory(dir)?;
    }
    archive.file("init", &fs::read(&built.init)?)?;
    let modules = Modules::below(&kernel.modules)?;
    let mut files = BTreeSet::new();
    for name in DISK_MODULES.iter().chain(&MODULES) {
        // A module may be built into the kernel; the guest reports the missing ones.
        files.extend(modules.order(name).unwrap_or_default());
    }
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        archive.file(&format!("modules/{name}"), &fs::read(file)?)?;
    }
    archive.finish()?;
    Ok(())
}

/// An absolute path below another root.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::copy(from, to)
        .with_context(|| format!("can't copy '{}' to '{}'", from.display(), to.display()))?;
    Ok(())
}

fn copy_all(from: &Path, to: &Path) -> anyhow::Result<()> {
    if !from.is_dir() {
        return copy(from, to);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_symlink() {
            symlink(fs::read_link(entry.path())?, to)?;
        } else {
            copy_all(&entry.path(), &to)?;
        }
    }
    Ok(())
}
