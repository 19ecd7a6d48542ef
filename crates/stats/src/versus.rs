//! Settings side by side: how much better or worse than a reference, and whether the difference is real.
//!
//! ```text
//! trials of a contender ─┐ phase by phase: IOPS, p99, flood rate, burst rate, dead seconds of each round
//! trials of a reference ─┴─▶ ratio (dead seconds: difference) with its bootstrap interval ─┐
//!                          ─▶ t test between the rounds' values ─▶ p, Holm over contenders ─┴─▶ better | worse | noise
//! ```
//!
//! **Two conditions, both necessary.** The bootstrap's 95 % interval ([`crate::bootstrap`]) must part from "no difference"; it knows how seconds
//! within a round vary, but with few rounds it can't reach beyond them and is too narrow. So a t test between the rounds (paired where both ran
//! in the same rounds, Welch's otherwise) on the logarithms of their values must agree; it knows how few rounds there are. Logarithms, because the
//! figures are ratios that vary over orders of magnitude.
//!
//! **Several contenders** are several chances to be lucky: p-values of one figure are adjusted by Holm's method (S. Holm, Scand. J. Statist. 6
//! (1979) 65), which bounds the chance of *any* false "real" among them by 5 %.
//!
//! A victim beside a flood is compared in phase `both`; where there is no such phase, in phase `victim`; floods alike.

use floodwall_model::LatencyCounts;
use floodwall_model::trial::{Phase, PhaseKind, Trial};
use serde::{Deserialize, Serialize};

use crate::bootstrap::{
    Estimate, Pairing, REPLICATES, Round, SEED, block_length, draw_rounds, interval, median, ratio_of_rates,
};
use crate::figures::iops_alone;
use crate::quantiles::percentile_ns;
use crate::random::Random;
use crate::stalls::windows;
use crate::student::two_sided_p;

/// A difference is real if chance alone would give it, or any other of its family, this seldom.
pub const SIGNIFICANT: f64 = 0.05;
/// A value of zero has no logarithm: it counts as this share of the largest on either side.
const FLOOR: f64 = 1e-3;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Victim operations per second.
    VictimIops,
    /// 99th percentile of the victim's operations, in microseconds; with under 100 operations their maximum.
    VictimP99Us,
    /// Bytes per second that the floods wrote.
    FloodBytesPerS,
    /// Bytes per second at which a burst was accepted.
    BurstBytesPerS,
    /// Share of one-second windows in which the victim got less than 10 % of its IOPS alone under the reference.
    DeadShare,
}

impl Figure {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 5] =
        [Self::VictimIops, Self::VictimP99Us, Self::FloodBytesPerS, Self::BurstBytesPerS, Self::DeadShare];

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
    /// Really better than the reference.
    Better,
    /// Really worse.
    Worse,
    /// What differs may be chance.
    Noise,
    /// It can't be told; [`Compared::why`] says why.
    Unknown,
}

/// One figure of one contender beside the reference's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Which.
    pub figure: Figure,
    /// The contender's: the median over rounds.
    pub value: Option<f64>,
    /// The reference's.
    pub reference: Option<f64>,
    /// Contender over reference with its 95 % interval; for dead seconds contender minus reference.
    pub difference: Option<Estimate>,
    /// How likely such a difference between the rounds is by chance, before Holm's adjustment; `None` with fewer than two rounds.
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
        self.difference.is_some_and(|e| e.low > self.null() || e.high < self.null())
    }
}

/// Compares each contender with the reference; the same order, and of each contender every figure that both sides have or could have.
#[must_use]
pub fn versus(reference: &[Trial], contenders: &[&[Trial]]) -> Vec<Vec<Compared>> {
    let alone = iops_alone(reference);
    let mut all: Vec<Vec<Compared>> = contenders
        .iter()
        .map(|trials| Figure::ALL.iter().filter_map(|f| compare(*f, trials, reference, alone)).collect())
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
    compared.verdict = match compared.parts() && p <= SIGNIFICANT {
        false => Verdict::Noise,
        true if more == compared.figure.more_is_better() => Verdict::Better,
        true => Verdict::Worse,
    };
}

