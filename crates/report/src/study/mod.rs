//! What charts and tables show of a stored result, as numbers.
//!
//! ```text
//! Document ─▶ Study ─┬─ subjects   the settings: figures, role, trials
//!                    ├─ histories  what happened second by second under each
//!                    ├─ curves     latency by percentile
//!                    └─ effects    what each knob's values gave
//! ```
//!
//! A result of one setting has one subject. Everything follows from the document: nothing is read,
//! no clock is asked.

mod curve;
mod effects;
mod history;
pub mod json;
mod subject;

pub(crate) use curve::{Curve, curve, percentile_text};
pub(crate) use effects::{Effect, Trait, effects};
pub(crate) use history::{History, Moment};
pub(crate) use subject::{Role, Spot, Subject};

use floodwall_model::trial::PhaseKind;
use floodwall_model::{LatencyCounts, Trial};

use crate::headline::{counted, headline};
use crate::schema::Document;
use crate::schema::contest::Outcome;
use crate::verdict::{Words, verdict};

/// Contenders about which a sentence each can still be read at once.
const FEW: usize = 2;

/// A stored result, ready to be shown.
#[derive(Debug)]
pub struct Study<'a> {
    /// The result.
    pub document: &'a Document,
    /// Where it came from: usually a file's name.
    pub source: String,
    /// Its settings: the reference first.
    pub(crate) subjects: Vec<Subject>,
}

impl<'a> Study<'a> {
    /// Of a result and where it came from.
    #[must_use]
    pub fn of(document: &'a Document, source: impl Into<String>) -> Self {
        Self { document, source: source.into(), subjects: subject::subjects(document) }
    }

    /// The result in a sentence or two.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Some(contest) = &self.document.contest else { return verdict(self.document).sentence };
        if let Some(recommended) = &contest.recommended {
            return recommended.why.clone();
        }
        let others = &contest.contenders[contest.contenders.len().min(1)..];
        match others {
            [] => "One setting was measured; there is nothing to compare it with.".into(),
            few if few.len() <= FEW => {
                let said =
                    few.iter().map(|c| crate::contest::sentence(self.document, contest, c) + ".");
                said.collect::<Vec<_>>().join(" ")
            }
            _ => counted(contest),
        }
    }

    /// The result in as few words as a heading has; `None` where nothing was compared.
    #[must_use]
    pub fn headline(&self) -> Option<String> {
        headline(self.document)
    }

    /// What the victims' operations are called.
    pub(crate) fn operations(&self) -> &'static str {
        Words::of(&self.document.scenario).operations
    }

    /// The setting that others are compared with.
    pub(crate) fn reference(&self) -> Option<&Subject> {
        self.subjects.first()
    }

    /// The setting that the result is about: what a search recommends, or its best candidate.
    pub(crate) fn answer(&self) -> Option<&Subject> {
        self.subjects.iter().find(|s| s.role == Role::Answer)
    }

    /// Whether the answer is a recommendation.
    pub(crate) fn is_recommended(&self) -> bool {
        let recommended = self.document.contest.as_ref().and_then(|c| c.recommended.as_ref());
        recommended.is_some_and(|r| r.outcome == Outcome::Recommended)
    }

    /// The subjects that charts with little room show: reference, answer, frontier, then the others
    /// in their order.
    pub(crate) fn leading(&self, most: usize) -> Vec<&Subject> {
        let mut order: Vec<&Subject> =
            self.subjects.iter().filter(|s| !s.trials.is_empty()).collect();
        order.sort_by_key(|s| s.role);
        order.truncate(most);
        order
    }

    /// A subject's trials that count.
    pub(crate) fn trials(&self, subject: &Subject) -> impl Iterator<Item = (usize, &'a Trial)> {
        let document = self.document;
        let counted: Vec<usize> =
            subject.trials.iter().copied().filter(|i| !subject.disturbed.contains(i)).collect();
        counted.into_iter().filter_map(move |i| document.trials.get(i).map(|trial| (i, trial)))
    }

    /// Latencies of a subject's operations in all phases of a kind together.
    pub(crate) fn latencies(&self, subject: &Subject, kind: PhaseKind) -> LatencyCounts {
        let mut all = LatencyCounts::default();
        for phase in self.trials(subject).flat_map(|(_, t)| &t.phases).filter(|p| p.kind == kind) {
            all.merge(&phase.latencies().operations());
        }
        all
    }

    /// The victim's operations a second alone under the reference; a second with under a tenth of
    /// it is dead.
    pub(crate) fn alone_iops(&self) -> Option<f64> {
        let summary = self.reference()?.summary.as_ref()?;
        summary.victim.as_ref()?.iops
    }
}

/// A setting's trials one after another.
pub(crate) fn course(study: &Study<'_>, subject: &Subject) -> History {
    history::history(study.trials(subject).map(|(_, trial)| trial), study.alone_iops())
}
