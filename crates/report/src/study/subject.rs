//! The settings of a result, each with its figures and its part in the story.

use floodwall_model::Setting;
use floodwall_stats::estimate::Estimate;
use floodwall_stats::figures::Summary;
use floodwall_stats::versus::{Compared, Figure};

use crate::schema::Document;
use crate::schema::contest::Contender;

/// A setting's part in a result; in the order in which charts with little room take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// What the others are compared with.
    Reference,
    /// What the result is about.
    Answer,
    /// No other beats it.
    Frontier,
    /// One of the others.
    Other,
}

impl Role {
    /// As JSON spells it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Answer => "answer",
            Self::Frontier => "frontier",
            Self::Other => "other",
        }
    }
}

/// A setting with its figures, as the study shows it.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// Its index among the contenders.
    pub(crate) index: usize,
    pub(crate) name: String,
    /// The setting that was requested; empty: the setting in force.
    pub(crate) setting: Setting,
    pub(crate) role: Role,
    /// Whether no other beats it; a reference or an answer may be too.
    pub(crate) on_frontier: bool,
    /// Its trials, by their indices in the result.
    pub(crate) trials: Vec<usize>,
    /// Those of them that don't count.
    pub(crate) disturbed: Vec<usize>,
    /// Those of them that decided.
    pub(crate) deciding: Vec<usize>,
    pub(crate) failure: Option<String>,
    pub(crate) score: Option<f64>,
    pub(crate) summary: Option<Summary>,
    pub(crate) versus: Vec<Compared>,
    /// Why it is not recommended although it lies above and to the right of the recommended one.
    pub(crate) passed_over: Option<String>,
}

/// Where a setting is between victim and flood, as shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spot {
    pub(crate) victim: Estimate,
    pub(crate) flood: Estimate,
}

impl Subject {
    /// A figure's comparison with the reference.
    pub(crate) fn compared(&self, figure: Figure) -> Option<&Compared> {
        self.versus.iter().find(|c| c.figure == figure)
    }

    /// Where it is; `None` if either figure is missing.
    pub(crate) fn spot(&self) -> Option<Spot> {
        let summary = self.summary.as_ref()?;
        Some(Spot { victim: summary.victim_kept?, flood: summary.flood_kept? })
    }

    /// Share of the seconds beside the flood that were dead.
    pub(crate) fn dead_share(&self) -> Option<f64> {
        self.summary.as_ref()?.dead_share()
    }
}

/// All settings of a result, the reference first.
pub(super) fn subjects(document: &Document) -> Vec<Subject> {
    let Some(contest) = &document.contest else { return vec![only(document)] };
    let answer = contest.recommended.as_ref().and_then(|r| r.contender);
    let subject = |(index, c): (usize, &Contender)| {
        let on_frontier = contest.frontier.contains(&index);
        let role = match index {
            0 => Role::Reference,
            _ if answer == Some(index) => Role::Answer,
            _ if on_frontier => Role::Frontier,
            _ => Role::Other,
        };
        Subject {
            index,
            name: c.name.clone(),
            setting: c.setting.clone(),
            role,
            on_frontier,
            trials: c.trials.clone(),
            disturbed: c.disturbed.clone(),
            deciding: c.final_trials.clone(),
            failure: c.failure.clone(),
            score: c.score.filter(|s| s.is_finite()),
            summary: c.summary.clone().map(finite),
            versus: c.versus.clone(),
            passed_over: c.passed_over.clone(),
        }
    };
    contest.contenders.iter().enumerate().map(subject).collect()
}

/// Without figures that are no numbers.
fn finite(mut summary: Summary) -> Summary {
    let all = [
        &mut summary.victim_kept,
        &mut summary.flood_kept,
        &mut summary.burst_kept,
        &mut summary.dead_seconds,
    ];
    for figure in all {
        *figure = figure
            .filter(|e| [Some(e.value), e.low, e.high].iter().flatten().all(|v| v.is_finite()));
    }
    summary
}

/// The one setting of a result that has no others.
fn only(document: &Document) -> Subject {
    Subject {
        index: 0,
        name: "in force".into(),
        setting: Setting::default(),
        role: Role::Reference,
        on_frontier: false,
        trials: (0..document.trials.len()).collect(),
        disturbed: Vec::new(),
        deciding: Vec::new(),
        failure: None,
        score: None,
        summary: Some(finite(document.summary.clone())),
        versus: Vec::new(),
        passed_over: None,
    }
}
