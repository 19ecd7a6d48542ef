//! The place of a trial: a device behind this machine's kernel or behind a guest's. A guest has
//! control groups (cgroup v2) for the victim and the flood.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use processes::child::finished;
use serde_json::{Value, json};

use super::disk::Disk;
use super::flood::Kind;
use super::load::{Load, name};
use super::options::Options;
use super::trial::{self, Trial};
use crate::devices::{Floodwall, has_kept_up, output};

/// The device. What floods write takes no memory, apart from loads and names of files: zeros.
const DEVICE: [&str; 4] = ["--size", "64GiB", "--fs", "xfs"];
/// For the device's contents, which are in the guest's own memory there.
const ON_HOST: [&str; 2] = ["--memory", "6GiB"];
const LOADED: [&str; 2] = ["--memory", "10GiB"];
const IN_GUEST: [&str; 2] = ["--memory", "2GiB"];
/// Control groups that every guest has.
const VICTIM: &str = "/sys/fs/cgroup/victim/cgroup.procs";
const FLOOD: &str = "/sys/fs/cgroup/flood";

/// Measures behind this machine's kernel.
pub(super) fn on_host(
    floodwall: &Floodwall,
    options: &Options,
    trial: Trial,
    log: &Path,
) -> anyhow::Result<Value> {
    // Dropped from the last to the first: device, mount point.
    let mount = tempfile::tempdir().context("can't make a mount point")?;
    open_to_others(mount.path())?;
    let at = mount.path().to_str().context("the mount point's name")?;
    let memory = if trial.flood == Kind::Load { LOADED } else { ON_HOST };
    let scheduler = options.scheduler.iter().flat_map(|name| ["--scheduler", name]);
    let more: Vec<&str> =
        DEVICE.into_iter().chain(memory).chain(["--mount", at]).chain(scheduler).collect();
    let device = floodwall.up(&options.preset, &more)?;
    let disk = Disk { path: device.path.clone(), dir: device.dir()?.to_owned(), flood: None };
    let mut result = trial::measure(floodwall, &disk, &options.load, trial, log)?;
    result["lab"] = device.stats()?["timings"].clone();
    Ok(result)
}

/// Measures in a guest that is booted for it.
pub(super) fn in_guest(
    floodwall: &Floodwall,
    options: &Options,
    trial: Trial,
    memory: &str,
) -> anyhow::Result<Value> {
    let ourselves = std::env::current_exe().context("can't find this program")?;
    let mut run = Command::new(&floodwall.program);
    let kernel = options.kernel.as_deref().unwrap_or(Path::new("uml"));
    run.args(["lab", "run", &options.preset, "--ram", memory, "--kernel"]).arg(kernel);
    run.args(DEVICE).args(IN_GUEST);
    if let Some(scheduler) = &options.scheduler {
        run.args(["--scheduler", scheduler]);
    }
    run.arg("--").arg(ourselves).arg("--floodwall").arg(&floodwall.program).arg("victim");
    run.args(["--who", &name(trial.who), "--flood", &name(trial.flood), "--way", &name(trial.way)]);
    run.args(["--round", &trial.round.to_string()]);
    let output = output(run.args(options.load.args()), &[0])?;
    let mut result: Value =
        serde_json::from_slice(&output.stdout).context("what the guest measured")?;
    result["lab"] = json!({ "kept_up": has_kept_up(&output) });
    Ok(result)
}

/// The part of a trial that is done in the guest, in the directory of the device's filesystem.
pub(crate) fn here(floodwall: &Floodwall, load: &Load, trial: Trial) -> anyhow::Result<()> {
    let dir = std::env::current_dir().context("the working directory")?;
    dir.ancestors().filter(|above| above.parent().is_some()).try_for_each(open_to_others)?;
    std::fs::write(VICTIM, std::process::id().to_string()).context(VICTIM)?;
    let source = finished(Command::new("findmnt").args(["-nro", "SOURCE", "-T"]).arg(&dir))?;
    let disk = Disk { path: PathBuf::from(source.trim()), dir, flood: Some(FLOOD.into()) };
    let log = tempfile::NamedTempFile::new().context("a file for the guard's log")?;
    println!("{}", trial::measure(floodwall, &disk, load, trial, log.path())?);
    Ok(())
}

/// PostgreSQL's user must get through.
fn open_to_others(dir: &Path) -> anyhow::Result<()> {
    let failed = || format!("can't change the permissions of '{}'", dir.display());
    let mut permissions = std::fs::metadata(dir).with_context(failed)?.permissions();
    permissions.set_mode(permissions.mode() | 0o011);
    std::fs::set_permissions(dir, permissions).with_context(failed)
}
