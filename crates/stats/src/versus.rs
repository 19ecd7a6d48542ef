//! Settings side by side: how much better or worse than a reference, and whether the difference is
//! real.
//!
//! ```text
//! trials of a contender ─┐ phase by phase: IOPS, p99, flood rate, burst rate,
//!                        │ share of dead seconds, over all rounds
//! trials of a reference ─┴─▶ ratio (dead seconds: difference) with its interval and its p
//!                              ─ Holm over contenders ─▶ better | worse | noise
//! ```
//!
//! **One test.** The interval is that of [`crate::estimate`] (dead seconds: `share`; p99: `p99`),
//! paired where both ran in the same rounds. Its p is the chance of a miss at which the interval
//! just reaches "no difference". So p ≤ 5 % says the same as a 95 % interval that leaves "no
//! difference" out.
//!
//! **Several contenders** are several chances to be lucky: p-values of one figure are adjusted by
//! Holm's method (S. Holm, Scand. J. Statist. 6 (1979) 65), which bounds the chance of *any* false
//! "real" among them by 5 %.
//!
//! A victim beside a flood is compared in phase `both`; where there is no such phase, in phase
//! `victim`; floods alike.

use floodwall_model::LatencyCounts;
use floodwall_model::trial::{Phase, PhaseKind, Trial};
use serde::{Deserialize, Serialize};

use crate::estimate::{Estimate, MISS, Pairing, Ratio, Round, mean_and_variance, mean_rate, p_of};
use crate::figures::{flood_rounds, ops_rounds, rate_alone};
use crate::p99::{self, Tails};
use crate::quantiles::{Percentiles, TailKind, samples_needed};
use crate::share;
use crate::stalls::{self, Window, windows};
use crate::student::two_sided_p;

/// A difference is real if chance alone would give it, or any other of its family, this seldom.
pub const SIGNIFICANT: f64 = MISS;
/// Two rates or latencies are the same if the whole interval of their ratio lies this close to 1:
/// rounds on an idle machine differ by as much.
pub const MARGIN: f64 = 0.05;
/// Two shares of dead seconds are the same if the whole interval of their difference lies this
/// close to 0: about a second a minute.
pub const DEAD_MARGIN: f64 = 0.02;

/// The compared figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Victim operations per second.
    VictimIops,
    /// 99th percentile of the victim's operations, in microseconds; it takes 100 operations a
    /// round.
    VictimP99Us,
    /// The victim's slowest operation, in microseconds; compared where a round has too few
    /// operations for a p99.
    VictimSlowestUs,
    /// Bytes per second that the floods wrote.
    FloodBytesPerS,
    /// Bytes per second at which a burst was accepted.
    BurstBytesPerS,
    /// Share of one-second windows in which the victim got less than 10 % of its IOPS alone under
    /// the reference.
    DeadShare,
}

impl Figure {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 6] = [
        Self::VictimIops,
        Self::VictimP99Us,
        Self::VictimSlowestUs,
        Self::FloodBytesPerS,
        Self::BurstBytesPerS,
        Self::DeadShare,
    ];

    /// Whether more of it is better.
    #[must_use]
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::VictimIops | Self::FloodBytesPerS | Self::BurstBytesPerS)
    }
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better than the reference: the interval leaves "no difference" out.
    Better,
    /// Worse than the reference: the interval leaves "no difference" out.
    Worse,
    /// The same: all of the interval is within the margin around "no difference" ([`MARGIN`],
    /// [`DEAD_MARGIN`]).
    Same,
    /// It could not be told: the interval holds "no difference" and also differences that matter.
    #[serde(alias = "noise")]
    Untold,
    /// There is nothing to judge by; [`Compared::why`] says why.
    Unknown,
}

/// One figure of one contender beside the reference's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Which.
    pub figure: Figure,
    /// The contender's, over all rounds.
    pub value: Option<f64>,
    /// The reference's.
    pub reference: Option<f64>,
    /// Contender over reference with its 95 % interval; for dead seconds contender minus
    /// reference.
    pub difference: Option<Estimate>,
    /// How likely such a difference is by chance, before Holm's adjustment; `None` without an
    /// interval.
    pub p: Option<f64>,
    /// After it.
    pub p_adjusted: Option<f64>,
    /// What follows.
    pub verdict: Verdict,
    /// Why it can't be told.
    pub why: Option<String>,
}

