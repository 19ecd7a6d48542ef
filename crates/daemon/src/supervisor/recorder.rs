//! The recorder beside a guard (`record = true`): `floodwall record` as a child process, so that
//! nothing that happens to it happens to the guard.
//!
//! ```text
//! start ─▶ runs ─ ends by itself ─▶ pause: 1 min, 2 min … 1 h ─▶ start
//!            │                      after an hour's run, or told otherwise: from 1 min again
//!            └─ the guard ends, or record = false ─▶ SIGTERM, 5 s later SIGKILL
//! ```
//!
//! It writes to the guard's log. If the supervisor is killed, the kernel ends it
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
/// The longest pause. One that ran as long has recovered: its next pause is the first again.
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
    /// When it was started.
    started: Option<Instant>,
    /// Not to be started before.
    rests_until: Option<Instant>,
    /// How often it ended soon.
    ends: u32,
}

impl Recorder {
    /// Starts it or stops it, as is wanted; notices its end.
    pub(super) fn tend(&mut self, wanted: &Record, log: &Log) {
        let is_wanted = self.is_still(wanted) && *wanted != Record::Off;
        match &mut self.child {
            Some(child) if is_wanted => {
                if let Ok(Some(status)) = child.try_wait() {
                    self.child = None;
                    let ran = self.started.map_or(Duration::ZERO, |started| started.elapsed());
                    let pause = self.rest(ran);
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

    /// Whether the same is wanted as before. What failed before says nothing about another wish.
    fn is_still(&mut self, wanted: &Record) -> bool {
        let is_same = *wanted == self.wanted;
        if !is_same {
            self.wanted.clone_from(wanted);
            (self.rests_until, self.ends) = (None, 0);
        }
        is_same
    }

    /// How long it rests after it ended by itself, and ran so long.
    fn rest(&mut self, ran: Duration) -> Duration {
        if ran >= LONGEST_PAUSE {
            self.ends = 0;
        }
        let pause = pause(self.ends);
        self.ends = self.ends.saturating_add(1);
        pause
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
            Ok(child) => (self.child, self.started) = (Some(child), Some(Instant::now())),
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

    #[test]
    fn an_hour_s_run_and_another_directory_begin_with_the_shortest_pause() {
        let mut recorder = Recorder::default();
        let soon = Duration::from_secs(1);
        assert_eq!([(); 3].map(|()| recorder.rest(soon).as_secs()), [60, 120, 240]);
        assert_eq!(recorder.rest(LONGEST_PAUSE), PAUSE);
        assert_eq!(recorder.rest(soon), PAUSE * 2);
        recorder.rests_until = Some(Instant::now() + LONGEST_PAUSE);
        assert!(recorder.is_still(&Record::Off));
        assert!(recorder.rests_until.is_some());
        assert!(!recorder.is_still(&Record::In("/srv/recordings".into())));
        assert_eq!((recorder.rests_until, recorder.rest(soon)), (None, PAUSE));
    }
}
