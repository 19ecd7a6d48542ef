//! The figures and verdicts of a contest, from its trials.
//!
//! ```text
//! trials that count ─┬─ summarise ─▶ summary ─▶ frontier, passed_over ─┐
//!                    └─ versus ────▶ versus ───────────────────────────┴─ Document::judge
//! Document::judge ─▶ sentence, table, cards, charts, JSON, Markdown
//! ```
//!
//! [`Document::judge`] is the only place where they are made: when a command ends, and when a
//! stored result is shown.

use floodwall_model::{Scenario, Trial};
use floodwall_stats::figures::{Reference, Summary, summarise};
use floodwall_stats::frontier::{Point, frontier};
use floodwall_stats::versus::versus;

use super::contest::{Contender, Contest, Outcome, pick};
use super::{Document, Run, SchemaError};
use crate::keep::Keep;
use crate::passed_over::passed_over;
use crate::recommendation;

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
}
