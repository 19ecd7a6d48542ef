//! Disks of a test: loop devices over sparse files, filesystems on them, and values of kernel
//! files. Dropping them undoes everything. Sizes are in MiB.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use floodwall_model::DeviceId;

use crate::process::{Process, run};
use crate::said;

/// Dirty limits of a new device (Documentation/ABI/testing/sysfs-class-bdi). Linux before 6.2 has
/// the last two alone.
const NEW_LIMITS: [(&str, &str); 5] = [
    ("strict_limit", "0"),
    ("min_ratio_fine", "0"),
    ("max_ratio_fine", "1000000"),
    ("min_ratio", "0"),
    ("max_ratio", "100"),
];

/// Queue settings of a new loop device, in an order in which each holds: an elevator brings its own
/// `nr_requests`, and may switch wbt off. -1 is the kernel's choice (block/blk-wbt.c).
const NEW_QUEUE: [(&str, &str); 5] = [
    ("scheduler", "none"),
    ("nr_requests", "128"),
    ("read_ahead_kb", "128"),
    ("nomerges", "0"),
    ("wbt_lat_usec", "-1"),
];

/// A loop device. Dropping it detaches it.
pub struct Loop {
    image: PathBuf,
    node: String,
}

impl Loop {
    /// Over a sparse file, which is made if it is missing. Its dirty limits and its queue are those
    /// of a new device: a loop device keeps them after its file was detached, also those of a test
    /// that was killed.
    ///
    /// # Errors
    /// What went wrong.
    pub fn over(image: &Path, mib: u64) -> Result<Self, String> {
        sparse(image, mib)?;
        let device = Self { image: image.to_owned(), node: attach(image)? };
        set(&Path::new("/sys/class/bdi").join(device.id()?.to_string()), &NEW_LIMITS)?;
        let queue = Path::new("/sys/block").join(device.name()).join("queue");
        set(&queue, &NEW_QUEUE)?;
        let longest = read(&queue.join("max_hw_sectors_kb"));
        set(&queue, &[("max_sectors_kb", &longest)])?;
        Ok(device)
    }

    /// Detaches the file and attaches it again. To the kernel it is another disk, under the same
    /// number unless another process takes that first.
    ///
    /// # Errors
    /// What went wrong.
    pub fn attach_again(&mut self) -> Result<(), String> {
        run("losetup", &["--detach", &self.node])?;
        self.node = attach(&self.image)?;
        Ok(())
    }

    /// `/dev/loop0`.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// `loop0`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.node.trim_start_matches("/dev/")
    }

    /// Its number.
    ///
    /// # Errors
    /// What went wrong.
    pub fn id(&self) -> Result<DeviceId, String> {
        id(self.name())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run("losetup", &["--detach", &self.node]);
    }
}

/// Gives kernel files these values, as far as they exist and differ.
fn set(directory: &Path, values: &[(&str, &str)]) -> Result<(), String> {
    for (name, value) in values {
        let file = directory.join(name);
        if file.exists() && read(&file) != *value {
            fs::write(&file, value).map_err(said(name))?;
        }
    }
    Ok(())
}

fn sparse(image: &Path, mib: u64) -> Result<(), String> {
    let file = File::options().create(true).truncate(false).write(true).open(image);
    file.and_then(|file| file.set_len(mib << 20)).map_err(said("a sparse file"))
}

fn attach(image: &Path) -> Result<String, String> {
    run("losetup", &["--find", "--show", &image.to_string_lossy()])
}

/// The number of a block device: `loop0`.
///
/// # Errors
/// What went wrong.
pub fn id(name: &str) -> Result<DeviceId, String> {
    fs::read_to_string(format!("/sys/block/{name}/dev")).map_err(said(name))?.trim().parse()
}

/// A mounted filesystem. Dropping it unmounts it.
pub struct Mount(PathBuf);

