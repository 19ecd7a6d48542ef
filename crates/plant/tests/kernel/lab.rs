//! A lab device for a test, gone when dropped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use floodwall_device::preset_text;
use floodwall_lab::{Filesystem, Lab, LabInfo, Role, UpOptions};
use floodwall_model::{Bytes, DeviceId};
use floodwall_testing::said;

/// First argument of this binary when it runs as a part of a lab.
pub(crate) const CHILD: &str = "lab-child";

/// State directory of the lab that is up, for the watchdog.
static CURRENT: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Runs as a part of a lab: `--role ROLE --state DIR`.
pub(crate) fn child(arguments: &[String]) -> ! {
    let [_, role, _, state] = arguments else { std::process::exit(2) };
    let role = Role::from_name(role).unwrap();
    std::process::exit(i32::from(floodwall_lab::child(role, Path::new(state)).is_err()));
}

pub(crate) struct Device {
    lab: Lab,
    root: tempfile::TempDir,
    info: LabInfo,
    pub(crate) id: DeviceId,
}

impl Device {
    /// A preset of `mib` MiB with ext4 on it.
    pub(crate) fn up(preset: &str, mib: u64) -> Result<Self, String> {
        let root = tempfile::Builder::new().prefix("fwlab").tempdir().map_err(said("tempdir"))?;
        *CURRENT.lock().unwrap() = Some(root.path().into());
        let this = std::env::current_exe().map_err(said("this binary"))?;
        let lab = Lab::new(this, [CHILD.to_owned()]).with_root(root.path());
        let mut options = UpOptions::new(preset_text(preset).unwrap_or_default());
        options.name = Some(preset.to_owned());
        options.size = Some(Bytes::mib(mib));
        options.memory = Some(Bytes::mib(mib + 64));
        options.mount = Some((Filesystem::Ext4, None));
        let info = lab.up(&options, &AtomicBool::new(false)).map_err(said("lab up"))?;
        let node = info.device.clone().ok_or("the lab has no device")?;
        let name = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let id = std::fs::read_to_string(format!("/sys/block/{name}/dev")).map_err(said("dev"))?;
        Ok(Self { lab, root, info, id: id.trim().parse()? })
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("journal")
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.info.mounts[0].join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.lab.down_all().is_ok_and(|all| all.iter().any(|(_, down)| down.is_err())) {
            rescue();
        }
    }
}

/// Takes a lab down without its own program.
pub(crate) fn rescue() {
    if let Some(root) = &*CURRENT.lock().unwrap() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/lab-rescue");
        let _ = Command::new(script).arg(root).status();
    }
}
