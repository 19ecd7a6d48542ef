//! Runs on threads, results one batch after the other to their keeper, progress on stderr.
//!
//! A worker takes the next free run. Results are handed over in the order in which they end. While
//! one batch is being synced the next gathers, so a slow disk makes batches larger and not the
//! sweep slower.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_model::Watch;
use floodwall_model::units::human_duration;
use floodwall_sim::sweep::{Figures, Run, Sweep};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::{notice, stderr_is_terminal};

/// How often progress is looked at.
const TICK: Duration = Duration::from_millis(250);
/// How often a line says it where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// Ends a run when either flag is up.
struct Flags<'a> {
    stop: &'a AtomicBool,
    halt: &'a AtomicBool,
}

impl Watch for Flags<'_> {
    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.halt.load(Ordering::Relaxed)
    }
}

/// Does all runs on `jobs` threads and hands the results to `keep`, until `stop` is raised or
/// `keep` fails.
///
/// # Errors
/// What `keep` says; runs under way are then given up.
pub(super) fn run(
    sweep: &Sweep,
    runs: &[Run],
    jobs: usize,
    stop: &AtomicBool,
    meter: &mut Meter,
    mut keep: impl FnMut(Vec<(Run, Figures)>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let halt = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    let kept = thread::scope(|scope| {
        for _ in 0..jobs.min(runs.len()) {
            let (sender, next, halt) = (sender.clone(), &next, &halt);
            scope.spawn(move || {
                let mut flags = Flags { stop, halt };
                while !flags.stop() {
                    let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    let Some(figures) = guarded(sweep, *run, &mut flags) else { break };
                    if sender.send((*run, figures)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut kept = Ok(());
        loop {
            match receiver.recv_timeout(TICK) {
                Ok(first) => {
                    let batch: Vec<_> = std::iter::once(first).chain(receiver.try_iter()).collect();
                    meter.done(batch.len());
                    kept = keep(batch);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            meter.show();
            if kept.is_err() {
                halt.store(true, Ordering::Relaxed);
                break;
            }
        }
        kept
    });
    meter.finish();
    kept
}

/// A run that panics (a bug of the model) costs its row and not the sweep.
fn guarded(sweep: &Sweep, run: Run, flags: &mut Flags<'_>) -> Option<Figures> {
    catch_unwind(AssertUnwindSafe(|| sweep.run(run.which, flags))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text
            .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
            .unwrap_or_default();
        Some(Figures::impossible(format!(
            "the simulator panicked, which is a bug of floodwall's: {text}"
        )))
    })
}

/// Progress on stderr: a bar on a terminal, else a line now and then.
pub(super) struct Meter {
    bar: Option<ProgressBar>,
    quiet: bool,
    all: usize,
    done: usize,
    /// Done before this process.
    before: usize,
    began: Instant,
    said: Instant,
}

impl Meter {
    /// For so many runs; some of them were done before.
    pub(super) fn new(all: usize, before: usize, quiet: bool) -> Self {
        let bar = (!quiet && stderr_is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(
                Some(all as u64),
                ProgressDrawTarget::stderr_with_hz(4),
            );
            let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        let now = Instant::now();
        Self { bar, quiet, all, done: before, before, began: now, said: now }
    }

    fn done(&mut self, runs: usize) {
        self.done += runs;
    }

    fn show(&mut self) {
        if let Some(bar) = &self.bar {
            bar.set_position(self.done as u64);
            bar.set_message(line(self.all, self.done, self.before, self.began.elapsed()));
        } else if !self.quiet && self.said.elapsed() >= LINE_EVERY {
            self.said = Instant::now();
            notice(&line(self.all, self.done, self.before, self.began.elapsed()));
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(all: usize, done: usize, before: usize, elapsed: Duration) -> String {
    let rate = (done - before) as f64 / elapsed.as_secs_f64().max(1e-3);
    let left = if rate > 0.0 {
        let left = Duration::from_secs_f64(((all - done) as f64 / rate).ceil().min(1e9));
        format!(", {rate:.1} a second, about {} left", human_duration(left))
    } else {
        String::new()
    };
    format!("{done} of {all} runs{left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_counts_what_was_done_before_but_not_its_speed() {
        assert_eq!(
            line(100, 40, 20, Duration::from_secs(10)),
            "40 of 100 runs, 2.0 a second, about 30.0 s left"
        );
        assert_eq!(line(100, 20, 20, Duration::from_secs(10)), "20 of 100 runs");
    }
}
