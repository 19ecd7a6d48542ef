//! The recorder beside a guard (`record = true`): `floodwall record` as a child process, so that
//! nothing that happens to it happens to the guard.
//!
//! ```text
//! start ─▶ runs ─ ends by itself ─▶ pause: 1 min, 2 min … 1 h ─▶ start
//!            └─ the guard ends, or record = false ─▶ SIGTERM, 5 s later SIGKILL
//! ```
//!
//! It says in the same log what it has to say. If the supervisor is killed, the kernel ends it
//! (`PR_SET_PDEATHSIG`).

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::child::this_program;
use crate::config::Record;
use crate::log::{Log, Priority};

/// What the program is called with.
const ARGUMENTS: [&str; 2] = ["record", "--with-parent"];
/// The pause after its first end; each next one is twice as long.
const PAUSE: Duration = Duration::from_secs(60);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// How long it may take to write its last frames.
const STOP: Duration = Duration::from_secs(5);
/// Between two looks at one that is to end.
const NAP: Duration = Duration::from_millis(20);

/// The recorder, if one is wanted.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    child: Option<Child>,
    /// As of the last call. One that is to write elsewhere is stopped first.
    wanted: Record,
    /// Not to be started before.
    rests_until: Option<Instant>,
    ends: u32,
}

impl Recorder {
    /// Starts it or stops it, as is wanted; notices its end.
    pub(super) fn tend(&mut self, wanted: &Record, log: &Log) {
        let is_wanted = *wanted != Record::Off && *wanted == self.wanted;
        self.wanted.clone_from(wanted);
        match &mut self.child {
            Some(child) if is_wanted => {
                if let Ok(Some(status)) = child.try_wait() {
                    self.child = None;
                    let pause = pause(self.ends);
                    self.ends += 1;
                    self.rests_until = Some(Instant::now() + pause);
                    let minutes = pause.as_secs() / 60;
                    log.say(
                        Priority::Warning,
                        &format!(
                            "the recorder has ended ({status}); it is started again in {minutes} \
                             min"
                        ),
                    );
                }
            }
            Some(_) => self.stop(),
            None if self.rests_until.is_none_or(|until| until <= Instant::now()) => self.start(log),
            None => {}
        }
    }

    fn start(&mut self, log: &Log) {
        let mut program = this_program();
        program.args(ARGUMENTS).stdin(Stdio::null());
        match &self.wanted {
            Record::Off => return,
            Record::Usual => {}
            Record::In(directory) => {
                program.arg("--dir").arg(directory);
            }
        }
        match program.spawn() {
            Ok(child) => self.child = Some(child),
            Err(error) => {
                self.rests_until = Some(Instant::now() + PAUSE);
                log.say(Priority::Warning, &format!("can't start the recorder: {error}"));
            }
        }
    }

    /// Stops it. One that hangs in a write is left to the kernel.
    pub(super) fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let _ = rustix::process::kill_process(Pid::from_child(&child), Signal::TERM);
        let end = Instant::now() + STOP;
        while Instant::now() < end {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(NAP);
        }
        let _ = child.kill();
        let _ = child.try_wait();
    }
}

fn pause(ends: u32) -> Duration {
    PAUSE.saturating_mul(2_u32.saturating_pow(ends)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorder_that_ends_again_and_again_is_started_less_often() {
        let minutes = [0, 1, 2, 5, 6, 60].map(|ends| pause(ends).as_secs() / 60);
        assert_eq!(minutes, [1, 2, 4, 32, 60, 60]);
    }
}
