//! Processes that end with this one at the latest.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::interrupt;

const POLL: Duration = Duration::from_millis(50);

/// A command that gets a signal when the thread that starts it ends, whatever ends it.
#[must_use]
pub fn tied(signal: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", signal]).arg(program).stdin(Stdio::null());
    command
}

/// The same as another user, in none of the caller's groups.
#[must_use]
pub fn tied_as(user: &str, signal: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    let who = [format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".into()];
    command
        .args(who)
        .args(["--pdeathsig", signal])
        .arg(program)
        .stdin(Stdio::null())
        .current_dir("/");
    command
}

/// Runs a command to its end, or until a signal comes, and returns what it printed.
///
/// # Errors
/// A command that can't be run or fails, or a signal that came before its end.
pub fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = interrupt::output(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    printed(command, &output)
}

/// The same for commands that must not be interrupted.
///
/// # Errors
/// A command that can't be run or fails.
pub fn finished(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("can't run {:?}", command.get_program()))?;
    printed(command, &output)
}

fn printed(command: &Command, output: &Output) -> anyhow::Result<String> {
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} ended with {}: {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Asks a process to end with one signal, and after some time with SIGKILL; waits for it.
///
/// # Errors
/// A process that can't be asked or waited for.
pub fn end(
    child: &mut Child,
    signal: &str,
    patience: Duration,
) -> anyhow::Result<std::process::ExitStatus> {
    let begin = Instant::now();
    if let Some(status) = child.try_wait().context("can't wait")? {
        return Ok(status);
    }
    finished(Command::new("kill").args(["-s", signal, &child.id().to_string()]))?;
    while begin.elapsed() < patience {
        if let Some(status) = child.try_wait().context("can't wait")? {
            return Ok(status);
        }
        std::thread::sleep(POLL);
    }
    child.kill().context("can't kill")?;
    child.wait().context("can't wait")
}

/// Asks again and again until `ready`, for so long at the most; fails at once when the process ends
/// or a signal comes.
///
/// # Errors
/// A process that has ended, a signal that came, or time that is up.
pub fn until(
    child: &mut Child,
    what: &str,
    patience: Duration,
    mut ready: impl FnMut() -> bool,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !ready() {
        if let Some(status) = child.try_wait().context("can't wait")? {
            bail!("{what} ended with {status}");
        }
        if begin.elapsed() > patience {
            bail!("{what} is not ready after {} s", patience.as_secs());
        }
        interrupt::sleep(POLL)?;
    }
    Ok(())
}

/// A process's bytes written by system calls (`wchar` of /proc/PID/io); 0 if it is gone.
pub fn bytes_written(pid: u32) -> u64 {
    let text = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("io"))
        .unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap_or(0)
}
