//! Where the command's group is made.
//!
//! In this order, the first that works:
//!
//! 1. this process's own group is divided, with its controllers: no other process is in it
//! 2. the hierarchy's root is divided, with its controllers, unless this process is of a service:
//!    an end of the service would end the guardian, and not the command
//! 3. systemd's user manager makes a scope for this process, and that is divided (`scope`)
//! 4. a group below this process's own, without a controller: it has the freezer alone
//!
//! In a group below its own, limits of a service or container go on to hold for the command.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::task::read_group;
use floodwall_load::groups::{Division, MOUNT, Order, controllers_of, may_divide};
use floodwall_model::DeviceId;

use super::files::GroupFiles;
use super::scope::enter_scope;

/// The group of the command, and that of this process beside it.
const COMMAND: &str = "command";
const PACE: &str = "pace";
/// How long processes that end with the command may stay in the group.
const PATIENCE: Duration = Duration::from_millis(200);

/// A control group of the command's own. Dropping it removes it if no process is left in it.
#[derive(Debug)]
pub(in crate::command) struct Group {
    division: Division,
    files: GroupFiles,
}

impl Group {
    /// Makes a group for a command. `disk` is the one that it writes to, if groups are charged for
    /// writeback there. `Err` has the reason why it can't, for people.
    pub(in crate::command) fn make(
        root: &SysRoot,
        disk: Option<DeviceId>,
        runtime_directory: Option<&OsStr>,
    ) -> Result<Self, String> {
        let mount = root.path().join(MOUNT.trim_start_matches('/'));
        if !mount.join("cgroup.controllers").exists() {
            return Err(format!("{MOUNT} is not cgroup v2"));
        }
        let mut before = own_group(root, &mount)?;
        let mut division = divided(&mount, &before);
        let mut no_scope = String::new();
        if division.is_none() {
            match enter_scope(root, &before, runtime_directory) {
                Ok(()) => {
                    before = own_group(root, &mount)?;
                    division = divided(&mount, &before);
                }
                Err(why) => no_scope = format!(", and {why}"),
            }
        }
        let division = match division {
            Some(division) => division,
            None => below(&mount, &before).map_err(|why| why + &no_scope)?,
        };
        let name = format!("{MOUNT}/{}", division.path_of(COMMAND));
        let files = GroupFiles::of(root, &name, disk);
        Ok(Self { division, files })
    }

    pub(in crate::command) fn files(&self) -> &GroupFiles {
        &self.files
    }

    /// Whether a process is in it, or in a group below it.
    pub(in crate::command) fn has(&self, root: &SysRoot, pid: i32) -> bool {
        let group = read_group(root, pid);
        let own = self.division.path_of(COMMAND);
        group
            .value()
            .is_some_and(|group| Path::new(group.trim_start_matches('/')).starts_with(&own))
    }

    /// The file that takes processes, for the child to go there before exec.
    pub(in crate::command) fn entrance(&self) -> io::Result<Arc<OwnedFd>> {
        let file = self.division.group(COMMAND).join("cgroup.procs");
        File::options().write(true).open(file).map(|file| Arc::new(file.into()))
    }

    /// The means, for people.
    pub(in crate::command) fn means(&self) -> String {
        format!("in a control group of its own: {}", self.files.means())
    }
}

/// Whether a group is a unit of systemd's, of that kind.
fn is_unit(name: &OsStr, kind: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == kind)
}

fn own_group(root: &SysRoot, mount: &Path) -> Result<PathBuf, String> {
    let own = read_group(root, "self");
    match own.value() {
        Some(group) => Ok(mount.join(group.trim_start_matches('/'))),
        None => Err(format!("/proc/self/cgroup: {}", own.reason().unwrap_or_default())),
    }
}

/// A division with controllers, of this process's own group or of the root.
fn divided(mount: &Path, before: &Path) -> Option<Division> {
    let is_service = before.components().any(|part| is_unit(part.as_os_str(), "service"));
    let places = [Some(before), Some(mount).filter(|_| !is_service)];
    places.into_iter().flatten().find_map(|parent| {
        let controllers = controllers_of(parent);
        if controllers.is_empty() || !may_divide(parent) {
            return None;
        }
        // The root alone has no type. It passes controllers on though it has processes.
        let is_root = !parent.join("cgroup.type").exists();
        let (names, home): (&[&str], _) =
            if is_root { (&[COMMAND], None) } else { (&[PACE, COMMAND], Some(PACE)) };
        let order = Order {
            parent,
            before,
            mount,
            controllers: &controllers,
            names,
            home,
            patience: PATIENCE,
        };
        Division::make(&order).ok()
    })
}

/// A group below this process's own, without controllers.
fn below(mount: &Path, before: &Path) -> Result<Division, String> {
    if !may_divide(before) {
        return Err("this process may make no control group".to_owned());
    }
    let order = Order {
        parent: before,
        before,
        mount,
        controllers: &[],
        names: &[COMMAND],
        home: None,
        patience: PATIENCE,
    };
    Division::make(&order).map_err(|(what, error)| format!("can't {what}: {error}"))
}