impl Compared {
    /// What "no difference" is: a ratio of 1, or a difference of 0.
    #[must_use]
    pub fn null(&self) -> f64 {
        if self.figure == Figure::DeadShare { 0.0 } else { 1.0 }
    }

    /// Whether the interval leaves "no difference" out.
    #[must_use]
    pub fn parts(&self) -> bool {
        let null = self.null();
        self.difference.and_then(|e| e.ends()).is_some_and(|(low, high)| low > null || high < null)
    }

    /// Whether all of the interval is so close to "no difference" that nothing that matters is
    /// left.
    fn is_within_margin(&self) -> bool {
        let (low, high) = match self.figure {
            Figure::DeadShare => (-DEAD_MARGIN, DEAD_MARGIN),
            _ => (1.0 - MARGIN, 1.0 + MARGIN),
        };
        let ends = self.difference.and_then(|e| e.ends());
        ends.is_some_and(|(from, to)| low <= from && to <= high)
    }
}

/// Compares each contender with the reference; the same order, and of each contender every figure
/// that both sides have or could have.
#[must_use]
pub fn versus(reference: &[Trial], contenders: &[&[Trial]]) -> Vec<Vec<Compared>> {
    let alone = rate_alone(reference).filter(|rate| rate.value > 0.0);
    let mut all: Vec<Vec<Compared>> = contenders
        .iter()
        .map(|trials| {
            Figure::ALL
                .iter()
                .filter_map(|f| compare(*f, trials, reference, alone.as_ref()))
                .collect()
        })
        .collect();
    for figure in Figure::ALL {
        let mut family: Vec<&mut Compared> =
            all.iter_mut().flatten().filter(|c| c.figure == figure && c.p.is_some()).collect();
        adjust(&mut family);
    }
    for compared in all.iter_mut().flatten() {
        judge(compared);
    }
    all
}

/// Holm's adjustment within one family.
fn adjust(family: &mut [&mut Compared]) {
    family.sort_by(|a, b| a.p.unwrap_or(1.0).total_cmp(&b.p.unwrap_or(1.0)));
    let (n, mut largest) = (family.len(), 0.0f64);
    for (i, compared) in family.iter_mut().enumerate() {
        largest = largest.max(compared.p.unwrap_or(1.0) * (n - i) as f64).min(1.0);
        compared.p_adjusted = Some(largest);
    }
}

fn judge(compared: &mut Compared) {
    let (Some(difference), Some(p)) = (compared.difference, compared.p_adjusted) else { return };
    let more = difference.value > compared.null();
    compared.verdict = match (compared.parts() && p <= SIGNIFICANT, compared.is_within_margin()) {
        (true, _) if more == compared.figure.more_is_better() => Verdict::Better,
        (true, _) => Verdict::Worse,
        (false, true) => Verdict::Same,
        (false, false) => Verdict::Untold,
    };
    if compared.verdict == Verdict::Untold && compared.parts() {
        compared.why = Some(
            "of so many settings one differs as much by chance: more rounds would tell".into(),
        );
    }
}

/// Trials that decided, and from those of the reference what victim and flood are alone: a search
/// measures that once, before it.
#[must_use]
pub fn with_alone(deciding: &[Trial], reference: &[Trial]) -> Vec<Trial> {
    let alone = reference.iter().map(|t| Trial { phases: alone_in(t), ..t.clone() });
    deciding.iter().cloned().chain(alone.filter(|t| !t.phases.is_empty())).collect()
}

/// Trials, each with what victim and flood were alone in the reference's trial of the same round.
#[must_use]
pub fn with_alone_of_round(trials: &[Trial], reference: &[Trial]) -> Vec<Trial> {
    let whole = |t: &Trial| {
        let mut whole = t.clone();
        whole.phases.extend(
            reference.iter().find(|r| r.round == t.round).map(alone_in).unwrap_or_default(),
        );
        whole
    };
    trials.iter().map(whole).collect()
}

/// The phases of a trial that measure loads alone.
fn alone_in(trial: &Trial) -> Vec<Phase> {
    trial.phases.iter().filter(|p| p.kind.is_alone()).cloned().collect()
}

