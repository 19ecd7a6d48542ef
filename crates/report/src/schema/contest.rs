//! What a result of several settings has besides its trials: who contended, what the comparison says, the frontier, the recommendation.
//!
//! All trials of a contest are in the result's `trials`; each contender names its own by their indices. The first contender is the reference.

use floodwall_model::{Scenario, Setting, Trial};
use floodwall_stats::figures::{Reference, Summary, summarise};
use floodwall_stats::versus::{Compared, versus};
use serde::{Deserialize, Serialize};

use super::{Document, Run, SchemaError};

/// Several settings and what came of them.
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
    /// What was asked for; a trial's setting is what was read back.
    pub setting: Setting,
    /// Its trials, by their indices in the result.
    pub trials: Vec<usize>,
    /// Those of them that decided a search's recommendation: measured afresh once the candidate was chosen.
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
    /// By which a search raced it: the product of what is kept, dead seconds charged; the default's is what it is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The four figures against the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Figure by figure against the reference, and which differences are real; empty for the reference itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versus: Vec<Compared>,
}

/// What a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A setting that is really better.
    Recommended,
    /// Nothing better than what is in force was found.
    Keep,
    /// The best candidate may be better; the measurement can't tell.
    Undecided,
    /// The search ended before it could say anything.
    NotMeasured,
}

/// What a search recommends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recommended {
    /// Whether it does.
    pub outcome: Outcome,
    /// The contender that it is about, by its index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contender: Option<usize>,
    /// Its setting, as kernel files take it; empty: what is in force.
    pub setting: Setting,
    /// In a sentence or two.
    pub why: String,
    /// Its four figures in the deciding trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// How long it would take to settle what is undecided, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_s: Option<f64>,
}

impl Contest {
    /// Fills in figures and verdicts from the trials.
    #[must_use]
    pub fn judged(mut self, trials: &[Trial]) -> Self {
        let of = |contender: &Contender| pick(trials, &contender.trials);
        let Some(first) = self.contenders.first() else { return self };
        let reference = of(first);
        let others: Vec<Vec<Trial>> = self.contenders.iter().skip(1).map(of).collect();
        let slices: Vec<&[Trial]> = others.iter().map(Vec::as_slice).collect();
        let mut compared = versus(&reference, &slices).into_iter();
        for (i, contender) in self.contenders.iter_mut().enumerate() {
            let own = pick(trials, &contender.trials);
            let against = if i == 0 { Reference::InForce } else { Reference::Baseline(&reference) };
            contender.summary = (!own.is_empty()).then(|| summarise(&own, against));
            contender.versus = if i == 0 { Vec::new() } else { compared.next().unwrap_or_default() };
        }
        self
    }
}

/// The trials at some indices; those that are not there are left out.
#[must_use]
pub fn pick(trials: &[Trial], indices: &[usize]) -> Vec<Trial> {
    indices.iter().filter_map(|i| trials.get(*i)).cloned().collect()
}

impl Document {
    /// A result of several settings; its summary is the reference's.
    ///
    /// # Errors
    /// [`SchemaError::Write`] if the scenario has no JSON form.
    pub fn of_contest(
        run: Run,
        scenario: &Scenario,
        trials: Vec<Trial>,
        contest: Contest,
    ) -> Result<Self, SchemaError> {
        let mut document = Self::new(run, scenario, trials, None)?;
        document.contest = Some(contest);
        document.summary = document.recomputed_summary();
        Ok(document)
    }

    /// The trials that the summary is of: all, or of a contest the reference's.
    pub(super) fn summarised_trials(&self) -> Vec<Trial> {
        match self.contest.as_ref().and_then(|contest| contest.contenders.first()) {
            Some(reference) => pick(&self.trials, &reference.trials),
            None => self.trials.clone(),
        }
    }
}
