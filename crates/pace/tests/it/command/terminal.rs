//! Signals of a terminal. The kernel sends them, to all processes in the foreground.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use floodwall_testing::{Trial, lacks, until};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::write;
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::tcgetpgrp;

use super::pacing::{FAST, PACED, directory};

/// The longest wait for steps that take some milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Ctrl-C.
const INTERRUPT: &[u8] = b"\x03";

pub(crate) fn tests() -> Vec<Trial> {
    floodwall_testing::tests![|| lacks(&["setsid"]) => ctrl_c_ends_it_from_its_first_moment]
}

/// A new terminal, as the emulator and as a process have it.
fn terminal() -> (OwnedFd, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let its = open(&*ptsname(&ours, Vec::new()).unwrap(), flags, Mode::empty()).unwrap();
    (ours, its)
}

fn ctrl_c_ends_it_from_its_first_moment() {
    let dir = directory();
    for tenths_of_ms in (0..200).step_by(4) {
        let (ours, its) = terminal();
        let mut process = Command::new("setsid");
        process.arg("--ctty").arg(std::env::current_exe().unwrap()).args([PACED, FAST]);
        process.arg(dir.path()).args(["sleep", "60"]).stdin(its).stderr(Stdio::null());
        let mut child = process.spawn().unwrap();
        drop(process);
        let own = Pid::from_child(&child);
        let begin = Instant::now();
        while tcgetpgrp(&ours) != Ok(own) {
            assert!(begin.elapsed() < PATIENCE, "it does not get the terminal");
            sleep(Duration::from_micros(50));
        }
        sleep(Duration::from_micros(100 * tenths_of_ms));
        write(&ours, INTERRUPT).unwrap();
        let ended = until(PATIENCE, "it ends", || child.try_wait().unwrap().is_some());
        if let Err(error) = ended {
            // The command ends with the terminal.
            let _ = child.kill();
            panic!("{tenths_of_ms}: {error}");
        }
        let status = child.wait().unwrap();
        let is_interrupted =
            status.code() == Some(130) || status.signal() == Some(Signal::INT.as_raw());
        assert!(is_interrupted, "{tenths_of_ms}: {status}");
    }
}