/// One figure, not yet judged; `None` if neither side has the phase.
fn compare(
    figure: Figure,
    trials: &[Trial],
    reference: &[Trial],
    alone: Option<&Ratio>,
) -> Option<Compared> {
    let kind = phase_of(figure, reference, trials)?;
    let (ours, theirs) = (of_rounds(trials, kind), of_rounds(reference, kind));
    let same_rounds =
        ours.len() == theirs.len() && ours.iter().zip(&theirs).all(|(a, b)| a.0 == b.0);
    let pairing = if same_rounds { Pairing::Rounds } else { Pairing::Independent };
    let mut compared = Compared {
        figure,
        value: None,
        reference: None,
        difference: None,
        p: None,
        p_adjusted: None,
        verdict: Verdict::Unknown,
        why: None,
    };
    let sides =
        [&ours, &theirs].map(|side| side.iter().map(|(_, phase)| *phase).collect::<Vec<_>>());
    let [a, b] = &sides;
    if let Some((_, side)) =
        [(a, "this setting"), (b, "the reference")].iter().find(|(s, _)| s.is_empty())
    {
        compared.why = Some(format!("phase {} was not measured under {side}", kind.name()));
        return Some(compared);
    }
    if figure == Figure::VictimSlowestUs {
        return slowest(compared, a, b);
    }
    if figure == Figure::VictimP99Us {
        // A side that has one keeps it, also where there is nothing to compare it with.
        let p99 = |side: &[&Phase]| Percentiles::of(&operations(side)).and_then(|l| l.p99);
        (compared.value, compared.reference) = (p99(a), p99(b));
    }
    let found = match figure {
        Figure::VictimIops => rates(&ops_rounds(a), &ops_rounds(b), pairing),
        Figure::FloodBytesPerS => rates(&flood_rounds(a), &flood_rounds(b), pairing),
        Figure::BurstBytesPerS => rates(&bursts(a), &bursts(b), pairing),
        Figure::VictimP99Us | Figure::VictimSlowestUs => tails(a, b, pairing),
        Figure::DeadShare => match alone {
            None => Err("the victim alone was not measured under the reference".into()),
            Some(alone) => dead_shares(a, b, alone),
        },
    };
    match found {
        Err(why) => compared.why = Some(why),
        Ok(found) => {
            (compared.value, compared.reference) = (Some(found.value), Some(found.reference));
            (compared.difference, compared.p) = (found.difference, found.p);
            compared.why = found.why;
        }
    }
    Some(compared)
}

/// A figure of both sides, and how they differ.
struct Found {
    value: f64,
    reference: f64,
    difference: Option<Estimate>,
    p: Option<f64>,
    /// Why there is no p.
    why: Option<String>,
}

const ONE_ROUND: &str = "one round does not tell how much rounds differ: run two or more";

fn rates(a: &[Round], b: &[Round], pairing: Pairing) -> Result<Found, String> {
    let [value, reference] = [a, b].map(mean_rate);
    let (Some(value), Some(reference)) = (value, reference) else {
        return Err("nothing was measured".into());
    };
    let ratio = Ratio::of(a, b, pairing);
    let p = ratio.as_ref().and_then(Ratio::p);
    let why = match (&ratio, p) {
        (None, _) => Some("the reference did nothing: there is nothing to compare with".into()),
        (_, None) => Some(ONE_ROUND.into()),
        _ => None,
    };
    Ok(Found { value, reference, difference: ratio.map(|r| r.estimate()), p, why })
}

fn tails(a: &[&Phase], b: &[&Phase], pairing: Pairing) -> Result<Found, String> {
    let [ours, theirs] = [a, b].map(|phases| {
        phases.iter().map(|p| p.latencies().operations()).collect::<Vec<LatencyCounts>>()
    });
    let (Some(x), Some(y)) = (Tails::of(&ours), Tails::of(&theirs)) else {
        let fewest = |side: &[LatencyCounts]| side.iter().map(LatencyCounts::count).sum::<u64>();
        let fewest = fewest(&ours).min(fewest(&theirs));
        return Err(match fewest {
            0 => "no operation was timed".into(),
            few => format!("p99 takes {} operations, and there were {few}", samples_needed(99.0)),
        });
    };
    let (value, reference) = (x.p99_us, y.p99_us);
    let ends = |miss| p99::ratio_ends(&x, &y, pairing, miss);
    let difference =
        Some(Estimate::new(value / reference, ends(MISS), ours.len().min(theirs.len())));
    let p = p_of(1.0, ends);
    Ok(Found { value, reference, difference, p, why: p.is_none().then(|| ONE_ROUND.into()) })
}

