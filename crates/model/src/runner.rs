//! A runner: whatever can run a trial (this host, a lab device, the simulator).

use std::error::Error;

use crate::scenario::Scenario;
use crate::setting::Setting;
use crate::trial::{Interval, PhaseKind, Trial};

/// Something on which a scenario can be run.
pub trait Runner {
    /// Runs a scenario once under a setting and measures everything.
    ///
    /// An empty setting means whatever is in force. `watch` is told what happens and may stop the
    /// run at any moment.
    ///
    /// # Errors
    /// [`RunnerError`]; the measurements until then are in [`RunnerError::partial`]. In either case
    /// the runner is as it was before.
    fn run(
        &mut self,
        scenario: &Scenario,
        setting: &Setting,
        round: u32,
        watch: &mut dyn Watch,
    ) -> Result<Trial, RunnerError>;

    /// Why a setting could not be run, as far as that is known without running it; `None` if
    /// nothing is known against it.
    fn refusal(&self, _scenario: &Scenario, _setting: &Setting) -> Option<String> {
        None
    }
}

/// What a runner tells while it runs. Every method has an empty default, so `()` watches nothing.
pub trait Watch {
    /// A step began (prefill, settle, warm-up, a phase's measured part …), expected to last this
    /// many seconds.
    fn step(&mut self, _step: Step<'_>) {}
    /// Another second of the current step has passed.
    fn second(&mut self, _second: &Second<'_>) {}
    /// Something that the user should know at once.
    fn warn(&mut self, _message: &str) {}
    /// The same once for all messages of a kind, which differ in their figures.
    fn warn_once(&mut self, _kind: &'static str, message: &str) {
        self.warn(message);
    }
    /// Whether the run should stop now.
    fn stop(&self) -> bool {
        false
    }
}

impl Watch for () {}

/// A step of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step<'a> {
    /// The step, for people: `prefilling`, `settling`, `warming up`, `measuring` …
    pub what: &'a str,
    /// The phase that it belongs to, if any.
    pub phase: Option<PhaseKind>,
    /// The round, counted from 1; 0 before the first.
    pub round: u32,
    /// How long it should take, in seconds; 0 if it can't be told beforehand (prefill, whose
    /// progress is [`Second::done`]).
    pub expected_s: f64,
}

/// One second of a running step, for a live display.
#[derive(Clone, Copy, Debug)]
pub struct Second<'a> {
    /// Since the run began, in seconds.
    pub elapsed_s: f64,
    /// How far the current step is, from 0 to 1, where that is known (prefill).
    pub done: Option<f64>,
    /// The figures of this second.
    pub interval: Option<&'a Interval>,
    /// Drain rate seen so far, in bytes per second, while backlogged.
    pub drain_bytes_per_s: Option<f64>,
}

/// A trial that failed.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct RunnerError {
    /// Why.
    pub source: Box<dyn Error + Send + Sync>,
    /// The phases until then.
    pub partial: Option<Box<Trial>>,
    /// Whether the user or the system asked for the stop (a signal), as opposed to a failure.
    pub interrupted: bool,
}