/// One figure, not yet judged; `None` if neither side has the phase.
fn compare(figure: Figure, trials: &[Trial], reference: &[Trial], alone: Option<f64>) -> Option<Compared> {
    let kind = phase_of(figure, reference, trials)?;
    let (ours, theirs) = (of_rounds(trials, kind), of_rounds(reference, kind));
    let same_rounds = ours.len() == theirs.len() && ours.iter().zip(&theirs).all(|(a, b)| a.0 == b.0);
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
    let sides = [&ours, &theirs].map(|side| side.iter().map(|(_, phase)| *phase).collect::<Vec<_>>());
    let [a, b] = &sides;
    if let Some((_, side)) = [(a, "this setting"), (b, "the reference")].iter().find(|(s, _)| s.is_empty()) {
        compared.why = Some(format!("phase {} was not measured under {side}", kind.name()));
        return Some(compared);
    }
    let values = sides.each_ref().map(|side| values(figure, side, alone));
    let [Some(x), Some(y)] = values else {
        compared.why = Some(match figure {
            Figure::DeadShare => "the victim alone was not measured under the reference".into(),
            _ => "no operation was timed".into(),
        });
        return Some(compared);
    };
    (compared.value, compared.reference) = (median(x.clone()), median(y.clone()));
    compared.difference = match figure {
        Figure::VictimIops => ratio_of_rates(&ops(a), &ops(b), pairing),
        Figure::FloodBytesPerS => ratio_of_rates(&flooded(a), &flooded(b), pairing),
        Figure::BurstBytesPerS => ratio_of_rates(&bursts(a), &bursts(b), pairing),
        Figure::VictimP99Us => ratio_of_p99(a, b, pairing),
        Figure::DeadShare => {
            alone.and_then(|iops| difference_of_shares(&dead(a, iops), &dead(b, iops), pairing))
        }
    };
    if compared.difference.is_none() {
        compared.why =
            Some("the reference did nothing for too much of the time to compare anything with it".into());
        return Some(compared);
    }
    compared.p = t_test(figure, &x, &y, pairing);
    if compared.p.is_none() {
        compared.why = Some("one round does not tell how much rounds differ: run two or more".into());
    }
    Some(compared)
}

/// The phase in which a figure is found.
fn phase_of(figure: Figure, reference: &[Trial], trials: &[Trial]) -> Option<PhaseKind> {
    let has = |kind| reference.iter().chain(trials).flat_map(|t| &t.phases).any(|p| p.kind == kind);
    let first = |kinds: [PhaseKind; 2]| kinds.into_iter().find(|kind| has(*kind));
    match figure {
        Figure::VictimIops | Figure::VictimP99Us => first([PhaseKind::Both, PhaseKind::Victim]),
        Figure::FloodBytesPerS => first([PhaseKind::Both, PhaseKind::Flood]),
        Figure::BurstBytesPerS => has(PhaseKind::Burst).then_some(PhaseKind::Burst),
        Figure::DeadShare => has(PhaseKind::Both).then_some(PhaseKind::Both),
    }
}

/// The phases of a kind with their round, in the order of rounds: complete ones, or if there is none, those that were cut short.
fn of_rounds(trials: &[Trial], kind: PhaseKind) -> Vec<(u32, &Phase)> {
    let all = || {
        trials.iter().flat_map(|t| t.phases.iter().map(|p| (t.round, p))).filter(move |(_, p)| p.kind == kind)
    };
    let mut complete: Vec<_> = all().filter(|(_, p)| p.cut_short.is_none()).collect();
    if complete.is_empty() {
        complete = all().collect();
    }
    complete.sort_by_key(|(round, _)| *round);
    complete
}

/// A figure of each round; `None` if it has none.
fn values(figure: Figure, phases: &[&Phase], alone: Option<f64>) -> Option<Vec<f64>> {
    let rates = |rounds: Vec<Round>| rounds.iter().map(Round::rate).collect::<Option<Vec<f64>>>();
    match figure {
        Figure::VictimIops => rates(ops(phases)),
        Figure::FloodBytesPerS => rates(flooded(phases)),
        Figure::BurstBytesPerS => rates(bursts(phases)),
        Figure::VictimP99Us => phases.iter().map(|p| tail_us(&p.latencies().operations())).collect(),
        Figure::DeadShare => rates(dead(phases, alone.filter(|iops| *iops > 0.0)?)),
    }
}

