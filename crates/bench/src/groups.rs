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
//! The controllers `io` and `memory` are switched on for the groups where they were off. At the end
//! they are switched off again unless another group has come to use them, and this process goes
//! back to where it was. A killed bench leaves empty groups, whose name tells the controllers that
//! it switched on: the next bench removes the groups and switches the controllers off.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::task::read_group;
use floodwall_model::setting::{FLOOD, VICTIM};
use rustix::fs::{Access, access};

use crate::error::BenchError;

/// Where cgroup v2 is mounted by convention.
const MOUNT: &str = "/sys/fs/cgroup";
/// Before the number of the process that made a group.
const PREFIX: &str = "floodwall.";
/// The purpose of the groups.
const CONTROLLERS: [&str; 2] = ["io", "memory"];
/// A controller's limits and weights (Documentation/admin-guide/cgroup-v2.rst).
const LIMITS: [&str; 9] = [
    "io.max",
    "io.weight",
    "io.bfq.weight",
    "io.latency",
    "memory.min",
    "memory.low",
    "memory.high",
    "memory.max",
    "memory.swap.max",
];
/// A group is busy until its last process has ended in the kernel.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// The groups, with this process in that of the victims. Dropping them puts everything back.
#[derive(Debug)]
pub struct Groups {
    /// `floodwall.PID.NAMESPACE`, and the controllers that are to be switched off: `.io.memory`.
    name: String,
    /// The hierarchy's root, as this process sees it.
    mount: PathBuf,
    /// The group that is divided.
    parent: PathBuf,
    /// Where this process was.
    before: PathBuf,
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
        let own = read_group(root, "self");
        let Some(group) = own.value() else {
            return Err(format!("/proc/self/cgroup: {}", own.reason().unwrap_or_default()));
        };
        let before = mount.join(group.trim_start_matches('/'));
        let may_divide = |group: &Path| {
            let needed = [
                group.to_owned(),
                group.join("cgroup.procs"),
                group.join("cgroup.subtree_control"),
            ];
            needed.iter().all(|path| access(path, Access::WRITE_OK).is_ok())
        };
        let parent = if may_divide(&mount) {
            mount.clone()
        } else if may_divide(&before) {
            before.clone()
        } else {
            let instead = if rustix::process::geteuid().is_root() {
                "a container needs a control group that it may write"
            } else {
                "where systemd delegates io to users, 'systemd-run --user --scope -p Delegate=yes \
                 floodwall …' lets it"
            };
            return Err(format!("this process may make no control group in {MOUNT}; {instead}"));
        };
        let controllers = read(&parent.join("cgroup.controllers")).unwrap_or_default();
        let missing =
            CONTROLLERS.iter().find(|name| !controllers.split_whitespace().any(|c| c == **name));
        if let Some(name) = missing {
            let file = parent.join("cgroup.controllers");
            return Err(format!("cgroup v2 has no controller '{name}' here ({})", file.display()));
        }
        let namespace = pid_namespace();
        remove_stale(&parent, &namespace);
        let switched = read(&parent.join("cgroup.subtree_control")).unwrap_or_default();
        // One that another bench has switched on goes off with the last of them.
        let benches = names(&parent).into_iter().filter(|name| name.starts_with(PREFIX));
        let benches: Vec<String> = benches.collect();
        let is_anothers =
            |name: &str| benches.iter().any(|bench| bench.split('.').any(|part| part == name));
        let is_on =
            |name: &str| switched.split_whitespace().any(|on| on == name) && !is_anothers(name);
        let off = CONTROLLERS.iter().filter(|name| !is_on(name)).map(|name| format!(".{name}"));
        let mut groups = Self {
            name: format!("{PREFIX}{}.{namespace}{}", std::process::id(), off.collect::<String>()),
            mount,
            parent,
            before,
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
            fs::create_dir(&group)
                .map_err(failed(format!("make the control group {}", group.display())))?;
            self.made.push(group);
        }
        // Before the controllers: a group that has processes can't pass them on, except the root.
        enter(&top.join(VICTIM)).map_err(failed("enter the victims' control group".to_owned()))?;
        for group in [&self.parent, &top] {
            for name in CONTROLLERS {
                let what = format!("switch the controller '{name}' on in {}", group.display());
                switch(group, '+', name).map_err(failed(what))?;
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
    fn as_flood<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        let top = self.top();
        enter(&top.join(FLOOD))?;
        let done = act();
        enter(&top.join(VICTIM))?;
        Ok(done)
    }

    /// Whether settings mean one of these groups by a name.
    #[must_use]
    pub fn has(name: &str) -> bool {
        [VICTIM, FLOOD].contains(&name)
    }

    /// The path of a group below the mount, by the name that settings give it.
    #[must_use]
    pub fn path_of(&self, name: &str) -> String {
        let top = self.top();
        let top = top.strip_prefix(&self.mount).unwrap_or(&top).display();
        format!("{top}/{name}")
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // A group that passes controllers on takes no process back, except the root.
        let top = self.top();
        for name in CONTROLLERS {
            let _ = switch(&top, '-', name);
        }
        switch_off(&self.parent, &self.name);
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

/// The number of this process's PID namespace, in which its own number means something; 0 if the
/// kernel has none.
fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let number: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    if number.is_empty() { "0".to_owned() } else { number }
}

/// Switches the controllers off that the name of a bench's group has, unless another group of this
/// parent uses them.
fn switch_off(parent: &Path, name: &str) {
    for controller in
        CONTROLLERS.iter().filter(|controller| name.split('.').any(|part| part == **controller))
    {
        if !names(parent).iter().any(|other| other != name && uses(&parent.join(other), controller))
        {
            let _ = switch(parent, '-', controller);
        }
    }
}

/// The names in a group's directory: files and groups.
fn names(group: &Path) -> Vec<String> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Whether a group passes a controller on, or has a limit or a weight of it.
fn uses(group: &Path, controller: &str) -> bool {
    let passed_on = read(&group.join("cgroup.subtree_control")).unwrap_or_default();
    let unset = |file: &&str| {
        let text = read(&group.join(file)).unwrap_or_default();
        matches!(text.trim(), "" | "0" | "max" | "100" | "default 100")
    };
    let limits = LIMITS.iter().filter(|file| file.split('.').next() == Some(controller));
    passed_on.split_whitespace().any(|name| name == controller) || !limits.clone().all(unset)
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
    for name in names(parent) {
        let Some((pid, of)) = name.strip_prefix(PREFIX).and_then(|its| its.split_once('.')) else {
            continue;
        };
        let path = parent.join(&name);
        // The numbers of another namespace say nothing here.
        let is_gone =
            |pid: u32| pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists();
        if of.split('.').next() == Some(namespace) && pid.parse().is_ok_and(is_gone) {
            for group in [path.join(FLOOD), path.join(VICTIM), path] {
                let _ = fs::remove_dir(group);
            }
            switch_off(parent, &name);
        }
    }
}

#[cfg(test)]
mod tests {
    use floodwall_testing::tree::put;

    use super::*;

    /// Files in place of the kernel's: a write of `-io` replaces a file's text.
    fn switched_off(sibling: &[(&str, &str)]) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| put(&dir.path().join(path), text);
        put("cgroup.subtree_control", "io memory\n");
        for (file, text) in [("io.max", ""), ("io.weight", "default 100\n"), ("memory.low", "0\n")]
        {
            put(&format!("a.slice/{file}"), text);
        }
        for (file, text) in sibling {
            put(&format!("a.slice/{file}"), text);
        }
        switch_off(dir.path(), "floodwall.7.4026.io");
        fs::read_to_string(dir.path().join("cgroup.subtree_control")).unwrap().starts_with("-io")
    }

    #[test]
    fn a_controller_is_switched_off_unless_another_group_uses_it() {
        assert!(switched_off(&[]));
        assert!(switched_off(&[
            ("memory.high", "5000000\n"),
            ("cgroup.subtree_control", "memory\n")
        ]));
        assert!(!switched_off(&[("io.max", "8:0 rbps=max wbps=5000000 riops=max wiops=max\n")]));
        assert!(!switched_off(&[("io.weight", "default 50\n")]));
        assert!(!switched_off(&[("cgroup.subtree_control", "memory io\n")]));
    }

    #[test]
    fn a_move_that_fails_is_an_error_there_and_back() {
        let dir = tempfile::tempdir().unwrap();
        let groups = Groups {
            name: format!("{PREFIX}7.4026"),
            mount: dir.path().to_owned(),
            parent: dir.path().to_owned(),
            before: dir.path().to_owned(),
            made: Vec::new(),
            flood: None,
        };
        let procs = |name: &str| groups.top().join(name).join("cgroup.procs");
        for name in [VICTIM, FLOOD] {
            fs::create_dir_all(groups.top().join(name)).unwrap();
            File::create(procs(name)).unwrap();
        }
        let me = std::process::id().to_string();
        let is_in = |name: &str| fs::read_to_string(procs(name)).unwrap() == me;
        assert!(groups.as_flood(|| is_in(FLOOD) && !is_in(VICTIM)).unwrap());
        assert!(is_in(VICTIM));
        let back = groups.as_flood(|| fs::remove_file(procs(VICTIM)).unwrap());
        assert_eq!(back.unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::remove_file(procs(FLOOD)).unwrap();
        let acted = std::cell::Cell::new(false);
        let groups = Ok(groups);
        let there = as_flood(&groups, || acted.set(true));
        assert!(matches!(there, Err(BenchError::Groups(_))) && !acted.get());
    }
}
