//! A scope of systemd's user manager for this process, which may divide it.
//!
//! The manager moves this process into the scope (`StartTransientUnit` with `PIDs`,
//! org.freedesktop.systemd1(5)), as `systemd-run --user --scope` has it done. busctl asks for it.
//! So this process stays as it is, with terminal, standard files, signals and directory.
//!
//! The manager ends its scopes when the user's last session ends, unless the user lingers
//! (loginctl(1)). A command that is to outlive its session (`nohup`) gets no scope there.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_host::task::read_group;
use floodwall_load::user_name;
use rustix::process::{geteuid, getpid};

use crate::command::sys::ignores;

/// How long the manager may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks at whether it is done.
const POLL: Duration = Duration::from_millis(5);
/// Names of users who linger.
const LINGER: &str = "/var/lib/systemd/linger";

/// Has this process moved into a scope. `Err` has the reason why not, for people.
pub(super) fn enter_scope(
    root: &SysRoot,
    own_group: &Path,
    runtime_directory: Option<&OsStr>,
) -> Result<(), String> {
    let lacks = "no user manager of systemd is there to ask";
    let directory = runtime_directory.filter(|_| !geteuid().is_root()).ok_or(lacks)?;
    if !Path::new(directory).join("bus").exists() {
        return Err(lacks.to_owned());
    }
    let is_of_manager = own_group.iter().any(|part| part.as_encoded_bytes().starts_with(b"user@"));
    let lingers = || {
        let name = user_name(geteuid().as_raw());
        name.is_some_and(|name| root.exists(&format!("{LINGER}/{name}")))
    };
    if ignores(libc::SIGHUP) && !is_of_manager && !lingers() {
        return Err("systemd would end it with the session (loginctl enable-linger)".to_owned());
    }
    let scope = format!("floodwall-pace-{}.scope", getpid());
    let asked = ask(&scope).map_err(|error| format!("busctl: {error}"))?;
    let is_there = || read_group(root, "self").value().is_some_and(|group| group.ends_with(&scope));
    let begin = Instant::now();
    while asked && !is_there() && begin.elapsed() < PATIENCE {
        sleep(POLL);
    }
    if is_there() { Ok(()) } else { Err("systemd's user manager made no scope".to_owned()) }
}

/// Asks for the scope. Returns whether the manager has taken the job.
fn ask(scope: &str) -> std::io::Result<bool> {
    const CALL: [&str; 7] = [
        "--user",
        "--quiet",
        "call",
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
        "StartTransientUnit",
    ];
    let pid = getpid().to_string();
    let pids = ["PIDs", "au", "1", &pid];
    let mut child = Command::new("busctl")
        .args(CALL)
        .args(["ssa(sv)a(sa(sv))", scope, "fail", "3"])
        .args(pids)
        .args(["Delegate", "b", "true"])
        .args(["CollectMode", "s", "inactive-or-failed"])
        .arg("0")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let begin = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(status.success()),
            None if begin.elapsed() < PATIENCE => sleep(POLL),
            None => {
                child.kill()?;
                child.wait()?;
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_bus_there_is_nobody_to_ask() {
        let dir = tempfile::tempdir().unwrap();
        let root = SysRoot::live().unwrap();
        let group = Path::new("/sys/fs/cgroup");
        assert!(enter_scope(&root, group, None).is_err());
        assert!(enter_scope(&root, group, Some(dir.path().as_os_str())).is_err());
    }
}
