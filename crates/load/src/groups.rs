//! Control groups of this process's own, below a group that it may divide (cgroup v2).
//!
//! ```text
//! PARENT/floodwall.PID.NAMESPACE.io.memory ─┬─ NAME
//!                                           └─ NAME …
//! ```
//!
//! Controllers are switched on for the groups where they were off. At the end they are switched off
//! again unless another group has come to use them, and this process goes back to where it was. A
//! killed process leaves groups, whose name tells the controllers that it switched on. The next
//! process that makes groups here lets their processes go on without a limit, removes those without
//! a process, and switches the controllers off.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};

/// Where cgroup v2 is mounted by convention.
pub const MOUNT: &str = "/sys/fs/cgroup";
/// The controllers of limits on writes.
pub const CONTROLLERS: [&str; 2] = ["io", "memory"];
/// Before the number of the process that made a group.
const PREFIX: &str = "floodwall.";
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
/// Time between two attempts to remove a group.
const PAUSE: Duration = Duration::from_millis(20);

/// The groups to make.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The group that is divided.
    pub parent: &'a Path,
    /// The group of this process.
    pub before: &'a Path,
    /// The hierarchy's root, as this process sees it.
    pub mount: &'a Path,
    /// The controllers to pass on.
    pub controllers: &'a [&'static str],
    /// The names of the groups.
    pub names: &'a [&'a str],
    /// The one among `names` that this process goes into. A group that has processes can't pass
    /// controllers on, except the root.
    pub home: Option<&'a str>,
    /// How long the groups' last processes may take to end, once the groups are to be removed.
    pub patience: Duration,
}

/// Groups of this process's own. Dropping them puts everything back.
#[derive(Debug)]
pub struct Division {
    /// `floodwall.PID.NAMESPACE`, and the controllers that are to be switched off: `.io.memory`.
    name: String,
    mount: PathBuf,
    parent: PathBuf,
    before: PathBuf,
    controllers: Vec<&'static str>,
    /// Whether this process has left the group where it was.
    has_moved: bool,
    patience: Duration,
    /// The groups that were made, the outermost first.
    made: Vec<PathBuf>,
}

impl Division {
    /// Makes the groups. After an error nothing is changed.
    ///
    /// # Errors
    /// What failed, after the words "can't", and the kernel's answer.
    pub fn make(order: &Order<'_>) -> Result<Self, (String, io::Error)> {
        let Order { parent, controllers, .. } = *order;
        let namespace = pid_namespace();
        remove_stale(parent, &namespace);
        let switched = read(&parent.join("cgroup.subtree_control")).unwrap_or_default();
        // One that another process of ours has switched on goes off with the last of them.
        let ours: Vec<String> =
            names(parent).into_iter().filter(|name| name.starts_with(PREFIX)).collect();
        let is_anothers =
            |name: &str| ours.iter().any(|group| group.split('.').any(|part| part == name));
        let is_on =
            |name: &str| switched.split_whitespace().any(|on| on == name) && !is_anothers(name);
        let off = controllers.iter().filter(|name| !is_on(name)).map(|name| format!(".{name}"));
        let mut division = Self {
            name: format!("{PREFIX}{}.{namespace}{}", std::process::id(), off.collect::<String>()),
            mount: order.mount.to_owned(),
            parent: parent.to_owned(),
            before: order.before.to_owned(),
            controllers: controllers.to_vec(),
            has_moved: false,
            patience: order.patience,
            made: Vec::new(),
        };
        division.set_up(order)?;
        Ok(division)
    }

    fn set_up(&mut self, order: &Order<'_>) -> Result<(), (String, io::Error)> {
        let top = self.top();
        let failed = |what: String| move |error| (what, error);
        for group in std::iter::once(top.clone()).chain(order.names.iter().map(|n| top.join(n))) {
            fs::create_dir(&group)
                .map_err(failed(format!("make the control group {}", group.display())))?;
            self.made.push(group);
        }
        // Before the controllers.
        if let Some(home) = order.home {
            let what = format!("enter the control group {}", top.join(home).display());
            self.has_moved = true;
            self.enter(home).map_err(failed(what))?;
        }
        for group in [&self.parent, &top] {
            for name in order.controllers {
                let what = format!("switch the controller '{name}' on in {}", group.display());
                switch(group, '+', name).map_err(failed(what))?;
            }
        }
        Ok(())
    }

