//! The guest's side: process 1 of its kernel, and the checks in a separate process.
//!
//! ```text
//! init: modules ─▶ disk ─▶ new root ─▶ /proc, /sys, cgroup v2, tracefs, debugfs
//!               ─▶ checks ─▶ power off
//! second boot: the same, then systemd as process 1; the checks are its service
//! ```

mod checks;
mod files;
mod guard;
mod journal;
mod knobs;
mod lab;
mod line;
mod paced;
mod persist;
mod probe;
mod status;
mod suites;
mod systemd;
mod worker;

pub(crate) use checks::{OF_SECOND_BOOT, ONLY, SECOND_BOOT};

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use floodwall_guest::modules::Modules;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::process::WaitOptions;
use rustix::system::RebootCommand;

use crate::tree::{DISK_MODULES, MODULES};

/// The disk that virtio_blk makes of QEMU's drive.
const DISK: &str = "/dev/vda";
/// How long the disk may take to appear.
const PATIENCE: Duration = Duration::from_secs(60);
/// The kernel's own filesystems and scratch space, in the order in which they are mounted.
const MOUNTS: [(&str, &str); 9] = [
    ("devtmpfs", "dev"),
    ("proc", "proc"),
    ("sysfs", "sys"),
    ("cgroup2", "sys/fs/cgroup"),
    ("tracefs", "sys/kernel/tracing"),
    ("debugfs", "sys/kernel/debug"),
    ("devpts", "dev/pts"),
    ("tmpfs", "dev/shm"),
    ("tmpfs", "run"),
];

/// Runs as process 1, to the kernel's end.
pub(crate) fn init() -> anyhow::Result<()> {
    let run = prepare().and_then(|()| {
        if checks::is_second_boot() && systemd::is_here() {
            return systemd::become_it();
        }
        // Orphans of the tests become children of process 1, which has to wait for them.
        let checks =
            Command::new("/matrix").arg(CHECKS).env("PATH", "/usr/sbin:/usr/bin").spawn()?;
        let checks = rustix::process::Pid::from_raw(checks.id() as i32);
        loop {
            match rustix::process::wait(WaitOptions::empty()) {
                Ok(Some((pid, _))) if Some(pid) == checks => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    });
    if let Err(e) = &run {
        eprintln!("matrix: {e:#}");
    }
    rustix::fs::sync();
    rustix::system::reboot(RebootCommand::PowerOff)?;
    run
}

/// The argument of the process that checks.
pub(crate) const CHECKS: &str = "guest-checks";

pub(crate) use worker::{WORKER, run as work};

/// Runs the checks.
pub(crate) fn check() -> anyhow::Result<()> {
    let line = line::Line::open()?;
    checks::run(&line)
}

/// Gives all files below a directory to root: an ordinary user has made the disk, and they were
/// that user's.
fn give_to_root(directory: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let kind = path.symlink_metadata()?;
        if kind.uid() != 0 || kind.gid() != 0 {
            std::os::unix::fs::lchown(&path, Some(0), Some(0))?;
        }
        if kind.is_dir() {
            give_to_root(&path)?;
        }
    }
    Ok(())
}

fn prepare() -> anyhow::Result<()> {
    for (kind, at) in MOUNTS.iter().take(3) {
        // The kernel may have mounted devtmpfs itself.
        let _ = mount(*kind, format!("/{at}"), *kind, MountFlags::empty(), None);
    }
    let modules = Modules::below(Path::new("/modules"))?;
    let mut missing = Vec::new();
    for name in DISK_MODULES.iter().chain(&MODULES) {
        // Built in, or left out of this kernel: the checks find out which.
        if let Err(why) = modules.load(name) {
            missing.push(why.to_string());
        }
    }
    let begin = Instant::now();
    while !Path::new(DISK).exists() {
        anyhow::ensure!(begin.elapsed() < PATIENCE, "there is no {DISK}; modules: {missing:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    mount(DISK, "/new", "ext4", MountFlags::empty(), None)
        .with_context(|| format!("can't mount {DISK}"))?;
    give_to_root(Path::new("/new")).context("can't give the disk's files to root")?;
    std::fs::copy("/init", "/new/matrix").context("can't copy this program")?;
    for (kind, at) in MOUNTS {
        let at = Path::new("/new").join(at);
        if !at.exists() {
            // A directory that sysfs lacks is a filesystem that the kernel lacks.
            let _ = rustix::fs::mkdir(&at, Mode::from_raw_mode(0o755));
        }
        let mounted = mount(kind, &at, kind, MountFlags::empty(), None);
        if let Err(e) = mounted {
            eprintln!("matrix: can't mount {kind} on {}: {e}", at.display());
        }
    }
    rustix::process::chdir("/new")?;
    rustix::mount::mount_move(".", "/")?;
    rustix::process::chroot(".")?;
    rustix::process::chdir("/")?;
    let _ = std::os::unix::fs::symlink("/proc/mounts", "/etc/mtab");
    Ok(())
}
