//! The display of a run on stderr. On a terminal: a bar with the time left, and a line a second
//! unless only the bar is wanted. Elsewhere: a line for each step or part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use floodwall_model::printable::printable;
use floodwall_model::runner::{Second, Step};
use floodwall_model::units::human_duration;
use floodwall_model::{PhaseKind, Scenario, Watch};
use floodwall_report::live;
use floodwall_report::numbers::percent;
use indicatif::{ProgressBar, ProgressDrawTarget};

use crate::{ascii, output};

/// Lines between two headers of the live table.
const HEADER_EVERY: u32 = 20;
/// The bar counts milliseconds of planned time.
const PER_SECOND: f64 = 1000.0;

/// How much to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Show {
    /// Everything on a terminal, a line a step elsewhere.
    Auto,
    /// One bar that is redrawn on a terminal; elsewhere a line for each part of the run.
    Bar,
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
    parts: bool,
    stop: Arc<AtomicBool>,
    stop_said: bool,
    warnings: Vec<String>,
    /// Kinds of warnings that come once.
    kinds: Vec<&'static str>,
    /// Planned seconds of the whole run, and of the steps that are over.
    planned: Plan,
    current: Option<(PhaseKind, String)>,
    printed: u32,
    rounds: u32,
    /// The last part of the run that was printed.
    part: String,
    search: Option<Search>,
}

/// A search: its length is known, its trials are not.
struct Search {
    /// When the turn began, and what had been spent until then, in seconds.
    turn: Instant,
    spent_s: f64,
    /// The turn, in words.
    what: String,
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
        let terminal = output::stderr_is_terminal();
        let total_s = scenario.planned_seconds();
        let bar = (terminal && show != Show::Never).then(|| {
            let bar = ProgressBar::with_draw_target(
                Some((total_s * PER_SECOND) as u64),
                ProgressDrawTarget::stderr_with_hz(4),
            );
            bar.set_style(output::bar_style("{bar:16} {percent:>3} %  {wide_msg}"));
            bar
        });
        Self {
            lines: show == Show::Always || show == Show::Auto && terminal,
            steps: matches!(show, Show::Auto | Show::Always) && !terminal,
            parts: show == Show::Bar && !terminal,
            bar,
            stop,
            stop_said: false,
            warnings: Vec::new(),
            kinds: Vec::new(),
            planned: Plan { total_s, ..Plan::default() },
            current: None,
            printed: 0,
            rounds: scenario.timing.rounds,
            part: String::new(),
            search: None,
        }
    }

    /// For a search that may take so many seconds.
    pub(crate) fn of_search(mut self, seconds: f64) -> Self {
        self.planned.total_s = seconds;
        self.rounds = 0;
        if let Some(bar) = &self.bar {
            bar.set_length((seconds * PER_SECOND) as u64);
        }
        self.search = Some(Search { turn: Instant::now(), spent_s: 0.0, what: String::new() });
        self
    }

    /// The next turn of a search: its part (`race`), what runs in it, and the seconds spent so far.
    pub(crate) fn turn(&mut self, part: &str, what: &str, spent_s: f64) {
        let left = human_duration(left(self.planned.total_s - spent_s));
        self.search =
            Some(Search { turn: Instant::now(), spent_s, what: format!("{part}: {what}") });
        self.announce(&format!("{part}: {what} ({left} left)"));
        if self.parts && self.part != part {
            self.print(&format!("{part} ({left} left)"));
            self.part = part.to_owned();
        }
        self.show_position("");
    }

    /// For a run of so many trials of the scenario instead of its rounds.
    pub(crate) fn of_trials(mut self, trials: u32) -> Self {
        self.planned.total_s *= f64::from(trials) / f64::from(self.rounds.max(1));
        if let Some(bar) = &self.bar {
            bar.set_length((self.planned.total_s * PER_SECOND) as u64);
        }
        self
    }

    /// The planned time of the whole run.
    pub(crate) fn planned(&self) -> Duration {
        left(self.planned.total_s)
    }

    /// A line from the run itself, such as the setting whose turn it is.
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
            Some(bar) => bar.suspend(|| output::notice(line)),
            None => output::notice(line),
        }
    }

    /// Seconds of the planned time that are over.
    fn position_s(&self) -> f64 {
        match &self.search {
            // Files are laid out before the first turn; that is not part of the search's time.
            Some(search) if search.what.is_empty() => 0.0,
            Some(search) => {
                (search.spent_s + search.turn.elapsed().as_secs_f64()).min(self.planned.total_s)
            }
            None => self.planned.position_s(),
        }
    }

    /// Moves the bar. `step` is what runs; of a search the turn is shown, if there is one yet.
    fn show_position(&self, step: &str) {
        let Some(bar) = &self.bar else { return };
        let position_s = self.position_s();
        bar.set_position((position_s * PER_SECOND) as u64);
        let what = match &self.search {
            Some(search) if !search.what.is_empty() => &search.what,
            _ => step,
        };
        let left = human_duration(left(self.planned.total_s - position_s));
        let message = format!("{left} left: {}", printable(what));
        bar.set_message(ascii::localised(&message).into_owned());
    }
}

/// Whole seconds for people.
fn left(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.max(0.0).ceil())
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
            let of = if step.round > self.rounds {
                String::new()
            } else {
                format!(" of {}", self.rounds)
            };
            format!("round {}{of}: {}{separator}{}", step.round, phase_name(step.phase), step.what)
        };
        if self.steps && matches!(step.what, "measuring" | "prefilling") {
            self.print(&what);
        }
        if self.parts && self.search.is_none() && step.round > 0 {
            let round = format!("round {} of {}", step.round, self.rounds);
            if self.part != round {
                self.print(&round);
                self.part = round;
            }
        }
        self.show_position(&what);
    }

    fn second(&mut self, second: &Second<'_>) {
        self.planned.in_step_s += 1.0;
        if let (Some(done), Some(bar)) = (second.done, &self.bar) {
            bar.set_message(format!("prefilling: {} %", percent(done)));
        } else if let Some(bar) = &self.bar {
            let message = bar.message();
            let what = message.split_once(": ").map_or("", |(_, what)| what).to_owned();
            self.show_position(&what);
        }
        if let (true, Some((phase, what)), Some(interval)) =
            (self.lines, &self.current, second.interval)
        {
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

    fn warn_once(&mut self, kind: &'static str, message: &str) {
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
            self.warn(message);
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
    fn a_search_moves_with_its_time_and_not_before_its_first_turn() {
        let scenario = floodwall_model::scenario::builtin("copy-vs-database").unwrap().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let mut progress = Progress::new(Show::Never, &scenario, stop).of_search(60.0);
        assert_eq!(progress.position_s(), 0.0);
        progress.turn("trying settings", "bfq", 45.0);
        assert!((45.0..=60.0).contains(&progress.position_s()));
        progress.turn("trying settings", "none", 75.0);
        assert_eq!(progress.position_s(), 60.0);
    }

    #[test]
    fn a_warning_that_differs_in_its_figures_comes_once() {
        let scenario = floodwall_model::scenario::builtin("copy-vs-database").unwrap().unwrap();
        let mut progress = Progress::new(Show::Never, &scenario, Arc::default());
        for (kind, message) in [("dirty", "512 MiB"), ("dirty", "1 GiB"), ("waits", "40 %")] {
            progress.warn_once(kind, message);
        }
        assert_eq!(progress.finish(), ["512 MiB", "40 %"]);
    }

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