    /// The group that holds the others.
    fn top(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// The directory of one of the groups.
    #[must_use]
    pub fn group(&self, name: &str) -> PathBuf {
        self.top().join(name)
    }

    /// The path of a group below the mount.
    #[must_use]
    pub fn path_of(&self, name: &str) -> String {
        let group = self.group(name);
        group.strip_prefix(&self.mount).unwrap_or(&group).display().to_string()
    }

    fn enter(&self, name: &str) -> io::Result<()> {
        enter(&self.group(name))
    }

    /// Does something in one of the groups, and goes to another one.
    ///
    /// # Errors
    /// The kernel's answer: this process is not in the second group.
    pub fn within<T>(&self, name: &str, then: &str, act: impl FnOnce() -> T) -> io::Result<T> {
        self.enter(name)?;
        let done = act();
        self.enter(then)?;
        Ok(done)
    }
}

impl Drop for Division {
    fn drop(&mut self) {
        // A group that passes controllers on takes no process back, except the root.
        let top = self.top();
        for name in &self.controllers {
            let _ = switch(&top, '-', name);
        }
        switch_off(&self.parent, &self.name);
        // Where this process was may be gone: systemd removes an empty scope.
        if self.has_moved && enter(&self.before).is_err() {
            let _ = enter(&self.mount);
        }
        // The next process that makes groups here removes one that can't be removed yet.
        let deadline = Instant::now() + self.patience;
        for group in self.made.iter().rev() {
            remove(group, deadline);
        }
    }
}

/// Whether this process may make groups below one and pass its controllers on.
#[must_use]
pub fn may_divide(group: &Path) -> bool {
    let needed =
        [group.to_owned(), group.join("cgroup.procs"), group.join("cgroup.subtree_control")];
    needed.iter().all(|path| access(path, Access::WRITE_OK).is_ok())
}

/// Those of [`CONTROLLERS`] that a group can pass on.
#[must_use]
pub fn controllers_of(group: &Path) -> Vec<&'static str> {
    let text = read(&group.join("cgroup.controllers")).unwrap_or_default();
    let has = |name: &&str| text.split_whitespace().any(|word| word == *name);
    CONTROLLERS.into_iter().filter(has).collect()
}

/// Writes a file of the kernel's, which takes a value in one write(2).
///
/// A lower memory.high takes effect without a wait for the memory to be reclaimed, since Linux 6.16
/// (O_NONBLOCK; mm/memcontrol.c `memory_high_write`). Earlier kernels ignore the flag.
///
/// # Errors
/// The kernel's answer.
pub fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).custom_flags(libc::O_NONBLOCK);
    options.open(path)?.write_all(value.as_bytes())
}

/// The number of this process's PID namespace, in which its own number means something; 0 if the
/// kernel has none.
fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let number: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    if number.is_empty() { "0".to_owned() } else { number }
}

/// Switches the controllers off that the name of a group of ours has, unless another group of this
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

/// Moves this process.
fn enter(group: &Path) -> io::Result<()> {
    write(&group.join("cgroup.procs"), &std::process::id().to_string())
}

/// A group is busy until its last process has ended in the kernel.
fn remove(group: &Path, deadline: Instant) {
    while fs::remove_dir(group).is_err_and(|e| e.kind() == io::ErrorKind::ResourceBusy)
        && Instant::now() < deadline
    {
        sleep(PAUSE);
    }
}

/// Lets the processes of a group go on, without a limit. A guardian may have been killed as well.
fn release(group: &Path) {
    let _ = write(&group.join("cgroup.freeze"), "0");
    let _ = write(&group.join("memory.high"), "max");
    let limits = group.join("io.max");
    for line in read(&limits).unwrap_or_default().lines() {
        if let Some(disk) = line.split_whitespace().next() {
            let _ = write(&limits, &format!("{disk} rbps=max wbps=max riops=max wiops=max"));
        }
    }
}

/// Removes groups of processes that were killed: the process is gone, or this one has its number.
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
            for group in names(&path).iter().map(|name| path.join(name)).filter(|p| p.is_dir()) {
                release(&group);
                let _ = fs::remove_dir(group);
            }
            let _ = fs::remove_dir(&path);
            switch_off(parent, &name);
        }
    }
}

#[cfg(test)]
mod tests;
