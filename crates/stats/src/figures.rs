//! The four figures that summarise a setting, and the further figures that the verdict needs.
//!
//! ```text
//! Trials (one a round) ─┬─ phase victim ─ IOPS alone ──────┬─▶ victim_kept, dead_seconds
//!                       ├─ phase both ─── IOPS, flood rate ─┤
//! Reference ────────────┼─ phase flood ── flood alone ─────┴─▶ flood_kept
//! (these trials or a    └─ phase burst ── burst rate ──────────▶ burst_kept
//!  stored result)
//! ```
//!
//! | figure | definition |
//! |---|---|
//! | `victim_kept` | victim IOPS in phase `both` / in phase `victim` |
//! | `flood_kept` | flood rate in phase `both` / in phase `flood` of the reference |
//! | `burst_kept` | burst rate / burst rate of the reference |
//! | `dead_seconds` | one-second windows of `both` under 10 % of victim IOPS alone, all rounds |
//!
//! Each rate is the mean over all seconds of all rounds ([`crate::estimate`]). Stalls are the
//! subject of the measurement, and neither a median second nor a median round would see them.
//!
//! A phase that was cut short (an interrupted run) counts only if there is no complete one of its
//! kind. A figure that can't be computed is `None`, with the reason in [`Summary::unknown`].

use floodwall_model::LatencyCounts;
use floodwall_model::trial::{Phase, PhaseKind, Trial};
use serde::{Deserialize, Serialize};

use crate::estimate::{Estimate, MISS, Pairing, Ratio, Round, mean_rate, rate_of, ratio_of_rates};
use crate::quantiles::Percentiles;
use crate::stalls::{self, Window, windows};

/// What flood and burst are compared with.
#[derive(Clone, Copy, Debug)]
pub enum Reference<'a> {
    /// The setting in force: these same trials. `burst_kept` is then 1 by definition, and its
    /// interval tells how repeatable bursts are.
    InForce,
    /// A stored result, usually of the default setting, on the same runner and scenario.
    Baseline(&'a [Trial]),
}

/// The four figures and their ingredients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// What flood and burst were compared with: `in_force` or `baseline`.
    pub reference: String,
    /// Rounds measured, complete or not.
    pub rounds: u32,
    /// Share of its IOPS alone that the victim keeps beside the flood.
    pub victim_kept: Option<Estimate>,
    /// Share of the reference's flood rate alone that the flood keeps beside the victim.
    pub flood_kept: Option<Estimate>,
    /// Share of the reference's burst rate at which a burst is accepted.
    pub burst_kept: Option<Estimate>,
    /// One-second windows in which the victim got less than 10 % of its IOPS alone, over all
    /// rounds.
    pub dead_seconds: Option<Estimate>,
    /// One-second windows of phase `both`, over all rounds: what `dead_seconds` is out of.
    pub of_seconds: u64,
    /// Why figures are missing.
    pub unknown: Vec<Unknown>,
    /// The victim alone.
    pub victim: Option<PhaseFigures>,
    /// The flood alone.
    pub flood: Option<PhaseFigures>,
    /// Both together.
    pub both: Option<PhaseFigures>,
    /// Rate at which bursts were accepted, in bytes per second: the mean over all rounds.
    pub burst_bytes_per_s: Option<f64>,
}

impl Summary {
    /// Share of the seconds beside the flood that were dead; `None` where that is not known.
    #[must_use]
    pub fn dead_share(&self) -> Option<f64> {
        let seconds = (self.of_seconds > 0).then_some(self.of_seconds as f64)?;
        Some(self.dead_seconds?.value / seconds)
    }
}

/// A figure that could not be computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// Its name: `victim_kept`, …
    pub figure: String,
    /// Why.
    pub why: String,
}

