//! The start of a command.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::Pid;

use super::error::CommandError;
use super::sys::enter;

/// A command to run.
#[derive(Clone, Copy, Debug)]
pub struct Paced<'a> {
    /// Its program: a path, or a name that is looked for in PATH.
    pub program: &'a OsStr,
    /// The words after it.
    pub arguments: &'a [OsString],
    /// The value of [`OUTER`](super::OUTER) in the environment.
    pub outer: Option<&'a OsStr>,
    /// Intercepts the system calls that dirty pages. The word makes this program call
    /// [`keep`](super::keep) with its stdin, if it is started with that word alone.
    pub strict: Option<&'a OsStr>,
    /// The value of `XDG_RUNTIME_DIR`: where systemd's user manager is to be found.
    pub runtime_directory: Option<&'a OsStr>,
}

/// The files that are looked at, by their `st_dev`.
#[derive(Clone, Copy)]
pub struct Reach<'a> {
    /// Whether a file is on the paced disk. Closed files and intercepted calls count there alone.
    pub paced: &'a (dyn Fn(u64) -> bool + Sync),
    /// The same, or on a disk that may be paced later. Open files there are written back, too, and
    /// counted ([`Look::by_filesystem`](super::Look)).
    pub known: &'a (dyn Fn(u64) -> bool + Sync),
}

/// Starts the command in this process group, with the standard files of this process. `variable` is
/// added to its environment. The command begins in a control group, if that one's `cgroup.procs` is
/// given.
///
/// Handlers of signals end with exec, and ignored signals stay ignored, but for SIGPIPE: the
/// standard library gives each child its default disposition and an empty signal mask.
pub(super) fn start(
    paced: &Paced<'_>,
    variable: Option<(&str, String)>,
    group: Option<&Arc<OwnedFd>>,
) -> Result<Pid, CommandError> {
    let spawn = |program: &OsStr, before: &[&OsStr]| {
        let mut command = Command::new(program);
        command.args(before).args(paced.arguments);
        if let Some((name, value)) = &variable {
            command.env(name, value);
        }
        if let Some(group) = group {
            enter(&mut command, Arc::clone(group));
        }
        // Dropping a child does not end it.
        command.spawn().map(|child| Pid::from_child(&child))
    };
    let mut started = spawn(paced.program, &[]);
    if errno(&started) == Some(Errno::NOEXEC) {
        // The shell runs a script without `#!`, as execvp(3) has it.
        let words = ["-c", "exec \"$0\" \"$@\""].map(OsStr::new);
        started = spawn(OsStr::new("/bin/sh"), &[words[0], words[1], paced.program]);
    }
    let program = paced.program.to_owned();
    match errno(&started) {
        Some(Errno::NOENT) => Err(CommandError::NotFound { program }),
        Some(errno) => Err(CommandError::NotExecutable { program, errno }),
        None => started.map_err(|_| CommandError::NotExecutable { program, errno: Errno::IO }),
    }
}

fn errno(started: &std::io::Result<Pid>) -> Option<Errno> {
    started.as_ref().err().and_then(Errno::from_io_error)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use floodwall_testing::process::script;
    use rustix::process::{WaitOptions, waitpid};

    use super::*;

    fn status(program: &str, arguments: &[&str]) -> Result<i32, CommandError> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let paced = Paced {
            program: OsStr::new(program),
            arguments: &arguments,
            outer: None,
            strict: None,
            runtime_directory: None,
        };
        let pid = start(&paced, Some(("FLOODWALL_TEST", "4".to_owned())), None)?;
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
        Ok(status.exit_status().unwrap())
    }

    #[test]
    fn a_program_that_can_not_be_run_is_told_as_by_a_shell() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script");
        let program = path.to_str().unwrap();
        script(&path, "exit $1$FLOODWALL_TEST\n").unwrap();
        assert_eq!(status(program, &["3"]).unwrap(), 34);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let error = status(program, &[]).unwrap_err();
        assert_eq!(error.status(), 126);
        assert!(error.to_string().contains("Permission denied"), "{error}");
        let error = status("floodwall-no-such-program\u{1b}", &[]).unwrap_err();
        assert_eq!(error.status(), 127);
        assert_eq!(error.to_string(), "floodwall-no-such-program\\u{1b}: command not found");
        assert_eq!(status(dir.path().to_str().unwrap(), &[]).unwrap_err().status(), 126);
    }
}
