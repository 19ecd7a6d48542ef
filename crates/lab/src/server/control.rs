//! The server's side of the control socket: one thread a caller, none of them in the way of a
//! request.

use std::io::{self, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::fuse::Reply;
use crate::control::{self, Answer, LabStats, PowerCut, Request, StoreStats};
use crate::engine::{Engine, Pace};
use crate::error::LabError;
use crate::process;
use crate::recorder::{About, HEADER};
use crate::state::{Spec, StateDir};
use crate::store::StoreError;

/// Callers served at once.
const CALLERS: usize = 16;
/// A caller that does not read for this long is hung up on.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often new records are looked for.
const RECORD_EVERY: Duration = Duration::from_millis(50);
/// Records copied at once: so few that the thread that answers requests does not wait for it.
const RECORD_BATCH: usize = 1_024;

/// What a control thread needs.
pub(super) struct Control {
    spec: Spec,
    engine: Arc<Engine<Reply>>,
    callers: AtomicUsize,
}

impl Control {
    /// Opens the socket and serves it in the background.
    pub(super) fn listen(
        state: &StateDir,
        spec: Spec,
        engine: Arc<Engine<Reply>>,
    ) -> Result<(), LabError> {
        let path = state.control();
        let listener =
            UnixListener::bind(&path).map_err(|e| LabError::io("listen on", &path, e))?;
        let control = Arc::new(Self { spec, engine, callers: AtomicUsize::new(0) });
        process::start_thread("lab-control", move || {
            for stream in listener.incoming().flatten() {
                if control.callers.fetch_add(1, Ordering::Relaxed) < CALLERS {
                    let control = control.clone();
                    let serve = move || {
                        // A caller that went away needs no answer.
                        let _ = control.serve(stream);
                        control.callers.fetch_sub(1, Ordering::Relaxed);
                    };
                    if process::start_thread("lab-caller", serve).is_ok() {
                        continue;
                    }
                }
                control.callers.fetch_sub(1, Ordering::Relaxed);
            }
        })
        .map(drop)
    }

    fn serve(&self, mut stream: UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let request = control::receive(&mut BufReader::new(&stream));
        let answer = match &request {
            None => Answer::Failed {
                said: "the request can't be understood; caller and server must be the same version"
                    .into(),
            },
            Some(Request::Ping | Request::Record { .. }) => Answer::Done,
            Some(Request::Begin) => {
                self.engine.set_pace(Pace::Modelled);
                Answer::Done
            }
            Some(Request::Hurry) => {
                self.engine.set_pace(Pace::Instant);
                Answer::Done
            }
            Some(Request::Stats) => Answer::Stats(Box::new(self.stats())),
            Some(Request::PowerCut) => self.powercut(),
            Some(Request::PowerUp) => {
                self.engine.power_up();
                Answer::Done
            }
        };
        control::send(&mut stream, &answer)?;
        match request {
            Some(Request::Record { from_start, follow }) => {
                self.record(&mut stream, from_start, follow)
            }
            _ => Ok(()),
        }
    }

    fn powercut(&self) -> Answer {
        match self.engine.powercut() {
            Ok(cut) => {
                Answer::PowerCut(PowerCut { lost_bytes: cut.lost_bytes, in_flight: cut.in_flight })
            }
            Err(StoreError::Full) => Answer::Failed {
                said: "the power is off, but older contents did not all fit into memory; give \
                       the lab more"
                    .into(),
            },
            Err(StoreError::Spill(e)) => {
                Answer::Failed { said: format!("the power is off, but the spill file failed: {e}") }
            }
        }
    }

    fn stats(&self) -> LabStats {
        let (time, device, usage) = self.engine.stats();
        let (recorded_and_gone, recorded) = self.engine.recording(|r| (r.start(), r.end()));
        LabStats {
            name: self.spec.name.clone(),
            preset: self.spec.preset.clone(),
            size_bytes: self.spec.size.0,
            uptime_s: time.as_secs_f64(),
            power: self.engine.has_power(),
            device,
            store: StoreStats {
                memory_bytes: usage.memory_bytes,
                memory_limit_bytes: self.spec.memory.0,
                spilled_bytes: usage.spilled_bytes,
                undo_bytes: usage.undo_bytes,
                undo_dropped_pages: usage.undo_dropped,
            },
            timings: self.engine.timings(),
            recorded,
            recorded_and_gone,
        }
    }

    fn about(&self) -> About<'_> {
        let (time, ..) = self.engine.stats();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        About {
            name: &self.spec.name,
            preset: &self.spec.preset,
            size_bytes: self.spec.size.0,
            time_zero_unix_s: unix.as_secs_f64() - time.as_secs_f64(),
        }
    }

    /// Sends the recording as CSV. What the ring no longer had is told in a comment.
    fn record(&self, stream: &mut UnixStream, from_start: bool, follow: bool) -> io::Result<()> {
        stream.write_all(HEADER.as_bytes())?;
        stream.write_all(self.about().line()?.as_bytes())?;
        let (mut next, end) =
            self.engine.recording(|r| (if from_start { r.start() } else { r.end() }, r.end()));
        let mut text = String::new();
        loop {
            let batch = if follow {
                RECORD_BATCH
            } else {
                RECORD_BATCH.min((end - next.min(end)) as usize)
            };
            let (events, missed) = self.engine.recording(|r| r.since(next, batch));
            text.clear();
            if missed > 0 {
                text.push_str(&format!(
                    "# {missed} requests missing: they came faster than they were read\n"
                ));
            }
            for event in &events {
                event.write_csv(&mut text);
            }
            stream.write_all(text.as_bytes())?;
            next += missed + events.len() as u64;
            if !follow && next >= end {
                return Ok(());
            }
            if events.is_empty() {
                // Tells a caller that hung up from one that waits: callers send nothing here.
                if hung_up(stream) {
                    return Ok(());
                }
                std::thread::sleep(RECORD_EVERY);
            }
        }
    }
}

fn hung_up(stream: &UnixStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
    poll(&mut fds, Some(&now)).is_ok_and(|n| n > 0)
}
