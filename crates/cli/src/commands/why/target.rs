//! What the argument of `why`, `fix` and `watch` means: a device, a path on one, a process, or a
//! name. A screen shows disks alone.
//!
//! ```text
//! 4711      ─▶ a process
//! 8:0, sda  ─▶ a disk
//! /dev/…    ─▶ a disk
//! /srv, .   ─▶ the disks below its filesystem
//! postgres  ─▶ processes of this name, or in a unit of this name
//! ```

use std::path::Path;

use floodwall_host::findings::About;
use floodwall_host::mounts::Mount;
use floodwall_host::task::read_group;
use floodwall_host::{SysRoot, block, locate, mounts, topology};
use floodwall_model::DeviceId;
use floodwall_probe::device;

use crate::exit::UsageError;

/// What may be named, for messages.
const ACCEPTED: &str = "name a device (sda, /dev/sda1, 8:0), a mount point or a path (/srv), a \
    process number, or the name of a process or unit that runs";
/// The same where a disk is meant.
const DISKS: &str = "name a device (sda, /dev/sda1, 8:0), a mount point or a path (/srv)";
/// The kernel keeps this many bytes of a process's name (include/linux/sched.h `TASK_COMM_LEN`).
const NAME_BYTES: usize = 15;

/// What is asked about.
///
/// # Errors
/// [`UsageError`] if nothing here is called so.
pub(in crate::commands) fn about(root: &SysRoot, text: Option<&str>) -> Result<About, UsageError> {
    let Some(text) = text else { return Ok(About::Machine) };
    if let Ok(number) = text.parse::<u32>() {
        let pid = process_of(root, number)
            .ok_or_else(|| UsageError(format!("there is no process {number}; {ACCEPTED}")))?;
        return Ok(About::Processes { named: format!("process {pid}"), pids: vec![pid] });
    }
    if let Some((named, ids)) = disks(root, text)? {
        return Ok(About::Disks { named, ids });
    }
    match processes(root, text) {
        pids if pids.is_empty() => Err(UsageError(format!(
            "nothing here is called '{text}': no device, no process, no unit that runs; {ACCEPTED}"
        ))),
        pids => Ok(About::Processes { named: text.to_owned(), pids }),
    }
}