fn ops(phases: &[&Phase]) -> Vec<Round> {
    phases.iter().map(|p| Round::new(windows(p).iter().map(|w| (w.ops, w.seconds)))).collect()
}

fn flooded(phases: &[&Phase]) -> Vec<Round> {
    phases.iter().map(|p| Round::new(p.intervals.iter().map(|i| (i.flood_bytes as f64, i.seconds)))).collect()
}

fn bursts(phases: &[&Phase]) -> Vec<Round> {
    phases.iter().filter_map(|p| p.burst).map(|b| Round::new([(b.bytes as f64, b.seconds)])).collect()
}

fn dead(phases: &[&Phase], alone: f64) -> Vec<Round> {
    let seconds = |w: &crate::stalls::Window| if w.is_dead(alone) { w.seconds } else { 0.0 };
    phases.iter().map(|p| Round::new(windows(p).iter().map(|w| (seconds(w), w.seconds)))).collect()
}

/// p99 in microseconds, the maximum with too few operations for one; `None` of none.
fn tail_us(counts: &LatencyCounts) -> Option<f64> {
    if counts.is_empty() {
        return None;
    }
    Some(percentile_ns(counts, 99.0).unwrap_or_else(|| counts.max_ns()) as f64 / 1e3)
}

/// How likely the difference between two sets of rounds is by chance.
fn t_test(figure: Figure, x: &[f64], y: &[f64], pairing: Pairing) -> Option<f64> {
    let largest = x.iter().chain(y).copied().fold(0.0, f64::max);
    let scale = |v: &f64| if figure == Figure::DeadShare { *v } else { v.max(largest * FLOOR).ln() };
    if largest <= 0.0 {
        return (x.len() > 1 && y.len() > 1).then_some(1.0);
    }
    let (x, y): (Vec<f64>, Vec<f64>) = (x.iter().map(scale).collect(), y.iter().map(scale).collect());
    match pairing {
        Pairing::Rounds => paired_p(&x.iter().zip(&y).map(|(a, b)| a - b).collect::<Vec<_>>()),
        Pairing::Independent => welch_p(&x, &y),
    }
}

/// How likely a mean this far from zero is by chance (Student's t test); `None` of fewer than two values.
#[must_use]
pub fn paired_p(differences: &[f64]) -> Option<f64> {
    let (mean, variance) = mean_and_variance(differences)?;
    if mean == 0.0 {
        return Some(1.0);
    }
    let n = differences.len() as f64;
    Some(two_sided_p(mean / (variance / n).sqrt(), n - 1.0))
}

/// How likely the difference between two means is by chance, variances unequal (B. L. Welch, Biometrika 34 (1947) 28).
fn welch_p(x: &[f64], y: &[f64]) -> Option<f64> {
    let ((mx, vx), (my, vy)) = (mean_and_variance(x)?, mean_and_variance(y)?);
    let (nx, ny) = (x.len() as f64, y.len() as f64);
    let (ex, ey) = (vx / nx, vy / ny);
    if mx == my {
        return Some(1.0);
    }
    let freedom = (ex + ey).powi(2) / (ex * ex / (nx - 1.0) + ey * ey / (ny - 1.0));
    let freedom = if freedom.is_finite() { freedom } else { nx + ny - 2.0 };
    Some(two_sided_p((mx - my) / (ex + ey).sqrt(), freedom))
}

/// Mean and unbiased variance; `None` of fewer than two values.
#[must_use]
pub fn mean_and_variance(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    Some((mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64))
}

/// The difference of two shares of time, with its interval: rounds, and within each moving blocks of seconds, as in [`crate::bootstrap`].
fn difference_of_shares(a: &[Round], b: &[Round], pairing: Pairing) -> Option<Estimate> {
    let share = |sums: (f64, f64)| (sums.1 > 0.0).then(|| sums.0 / sums.1);
    let add = |x: (f64, f64), y: (f64, f64)| (x.0 + y.0, x.1 + y.1);
    let whole = |rounds: &[Round]| share(rounds.iter().map(Round::sums).fold((0.0, 0.0), add));
    let value = whole(a)? - whole(b)?;
    let mut random = Random::seeded(SEED);
    let mut figures = Vec::with_capacity(REPLICATES);
    for _ in 0..REPLICATES {
        let ours = draw_rounds(a.len(), &mut random);
        let theirs =
            if pairing == Pairing::Rounds { ours.clone() } else { draw_rounds(b.len(), &mut random) };
        let ours = share(ours.iter().map(|i| a[*i].resampled(&mut random)).fold((0.0, 0.0), add))?;
        let theirs = share(theirs.iter().map(|i| b[*i].resampled(&mut random)).fold((0.0, 0.0), add))?;
        figures.push(ours - theirs);
    }
    let (low, high) = interval(&mut figures)?;
    Some(Estimate { value, low: low.min(value), high: high.max(value), rounds: a.len().min(b.len()) as u32 })
}

