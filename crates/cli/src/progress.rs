//! What a run shows while it runs: a line a second and a bar with the time left on a terminal, a line a step elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use floodwall_model::printable::printable;
use floodwall_model::rig::{Second, Step};
use floodwall_model::units::human_duration;
use floodwall_model::{PhaseKind, Scenario, Watch};
use floodwall_report::live;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Lines between two headers of the live table.
const HEADER_EVERY: u32 = 20;
/// The bar counts milliseconds of planned time.
const PER_SECOND: f64 = 1000.0;

/// How much to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Show {
    /// Everything on a terminal, a line a step elsewhere.
    Auto,
    /// Everything: a line a second.
    Always,
    /// Warnings only.
    Never,
}

/// Shows a run on stderr, and keeps its warnings for the result.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
    steps: bool,
    stop: Arc<AtomicBool>,
    stop_said: bool,
    warnings: Vec<String>,
    /// Planned seconds of the whole run, and of the steps that are over.
    planned: Plan,
    current: Option<(PhaseKind, String)>,
    printed: u32,
    rounds: u32,
}

/// Where in the planned time the run is.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    total_s: f64,
    before_s: f64,
    step_s: f64,
    in_step_s: f64,
}

impl Plan {
    fn next(&mut self, step_s: f64) {
        self.before_s += self.step_s;
        self.step_s = step_s;
        self.in_step_s = 0.0;
    }

    fn position_s(&self) -> f64 {
        (self.before_s + self.in_step_s.min(self.step_s)).min(self.total_s)
    }
}

impl Progress {
    /// For a run of this scenario.
    pub(crate) fn new(show: Show, scenario: &Scenario, stop: Arc<AtomicBool>) -> Self {
        let terminal = crate::output::stderr_is_terminal();
        let total_s = scenario.planned_seconds();
        let bar = (terminal && show != Show::Never).then(|| {
            let bar = ProgressBar::with_draw_target(
                Some((total_s * PER_SECOND) as u64),
                ProgressDrawTarget::stderr_with_hz(4),
            );
            let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self {
            lines: show == Show::Always || bar.is_some(),
            steps: show != Show::Never && bar.is_none(),
            bar,
            stop,
            stop_said: false,
            warnings: Vec::new(),
            planned: Plan { total_s, ..Plan::default() },
            current: None,
            printed: 0,
            rounds: scenario.timing.rounds,
        }
    }

    /// For a run of so many trials of the scenario instead of its rounds.
    pub(crate) fn of_trials(mut self, trials: u32) -> Self {
        self.planned.total_s *= f64::from(trials) / f64::from(self.rounds.max(1));
        if let Some(bar) = &self.bar {
            bar.set_length((self.planned.total_s * PER_SECOND) as u64);
        }
        self
    }

    /// A line of the run's own, such as whose turn it is.
    pub(crate) fn announce(&self, line: &str) {
        if self.lines || self.steps {
            self.print(line);
        }
    }

    /// Takes the bar away and hands over the warnings.
    pub(crate) fn finish(self) -> Vec<String> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.warnings
    }

    fn print(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| crate::output::notice(line)),
            None => crate::output::notice(line),
        }
    }

    fn show_position(&self, what: &str) {
        let Some(bar) = &self.bar else { return };
        bar.set_position((self.planned.position_s() * PER_SECOND) as u64);
        let left =
            Duration::from_secs_f64((self.planned.total_s - self.planned.position_s()).max(0.0).ceil());
        bar.set_message(format!("{}, {} left at most", printable(what), human_duration(left)));
    }
}

/// What runs, in words.
fn phase_name(phase: Option<PhaseKind>) -> &'static str {
    match phase {
        Some(PhaseKind::Victim) => "victim alone",
        Some(PhaseKind::Flood) => "flood alone",
        Some(PhaseKind::Both) => "victim and flood",
        Some(PhaseKind::Burst) => "burst",
        None => "",
    }
}

impl Watch for Progress {
    fn step(&mut self, step: Step<'_>) {
        self.planned.next(step.expected_s);
        self.current = step.phase.map(|phase| (phase, step.what.to_owned()));
        let what = if step.round == 0 {
            step.what.to_owned()
        } else {
            let separator = if step.phase.is_some() { ", " } else { "" };
            // A search has as many rounds as its time allows.
            let of = if step.round > self.rounds { String::new() } else { format!(" of {}", self.rounds) };
            format!("round {}{of}: {}{separator}{}", step.round, phase_name(step.phase), step.what)
        };
        if self.steps && matches!(step.what, "measuring" | "prefilling") {
            self.print(&what);
        }
        self.show_position(&what);
    }

    fn second(&mut self, second: &Second<'_>) {
        self.planned.in_step_s += 1.0;
        if let (Some(done), Some(bar)) = (second.done, &self.bar) {
            bar.set_message(format!("prefilling: {:.0} %", done * 100.0));
        } else if let Some(bar) = &self.bar {
            let message = bar.message();
            let what = message.rsplit_once(", ").map_or(message.as_str(), |(what, _)| what).to_owned();
            self.show_position(&what);
        }
        if let (true, Some((phase, what)), Some(interval)) = (self.lines, &self.current, second.interval) {
            let line = live::line(second, *phase, what, interval);
            if self.printed.is_multiple_of(HEADER_EVERY) {
                self.print(&live::header());
            }
            self.printed += 1;
            self.print(&line);
        }
        if self.stop.load(Ordering::Relaxed) && !self.stop_said {
            self.stop_said = true;
            self.print("stopping: removing the scratch files …");
        }
    }

    fn warn(&mut self, message: &str) {
        // The same disturbance in every phase is one warning.
        if !self.warnings.iter().any(|w| w == message) {
            self.print(&format!("warning: {message}"));
            self.warnings.push(message.to_owned());
        }
    }

    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_never_runs_backwards_or_past_its_end() {
        let mut plan = Plan { total_s: 10.0, ..Plan::default() };
        let mut last = 0.0;
        for step_s in [2.0, 3.0, 7.0] {
            plan.next(step_s);
            for _ in 0..9 {
                plan.in_step_s += 1.0;
                assert!(plan.position_s() >= last && plan.position_s() <= 10.0);
                last = plan.position_s();
            }
        }
    }
}