/// One kind of phase over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseFigures {
    /// Measured seconds over all rounds.
    pub seconds: f64,
    /// Victim operations a second, the mean over all rounds; `None` where no victim runs.
    pub iops: Option<f64>,
    /// Bytes a second that the flood wrote, the mean over all rounds; `None` where no flood runs.
    pub flood_bytes_per_s: Option<f64>,
    /// Latencies of all rounds' victim operations (commits and reads) together; `None` where none
    /// was timed.
    pub operation_us: Option<Percentiles>,
    /// Victim operations a second in the worst one-second window.
    pub worst_second_iops: Option<f64>,
    /// Windows in which the victim got less than 10 % of its IOPS alone; `None` if it never ran
    /// alone.
    pub dead_seconds: Option<u64>,
    /// The longest run of them, in seconds.
    pub longest_stall_s: Option<u64>,
}

/// Computes the figures of trials that ran one scenario under one setting.
#[must_use]
pub fn summarise(trials: &[Trial], reference: Reference<'_>) -> Summary {
    let alone = phases(trials, PhaseKind::Victim);
    let flood = phases(trials, PhaseKind::Flood);
    let both = phases(trials, PhaseKind::Both);
    let (name, reference_trials, pairing) = match reference {
        Reference::InForce => ("in_force", trials, pairing(trials.len(), &both, &flood)),
        Reference::Baseline(stored) => ("baseline", stored, Pairing::Independent),
    };
    let rate_alone = rate_alone(trials);
    let iops_alone = rate_alone.as_ref().map(|rate| rate.value);
    let mut unknown = Vec::new();
    let mut known = |figure: &str, found: Result<Estimate, String>| {
        found.map_err(|why| unknown.push(Unknown { figure: figure.into(), why })).ok()
    };

    let victim_kept = kept(
        Side { what: "a victim beside a flood", rounds: ops_rounds(&both) },
        Side { what: "the victim alone", rounds: ops_rounds(&alone) },
        self::pairing(trials.len(), &both, &alone),
    );
    let flood_kept = kept(
        Side { what: "a flood beside a victim", rounds: flood_rounds(&both) },
        Side {
            what: "the flood alone",
            rounds: flood_rounds(&phases(reference_trials, PhaseKind::Flood)),
        },
        pairing,
    );
    let burst_kept = kept_burst(&bursts(trials), &bursts(reference_trials));
    let (dead_seconds, of_seconds) = dead_seconds(&both, rate_alone.as_ref());
    Summary {
        reference: name.into(),
        rounds: rounds(trials),
        victim_kept: known("victim_kept", victim_kept),
        flood_kept: known("flood_kept", flood_kept),
        burst_kept: known("burst_kept", burst_kept),
        dead_seconds: known("dead_seconds", dead_seconds),
        of_seconds,
        unknown,
        victim: phase_figures(&alone, iops_alone),
        flood: phase_figures(&flood, iops_alone),
        both: phase_figures(&both, iops_alone),
        burst_bytes_per_s: mean_rate(&bursts(trials)),
    }
}

/// The victim's IOPS alone: the mean over all rounds; `None` if it never ran alone.
#[must_use]
pub fn iops_alone(trials: &[Trial]) -> Option<f64> {
    rate_alone(trials).map(|rate| rate.value)
}

/// The same with its error.
pub(crate) fn rate_alone(trials: &[Trial]) -> Option<Ratio> {
    rate_of(&ops_rounds(&phases(trials, PhaseKind::Victim)))
}

/// The phases of a kind, one a round: complete ones, or without any, those that were cut short.
fn phases(trials: &[Trial], kind: PhaseKind) -> Vec<&Phase> {
    let all = || trials.iter().flat_map(|t| &t.phases).filter(move |p| p.kind == kind);
    let complete: Vec<_> = all().filter(|p| p.cut_short.is_none()).collect();
    if complete.is_empty() { all().collect() } else { complete }
}

