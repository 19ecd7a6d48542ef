//! Runs on threads: each takes the next free run, and hands its figures over as soon as it ends.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use floodwall_model::Watch;

use super::plan::{Figures, Run, Sweep};

struct Stop<'a>(&'a AtomicBool);

impl Watch for Stop<'_> {
    fn stop(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Does all runs on `jobs` threads and hands the results to `keep`, until `stop` is raised or
/// `keep` fails.
///
/// # Errors
/// What `keep` says; runs under way are then given up.
pub(super) fn run<'a>(
    sweep: &Sweep,
    runs: &'a [Run],
    jobs: usize,
    stop: &AtomicBool,
    keep: impl FnMut(&'a Run, Figures) -> anyhow::Result<()> + Send,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let keep = Mutex::new(keep);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            let Some(figures) = guarded(sweep, run, stop) else { break };
            let mut keep = keep.lock().unwrap_or_else(PoisonError::into_inner);
            keep(run, figures).inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.min(runs.len())).map(|_| scope.spawn(work)).collect();

        workers.into_iter().try_for_each(|w| w.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// A run that panics (a bug of the model) costs its row and not the sweep.
fn guarded(sweep: &Sweep, run: &Run, stop: &AtomicBool) -> Option<Figures> {
    let simulate = || sweep.simulate(run, &mut Stop(stop));
    catch_unwind(AssertUnwindSafe(simulate)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        Some(Figures::impossible(format!(
            "the simulator panicked, which is a bug of floodwall's: {text}"
        )))
    })
}
