//! A command that `lab run` runs: its `PATH` and its end.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::exit::Exit;

/// `PATH` with this program's directory at its end: what `lab run` runs is often this program
/// again, and root's PATH seldom has the places where users install it. Absent if the directory is
/// there already, or can't be.
pub(super) fn path_with_this_program() -> Option<OsString> {
    let here = std::env::current_exe().ok()?.parent()?.to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> =
        std::env::split_paths(&path).filter(|d| !d.as_os_str().is_empty()).collect();
    if dirs.contains(&here) {
        return None;
    }
    dirs.push(here);
    std::env::join_paths(dirs).ok()
}

/// A command's exit status as this program's; a command that a signal ended has 128 and the
/// signal's number, as in a shell.
pub(super) fn status_of(status: ExitStatus) -> Exit {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).and_then(|code| u8::try_from(code).ok()).map_or(Exit::Failed, Exit::Of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commands_end_becomes_ours() {
        assert_eq!(status_of(ExitStatus::from_raw(7 << 8)), Exit::Of(7));
        assert_eq!(status_of(ExitStatus::from_raw(15)), Exit::Of(143), "ended by SIGTERM");
    }
}
