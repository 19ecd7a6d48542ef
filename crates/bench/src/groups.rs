//! Control groups of a bench's own: one for its victims, one for its floods (cgroup v2).
//!
//! ```text
//! PARENT/floodwall.PID ─┬─ victim   this process, while it measures, and the commands that it starts
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
//! The controllers `io` and `memory` are switched on for the groups where they were off. At the end
//! they are switched off again if no other group is left that could use them, and this process goes
//! back to where it was. A killed bench leaves empty groups, which the next one removes. It leaves
//! the controllers on, which limits no process.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_model::setting::{FLOOD, VICTIM};
use rustix::fs::{Access, access};

/// Where cgroup v2 is mounted by convention.
const MOUNT: &str = "/sys/fs/cgroup";
/// Before the number of the process that made a group.
const PREFIX: &str = "floodwall.";
/// What the groups are for.
const CONTROLLERS: [&str; 2] = ["io", "memory"];
/// A group is busy until its last process has ended in the kernel.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// The groups, with this process in that of the victims. Dropping them puts everything back.
#[derive(Debug)]
pub struct Groups {
    /// `floodwall.PID.NAMESPACE`.
    name: String,
    /// The hierarchy's root, as this process sees it.
    mount: PathBuf,
    /// The group that is divided.
    parent: PathBuf,
    /// Where this process was.
    before: PathBuf,
    /// Controllers that were switched on in the parent for this.
    enabled: Vec<&'static str>,
    /// The groups that were made, the outermost first.
    made: Vec<PathBuf>,
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
        let own = read(&root.path().join("proc/self/cgroup")).map_err(|e| e.to_string())?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let before = mount.join(own);
        let may_divide = |group: &Path| {
            let needed = [group.to_owned(), group.join("cgroup.procs"), group.join("cgroup.subtree_control")];
            needed.iter().all(|path| access(path, Access::WRITE_OK).is_ok())
        };
        let parent = if may_divide(&mount) {
            mount.clone()
        } else if may_divide(&before) {
            before.clone()
        } else {
            return Err(format!(
                "this process may make no control group in {MOUNT}; where systemd delegates io to users, \
                 'systemd-run --user --scope -p Delegate=yes floodwall …' lets it"
            ));
        };
        let controllers = read(&parent.join("cgroup.controllers")).unwrap_or_default();
        let missing = CONTROLLERS.iter().find(|name| !controllers.split_whitespace().any(|c| c == **name));
        if let Some(name) = missing {
            let file = parent.join("cgroup.controllers");
            return Err(format!("cgroup v2 has no controller '{name}' here ({})", file.display()));
        }
        let namespace = pid_namespace();
        remove_stale(&parent, &namespace);
        let mut groups = Self {
            name: format!("{PREFIX}{}.{namespace}", std::process::id()),
            mount,
            parent,
            before,
            enabled: Vec::new(),
            made: Vec::new(),
            flood: None,
        };
        groups.set_up().map_err(|(what, error)| format!("can't {what}: {error}"))?;
        Ok(groups)
    }

    fn set_up(&mut self) -> Result<(), (String, io::Error)> {
        let top = self.top();
        let failed = |what: String| move |error| (what, error);
        for group in [top.clone(), top.join(VICTIM), top.join(FLOOD)] {
            fs::create_dir(&group).map_err(failed(format!("make the control group {}", group.display())))?;
            self.made.push(group);
        }
        // Before the controllers: a group that has processes can't pass them on, except the root.
        enter(&top.join(VICTIM)).map_err(failed("enter the victims' control group".to_owned()))?;
        let switched = read(&self.parent.join("cgroup.subtree_control")).unwrap_or_default();
        for group in [&self.parent, &top] {
            for name in CONTROLLERS {
                if *group == top || !switched.split_whitespace().any(|on| on == name) {
                    let what = format!("switch the controller '{name}' on in {}", group.display());
                    switch(group, '+', name).map_err(failed(what))?;
                    if *group != top {
                        self.enabled.push(name);
                    }
                }
            }
        }
        let flood = floodwall_load::apart::open_group(&top.join(FLOOD));
        self.flood = Some(flood.map_err(failed("open the floods' control group".to_owned()))?);
        Ok(())
    }

    /// The group that holds the two.
    fn top(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// `cgroup.procs` of the floods' group.
    #[must_use]
    pub fn flood(&self) -> Option<Arc<File>> {
        self.flood.clone()
    }

    /// Does something in the floods' group: what is dirtied then is charged to it.
    pub(crate) fn as_flood<T>(&self, act: impl FnOnce() -> T) -> T {
        let top = self.top();
        // A move between two groups of ours can't be refused; if it were, this is charged to the
        // victims as without groups.
        let _ = enter(&top.join(FLOOD));
        let done = act();
        let _ = enter(&top.join(VICTIM));
        done
    }

    /// The path of a group below the mount, by the name that settings give it; `None` if it is not
    /// one of these.
    #[must_use]
    pub fn path_of(&self, name: &str) -> Option<String> {
        let top = self.top();
        let top = top.strip_prefix(&self.mount).unwrap_or(&top).display();
        [VICTIM, FLOOD].contains(&name).then(|| format!("{top}/{name}"))
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // A group that passes controllers on takes no process back, except the root.
        let top = self.top();
        if !has_groups_besides(&self.parent, &self.name) {
            for name in &self.enabled {
                let _ = switch(&top, '-', name);
                let _ = switch(&self.parent, '-', name);
            }
        }
        // Where this process was may be gone: systemd removes an empty scope.
        if enter(&self.before).is_err() {
            let _ = enter(&self.mount);
        }
        // A group that can't be removed is empty. The next bench removes it.
        for group in self.made.iter().rev() {
            remove(group);
        }
    }
}

/// Does something in the floods' group, if there is one.
pub(crate) fn as_flood<T>(groups: &Result<Groups, String>, act: impl FnOnce() -> T) -> T {
    match groups {
        Ok(groups) => groups.as_flood(act),
        Err(_) => act(),
    }
}

/// The number of this process's PID namespace, in which its own number means something; 0 if the
/// kernel has none.
fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let number: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    if number.is_empty() { "0".to_owned() } else { number }
}

/// Whether there is another group in this one, which may use a controller.
fn has_groups_besides(parent: &Path, own: &str) -> bool {
    let mut entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name() != own && entry.path().join("cgroup.procs").exists())
}

fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
}

fn switch(group: &Path, sign: char, controller: &str) -> io::Result<()> {
    write(&group.join("cgroup.subtree_control"), &format!("{sign}{controller}"))
}

/// Kernel files take a value in one write(2).
fn write(path: &Path, value: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(value.as_bytes())
}

/// Moves this process.
fn enter(group: &Path) -> io::Result<()> {
    write(&group.join("cgroup.procs"), &std::process::id().to_string())
}

fn remove(group: &Path) {
    for _ in 0..ATTEMPTS {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(PAUSE),
            _ => return,
        }
    }
}

/// Removes groups of benches that were killed: their process is gone, or this one has its number.
fn remove_stale(parent: &Path, namespace: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let its = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('.'));
        let Some((pid, of)) = its else { continue };
        // The numbers of another namespace say nothing here.
        let is_gone = |pid: u32| pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists();
        if of == namespace && pid.parse().is_ok_and(is_gone) {
            for group in [entry.path().join(FLOOD), entry.path().join(VICTIM), entry.path()] {
                let _ = fs::remove_dir(group);
            }
        }
    }
}
