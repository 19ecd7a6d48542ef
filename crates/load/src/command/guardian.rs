//! The guardian: a shell that kills the command's group if floodwall dies.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Remembers the last group that it was told; kills it when its input ends without an empty line,
/// that is when floodwall has died.
const GUARDIAN: &str = "group=; while read -r line; do group=$line; done; \
    [ -z \"$group\" ] || kill -s KILL -- \"-$group\"";

/// Kills the command's group if floodwall dies without a chance to.
pub(super) struct Guardian {
    shell: Child,
}

impl Guardian {
    pub(super) fn spawn() -> std::io::Result<Self> {
        let shell = Command::new("/bin/sh")
            .arg("-c")
            .arg(GUARDIAN)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Out of reach of the signals that a terminal sends to floodwall's group.
            .process_group(0)
            .spawn()?;
        Ok(Self { shell })
    }

    /// Where it is told the group that it has to watch: a line with its number.
    pub(super) fn pipe(&self) -> std::io::Result<OwnedFd> {
        let pipe = self.shell.stdin.as_ref().ok_or(std::io::ErrorKind::BrokenPipe)?;
        pipe.as_fd().try_clone_to_owned()
    }

    /// The group is gone; its number may be used again.
    pub(super) fn forget(&mut self) {
        if let Some(pipe) = &mut self.shell.stdin {
            let _ = pipe.write_all(b"\n");
        }
    }

    pub(super) fn dismiss(mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
