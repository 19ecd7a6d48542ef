//! A separate lab for each test, and the proof that nothing of it remains.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use floodwall_device::preset_text;
use floodwall_lab::{Filesystem, Lab, LabInfo, UpOptions};
use floodwall_model::Bytes;
use floodwall_testing::{said, until};
use rustix::process::{Pid, Signal, kill_process_group};

/// First argument of this binary when it runs as a part of a lab.
pub(crate) const CHILD: &str = "lab-child";
/// First argument of this binary when it brings up a lab, to be killed at that.
pub(crate) const MAKER: &str = "lab-maker";
/// Within this, everything of a lab whose server died must be gone.
pub(crate) const CLEAN_WITHIN: Duration = Duration::from_secs(10);
/// Never raised.
pub(crate) static GO_ON: AtomicBool = AtomicBool::new(false);

/// State directory of the test that runs, for the watchdog.
static CURRENT: Mutex<Option<PathBuf>> = Mutex::new(None);

/// A state directory with the labs in it. Dropping it takes them down.
pub(crate) struct Runner {
    pub(crate) lab: Lab,
    root: tempfile::TempDir,
}

impl Runner {
    pub(crate) fn new() -> Result<Self, String> {
        let root = tempfile::Builder::new()
            .prefix("fwlab")
            .tempdir()
            .map_err(said("temporary directory"))?;
        *CURRENT.lock().unwrap() = Some(root.path().into());
        Ok(Self { lab: lab(root.path())?, root })
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Brings up a preset of `mib` MiB under its own name, all of it in memory.
    pub(crate) fn up(
        &self,
        preset: &str,
        mib: u64,
        filesystem: Option<Filesystem>,
    ) -> Result<LabInfo, String> {
        let mut options = options(preset, mib);
        options.mount = filesystem.map(|f| (f, None));
        self.lab.up(&options, &GO_ON).map_err(said("up"))
    }

    pub(crate) fn list(&self) -> Vec<LabInfo> {
        self.lab.list().unwrap()
    }

    /// The remains of the labs: mounts, loop devices, processes, state.
    pub(crate) fn left(&self) -> Vec<String> {
        let root = self.root().to_string_lossy().into_owned();
        let mut left = Vec::new();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        left.extend(mounts.lines().filter(|l| l.contains(&root)).map(|l| format!("mount {l}")));
        for device in loops() {
            let backing = fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
            // Once its mount is detached, a file's path begins at the mount's own root.
            let detached = backing.starts_with('/') && backing.matches('/').count() == 1;
            if backing.contains(&root) || (detached && backing.ends_with(".floodwall-lab\n")) {
                left.push(format!("{} on {}", device.display(), backing.trim_end()));
            }
        }
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            if command.contains(&root) {
                left.push(format!("process {}: {command}", entry.path().display()));
            }
        }
        left.extend(self.list().into_iter().map(|l| format!("state of {}", l.name)));
        left
    }

    /// Waits until nothing is left.
    pub(crate) fn wait_clean(&self) -> Result<(), String> {
        until(CLEAN_WITHIN, "nothing is left", || self.left().is_empty())
            .map_err(|e| format!("{e}: {:#?}", self.left()))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if self.lab.down_all().is_ok_and(|all| all.iter().any(|(_, down)| down.is_err())) {
            rescue(self.root());
        }
    }
}

/// The labs below a state directory, with this binary as their program.
pub(crate) fn lab(root: &Path) -> Result<Lab, String> {
    let this = std::env::current_exe().map_err(said("this binary"))?;
    Ok(Lab::new(this, [CHILD.to_owned()]).with_root(root))
}

/// A preset in memory, small.
pub(crate) fn options(preset: &str, mib: u64) -> UpOptions {
    let mut options = UpOptions::new(preset_text(preset).unwrap_or_default());
    options.name = Some(preset.into());
    options.size = Some(Bytes::mib(mib));
    options.memory = Some(Bytes::mib(mib + 64));
    options
}

fn loops() -> Vec<PathBuf> {
    fs::read_dir("/sys/block")
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.join("loop").is_dir())
        .collect()
}

/// A process that is killed when the test ends, with its children.
pub(crate) struct Load(Child);

impl Load {
    pub(crate) fn start(program: &str, arguments: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().map(Self).map_err(said(program))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Whether it has ended.
    pub(crate) fn ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.0.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Takes the labs of the test that runs down without their own program.
pub(crate) fn rescue_current() {
    if let Some(root) = &*CURRENT.lock().unwrap() {
        rescue(root);
    }
}

/// Takes labs down without their own program.
fn rescue(root: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/lab-rescue");
    let _ = Command::new(script).arg(root).status();
}
