//! What the argument of `why` means: a device, a path on one, a process, or a name.
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
use floodwall_host::task::read_group;
use floodwall_host::{SysRoot, locate};
use floodwall_model::DeviceId;
use floodwall_probe::device;

use crate::exit::UsageError;

/// What may be named, for messages.
const ACCEPTED: &str = "name a device (sda, /dev/sda1, 8:0), a mount point or a path (/srv), a \
    process number, or the name of a process or unit that runs";
/// The kernel keeps this many bytes of a process's name (include/linux/sched.h `TASK_COMM_LEN`).
const NAME_BYTES: usize = 15;

/// What is asked about.
///
/// # Errors
/// [`UsageError`] if nothing here is called so.
pub(in crate::commands) fn about(root: &SysRoot, text: Option<&str>) -> Result<About, UsageError> {
    let Some(text) = text else { return Ok(About::Machine) };
    let named = text.to_owned();
    if let Ok(number) = text.parse::<u32>() {
        let pid = process_of(root, number)
            .ok_or_else(|| UsageError(format!("there is no process {number}; {ACCEPTED}")))?;
        return Ok(About::Processes { named: format!("process {pid}"), pids: vec![pid] });
    }
    // /dev has directories with a filesystem of their own, such as /dev/shm.
    let is_node = text.starts_with("/dev/") && !Path::new(text).is_dir();
    if is_node || text.parse::<DeviceId>().is_ok() {
        let id = device(root, text).map_err(UsageError)?;
        return Ok(About::Disks { named, ids: vec![id] });
    }
    if text.contains('/') || text.starts_with('.') {
        return path(root, text);
    }
    if let Ok(id) = device(root, text) {
        return Ok(About::Disks { named, ids: vec![id] });
    }
    match processes(root, text) {
        pids if pids.is_empty() => Err(UsageError(format!(
            "nothing here is called '{text}': no device, no process, no unit that runs; {ACCEPTED}"
        ))),
        pids => Ok(About::Processes { named, pids }),
    }
}

/// The process that a number names. That of a thread names its process (`Tgid` of
/// proc_pid_status(5)).
fn process_of(root: &SysRoot, number: u32) -> Option<u32> {
    let status = root.read(&format!("/proc/{number}/status")).into_value()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

/// The disks below a path's filesystem.
fn path(root: &SysRoot, text: &str) -> Result<About, UsageError> {
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
            "'{text}' is on {}, which no disk holds ({why}); {ACCEPTED}",
            location.mount.fs_type
        )));
    }
    let named = location.directory.display().to_string();
    Ok(About::Disks { named, ids: location.queue_devices })
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
