//! Control groups of a bench's own: one for its victims, one for its floods (cgroup v2).
//!
//! ```text
//! PARENT/floodwall.PID ─┬─ victim   this process, while it measures, and the commands it starts
//!                       └─ flood    the floods' processes
//! ```
//!
//! PARENT is the root of the hierarchy. For a user it is the group that the bench was started in,
//! if systemd has delegated that (`systemd-run --user --scope -p Delegate=yes`;
//! systemd.resource-control(5)).
//!
//! In one group nothing can tell a flood's writes from a victim's. The kernel charges a file's
//! writeback to the group that first dirtied it. So this process is in the floods' group while it
//! makes, fills and discards their files.
//!
//! `floodwall_load::groups` makes them, and puts everything back.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::task::read_group;
use floodwall_load::groups::{CONTROLLERS, Division, MOUNT, Order, controllers_of, may_divide};
use floodwall_model::setting::{FLOOD, VICTIM};

use crate::error::BenchError;

/// How long ended floods may stay in their group.
const PATIENCE: Duration = Duration::from_secs(2);

/// The groups, with this process in that of the victims. Dropping them puts everything back.
#[derive(Debug)]
pub struct Groups {
    division: Division,
    /// `cgroup.procs` of the floods' group.
    flood: Option<Arc<File>>,
}

impl Groups {
    /// Makes the groups and goes into that of the victims. `Err` has the reason why it can't, for
    /// people; nothing is changed then.
    ///
    /// # Errors
    /// Why not.
    pub fn make(root: &SysRoot) -> Result<Self, String> {
        let mount = root.path().join(MOUNT.trim_start_matches('/'));
        if !mount.join("cgroup.controllers").exists() {
            return Err(format!("{MOUNT} is not cgroup v2 (cgroup.controllers is missing)"));
        }
        let own = read_group(root, "self");
        let Some(group) = own.value() else {
            return Err(format!("/proc/self/cgroup: {}", own.reason().unwrap_or_default()));
        };
        let before = mount.join(group.trim_start_matches('/'));
        let parent = if may_divide(&mount) {
            &mount
        } else if may_divide(&before) {
            &before
        } else {
            let instead = if rustix::process::geteuid().is_root() {
                "a container needs a control group that it may write"
            } else {
                "where systemd delegates io to users, 'systemd-run --user --scope -p Delegate=yes \
                 floodwall …' lets it"
            };
            return Err(format!("this process may make no control group in {MOUNT}; {instead}"));
        };
        let controllers = controllers_of(parent);
        if let Some(name) = CONTROLLERS.iter().find(|name| !controllers.contains(name)) {
            let file = parent.join("cgroup.controllers");
            return Err(format!("cgroup v2 has no controller '{name}' here ({})", file.display()));
        }
        Self::divide(&Order {
            parent,
            before: &before,
            mount: &mount,
            controllers: &CONTROLLERS,
            names: &[VICTIM, FLOOD],
            home: Some(VICTIM),
            patience: PATIENCE,
        })
        .map_err(|(what, error)| format!("can't {what}: {error}"))
    }

    fn divide(order: &Order<'_>) -> Result<Self, (String, io::Error)> {
        let division = Division::make(order)?;
        let flood = floodwall_load::apart::open_group(&division.group(FLOOD))
            .map_err(|error| ("open the floods' control group".to_owned(), error))?;
        Ok(Self { division, flood: Some(flood) })
    }

    /// `cgroup.procs` of the floods' group.
    #[must_use]
    pub fn flood(&self) -> Option<Arc<File>> {
        self.flood.clone()
    }

    /// Does something in the floods' group: what is dirtied then is charged to it.
    fn as_flood<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        self.division.within(FLOOD, VICTIM, act)
    }

    /// Whether settings mean one of these groups by a name.
    #[must_use]
    pub fn has(name: &str) -> bool {
        [VICTIM, FLOOD].contains(&name)
    }

    /// The path of a group below the mount, by the name that settings give it.
    #[must_use]
    pub fn path_of(&self, name: &str) -> String {
        self.division.path_of(name)
    }
}

/// Does something in the floods' group, if there is one.
///
/// # Errors
/// [`BenchError::Groups`]: this process is not in the victims' group now.
pub(crate) fn as_flood<T>(
    groups: &Result<Groups, String>,
    act: impl FnOnce() -> T,
) -> Result<T, BenchError> {
    match groups {
        Ok(groups) => groups.as_flood(act).map_err(BenchError::Groups),
        Err(_) => Ok(act()),
    }
}
