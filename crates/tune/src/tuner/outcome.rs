//! The result of a search.

use floodwall_stats::versus::Compared;

use crate::objective::Reference;
use crate::race::Candidate;

/// The outcome of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Recommendation {
    /// The winner is better than the default.
    Winner,
    /// Nothing promised to be better than the default.
    Default,
    /// It can't be told whether the winner is better; how long it would take to, if that can be
    /// told.
    Undecided {
        /// Seconds of trials; `None`: the difference is too small to be worth it.
        settle_s: Option<f64>,
    },
    /// The search ended before its final.
    NotMeasured {
        /// Why.
        why: String,
    },
}

/// The deciding trials in figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Final {
    /// Winner against default, figure by figure.
    pub compared: Vec<Compared>,
    /// The winner's score over the default's.
    pub factor: f64,
    /// How likely such a difference is by chance; `None` with fewer than two rounds.
    pub p: Option<f64>,
}

/// A search's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// All candidates that ran; the first is the default. Its trials include the reference's.
    pub candidates: Vec<Candidate>,
    /// Victims and floods alone under the default; `None` if that could not be measured.
    pub reference: Option<Reference>,
    /// How many points the space has.
    pub space: usize,
    /// The best of the race.
    pub winner: Option<usize>,
    /// The deciding trials, if there were any.
    pub last: Option<Final>,
    /// What follows.
    pub recommendation: Recommendation,
    /// Trials of this run.
    pub trials_run: u32,
    /// Whether a signal asked to stop.
    pub interrupted: bool,
    /// Seconds spent.
    pub seconds: f64,
}