/// Latencies of several units (rounds, or stretches of one), side by side bucket by bucket.
struct Tails {
    units: usize,
    /// `(microseconds, count of each unit)`, from the slowest down.
    rows: Vec<(f64, Vec<u64>)>,
    totals: Vec<u64>,
}

impl Tails {
    fn of(units: &[LatencyCounts]) -> Self {
        let mut dense = std::collections::BTreeMap::<usize, Vec<u64>>::new();
        for (unit, counts) in units.iter().enumerate() {
            for (bucket, n) in counts.buckets() {
                dense.entry(bucket).or_insert_with(|| vec![0; units.len()])[unit] += n;
            }
        }
        let us = |bucket: usize| floodwall_model::latency::bucket_high_ns(bucket) as f64 / 1e3;
        Self {
            units: units.len(),
            rows: dense.into_iter().rev().map(|(bucket, counts)| (us(bucket), counts)).collect(),
            totals: units.iter().map(LatencyCounts::count).collect(),
        }
    }

    /// p99 of the units drawn, in microseconds; `None` of no operation.
    fn p99_us(&self, drawn: &[usize]) -> Option<f64> {
        let total: u64 = drawn.iter().map(|unit| self.totals[*unit]).sum();
        // Nearest rank: so many operations may be slower; the maximum with under 100.
        let mut slower = total / 100;
        for (us, counts) in &self.rows {
            let here: u64 = drawn.iter().map(|unit| counts[*unit]).sum();
            if here > slower {
                return Some(*us);
            }
            slower -= here;
        }
        None
    }
}

/// The ratio of two p99 over all rounds, with its interval: rounds are resampled, or with one round its stretches of seconds.
fn ratio_of_p99(a: &[&Phase], b: &[&Phase], pairing: Pairing) -> Option<Estimate> {
    let rounds = a.len().min(b.len());
    let [ours, theirs] = [a, b].map(|phases| Tails::of(&units(phases)));
    let whole = |tails: &Tails| tails.p99_us(&(0..tails.units).collect::<Vec<_>>());
    let value = whole(&ours)? / whole(&theirs).filter(|us| *us > 0.0)?;
    let paired = pairing == Pairing::Rounds && ours.units == theirs.units;
    let mut random = Random::seeded(SEED);
    let mut figures: Vec<f64> = (0..REPLICATES)
        .map(|_| {
            let drawn = draw_rounds(ours.units, &mut random);
            let others = if paired { drawn.clone() } else { draw_rounds(theirs.units, &mut random) };
            match (ours.p99_us(&drawn), theirs.p99_us(&others)) {
                (Some(x), Some(y)) if y > 0.0 => x / y,
                _ => f64::INFINITY,
            }
        })
        .collect();
    let (low, high) = interval(&mut figures)?;
    Some(Estimate { value, low: low.min(value), high: high.max(value), rounds: rounds as u32 })
}

/// Rounds as they are; one alone in stretches of neighbouring seconds, so that a stall stays whole.
fn units(phases: &[&Phase]) -> Vec<LatencyCounts> {
    let [one] = phases else { return phases.iter().map(|p| p.latencies().operations()).collect() };
    let mut seconds: Vec<LatencyCounts> = one.intervals.iter().map(|i| i.latencies.operations()).collect();
    seconds.push(one.overrun.operations());
    let stretch = block_length(one.intervals.len()).max(1);
    let merged = |chunk: &[LatencyCounts]| {
        let mut all = LatencyCounts::default();
        chunk.iter().for_each(|counts| all.merge(counts));
        all
    };
    seconds.chunks(stretch).map(merged).filter(|counts| !counts.is_empty()).collect()
}

#[cfg(test)]
mod tests;
