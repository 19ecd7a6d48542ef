//! The time that a check may take. What is not measured by then is left out, and the reason is
//! told.
//!
//! ```text
//! Deadline::start ─▶ a thread that sleeps ─▶ the stop flag, as if by a signal ─▶ the run ends
//!                                                                                └▶ is_over()
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use floodwall_model::units::human_duration;

/// The time of a check with runs of [`USUAL_MEASURE`].
const USUAL: Duration = Duration::from_secs(120);
const USUAL_MEASURE: Duration = Duration::from_secs(10);
/// Runs of a check.
const RUNS: u32 = 3;
/// Time to end and to remove the scratch files, at most a tenth of all.
const CLOSING: Duration = Duration::from_secs(10);
/// A guarded run begins only if this and the measured part are left: the guard has to begin, the
/// flood has to fill the page cache, and the settings are put back.
const GUARDED: Duration = Duration::from_secs(20);

/// The end of a check's time.
pub(super) struct Deadline {
    time: Duration,
    end: Instant,
    over: Arc<AtomicBool>,
}

impl Deadline {
    /// A check that began then may take this long, or what is usual. `stop` is raised at its end.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn start(
        began: Instant,
        given: Option<Duration>,
        measure: Duration,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        let time = given.unwrap_or(USUAL + RUNS * measure.saturating_sub(USUAL_MEASURE));
        let end = began + (time - CLOSING.min(time / 10));
        let deadline = Self { time, end, over: Arc::default() };
        let (over, stop) = (Arc::clone(&deadline.over), Arc::clone(stop));
        let wait = move || {
            thread::sleep(end.saturating_duration_since(Instant::now()));
            // A signal that came before says that the user wants no result.
            if !stop.load(Ordering::Relaxed) {
                over.store(true, Ordering::Relaxed);
                stop.store(true, Ordering::Relaxed);
            }
        };
        let spawned = thread::Builder::new().name("fw-deadline".into()).spawn(wait);
        spawned.context("can't start a thread")?;
        Ok(deadline)
    }

    /// Whether the time ended the run.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Why a run is left out that time ended.
    pub(super) fn why(&self) -> String {
        format!("it did not end within the check's {}", human_duration(self.time))
    }

    /// Why no guarded run begins any more; `None` if one may.
    pub(super) fn refusal(&self, measure: Duration) -> Option<String> {
        let left = self.end.saturating_duration_since(Instant::now());
        (left < GUARDED + measure).then(|| {
            format!(
                "of the check's {} only {} are left",
                human_duration(self.time),
                human_duration(Duration::from_secs(left.as_secs()))
            )
        })
    }
}
