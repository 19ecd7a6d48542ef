//! The parts of a result of several settings besides its trials: the contenders, the comparison,
//! the frontier, the recommendation.
//!
//! All trials of a contest are in the result's `trials`; each contender names its own by their
//! indices. The first contender is the reference.
//!
//! ```text
//! trials that count ─┬─ summarise ─▶ summary ─▶ frontier, passed_over ─┐
//!                    └─ versus ────▶ versus ───────────────────────────┴─ Document::judge
//! Document::judge ─▶ sentence, table, cards, charts, JSON, Markdown
//! ```
//!
//! [`Document::judge`] is the only place where figures and verdicts are made: when a command ends,
//! and when a stored result is shown. **Which trials count.** Of a setting that a search measured
//! afresh after its choice only those trials; of any other setting all.

use floodwall_model::{Scenario, Setting, Trial};
use floodwall_stats::figures::{Reference, Summary, summarise};
use floodwall_stats::frontier::{Point, frontier};
use floodwall_stats::versus::{Compared, versus, with_alone, with_alone_of_round};
use serde::{Deserialize, Serialize};

use super::{Document, Run, SchemaError};
use crate::keep::Keep;
use crate::passed_over::passed_over;
use crate::recommendation;

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
        let summary = self.summary.as_ref()?;
        let seconds = (summary.of_seconds > 0).then_some(summary.of_seconds as f64)?;
        Some(summary.dead_seconds?.value / seconds)
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
    /// Fills in figures, verdicts and frontier from the trials.
    fn judge(&mut self, trials: &[Trial], open_loop: bool) {
        if self.contenders.is_empty() {
            return;
        }
        let reference = self.counted(0, trials);
        let decided = |c: &Contender| self.recommended.is_none() || !c.final_trials.is_empty();
        let judged: Vec<usize> =
            (1..self.contenders.len()).filter(|i| decided(&self.contenders[*i])).collect();
        let others: Vec<Vec<Trial>> =
            judged.iter().map(|i| pick(trials, self.contenders[*i].deciding())).collect();
        let slices: Vec<&[Trial]> = others.iter().map(Vec::as_slice).collect();
        let compared = versus(&reference, &slices);
        let summaries: Vec<_> =
            (0..self.contenders.len()).map(|i| self.summary_of(i, trials)).collect();
        for (contender, summary) in self.contenders.iter_mut().zip(summaries) {
            (contender.summary, contender.versus, contender.passed_over) =
                (summary, Vec::new(), None);
        }
        for (i, compared) in judged.into_iter().zip(compared) {
            self.contenders[i].versus = compared;
        }
        self.frontier = self.unbeaten();
        for (i, why) in passed_over(self, trials, open_loop) {
            self.contenders[i].passed_over = Some(why);
        }
        let answer = self.recommended.as_ref().filter(|r| r.outcome == Outcome::Recommended);
        let summary = answer.and_then(|r| self.contenders.get(r.contender?)?.summary.clone());
        if let Some(recommended) = &mut self.recommended {
            recommended.summary = summary;
        }
    }

    /// A contender's four figures from its trials that count; `None` if it has no trials.
    fn summary_of(&self, i: usize, trials: &[Trial]) -> Option<Summary> {
        let contender = self.contenders.get(i)?;
        let own = self.counted(i, trials);
        let reference = if i == 0 { Vec::new() } else { self.counted(0, trials) };
        let against = if i == 0 { Reference::InForce } else { Reference::Baseline(&reference) };
        (!contender.trials.is_empty()).then(|| summarise(&own, against))
    }

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

    /// Contenders that no other beats, by their indices.
    fn unbeaten(&self) -> Vec<usize> {
        let point = |(i, c): (usize, &Contender)| {
            let s = c.summary.as_ref()?;
            let point = Point {
                victim_kept: s.victim_kept?.value,
                dead_share: c.dead_share()?,
                flood_kept: s.flood_kept.map(|e| e.value),
                burst_kept: s.burst_kept.map(|e| e.value),
            };
            Some((i, point))
        };
        let (indices, points): (Vec<usize>, Vec<Point>) =
            self.contenders.iter().enumerate().filter_map(point).unzip();
        frontier(&points).into_iter().map(|i| indices[i]).collect()
    }
}

/// The trials at some indices; those that are not there are left out.
#[must_use]
pub fn pick(trials: &[Trial], indices: &[usize]) -> Vec<Trial> {
    indices.iter().filter_map(|i| trials.get(*i)).cloned().collect()
}

impl Document {
    /// A result of several settings, judged; its summary is the reference's.
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
        document.judge();
        Ok(document)
    }

    /// Makes every figure, verdict and sentence from the trials anew, by this version's statistics.
    /// What a search recommended stays.
    pub fn judge(&mut self) {
        let victims = self.scenario["victims"].as_array();
        let open_loop =
            victims.is_some_and(|all| all.iter().any(|victim| victim["rate_per_s"].is_number()));
        if let Some(contest) = &mut self.contest {
            contest.judge(&self.trials, open_loop);
        }
        self.summary = self.recomputed_summary();
        if let Some(why) = recommendation::sentence(self)
            && let Some(recommended) = self.contest.as_mut().and_then(|c| c.recommended.as_mut())
        {
            recommended.why = why;
        }
        // A simulated device has the name of its model.
        let simulated =
            self.run.host.kernel.as_deref().is_some_and(|k| k.ends_with(" (simulated)"));
        let device = self.run.device.as_ref().filter(|_| !simulated).map(|d| d.name.clone());
        if let Some(recommended) = self.contest.as_mut().and_then(|c| c.recommended.as_mut()) {
            recommended.keep = Keep::of(&recommended.setting, device.as_deref());
        }
    }

    /// The trials that the summary is of: all, or of a contest the reference's that count.
    pub(super) fn summarised_trials(&self) -> Vec<Trial> {
        self.contest
            .as_ref()
            .map_or_else(|| self.trials.clone(), |contest| contest.counted(0, &self.trials))
    }
}
