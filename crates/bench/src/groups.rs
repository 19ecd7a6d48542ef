//! Control groups of a bench's own: one for its victims, one for its floods (cgroup v2).
//!
//! ```text
//! /sys/fs/cgroup/floodwall.PID ─┬─ victim   this process, while it measures, and the commands that it starts
//!                               └─ flood    the floods' processes
//! ```
//!
//! In one group nothing can tell a flood's writes from a victim's. The kernel charges a file's writeback to the group that
//! first dirtied it, so this process is in the floods' group while it makes, fills and discards their files.
//!
//! The controllers `io` and `memory` are switched on for the groups where they were off. At the end they are switched off
//! again if no other group is left that could use them, and this process goes back to where it was. A killed bench leaves
//! empty groups, which the next one removes, and the controllers on, which bounds nobody.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_model::setting::{FLOOD, VICTIM};

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
    /// Where this process was.
    before: PathBuf,
    /// Controllers that were switched on below the root for this.
    enabled: Vec<&'static str>,
    /// The groups that were made, the outermost first.
    made: Vec<PathBuf>,
    /// `cgroup.procs` of the floods' group.
    flood: Option<Arc<File>>,
}

impl Groups {
    /// Makes the groups and goes into that of the victims. `Err` says why there are none, for people; nothing is changed then.
    ///
    /// # Errors
    /// Why not.
    pub fn make(root: &SysRoot) -> Result<Self, String> {
        let mount = root.path().join(MOUNT.trim_start_matches('/'));
        let controllers = read(&mount.join("cgroup.controllers"))
            .map_err(|_| format!("{MOUNT} is not cgroup v2 (cgroup.controllers is missing)"))?;
        let missing = CONTROLLERS.iter().find(|name| !controllers.split_whitespace().any(|c| c == **name));
        if let Some(name) = missing {
            return Err(format!("cgroup v2 has no controller '{name}' here (cgroup.controllers)"));
        }
        let own = read(&root.path().join("proc/self/cgroup")).map_err(|e| e.to_string())?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let namespace = pid_namespace();
        remove_stale(&mount, &namespace);
        let mut groups = Self {
            name: format!("{PREFIX}{}.{namespace}", std::process::id()),
            before: mount.join(own),
            mount,
            enabled: Vec::new(),
            made: Vec::new(),
            flood: None,
        };
        groups.set_up().map_err(|(what, error)| format!("can't {what}: {error}"))?;
        Ok(groups)
    }

    fn set_up(&mut self) -> Result<(), (String, io::Error)> {
        let top = self.mount.join(&self.name);
        let failed = |what: String| move |error| (what, error);
        let switched = read(&self.mount.join("cgroup.subtree_control")).unwrap_or_default();
        for name in CONTROLLERS {
            if !switched.split_whitespace().any(|on| on == name) {
                switch(&self.mount, '+', name)
                    .map_err(failed(format!("switch the controller '{name}' on in {MOUNT}")))?;
                self.enabled.push(name);
            }
        }
        for group in [top.clone(), top.join(VICTIM), top.join(FLOOD)] {
            fs::create_dir(&group).map_err(failed(format!("make the control group {}", group.display())))?;
            self.made.push(group);
            if self.made.len() == 1 {
                for name in CONTROLLERS {
                    switch(&top, '+', name)
                        .map_err(failed(format!("switch the controller '{name}' on in {}", top.display())))?;
                }
            }
        }
        let flood = floodwall_load::apart::open_group(&top.join(FLOOD));
        self.flood = Some(flood.map_err(failed("open the floods' control group".to_owned()))?);
        enter(&top.join(VICTIM)).map_err(failed("enter the victims' control group".to_owned()))
    }

    /// `cgroup.procs` of the floods' group.
    #[must_use]
    pub fn flood(&self) -> Option<Arc<File>> {
        self.flood.clone()
    }

    /// Does something in the floods' group: what is dirtied then is charged to it.
    pub(crate) fn as_flood<T>(&self, act: impl FnOnce() -> T) -> T {
        let top = self.mount.join(&self.name);
        // A move between two groups of ours can't be refused; if it were, this is charged to the victims as without groups.
        let _ = enter(&top.join(FLOOD));
        let done = act();
        let _ = enter(&top.join(VICTIM));
        done
    }

    /// The path of a group below the mount, by the name that settings give it; `None` if it is not one of these.
    #[must_use]
    pub fn path_of(&self, name: &str) -> Option<String> {
        [VICTIM, FLOOD].contains(&name).then(|| format!("{}/{name}", self.name))
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // Where this process was may be gone: systemd removes an empty scope.
        if enter(&self.before).is_err() {
            let _ = enter(&self.mount);
        }
        // A group that can't be removed is empty. The next bench removes it.
        for group in self.made.iter().rev() {
            remove(group);
        }
        if !has_groups(&self.mount) {
            for name in &self.enabled {
                let _ = switch(&self.mount, '-', name);
            }
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

/// The number of this process's PID namespace, in which its own number means something; 0 if the kernel has none.
fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let number: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    if number.is_empty() { "0".to_owned() } else { number }
}

/// Whether there is a group below the root, which may use a controller.
fn has_groups(mount: &Path) -> bool {
    let mut entries = fs::read_dir(mount).into_iter().flatten().flatten();
    entries.any(|entry| entry.path().join("cgroup.procs").exists())
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
fn remove_stale(mount: &Path, namespace: &str) {
    for entry in fs::read_dir(mount).into_iter().flatten().flatten() {
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
