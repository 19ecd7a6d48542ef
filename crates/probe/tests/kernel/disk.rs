//! A private filesystem on a loop device, gone when dropped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use floodwall_model::DeviceId;

pub(crate) struct Disk {
    directory: tempfile::TempDir,
    device: String,
    pub(crate) id: DeviceId,
}

/// Runs a program and returns what it wrote.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "{program} {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Disk {
    pub(crate) fn new() -> Result<Self, String> {
        let directory =
            tempfile::Builder::new().prefix("fwprobe").tempdir().map_err(|e| e.to_string())?;
        let image = directory.path().join("image");
        File::create(&image).and_then(|f| f.set_len(512 << 20)).map_err(|e| e.to_string())?;
        let image = image.to_string_lossy().into_owned();
        run("mkfs.ext4", &["-q", "-F", &image])?;
        let device = run("losetup", &["--find", "--show", &image])?;
        let name = device.trim_start_matches("/dev/").to_owned();
        let id =
            std::fs::read_to_string(format!("/sys/block/{name}/dev")).map_err(|e| e.to_string())?;
        let disk = Self { directory, device, id: id.trim().parse()? };
        std::fs::create_dir(disk.mountpoint()).map_err(|e| e.to_string())?;
        run("mount", &[&disk.device, &disk.mountpoint().to_string_lossy()])?;
        Ok(disk)
    }

    pub(crate) fn mountpoint(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    pub(crate) fn file(&self, name: &str) -> String {
        Path::new(&self.mountpoint()).join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = run("umount", &[&self.mountpoint().to_string_lossy()]);
        let _ = run("losetup", &["--detach", &self.device]);
    }
}
