//! The parts of a result of several settings besides its trials: the contenders, the comparison,
//! the frontier, the recommendation.
//!
//! All trials of a contest are in the result's `trials`; each contender names its own by their
//! indices. The first contender is the reference.
//!
//! **Which trials count.** Of a setting that a search measured afresh after its choice only those
//! trials; of any other setting all.

use floodwall_model::{Setting, Trial};
use floodwall_stats::figures::Summary;
use floodwall_stats::versus::{Compared, with_alone, with_alone_of_round};
use serde::{Deserialize, Serialize};

use crate::keep::Keep;

/// Several settings and their results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contest {
    /// The reference first.
    pub contenders: Vec<Contender>,
    /// Contenders that no other beats, by their indices.
    pub frontier: Vec<usize>,
    /// What a search recommends; `None` of a mere comparison.
    pub recommended: Option<Recommended>,
}

/// A setting and its trials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// For people; unique in its contest.
    pub name: String,
    /// The setting that was requested; a trial's setting is the one read back.
    pub setting: Setting,
    /// Its trials, by their indices in the result.
    pub trials: Vec<usize>,
    /// Those of them that decided a search's recommendation: measured afresh once the candidate
    /// was chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub final_trials: Vec<usize>,
    /// Trials that others disturbed, or that ended early; they don't count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbed: Vec<usize>,
    /// Why it is out: refused by the kernel, device gone …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// After which round of a search it was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_after_round: Option<u32>,
    /// The score of a search: the product of the shares kept, less a charge for dead seconds.
    /// Scores are compared with the default's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The four figures against the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Figure by figure against the reference, and which differences are real; empty for the
    /// reference itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versus: Vec<Compared>,
    /// Why it is not recommended although victim and flood keep more under it than under the
    /// recommended setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_over: Option<String>,
}

impl Contender {
    /// Share of the seconds beside the flood that were dead; `None` where that is not known.
    pub(crate) fn dead_share(&self) -> Option<f64> {
        self.summary.as_ref()?.dead_share()
    }

    /// Its trials that count: those made after a search's choice if there are any.
    pub(crate) fn deciding(&self) -> &[usize] {
        if self.final_trials.is_empty() { &self.trials } else { &self.final_trials }
    }

    /// Its trials that were not measured after a search's choice.
    pub(crate) fn race_trials(&self) -> Vec<usize> {
        self.trials.iter().copied().filter(|i| !self.final_trials.contains(i)).collect()
    }
}

/// What a search came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A setting that is really better.
    Recommended,
    /// No candidate beat the setting in force.
    Keep,
    /// The best candidate may be better; the measurement can't tell.
    Undecided,
    /// The search ended before it could say anything.
    #[default]
    NotMeasured,
}

/// What a search recommends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recommended {
    /// Whether it does.
    pub outcome: Outcome,
    /// The contender that it is about, by its index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contender: Option<usize>,
    /// Its setting, as kernel files take it; empty: the setting in force.
    pub setting: Setting,
    /// In a sentence or two.
    pub why: String,
    /// Its four figures in the deciding trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// How long it would take to settle an undecided result, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_s: Option<f64>,
    /// The candidate's score over the reference's in the deciding trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_ratio: Option<f64>,
    /// The victim's p99 that was wanted, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_target_us: Option<f64>,
    /// How to keep it where it is about the benchmark's own victims or floods, which `apply` does
    /// not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Keep>,
}

impl Contest {
    /// A contender's trials that count; with what victim and flood are alone under the reference,
    /// where that was measured once.
    pub(super) fn counted(&self, i: usize, trials: &[Trial]) -> Vec<Trial> {
        let Some(contender) = self.contenders.get(i) else { return Vec::new() };
        let own = pick(trials, contender.deciding());
        if own.iter().flat_map(|trial| &trial.phases).any(|phase| phase.kind.is_alone()) {
            return own;
        }
        let reference = pick(trials, &self.contenders[0].trials);
        match self.recommended {
            Some(_) => with_alone(&own, &reference),
            None => with_alone_of_round(&own, &reference),
        }
    }
}

/// The trials at some indices; those that are not there are left out.
#[must_use]
pub fn pick(trials: &[Trial], indices: &[usize]) -> Vec<Trial> {
    indices.iter().filter_map(|i| trials.get(*i)).cloned().collect()
}
