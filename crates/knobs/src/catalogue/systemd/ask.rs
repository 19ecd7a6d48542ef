//! `systemctl`: units asked about, each call bounded in time.

use std::cell::RefCell;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use floodwall_host::{SysRoot, block, mounts, topology};
use floodwall_model::printable::printable;
use floodwall_model::{DeviceId, Reading};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::{Limit, Shown, properties, section, unit_of};
use crate::catalogue::target::{Device, Target, TargetError};

/// Where systemctl may be; the environment's PATH is not asked.
const SYSTEMCTL: [&str; 2] = ["/usr/bin/systemctl", "/bin/systemctl"];
/// There while systemd is the service manager (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";
/// How long an answer is waited for. A daemon-reload takes seconds where there are many units.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at whether it has ended.
const POLL: Duration = Duration::from_millis(2);
/// More of an answer is not kept: a unit's properties are some kilobytes.
const MOST_BYTES: usize = 1 << 20;
/// Layers of stacked devices that are followed; a loop of them can't be made.
const MOST_LAYERS: u32 = 64;

thread_local! {
    /// The first line of systemctl's last error in this thread. An error number has no room for it.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

impl Target {
    /// The same; a control group that systemd manages is changed through it from here on.
    ///
    /// # Errors
    /// [`TargetError::Systemd`] if systemd runs and does not tell.
    pub fn through_systemd(self, root: &SysRoot) -> Result<Self, TargetError> {
        let Self::Group { path, device, .. } = self else { return Ok(self) };
        match manages(root, &path) {
            Ok(systemd) => Ok(Self::Group { path, device, systemd }),
            Err(why) => Err(TargetError::Systemd { group: path, why }),
        }
    }
}

/// Whether systemd manages a control group, which is named below its mount.
///
/// # Errors
/// Why that can't be told.
fn manages(root: &SysRoot, group: &str) -> Result<bool, String> {
    let unit = unit_of(group);
    if !root.is_live() || section(unit).is_none() || !root.exists(BOOTED) {
        return Ok(false);
    }
    let text = show(unit, &[]).map_err(in_words)?;
    let shown = Shown::new(&text);
    // A user's manager may have units of the same names. A unit that runs is managed also if its
    // file is gone.
    Ok(shown.get("ControlGroup").is_some_and(|path| path.trim_start_matches('/') == group))
}

/// Why systemd does not limit a device under its own number; `None` if it does.
pub(crate) fn takes_another(root: &SysRoot, device: &Device) -> Option<String> {
    let below = match device.number.parse::<DeviceId>() {
        Ok(id) if id.major != 0 => taken_for(root, id).into_value().filter(|below| *below != id)?,
        _ => {
            return Some(format!(
                "{device} has no disk, and systemd limits disks: name the disk below it"
            ));
        }
    };
    let name = block::read_name(root, below).into_value().unwrap_or_else(|| below.to_string());
    Some(format!("systemd takes {device} for the disk below it, {name}; name that"))
}

/// A unit's drop-ins that outlive a boot, in the order in which they are read; none where no
/// systemd runs.
///
/// # Errors
/// Why systemd does not tell them.
pub(crate) fn lasting_drop_ins(root: &SysRoot, unit: &str) -> Result<Vec<String>, String> {
    if !root.is_live() || !root.exists(BOOTED) {
        return Ok(Vec::new());
    }
    let text = show(unit, &[]).map_err(in_words)?;
    Ok(Shown::new(&text).drop_ins().filter(|path| !path.starts_with("/run/")).collect())
}

/// A unit's limit as systemd reports it: its view.
///
/// # Errors
/// ESRCH if systemd does not know the unit; ETIMEDOUT; EREMOTEIO for everything else that systemctl
/// fails with.
pub(crate) fn read(root: &SysRoot, path: &str) -> rustix::io::Result<String> {
    let limit = Limit::parse(path).ok_or(Errno::NOENT)?;
    let text = show(limit.unit, properties(limit.file))?;
    let shown = Shown::new(&text);
    if shown.get("LoadState") == Some("not-found") && shown.get("ControlGroup").is_none() {
        return Err(Errno::SRCH);
    }
    Ok(shown.view(limit.file, |path| number_of(root, path)))
}

/// The number of the disk behind a path as systemd takes it: a device's, or that of a file on it
/// (src/core/cgroup.c `lookup_block_device`).
pub(crate) fn number_of(root: &SysRoot, path: &str) -> Option<String> {
    let id = match block::by_path(root, path) {
        Reading::Value(id) => id,
        _ => {
            let device = rustix::fs::stat(path).ok()?.st_dev;
            let id =
                DeviceId { major: rustix::fs::major(device), minor: rustix::fs::minor(device) };
            if id.major == 0 {
                // btrfs, whose files have a device number that is no disk's.
                let mounts = mounts::read_mounts(root).into_value()?;
                let mount = mounts::covering(&mounts, Path::new(path))?;
                let [one] = topology::backing(root, mount).devices[..] else { return None };
                one
            } else {
                id
            }
        }
    };
    taken_for(root, id).into_value().map(|id| id.to_string())
}

/// The disk that systemd takes a device for: of a stacked one whose parts are all on one disk, that
/// disk (src/shared/blockdev-util.c `block_device_get_originating`). Versions differ in how many
/// layers they follow; all are followed here.
fn taken_for(root: &SysRoot, id: DeviceId) -> Reading<DeviceId> {
    let mut id = id;
    for _ in 0..MOST_LAYERS {
        let below = block::slaves(root, id);
        let mut disks = below.iter().map(|one| block::whole_disk(root, *one).into_value());
        let first = disks.next();
        match below.first() {
            Some(one) if disks.all(|disk| Some(disk) == first) => id = *one,
            _ => break,
        }
    }
    block::whole_disk(root, id)
}

/// What systemd says of a unit, some of its properties among it.
pub(crate) fn show(unit: &str, properties: &[&str]) -> rustix::io::Result<String> {
    let wanted = [&["LoadState", "ControlGroup", "DropInPaths"], properties].concat().join(",");
    systemctl(&["show", "--property", &wanted, "--", unit])
}

/// Runs systemctl, and returns its output.
pub(crate) fn systemctl(arguments: &[&str]) -> rustix::io::Result<String> {
    let program = SYSTEMCTL.iter().find(|path| Path::new(path).exists()).ok_or(Errno::NOENT)?;
    let mut command = Command::new(program);
    command.arg("--no-ask-password").args(arguments);
    run(&mut command, PATIENCE)
}

/// Runs a command for a bounded time, in a new process group and with a clean environment.
fn run(command: &mut Command, patience: Duration) -> rustix::io::Result<String> {
    let io = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
    command.env_clear().env("LANG", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    end_with_us(command);
    let mut child = command.spawn().map_err(io)?;
    let (mut out, mut err) = (Said::of(child.stdout.take())?, Said::of(child.stderr.take())?);
    let end = Instant::now() + patience;
    let mut look = || {
        let status = child.try_wait().map_err(io)?;
        // A grandchild may keep the pipes open. They are read as far as they are filled now.
        out.take()?;
        err.take()?;
        Ok(status)
    };
    let ended = loop {
        match look() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if Instant::now() < end => sleep(POLL),
            Ok(None) => break Err(Errno::TIMEDOUT),
            Err(error) => break Err(error),
        }
    };
    if ended.is_err() {
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = child.wait();
    }
    let status = ended?;
    if status.success() {
        return Ok(out.text());
    }
    let said = err.text();
    SAID.with_borrow_mut(|line| *line = said.lines().next().unwrap_or_default().to_owned());
    Err(meant(&said))
}

/// A command's output so far on one of its pipes.
struct Said<P> {
    pipe: Option<P>,
    bytes: Vec<u8>,
}

impl<P: Read + AsFd> Said<P> {
    fn of(pipe: Option<P>) -> rustix::io::Result<Self> {
        if let Some(pipe) = &pipe {
            rustix::fs::fcntl_setfl(pipe, OFlags::NONBLOCK)?;
        }
        Ok(Self { pipe, bytes: Vec::new() })
    }

    /// Takes what is in the pipe.
    fn take(&mut self) -> rustix::io::Result<()> {
        let mut buffer = [0; 4096];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(n) if self.bytes.len() < MOST_BYTES => {
                    self.bytes.extend_from_slice(buffer.get(..n).unwrap_or_default());
                }
                Ok(_) => return Err(Errno::FBIG),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Errno::from_io_error(&e).unwrap_or(Errno::IO)),
            }
        }
        Ok(())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// The command ends with this process: one that lived on could change a unit after a recovery.
