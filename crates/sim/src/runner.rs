//! The simulator as a [`Runner`]: a machine is built for each round, and its phases run one after
//! the other as on a real host.
//!
//! ```text
//! SimOptions (device, kernel, RAM, filesystem) + Setting ─▶ Machine
//!   ─▶ for each phase: discard the floods' backlog → drain → settle → run
//! ```
//!
//! The same options, scenario, setting and round give the same trial, bit for bit, on any machine.

mod build;
mod fit;
mod round;

use floodwall_model::{PhaseKind, Runner, RunnerError, Scenario, Setting, Trial, Watch};

use crate::error::SimError;
use crate::explain::Explained;
use crate::options::SimOptions;
use crate::setup;

/// A phase's operations, each with where its time went.
#[derive(Clone, Debug)]
pub struct ExplainedPhase {
    /// Which round.
    pub round: u32,
    /// Which phase.
    pub kind: PhaseKind,
    /// In the order in which they ended.
    pub operations: Vec<Explained>,
}

/// A simulated machine on which scenarios run: deterministic, in virtual time.
#[derive(Debug)]
pub struct SimRunner {
    options: SimOptions,
    explained: Vec<ExplainedPhase>,
}

impl SimRunner {
    /// A runner. Faults of its options are reported when it runs, or by [`SimRunner::check`].
    #[must_use]
    pub fn new(options: SimOptions) -> Self {
        Self { options, explained: Vec::new() }
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &SimOptions {
        &self.options
    }

    /// Checks a scenario and a setting, and returns the setting that will be in force: every knob
    /// as it would read back.
    ///
    /// # Errors
    /// [`SimError`]: everything that [`Runner::run`] would refuse.
    pub fn check(&self, scenario: &Scenario, setting: &Setting) -> Result<Setting, SimError> {
        setup::check(scenario)?;
        if let Some(problem) = scenario.timing.problem() {
            return Err(SimError::Timing { scenario: scenario.name.clone(), problem });
        }
        let (machine, in_force) = self.build(setting, 0)?;
        self.fit_to(scenario, &machine)?;
        Ok(in_force)
    }

    /// Where the time of each operation went, phase by phase, if [`SimOptions::explain`] asked for
    /// it.
    #[must_use]
    pub fn explained(&self) -> &[ExplainedPhase] {
        &self.explained
    }
}

impl Runner for SimRunner {
    fn run(
        &mut self,
        scenario: &Scenario,
        setting: &Setting,
        round: u32,
        watch: &mut dyn Watch,
    ) -> Result<Trial, RunnerError> {
        let mut trial = Trial { setting: setting.clone(), round: round.max(1), phases: Vec::new() };
        match self.run_round(scenario, setting, &mut trial, watch) {
            Ok(()) => Ok(trial),
            Err(e) => Err(RunnerError {
                interrupted: matches!(e, SimError::Interrupted),
                source: Box::new(e),
                partial: (!trial.phases.is_empty()).then(|| Box::new(trial)),
            }),
        }
    }

    fn refusal(&self, scenario: &Scenario, setting: &Setting) -> Option<String> {
        self.check(scenario, setting).err().map(|why| why.to_string())
    }
}
