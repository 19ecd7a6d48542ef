//! A command in the filesystem of a lab that lives no longer than the command.

use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Pid, Signal, Uid};

use super::Lab;
use super::up::UpOptions;
use crate::control::LabStats;
use crate::error::LabError;

/// What [`Lab::run`] ran.
#[derive(Clone, Debug)]
pub struct Ran {
    /// How the command ended.
    pub status: ExitStatus,
    /// What the device had counted by then; absent if its server was gone.
    pub stats: Option<LabStats>,
}

/// How long a command of [`Lab::run`] is given after it was asked to end.
const COMMAND_END: Duration = Duration::from_secs(10);
/// How often it is looked at whether the command has ended.
const POLL: Duration = Duration::from_millis(5);

impl Lab {
    /// Brings a device up, runs a command in its filesystem and takes it down again, whatever the
    /// command does. The command finds the lab's name and device in `FLOODWALL_LAB` and
    /// `FLOODWALL_LAB_DEVICE`.
    ///
    /// # Errors
    /// As [`Self::up`] and [`Self::down`]; [`LabError::Command`]. If `stop` is raised the command
    /// is asked to end, and its status returned.
    pub fn run(
        &self,
        options: &UpOptions,
        command: &mut Command,
        stop: &AtomicBool,
    ) -> Result<Ran, LabError> {
        let lab = self.up(options, stop)?;
        if let Some(dir) = lab.mounts.first() {
            command.current_dir(dir);
        }
        command.env("FLOODWALL_LAB", &lab.name);
        if let Some(device) = &lab.device {
            command.env("FLOODWALL_LAB_DEVICE", device);
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let given = match (lab.mounts.first(), options.owner) {
            (Some(dir), Some(owner)) => give(dir, owner),
            _ => Ok(()),
        };
        let status =
            given.and_then(|()| command.spawn()).and_then(|mut child| wait(&mut child, stop));
        let status = status.map_err(|error| LabError::Command { command: program, error });
        let stats = self.stats(&lab.name).ok();
        let down = self.down(&lab.name);
        let status = status?;
        down.map(|()| Ran { status, stats })
    }
}

/// Gives a directory to a user. Its path has no symlinks, and none is followed: the owner of a
/// directory on the way may put one there.
fn give(dir: &Path, (uid, gid): (u32, u32)) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = match rustix::fs::openat2(CWD, dir, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Before Linux 5.6, and in containers that forbid the call.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::open(dir, flags, Mode::empty())?,
        opened => opened?,
    };
    Ok(rustix::fs::fchown(&fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
}

/// Waits for a command; asks it to end when `stop` is raised, and then makes it.
fn wait(child: &mut Child, stop: &AtomicBool) -> io::Result<ExitStatus> {
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match asked {
            None if stop.load(Ordering::Relaxed) => {
                asked = Some(Instant::now());
                if let Some(pid) = Pid::from_raw(child.id() as i32) {
                    // Not yet reaped, so the number is still its own.
                    rustix::process::kill_process(pid, Signal::TERM)?;
                }
            }
            Some(since) if since.elapsed() > COMMAND_END => child.kill()?,
            _ => {}
        }
        thread::sleep(POLL);
    }
}
