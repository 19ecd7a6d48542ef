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
//!
//! Below its units systemd alone makes groups, unless a unit has `Delegate=`. This makes none below
//! a unit without it.

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
use rustix::fs::getxattr;
use rustix::io::Errno;

use super::files::GroupFiles;
use super::scope::enter_scope;

/// The group of the command, and that of this process beside it.
const COMMAND: &str = "command";
const PACE: &str = "pace";
/// How long processes that end with the command may stay in the group.
const PATIENCE: Duration = Duration::from_millis(200);
/// The kinds of units that have a control group.
const KINDS: [&str; 6] = ["service", "scope", "slice", "socket", "mount", "swap"];
/// What systemd marks the group of a unit with `Delegate=` with, the second since version 251: that
/// one can be read without root.
const MARKS: [&str; 2] = ["trusted.delegate", "user.delegate"];

/// A control group of the command's own. Dropping it removes it if no process is left in it.
#[derive(Debug)]
pub(in crate::command) struct Group {
    division: Division,
    files: GroupFiles,
}

impl Group {
    /// Makes a group for a command. `disks` may be paced, and charge writeback to groups. `Err` has
    /// the reason why it can't, for people.
    pub(in crate::command) fn make(
        root: &SysRoot,
        disks: &[DeviceId],
        runtime_directory: Option<&OsStr>,
    ) -> Result<Self, String> {
        let mount = root.path().join(MOUNT.trim_start_matches('/'));
        if !mount.join("cgroup.controllers").exists() {
            return Err(format!("{MOUNT} is not cgroup v2"));
        }
        let mut before = own_group(root, &mount)?;
        let mut is_delegated = is_delegated(&mount, &before, is_marked);
        let mut division = divided(&mount, &before, is_delegated);
        let mut no_scope = String::new();
        if division.is_none() {
            match enter_scope(root, &before, runtime_directory) {
                Ok(()) => {
                    before = own_group(root, &mount)?;
                    // A user's manager before version 251 can't mark it.
                    is_delegated = true;
                    division = divided(&mount, &before, is_delegated);
                }
                Err(why) => no_scope = format!(", and {why}"),
            }
        }
        let division = match division {
            Some(division) => division,
            None if is_delegated => below(&mount, &before).map_err(|why| why + &no_scope)?,
            None => {
                return Err(format!("its unit of systemd's has no Delegate=yes{no_scope}"));
            }
        };
        let name = format!("{MOUNT}/{}", division.path_of(COMMAND));
        let files = GroupFiles::of(root, &name, disks);
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

    /// The means, for people. `disk` is the paced one.
    pub(in crate::command) fn means(&self, disk: Option<DeviceId>) -> String {
        format!("in a control group of its own: {}", self.files.means(disk))
    }
}

/// Whether groups may be made below one: it is in no unit of systemd's, or in one with `Delegate=`.
/// In a container the groups of its manager are not seen.
fn is_delegated(mount: &Path, group: &Path, is_marked: impl Fn(&Path) -> bool) -> bool {
    let is_of_systemd = |group: &&Path| {
        group.file_name().is_some_and(|name| KINDS.iter().any(|kind| is_unit(name, kind)))
    };
    let mut groups = group.ancestors().take_while(|group| *group != mount);
    groups.find(is_of_systemd).is_none_or(is_marked)
}

/// Whether systemd has marked a group as delegated.
fn is_marked(group: &Path) -> bool {
    has_mark(|mark, value| getxattr(group, mark, value))
}

/// The same by the values of extended attributes.
fn has_mark(get: impl Fn(&str, &mut [u8]) -> Result<usize, Errno>) -> bool {
    MARKS.iter().any(|mark| {
        let mut value = [0; 8];
        get(mark, &mut value).is_ok_and(|len| value[..len] == *b"1")
    })
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

/// A division with controllers, of this process's own group if that is delegated, or of the root.
fn divided(mount: &Path, before: &Path, is_delegated: bool) -> Option<Division> {
    let is_service = before.components().any(|part| is_unit(part.as_os_str(), "service"));
    let places = [Some(before).filter(|_| is_delegated), Some(mount).filter(|_| !is_service)];
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

#[cfg(test)]
mod tests {
    use std::fs;

    use floodwall_testing::tree::put;

    use super::*;

    #[test]
    fn no_group_is_made_in_a_unit_without_delegate() {
        let mount = Path::new("/sys/fs/cgroup");
        let is_delegated = |group: &str, marked: &str| {
            let marked = mount.join(marked);
            is_delegated(mount, &mount.join(group), |unit| unit == marked)
        };
        for (group, marked, is) in [
            // A container, and machines without systemd.
            ("", "-", true),
            ("docker/4711", "-", true),
            ("openrc.sshd", "-", true),
            ("system.slice/backup.service", "-", false),
            ("system.slice/backup.service", "system.slice/backup.service", true),
            ("system.slice/backup.service", "system.slice", false),
            ("system.slice/backup.service/sub", "-", false),
            ("system.slice/backup.service/sub", "system.slice/backup.service", true),
            ("user.slice/user-1000.slice/session-3.scope", "-", false),
            ("user@1.service/app.slice/term.scope", "user@1.service", false),
            ("user@1.service/app.slice/term.scope", "user@1.service/app.slice/term.scope", true),
        ] {
            assert_eq!(is_delegated(group, marked), is, "{group}, {marked}");
        }
    }

    #[test]
    fn the_mark_is_systemds() {
        let has_mark = |name: &str, text: &[u8]| {
            has_mark(|asked, value| {
                let Some(value) = value.get_mut(..text.len()) else { return Err(Errno::RANGE) };
                value.copy_from_slice(text);
                if asked == name { Ok(text.len()) } else { Err(Errno::NODATA) }
            })
        };
        assert!(has_mark("trusted.delegate", b"1") && has_mark("user.delegate", b"1"));
        assert!(!has_mark("user.delegate", b"0") && !has_mark("user.delegate", b""));
        assert!(!has_mark("user.delegate", b"111111111") && !has_mark("user.other", b"1"));
    }

    /// A made-up hierarchy, and this process in one of its groups.
    fn machine(group: &str) -> (tempfile::TempDir, SysRoot) {
        let dir = tempfile::tempdir().unwrap();
        put(&dir.path().join("proc/self/cgroup"), &format!("0::/{group}\n"));
        for group in ["", group] {
            let group = dir.path().join("sys/fs/cgroup").join(group);
            for file in ["cgroup.controllers", "cgroup.procs", "cgroup.subtree_control"] {
                put(&group.join(file), "");
            }
        }
        let root = SysRoot::new(dir.path()).unwrap();
        (dir, root)
    }

    #[test]
    fn a_service_is_left_as_it_is_and_another_group_divided() {
        let (_dir, root) = machine("system.slice/backup.service");
        let why = Group::make(&root, &[], None).unwrap_err();
        assert!(why.starts_with("its unit of systemd's has no Delegate=yes"), "{why}");
        let (dir, root) = machine("docker");
        let group = Group::make(&root, &[], None).unwrap();
        assert!(group.files().directory.starts_with(dir.path().join("sys/fs/cgroup/docker")));
        let made = || fs::read_dir(dir.path().join("sys/fs/cgroup/docker")).unwrap().count();
        assert_eq!(made(), 4);
        drop(group);
        assert_eq!(made(), 3);
    }
}