/// The slowest operations of both sides, where one of them has too few for a p99; `None` where both
/// have one, or nothing was timed.
///
/// They are facts of these trials and are not judged: the slowest of more operations is slower,
/// whatever the setting.
fn slowest(compared: Compared, ours: &[&Phase], theirs: &[&Phase]) -> Option<Compared> {
    let [ours, theirs] = [operations(ours), operations(theirs)];
    let (ours, theirs) = (Percentiles::of(&ours)?, Percentiles::of(&theirs)?);
    let needless = [ours, theirs].iter().all(|side| side.tail().kind == TailKind::P99);
    let why = "the slowest of so few operations is not judged".to_owned();
    let (value, reference) = (Some(ours.max), Some(theirs.max));
    (!needless).then_some(Compared { value, reference, why: Some(why), ..compared })
}

/// Latencies of all operations of some phases together.
fn operations(phases: &[&Phase]) -> LatencyCounts {
    let mut all = LatencyCounts::default();
    phases.iter().for_each(|phase| all.merge(&phase.latencies().operations()));
    all
}

fn dead_shares(a: &[&Phase], b: &[&Phase], alone: &Ratio) -> Result<Found, String> {
    let [ours, theirs] =
        [a, b].map(|phases| phases.iter().map(|p| windows(p)).collect::<Vec<Vec<Window>>>());
    let of = |rounds: &[Vec<Window>], iops: f64| share::share(&stalls::dead(rounds, iops));
    let (Some(value), Some(reference)) = (of(&ours, alone.value), of(&theirs, alone.value)) else {
        return Err("nothing was measured".into());
    };
    let ends = |miss| {
        stalls::over_alone(alone, miss, |iops| {
            let (ours, theirs) = (stalls::dead(&ours, iops), stalls::dead(&theirs, iops));
            let (x, y) = (share::ends(&ours, miss)?, share::ends(&theirs, miss)?);
            Some(share::difference(share::share(&ours)?, x, share::share(&theirs)?, y))
        })
    };
    let difference = Some(Estimate::new(value - reference, ends(MISS), a.len().min(b.len())));
    let p = p_of(0.0, ends);
    Ok(Found { value, reference, difference, p, why: p.is_none().then(|| ONE_ROUND.into()) })
}

/// The phase in which a figure is found.
fn phase_of(figure: Figure, reference: &[Trial], trials: &[Trial]) -> Option<PhaseKind> {
    let has = |kind| reference.iter().chain(trials).flat_map(|t| &t.phases).any(|p| p.kind == kind);
    let first = |kinds: [PhaseKind; 2]| kinds.into_iter().find(|kind| has(*kind));
    match figure {
        Figure::VictimIops | Figure::VictimP99Us | Figure::VictimSlowestUs => {
            first([PhaseKind::Both, PhaseKind::Victim])
        }
        Figure::FloodBytesPerS => first([PhaseKind::Both, PhaseKind::Flood]),
        Figure::BurstBytesPerS => has(PhaseKind::Burst).then_some(PhaseKind::Burst),
        Figure::DeadShare => has(PhaseKind::Both).then_some(PhaseKind::Both),
    }
}

/// The phases of a kind with their round, in the order of rounds: complete ones, or without any,
/// those that were cut short.
fn of_rounds(trials: &[Trial], kind: PhaseKind) -> Vec<(u32, &Phase)> {
    let all = || {
        trials
            .iter()
            .flat_map(|t| t.phases.iter().map(|p| (t.round, p)))
            .filter(move |(_, p)| p.kind == kind)
    };
    let mut complete: Vec<_> = all().filter(|(_, p)| p.cut_short.is_none()).collect();
    if complete.is_empty() {
        complete = all().collect();
    }
    complete.sort_by_key(|(round, _)| *round);
    complete
}

fn bursts(phases: &[&Phase]) -> Vec<Round> {
    phases
        .iter()
        .filter_map(|p| p.burst)
        .map(|b| Round::new([(b.bytes as f64, b.seconds)]))
        .collect()
}

/// How likely a mean this far from zero is by chance (Student's t test); `None` of fewer than two
/// values.
#[must_use]
pub fn paired_p(differences: &[f64]) -> Option<f64> {
    let (mean, variance) = mean_and_variance(differences)?;
    if mean == 0.0 {
        return Some(1.0);
    }
    let n = differences.len() as f64;
    Some(two_sided_p(mean / (variance / n).sqrt(), n - 1.0))
}

#[cfg(test)]
mod tests;