#[allow(unsafe_code, reason = "what runs between fork and exec has no safe form")]
fn end_with_us(command: &mut Command) {
    let us = rustix::process::getpid();
    let tie = move || -> std::io::Result<()> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // One that ended before sends no signal.
        if rustix::process::getppid() == Some(us) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    // SAFETY: prctl(2) and getppid(2) alone: no allocation, no lock.
    unsafe {
        command.pre_exec(tie);
    }
}

/// The error of systemctl.
fn meant(said: &str) -> Errno {
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&["not found", "not loaded"]) {
        Errno::SRCH
    } else if has(&["Access denied", "Permission denied", "authentication"]) {
        Errno::PERM
    } else if has(&["timed out"]) {
        Errno::TIMEDOUT
    } else {
        Errno::REMOTEIO
    }
}

/// An error of this module for people.
pub(crate) fn in_words(error: Errno) -> String {
    match error {
        Errno::TIMEDOUT => format!("systemd did not answer within {} s", PATIENCE.as_secs()),
        Errno::SRCH => "systemd does not know the unit (any more)".to_owned(),
        Errno::NOENT => "systemd runs and systemctl is not there".to_owned(),
        Errno::REMOTEIO => match SAID.with_borrow(Clone::clone) {
            said if said.is_empty() => "systemctl failed; systemctl status tells more".to_owned(),
            said => format!("systemctl says: {}", printable(&said)),
        },
        other => std::io::Error::from(other).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let mut sleeper = Command::new("/bin/sleep");
        assert_eq!(run(sleeper.arg("1000"), Duration::from_millis(20)), Err(Errno::TIMEDOUT));
    }

    #[test]
    fn what_a_command_says_is_understood() {
        let shell = |script: &str| run(Command::new("/bin/sh").args(["-c", script]), PATIENCE);
        assert_eq!(shell("echo LoadState=loaded"), Ok("LoadState=loaded\n".to_owned()));
        // As systemd 252 says it.
        for (said, errno) in [
            ("Failed to set unit properties on a.service: Unit a.service not found.", Errno::SRCH),
            ("Failed to set unit properties on a.service: Access denied", Errno::PERM),
            ("Failed to set unit properties: Interactive authentication required.", Errno::PERM),
            ("Failed to connect to bus: No such file or directory", Errno::REMOTEIO),
        ] {
            assert_eq!(shell(&format!("echo '{said}' >&2; exit 1")), Err(errno), "{said}");
        }
        assert_eq!(
            in_words(Errno::REMOTEIO),
            "systemctl says: Failed to connect to bus: No such file or directory"
        );
        assert_eq!(run(&mut Command::new("/nosuch"), PATIENCE), Err(Errno::NOENT));
    }

    #[test]
    fn a_long_answer_and_a_child_that_lives_on_are_not_waited_for() {
        let shell = |script: &str| run(Command::new("/bin/sh").args(["-c", script]), PATIENCE);
        // More than fits into a pipe.
        let long =
            shell("i=0; while [ $i -lt 20000 ]; do echo 12345678; i=$((i + 1)); done").unwrap();
        assert_eq!(long.len(), 180_000);
        let endless = "while :; do echo 1234567890123456789012345678901234567890; done";
        assert_eq!(shell(endless), Err(Errno::FBIG));
        assert_eq!(shell("sleep 2 & echo done"), Ok("done\n".to_owned()));
    }

    #[test]
    fn a_command_has_no_environment_of_ours() {
        let said = run(&mut Command::new("/usr/bin/env"), PATIENCE).unwrap();
        assert_eq!(said, "LANG=C\n");
    }

    #[test]
    fn a_stacked_device_is_taken_for_its_only_disk() {
        let mut tree = crate::testing::machine();
        let mut put = |path: &str, text: &str| tree.insert(path.to_owned(), format!("{text}\n"));
        // A LUKS volume on a logical volume of a partition; an array of two disks.
        for (name, number, below) in [
            ("dm-0", "253:0", &["sda1"][..]),
            ("dm-1", "253:1", &["dm-0"]),
            ("md0", "9:0", &["sda1", "sdb"]),
        ] {
            let directory = format!("/sys/devices/{name}");
            put(&format!("/sys/dev/block/{number}"), &format!("->../../devices/{name}"));
            put(&format!("/sys/class/block/{name}"), &format!("->../../devices/{name}"));
            put(&format!("{directory}/dev"), number);
            put(&format!("{directory}/uevent"), &format!("DEVNAME={name}"));
            for one in below {
                put(&format!("{directory}/slaves/{one}"), &format!("->../../../class/block/{one}"));
            }
        }
        put("/sys/dev/block/8:16", "->../../devices/sdb");
        put("/sys/class/block/sdb", "->../../devices/sdb");
        put("/sys/devices/sdb/dev", "8:16");
        put("/sys/devices/dm-1/dm/name", "secret");
        let (_dir, root) = crate::testing::root_of(&tree);
        let number = |path: &str| number_of(&root, path).unwrap();
        assert_eq!(number("/dev/mapper/secret"), "8:0");
        assert_eq!(
            (number("/dev/dm-0"), number("/dev/sda1")),
            ("8:0".to_owned(), "8:0".to_owned())
        );
        assert_eq!(number("/dev/md0"), "9:0");
        let why = |name: &str| takes_another(&root, &Device::find(&root, name).unwrap());
        assert_eq!(
            why("mapper/secret").unwrap(),
            "systemd takes dm-1 for the disk below it, sda; name that"
        );
        assert_eq!((why("sda"), why("md0")), (None, None));
        let mount = Device { number: "btrfs-1".into(), name: "btrfs-1".into(), instance: None };
        assert!(takes_another(&root, &mount).unwrap().contains("has no disk"));
    }
}
