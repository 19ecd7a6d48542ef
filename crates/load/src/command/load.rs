//! A command that can be started: its user, directory and output, and why it failed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use floodwall_model::printable::printable;
use rustix::fs::{Mode, OFlags, fchmod, fchown};
use rustix::io::Errno;

use super::exec::{die_with_floodwall, enter, join, leave_session};
use super::guardian::Guardian;
use crate::dir::Dir;
use crate::error::{LoadError, MAKE_DIRECTORY};
use crate::file::NamedFile;
use crate::user::User;

/// How much of a command's output is searched for its last line, in bytes.
const TAIL: u64 = 4096;
/// The directory of commands that run as another user. No load's directory has this name: those
/// have no dot.
const COMMANDS: &str = ".commands";
/// What a command is in its scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Victim,
    Flood,
}

/// A command that can be started.
#[derive(Clone, Debug)]
pub(crate) struct CommandLoad {
    pub(super) command: String,
    user: Option<User>,
    /// Where it runs.
    cwd: Arc<Dir>,
    stdout: Arc<Output>,
    stderr: Arc<Output>,
    pub(super) role: Role,
}

/// A file that a command writes to. It stays open, so that a command can't put another in its
/// place.
#[derive(Debug)]
struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    fn create(dir: &Dir, name: &str, user: Option<&User>) -> Result<Arc<Self>, LoadError> {
        let made = NamedFile::create(dir, name, OFlags::RDWR | OFlags::APPEND)?;
        if let Some(user) = user {
            // For commands that open /dev/stdout or /dev/stderr.
            let (uid, gid) = user.ids();
            fchown(&made.fd, Some(uid), Some(gid))
                .map_err(|e| made.failed("change the owner of", e))?;
        }
        Ok(Arc::new(Self { path: made.path, file: made.fd.into() }))
    }

    /// What a command gets, emptied.
    fn begin(&self) -> Result<Stdio, LoadError> {
        let begun = self.file.set_len(0).and_then(|()| self.file.try_clone());
        begun.map(Stdio::from).map_err(|e| LoadError::io("empty", &self.path, e))
    }
}

impl CommandLoad {
    /// A command that runs in `dir`, as the caller. Of another user the commands run in a directory
    /// of that user in `dir`. `own` is a directory for its output.
    pub(crate) fn new(
        command: &str,
        dir: &Dir,
        own: &Dir,
        role: Role,
        user: Option<&User>,
    ) -> Result<Self, LoadError> {
        let cwd = match user {
            Some(user) => directory_of(user, dir)?,
            None => dir.try_clone().map_err(|e| LoadError::io("open", dir.path(), e))?,
        };
        Ok(Self {
            command: command.into(),
            user: user.cloned(),
            cwd: Arc::new(cwd),
            stdout: Output::create(own, "stdout.log", user)?,
            stderr: Output::create(own, "stderr.log", user)?,
            role,
        })
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        vec![self.stdout.path.clone(), self.stderr.path.clone()]
    }

    pub(super) fn spawn_error(&self, error: &std::io::Error) -> LoadError {
        LoadError::Spawn {
            command: self.command.clone(),
            errno: Errno::from_io_error(error).unwrap_or(Errno::IO),
        }
    }

    pub(super) fn spawn(
        &self,
        guardian: &Guardian,
        cgroup: Option<&Arc<File>>,
    ) -> Result<Child, LoadError> {
        let mut shell = Command::new("/bin/sh");
        shell
            .arg("-c")
            .arg(&self.command)
            .stdin(Stdio::null())
            .stdout(self.stdout.begin()?)
            .stderr(self.stderr.begin()?);
        enter(&mut shell, Arc::clone(&self.cwd));
        if let Some(cgroup) = cgroup {
            join(&mut shell, Arc::clone(cgroup));
        }
        match &self.user {
            Some(user) => {
                leave_session(&mut shell);
                user.runs(&mut shell);
            }
            None => drop(shell.process_group(0)),
        }
        let pipe = guardian.pipe().map_err(|e| self.spawn_error(&e))?;
        // After the change of user, which takes the signal at the parent's death back (prctl(2)).
        die_with_floodwall(&mut shell, pipe);
        shell.spawn().map_err(|e| self.spawn_error(&e))
    }

    /// Why the command is a failure; `None` if it isn't.
    pub(super) fn judge(&self, status: ExitStatus) -> Option<LoadError> {
        let outcome = match (status.code(), status.signal()) {
            (Some(0), _) => return None,
            (Some(126), _) => "exited with status 126 (can't be executed)".into(),
            (Some(127), _) => "exited with status 127 (not found)".into(),
            (Some(code), _) => format!("exited with status {code}"),
            (None, Some(signal)) => format!("was killed by signal {signal}"),
            (None, None) => "ended in a way that the kernel does not tell".into(),
        };
        let last_line = last_line(&self.stderr.file).or_else(|| last_line(&self.stdout.file));
        Some(LoadError::Command { command: self.command.clone(), outcome, last_line })
    }
}

/// The directory in `dir` in which a user's commands run, and that belongs to that user. It is made
/// for the first.
fn directory_of(user: &User, dir: &Dir) -> Result<Dir, LoadError> {
    let failed = |e| LoadError::io(MAKE_DIRECTORY, dir.path().join(COMMANDS), e);
    let own = match dir.make_dir(COMMANDS) {
        Err(Errno::EXIST) => return dir.open_dir(COMMANDS).map_err(failed),
        made => made.map_err(failed)?,
    };
    let (uid, gid) = user.ids();
    fchown(&own, Some(uid), Some(gid)).map_err(failed)?;
    // The user must get through `dir` to it by its path, and nothing else.
    fchmod(dir, Mode::RWXU | Mode::XGRP | Mode::XOTH).map_err(failed)?;
    Ok(own)
}

/// The last line with something in it, made safe for a terminal: any program has written it.
fn last_line(file: &File) -> Option<String> {
    let len = file.metadata().ok()?.len();
    let tail = len.min(TAIL);
    let mut bytes = vec![0; tail as usize];
    file.read_exact_at(&mut bytes, len - tail).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(|line| printable(line).into_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_line_is_the_last_with_something_in_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(last_line(file.as_file()), None);
        file.as_file().write_all(b"first\nno such database\n\n  \n").unwrap();
        assert_eq!(last_line(file.as_file()).as_deref(), Some("no such database"));
        file.as_file().write_all(b"\x1b]0;root\x07 \xe2\x80\xae\n").unwrap();
        assert_eq!(last_line(file.as_file()).as_deref(), Some(r"\u{1b}]0;root\u{7} \u{202e}"));
    }

    #[test]
    fn outcomes_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let dir = Dir::open(dir.path()).unwrap();
        let load = CommandLoad::new("x", &dir, &dir, Role::Flood, None).unwrap();
        assert_eq!(load.judge(ExitStatus::from_raw(0)), None);
        for (raw, part) in
            [(127 << 8, "status 127 (not found)"), (3 << 8, "status 3"), (9, "killed by signal 9")]
        {
            let message = load.judge(ExitStatus::from_raw(raw)).unwrap().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
