//! A small real filesystem on a loop device, made and removed by the test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device over a sparse file, with a filesystem that is mounted. Dropping it undoes
/// everything, in order.
pub(crate) struct Disk {
    /// Holds the backing file and the mount point.
    dir: tempfile::TempDir,
    device: String,
    mounted: bool,
}

impl Disk {
    /// Makes one of `mib` MiB, its backing file in `below`.
    pub(crate) fn make_in(below: &Path, fs_type: &str, mib: u64) -> Result<Self, String> {
        let dir = tempfile::tempdir_in(below).map_err(|e| e.to_string())?;
        let image = dir.path().join("image");
        File::create(&image).and_then(|f| f.set_len(mib << 20)).map_err(|e| e.to_string())?;
        let device =
            run("losetup", &["--find", "--show", &image.to_string_lossy()])?.trim().to_owned();
        let mut disk = Self { dir, device, mounted: false };
        let quiet: &[&str] = if fs_type == "ext4" { &["-q", "-F"] } else { &["-q", "-f"] };
        run(&format!("mkfs.{fs_type}"), &[quiet, &[&disk.device]].concat())?;
        fs::create_dir(disk.path()).map_err(|e| e.to_string())?;
        run("mount", &[&disk.device, &disk.path().to_string_lossy()])?;
        disk.mounted = true;
        Ok(disk)
    }

    /// Makes one of `mib` MiB in the usual place for temporary files.
    pub(crate) fn make(fs_type: &str, mib: u64) -> Result<Self, String> {
        Self::make_in(&std::env::temp_dir(), fs_type, mib)
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    /// Changes mount options.
    pub(crate) fn remount(&self, options: &str) -> Result<(), String> {
        run("mount", &["-o", &format!("remount,{options}"), &self.path().to_string_lossy()])
            .map(drop)
    }

    /// The names in its root directory.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).into_iter().flatten().flatten();
        entries
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .filter(|n| n != "lost+found")
            .collect()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            let mountpoint = self.path();
            if run("umount", &[&mountpoint.to_string_lossy()]).is_err() {
                let _ = run("umount", &["-l", &mountpoint.to_string_lossy()]);
            }
        }
        let _ = run("losetup", &["-d", &self.device]);
    }
}

/// Runs a program and returns what it printed.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(args)
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}
