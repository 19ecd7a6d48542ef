//! The cost of a command: CPU time and peak memory, as the kernel accounted them when it ended.
//!
//! ```text
//! agree ─ spawns ─▶ agree --cost-of COMMAND ─ spawns ─▶ COMMAND
//!   ▲                  │ wait4(2): rusage, exact at exit
//!   └─ stderr's last line: "agree-cost: CPU_US PEAK_KIB"
//! ```
//!
//! The process in between is there for the peak. A process inherits as its `ru_maxrss` the peak of
//! the one that started it (fs/exec.c `exec_mmap`). A fresh copy of this program is smaller than
//! anything that it measures; one that has read a few results is not.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

/// First argument of the process in between.
pub(crate) const OPTION: &str = "--cost-of";
/// How its last line begins.
const MARK: &str = "agree-cost: ";

/// What a finished process cost.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// CPU time, user and system, all threads, in microseconds.
    pub(crate) cpu_us: u64,
    /// Peak resident memory in KiB.
    pub(crate) peak_kib: u64,
}

/// Runs a command (the program and its arguments) with this program's standard streams, and reports
/// its cost on stderr.
///
/// # Errors
/// If it can't be started or waited for.
pub(crate) fn run(command: &[OsString]) -> anyhow::Result<ExitCode> {
    let Some((program, args)) = command.split_first() else { bail!("{OPTION} takes a command") };
    let child = Command::new(program).args(args).spawn();
    let child = child
        .with_context(|| format!("can't run '{}' (make bench installs it)", program.display()))?;
    let (status, cost) = wait(child.id())?;
    eprintln!("\n{MARK}{} {}", cost.cpu_us, cost.peak_kib);
    Ok(match status.code() {
        Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        // As shells say it.
        None => ExitCode::from(128 + u8::try_from(status.signal().unwrap_or(0)).unwrap_or(0)),
    })
}

/// Splits what the process in between said: the command's own words, and its cost.
pub(crate) fn split(stderr: &str) -> Option<(&str, Cost)> {
    let (said, line) = stderr.trim_end().rsplit_once(MARK)?;
    let (cpu_us, peak_kib) = line.split_once(' ')?;
    Some((said.trim_end(), Cost { cpu_us: cpu_us.parse().ok()?, peak_kib: peak_kib.parse().ok()? }))
}

/// Waits for a child process that no other thread waits for.
#[expect(unsafe_code, reason = "neither std nor rustix gives the usage of a single child")]
fn wait(pid: u32) -> anyhow::Result<(ExitStatus, Cost)> {
    let pid = libc::pid_t::try_from(pid).context("a process number")?;
    loop {
        let mut status = 0;
        // SAFETY: rusage is a struct of integers, for which all zeros is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live variables of the types that wait4(2) fills.
        let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        if waited == pid {
            let us = |t: libc::timeval| {
                u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000
                    + u64::try_from(t.tv_usec).unwrap_or(0)
            };
            let cpu_us = us(usage.ru_utime) + us(usage.ru_stime);
            let peak_kib = u64::try_from(usage.ru_maxrss).unwrap_or(0);
            return Ok((ExitStatus::from_raw(status), Cost { cpu_us, peak_kib }));
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error).context("can't wait for the command");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_own_words_are_kept_apart_from_its_cost() {
        let cost = Cost { cpu_us: 1_234, peak_kib: 5_678 };
        assert_eq!(split("warning\n\nagree-cost: 1234 5678\n"), Some(("warning", cost)));
        assert_eq!(split("\nagree-cost: 1234 5678\n"), Some(("", cost)));
        assert_eq!(split("killed before it could tell"), None);
    }
}
