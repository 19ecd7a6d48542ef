//! Limits of units written: set at run time by systemctl, or given back to the unit's own files.

use floodwall_host::SysRoot;
use floodwall_model::DeviceId;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::catalogue::files::write_once;
use crate::catalogue::systemd::ask::{number_of, show, systemctl};
use crate::catalogue::systemd::{Limit, Origin, Shown, assignments, limits_another, properties};
use crate::catalogue::target::Device;

/// Sets a limit at run time, or gives it back to the unit's own files.
///
/// # Errors
/// As [`read()`](crate::catalogue::systemd::ask::read), and EPERM; EINVAL for a device that is not
/// there.
pub(crate) fn write(root: &SysRoot, path: &str, value: &str) -> rustix::io::Result<()> {
    let limit = Limit::parse(path).ok_or(Errno::NOENT)?;
    let key = value.split(' ').next().unwrap_or_default();
    if limit.origin == Origin::UnitFiles {
        return give_back(root, &limit, key);
    }
    let kernel_file = limit.kernel_file();
    if limit.is_written_first(value) {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        match rustix::fs::open(&kernel_file, flags, Mode::empty()) {
            Ok(file) => write_once(&file, value)?,
            // systemd enables the controller, or the unit has stopped.
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    let text = show(limit.unit, properties(limit.file))?;
    let shown = Shown::new(&text);
    let number_of = |path: &str| number_of(root, path);
    let node = match key.parse::<DeviceId>() {
        // A second path of one device would be a second limit for it.
        Ok(_) => match shown.node_of(key, number_of) {
            Some(node) => node.to_owned(),
            None => Device::find(root, key).map_err(|_| Errno::INVAL)?.node(),
        },
        Err(_) => String::new(),
    };
    let mut set = assignments(limit.file, &shown.view(limit.file, number_of), value, &node);
    // The kernel's file may hold something else, as after a systemctl revert.
    if let Some(held) = root.read(&kernel_file).into_value() {
        for one in assignments(limit.file, &held, value, &node) {
            if !set.contains(&one) {
                set.push(one);
            }
        }
    }
    if set.is_empty() {
        return Ok(());
    }
    let set: Vec<String> = set.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut arguments = vec!["set-property", "--runtime", "--", limit.unit];
    arguments.extend(set.iter().map(String::as_str));
    systemctl(&arguments).map(drop)
}

/// Whether [`write()`] would be let. systemd lets other users only where polkit can ask them.
///
/// # Errors
/// EPERM.
pub(crate) fn may_write() -> rustix::io::Result<()> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(Errno::PERM) }
}

/// Removes the drop-ins of a limit, and has systemd read the unit's files again. A drop-in in which
/// another device than `number` has a limit stays: another program has set that since. If the
/// device is gone, its path has no number any more, and no path without a number keeps a drop-in.
fn give_back(root: &SysRoot, limit: &Limit<'_>, number: &str) -> rustix::io::Result<()> {
    let is_gone = !root.exists(&format!("/sys/dev/block/{number}"));
    let number_of =
        |path: &str| number_of(root, path).or_else(|| is_gone.then(|| number.to_owned()));
    for (directory, files) in limit.drop_ins() {
        for file in files {
            let text = root.read(&file).into_value().unwrap_or_default();
            if limits_another(&text, number, number_of) {
                continue;
            }
            match rustix::fs::unlink(&file) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => return Err(e),
            }
        }
        // Others may be in it.
        let _ = rustix::fs::rmdir(&directory);
    }
    systemctl(&["daemon-reload"]).map(drop)
}