impl Mount {
    /// Mounts by these words of mount(8), at a directory that is made if it is missing.
    ///
    /// # Errors
    /// What went wrong.
    pub fn new(words: &[&str], at: &Path) -> Result<Self, String> {
        fs::create_dir_all(at).map_err(said("a mount point"))?;
        run("mount", &[words, &[&at.to_string_lossy()]].concat())?;
        Ok(Self(at.to_owned()))
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Changes mount options.
    ///
    /// # Errors
    /// What went wrong.
    pub fn remount(&self, options: &str) -> Result<(), String> {
        let options = format!("remount,{options}");
        run("mount", &["-o", &options, &self.0.to_string_lossy()]).map(drop)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let at = self.0.to_string_lossy();
        if run("umount", &[&at]).is_err() {
            let _ = run("umount", &["-l", &at]);
        }
    }
}

/// A frozen filesystem. Thawed when dropped, and when this process dies in any way.
pub struct Frozen(Process);

impl Frozen {
    /// Freezes the filesystem that is mounted here.
    ///
    /// # Errors
    /// What went wrong.
    pub fn new(at: &Path) -> Result<Self, String> {
        let script =
            "fsfreeze --freeze \"$0\" && echo frozen; read -r _; exec fsfreeze --unfreeze \"$0\"";
        let child = Command::new("sh")
            .args(["-c", script])
            .arg(at)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(said("sh"))?;
        let mut frozen = Self(Process(child));
        frozen.0.says("frozen").map_err(said("the filesystem can't be frozen"))?;
        Ok(frozen)
    }

    /// Thaws it.
    pub fn thaw(&mut self) {
        drop(self.0.0.stdin.take());
        let _ = self.0.0.wait();
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.thaw();
    }
}

/// A small filesystem on a loop device. Its parts are dropped in this order.
pub struct Disk {
    /// The filesystem.
    pub mount: Mount,
    /// The loop device below it.
    pub device: Loop,
    /// The device's number.
    pub id: DeviceId,
    /// The backing file and the mount point are in here.
    directory: tempfile::TempDir,
}

impl Disk {
    /// In the usual place of temporary files.
    ///
    /// # Errors
    /// What went wrong.
    pub fn new(fs_type: &str, mib: u64) -> Result<Self, String> {
        Self::new_in(&std::env::temp_dir(), fs_type, mib)
    }

    /// With its backing file below a directory.
    ///
    /// # Errors
    /// What went wrong.
    pub fn new_in(below: &Path, fs_type: &str, mib: u64) -> Result<Self, String> {
        let directory = tempfile::Builder::new().prefix("fwdisk").tempdir_in(below);
        let directory = directory.map_err(said("a directory"))?;
        let image = directory.path().join("image");
        sparse(&image, mib)?;
        let force = if fs_type == "ext4" { "-F" } else { "-f" };
        // Before there is a device, whose counters stay at zero.
        run(format!("mkfs.{fs_type}"), &["-q", force, &image.to_string_lossy()])?;
        let device = Loop::over(&image, mib)?;
        let id = device.id()?;
        let mount = Mount::new(&[device.node()], &directory.path().join("mnt"))?;
        Ok(Self { mount, device, id, directory })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.mount.path()
    }

    /// The path of a file on it.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        self.path().join(name).to_string_lossy().into_owned()
    }

    /// The path of a file beside it, which goes with it. It leads through no links.
    #[must_use]
    pub fn beside(&self, name: &str) -> PathBuf {
        let directory = self.directory.path();
        directory.canonicalize().unwrap_or_else(|_| directory.to_owned()).join(name)
    }

    /// The names in its root directory.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name != "lost+found").collect()
    }
}

/// A kernel file's text. One that can't be read reads as its error: that must come back too.
#[must_use]
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).map_or_else(|e| e.to_string(), |text| text.trim().to_owned())
}

/// Kernel files and their texts. Dropping it writes back those that differ, in order: a loop device
/// keeps its queue's settings from one file to the next.
pub struct Saved(Vec<(PathBuf, String)>);

impl Saved {
    /// Of those paths that exist.
    pub fn of(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let here = paths.into_iter().filter(|path| path.exists());
        Self(here.map(|path| (path.clone(), read(&path))).collect())
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        for (path, text) in &self.0 {
            // `none [bfq]` is read, `bfq` is written.
            let value = text.split(['[', ']']).nth(1).unwrap_or(text);
            if read(path) != *text {
                let _ = fs::write(path, value);
            }
        }
    }
}