/// Rounds of these trials. Trials that measure only loads alone were made beside the others, if
/// there are others.
fn rounds(trials: &[Trial]) -> u32 {
    let is_own = |t: &&Trial| t.phases.iter().any(|p| !p.kind.is_alone());
    match trials.iter().filter(is_own).count() {
        0 => trials.len() as u32,
        own => own as u32,
    }
}

/// Paired only if every round has both, so that the i-th of one ran in the same round as the i-th
/// of the other.
fn pairing(rounds: usize, a: &[&Phase], b: &[&Phase]) -> Pairing {
    if a.len() == rounds && b.len() == rounds { Pairing::Rounds } else { Pairing::Independent }
}

pub(crate) fn ops_rounds(phases: &[&Phase]) -> Vec<Round> {
    phases.iter().map(|p| Round::new(windows(p).iter().map(|w| (w.ops, w.seconds)))).collect()
}

pub(crate) fn flood_rounds(phases: &[&Phase]) -> Vec<Round> {
    phases
        .iter()
        .map(|p| Round::new(p.intervals.iter().map(|i| (i.flood_bytes as f64, i.seconds))))
        .collect()
}

fn bursts(trials: &[Trial]) -> Vec<Round> {
    phases(trials, PhaseKind::Burst)
        .iter()
        .filter_map(|p| p.burst)
        .map(|b| Round::new([(b.bytes as f64, b.seconds)]))
        .collect()
}

/// One side of a ratio.
struct Side {
    what: &'static str,
    rounds: Vec<Round>,
}

fn kept(beside: Side, alone: Side, pairing: Pairing) -> Result<Estimate, String> {
    for side in [&beside, &alone] {
        if mean_rate(&side.rounds).is_none() {
            return Err(format!("{} was not measured", side.what));
        }
    }
    ratio_of_rates(&beside.rounds, &alone.rounds, pairing)
        .ok_or_else(|| format!("{} did nothing: there is nothing to compare with", alone.what))
}

fn kept_burst(measured: &[Round], reference: &[Round]) -> Result<Estimate, String> {
    if measured.is_empty() {
        return Err("no burst was measured".into());
    }
    if reference.is_empty() {
        return Err("the baseline has no burst".into());
    }
    if measured.len() < 2 || reference.len() < 2 {
        return Err("one burst does not tell how much bursts differ: run two rounds or more".into());
    }
    ratio_of_rates(measured, reference, Pairing::Independent)
        .ok_or_else(|| "the bursts took no measurable time".into())
}

/// Dead seconds with their interval, and the seconds that they are out of.
fn dead_seconds(both: &[&Phase], alone: Option<&Ratio>) -> (Result<Estimate, String>, u64) {
    let rounds: Vec<Vec<Window>> = both.iter().map(|p| windows(p)).collect();
    let of_seconds: u64 = rounds.iter().flatten().map(Window::whole_seconds).sum();
    let found = match alone {
        None => Err("the victim alone was not measured".into()),
        Some(alone) if alone.value <= 0.0 => Err("the victim did nothing when alone".into()),
        Some(_) if of_seconds == 0 => Err("a victim beside a flood was not measured".into()),
        Some(alone) => {
            let dead = rounds.iter().flatten().filter(|w| w.is_dead(alone.value));
            let of = of_seconds as f64;
            let ends =
                stalls::dead_ends(&rounds, alone, MISS).map(|(low, high)| (low * of, high * of));
            Ok(Estimate::new(
                dead.map(Window::whole_seconds).sum::<u64>() as f64,
                ends,
                rounds.len(),
            ))
        }
    };
    (found, of_seconds)
}