/// The kernel's name of the one disk that a device or a path means, as frames show it.
///
/// # Errors
/// [`UsageError`] if it is no disk, or several.
pub(in crate::commands) fn disk(root: &SysRoot, text: &str) -> Result<String, UsageError> {
    let (_, ids) = disks(root, text)?
        .ok_or_else(|| UsageError(format!("'{text}' is no block device; {DISKS}")))?;
    let mounts = mounts::read_mounts(root).into_value().unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    for id in ids {
        let shown = shown(root, &mounts, id);
        let name = block::read_name(root, shown).into_value().unwrap_or_else(|| shown.to_string());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match names.as_slice() {
        [name] => Ok(name.clone()),
        several => {
            let several = several.join(" and ");
            Err(UsageError(format!("'{text}' is on {several}; name one of these disks")))
        }
    }
}

/// The disk that frames show for a device: the one below it (LVM, md, dm-crypt) if that is one. A
/// loop device has requests of its own.
fn shown(root: &SysRoot, mounts: &[Mount], id: DeviceId) -> DeviceId {
    if root.exists(&format!("/sys/dev/block/{id}/loop")) {
        return id;
    }
    match topology::stack(root, mounts, id).leaves.as_slice() {
        [leaf] => *leaf,
        _ => id,
    }
}

/// The disks that a device or a path means, and what they are called; `None` of any other name.
fn disks(root: &SysRoot, text: &str) -> Result<Option<(String, Vec<DeviceId>)>, UsageError> {
    // /dev has directories with a filesystem of their own, such as /dev/shm.
    let is_node = text.starts_with("/dev/") && !Path::new(text).is_dir();
    if is_node || text.parse::<DeviceId>().is_ok() {
        let id = device(root, text).map_err(UsageError)?;
        return Ok(Some((text.to_owned(), vec![id])));
    }
    if text.contains('/') || text.starts_with('.') {
        return path(root, text).map(Some);
    }
    Ok(device(root, text).ok().map(|id| (text.to_owned(), vec![id])))
}

/// The process that a number names. That of a thread names its process (`Tgid` of
/// proc_pid_status(5)).
fn process_of(root: &SysRoot, number: u32) -> Option<u32> {
    let status = root.read(&format!("/proc/{number}/status")).into_value()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

/// The disks below a path's filesystem.
fn path(root: &SysRoot, text: &str) -> Result<(String, Vec<DeviceId>), UsageError> {
    let path = Path::new(text);
    // A file is on the disk of its directory, unless it is a mount point itself.
    let directory = match path.parent() {
        Some(parent) if path.is_file() && parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) if path.is_file() => parent,
        _ => path,
    };
    let location = locate(root, directory).map_err(|e| UsageError(e.to_string()))?;
    if location.queue_devices.is_empty() {
        let why = location.without_writeback.unwrap_or("no block device is below it");
        return Err(UsageError(format!(
            "'{text}' is on {}, which no disk holds ({why}); {DISKS}",
            location.mount.fs_type
        )));
    }
    Ok((location.directory.display().to_string(), location.queue_devices))
}

/// The processes of a name, and those in a unit of that name.
fn processes(root: &SysRoot, name: &str) -> Vec<u32> {
    let names = root.list("/proc").into_value().unwrap_or_default();
    let pids = names.iter().filter_map(|name| name.parse::<u32>().ok());
    pids.filter(|pid| is_called(root, *pid, name)).collect()
}

fn is_called(root: &SysRoot, pid: u32, name: &str) -> bool {
    let comm = root.read_line(&format!("/proc/{pid}/comm")).into_value();
    let kept = name.get(..NAME_BYTES).unwrap_or(name);
    // Not this process itself, whose arguments have the name.
    if pid != std::process::id() && comm.is_some_and(|comm| comm == kept) {
        return true;
    }
    let group = read_group(root, pid).into_value().unwrap_or_default();
    group.split('/').any(|part| is_unit(part, name))
}

/// Whether a part of a group's path is the unit: `backup.service`, `backup`, or for `postgresql`
/// also `postgresql@15-main.service`.
fn is_unit(part: &str, name: &str) -> bool {
    let Some(stem) = part.strip_suffix(".service") else { return part == name };
    part == name || stem == name || stem.strip_prefix(name).is_some_and(|r| r.starts_with('@'))
}

#[cfg(test)]
mod tests {
    use floodwall_testing::tree::put;

    use super::*;

    #[test]
    fn a_screen_shows_the_disk_below_a_path_or_a_device() {
        let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts");
        for (host, text, expected) in [
            ("ubuntu-24.04", "nvme0n1p2", "nvme0n1"),
            ("ubuntu-24.04", "/", "nvme0n1"),
            ("ubuntu-24.04", "/data/a/b", "sda"),
            ("rhel-8", "/var/lib/pgsql", "sda"),
            ("rhel-8", "/dev/mapper/rhel-root", "sda"),
            ("server-md-crypt-lvm", "/srv/exports", "dm-1"),
            ("server-md-crypt-lvm", "9:0", "md0"),
            ("server-md-crypt-lvm", "/build", "loop0"),
            ("server-md-crypt-lvm", "/backup", "'/backup' is on sdd and sde; name one of these"),
            ("rhel-8", "postgres", "'postgres' is no block device; name a device (sda, "),
        ] {
            let root = SysRoot::new(&hosts.join(host)).unwrap();
            let found = disk(&root, text).unwrap_or_else(|UsageError(why)| why);
            assert!(found.starts_with(expected), "{host}, {text}: {found}");
        }
    }

    #[test]
    fn a_name_is_a_process_or_a_unit() {
        let dir = tempfile::tempdir().unwrap();
        let database = "0::/system.slice/system-postgresql.slice/postgresql@15-main.service\n";
        let processes = [
            (10, "postgres", database),
            (11, "postgres", database),
            (12, "cp", "0::/system.slice/backup.service/worker\n"),
            (13, "a-very-long-nam", "0::/user.slice/user-0.slice/session-3.scope\n"),
        ];
        for (pid, name, group) in processes {
            put(&dir.path().join(format!("proc/{pid}/comm")), &format!("{name}\n"));
            put(&dir.path().join(format!("proc/{pid}/cgroup")), group);
            put(&dir.path().join(format!("proc/{pid}/status")), &format!("Tgid:\t{pid}\n"));
        }
        put(&dir.path().join("proc/14/status"), "Name:\tcp\nTgid:\t12\n");
        let root = SysRoot::new(dir.path()).unwrap();
        let pids = |text: &str| match about(&root, Some(text)) {
            Ok(About::Processes { pids, .. }) => pids,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(pids("postgres"), [10, 11]);
        assert_eq!(pids("postgresql"), [10, 11]);
        assert_eq!(pids("postgresql@15-main.service"), [10, 11]);
        assert_eq!(pids("backup"), [12]);
        assert_eq!(pids("backup.service"), [12]);
        assert_eq!(pids("a-very-long-name-of-a-program"), [13]);
        assert_eq!(pids("session-3.scope"), [13]);
        assert_eq!(pids("12"), [12]);
        assert_eq!(pids("14"), [12], "a thread");
        for nothing in ["postgre", "15", "back", "worker.service"] {
            let said = about(&root, Some(nothing)).unwrap_err().to_string();
            assert!(said.contains(nothing) && said.ends_with(ACCEPTED), "{said}");
        }
    }
}