fn phase_figures(phases: &[&Phase], iops_alone: Option<f64>) -> Option<PhaseFigures> {
    let kind = phases.first()?.kind;
    let windows: Vec<Vec<Window>> =
        if kind.has_victim() { phases.iter().map(|p| windows(p)).collect() } else { Vec::new() };
    let stalls: Option<Vec<stalls::Stalls>> = iops_alone
        .filter(|_| kind.has_victim())
        .map(|iops| windows.iter().map(|w| stalls::assess(w, iops)).collect());
    let mut operations = LatencyCounts::default();
    for phase in phases {
        operations.merge(&phase.latencies().operations());
    }
    Some(PhaseFigures {
        seconds: phases.iter().map(|p| p.seconds).sum(),
        iops: mean_rate(&ops_rounds(phases)).filter(|_| kind.has_victim()),
        flood_bytes_per_s: mean_rate(&flood_rounds(phases)).filter(|_| kind.has_flood()),
        operation_us: Percentiles::of(&operations),
        worst_second_iops: windows
            .iter()
            .filter_map(|w| stalls::worst(w))
            .map(|w| w.iops())
            .min_by(f64::total_cmp),
        dead_seconds: stalls.as_ref().map(|all| all.iter().map(|s| s.dead_seconds).sum()),
        longest_stall_s: stalls
            .as_ref()
            .map(|all| all.iter().map(stalls::Stalls::longest_s).max().unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    use floodwall_model::trial::{BurstTotals, Interval, OpLatencies, Warmup};

    use super::*;

    fn phase(kind: PhaseKind, ops: &[u32], flood_bytes: u64) -> Phase {
        let interval = |(i, ops): (usize, &u32)| {
            let mut interval = Interval {
                start_s: i as f64,
                seconds: 1.0,
                victim_ops: vec![*ops],
                flood_bytes,
                ..Interval::default()
            };
            interval.latencies.commit =
                LatencyCounts::from_values((0..*ops).map(|k| 1_000_000 + u64::from(k)));
            interval
        };
        Phase {
            kind,
            start_s: 0.0,
            seconds: ops.len() as f64,
            warmup: Warmup::default(),
            intervals: ops.iter().enumerate().map(interval).collect(),
            overrun: OpLatencies::default(),
            victims: vec![],
            floods: vec![],
            burst: None,
            cut_short: None,
        }
    }

    fn burst(seconds: f64) -> Phase {
        Phase {
            burst: Some(BurstTotals { bytes: 1_000_000, seconds }),
            intervals: vec![],
            ..phase(PhaseKind::Burst, &[], 0)
        }
    }

    fn trial(round: u32, alone: u32, beside: &[u32]) -> Trial {
        let phases = vec![
            phase(PhaseKind::Victim, &[alone; 6], 0),
            phase(PhaseKind::Flood, &[0; 6], 200),
            phase(PhaseKind::Both, beside, 150),
            burst(0.1 * f64::from(round)),
        ];
        Trial { setting: Default::default(), round, phases }
    }

    fn damaged() -> Vec<Trial> {
        vec![
            trial(1, 1000, &[100, 0, 0, 500, 0, 0]),
            trial(2, 1100, &[100, 0, 10, 600, 0, 10]),
            trial(3, 900, &[1000, 0, 0, 100, 100, 0]),
        ]
    }

    #[test]
    fn the_figures_are_ratios_of_means_over_rounds() {
        let s = summarise(&damaged(), Reference::InForce);
        // Beside: 100, 120 and 200 operations a second; alone: 1000, 1100 and 900.
        assert_eq!(s.victim_kept.map(|e| e.value), Some(0.14));
        assert_eq!(s.flood_kept.map(|e| (e.value, e.ends())), Some((0.75, Some((0.75, 0.75)))));
        // A tenth of 1000 is 100: exactly 100 is alive.
        assert_eq!(s.dead_seconds.map(|e| e.value), Some(11.0));
        assert_eq!((s.of_seconds, s.rounds), (18, 3));
        assert!(s.unknown.is_empty(), "{:?}", s.unknown);
        let both = s.both.unwrap();
        assert_eq!(
            (both.iops, both.worst_second_iops, both.longest_stall_s),
            (Some(140.0), Some(0.0), Some(2))
        );
        assert_eq!(both.operation_us.unwrap().max, 1000.999);
        assert_eq!(s.victim.unwrap().flood_bytes_per_s, None);
        assert_eq!(s.flood.unwrap().iops, None);
    }

    #[test]
    fn every_interval_holds_its_value() {
        let s = summarise(&damaged(), Reference::InForce);
        for e in [s.victim_kept, s.flood_kept, s.burst_kept, s.dead_seconds] {
            let e = e.unwrap();
            let (low, high) = e.ends().unwrap();
            assert!(low <= e.value && e.value <= high, "{e:?}");
        }
    }

    #[test]
    fn a_burst_compared_with_itself_is_one_and_tells_how_bursts_differ() {
        let e = summarise(&damaged(), Reference::InForce).burst_kept.unwrap();
        assert_eq!(e.value, 1.0);
        let (low, high) = e.ends().unwrap();
        assert!(low < 0.7 && high > 1.5, "bursts took 0.1, 0.2 and 0.3 s: {e:?}");
        let one = summarise(&damaged()[..1], Reference::InForce);
        assert_eq!(one.burst_kept, None);
        assert_eq!(one.victim_kept.map(|e| (e.rounds, e.ends())), Some((1, None)));
        assert_eq!(one.dead_seconds.map(|e| (e.value, e.ends())), Some((4.0, None)));
    }

    #[test]
    fn a_baseline_replaces_flood_alone_and_burst_but_not_the_victim_alone() {
        let mut stored = damaged();
        for t in &mut stored {
            t.phases[0] = phase(PhaseKind::Victim, &[1; 6], 0);
            t.phases[1] = phase(PhaseKind::Flood, &[0; 6], 300);
            t.phases[3] = burst(0.05);
        }
        let s = summarise(&damaged(), Reference::Baseline(&stored));
        assert_eq!(s.victim_kept.map(|e| e.value), Some(0.14));
        assert_eq!(s.flood_kept.map(|e| e.value), Some(0.5));
        assert_eq!(s.burst_kept.map(|e| e.value), Some(0.25));
        assert_eq!(s.reference, "baseline");
    }

    #[test]
    fn what_did_not_run_is_named() {
        let mut victim_only = damaged();
        victim_only.iter_mut().for_each(|t| t.phases.truncate(1));
        let s = summarise(&victim_only, Reference::InForce);
        let why: Vec<_> = s.unknown.iter().map(|u| (u.figure.as_str(), u.why.as_str())).collect();
        assert_eq!(
            why,
            [
                ("victim_kept", "a victim beside a flood was not measured"),
                ("flood_kept", "a flood beside a victim was not measured"),
                ("burst_kept", "no burst was measured"),
                ("dead_seconds", "a victim beside a flood was not measured"),
            ]
        );
        assert_eq!(s.victim.unwrap().iops, Some(1000.0));
        assert_eq!(summarise(&[], Reference::InForce).unknown.len(), 4);
    }

    #[test]
    fn a_victim_that_does_nothing_alone_gives_no_ratio() {
        let s = summarise(&[trial(1, 0, &[5; 6]), trial(2, 0, &[5; 6])], Reference::InForce);
        assert_eq!((s.victim_kept, s.dead_seconds), (None, None));
        assert_eq!(s.unknown.len(), 2);
    }

    #[test]
    fn a_phase_cut_short_counts_only_where_there_is_no_other() {
        let mut trials = damaged();
        trials[2].phases[2].cut_short = Some("interrupted".into());
        let s = summarise(&trials, Reference::InForce);
        assert_eq!(s.both.as_ref().map(|b| b.seconds), Some(12.0));
        assert_eq!(s.victim_kept.map(|e| e.value), Some(0.11));
        let s = summarise(&trials[2..], Reference::InForce);
        assert_eq!(s.both.map(|b| b.seconds), Some(6.0));
    }
}
