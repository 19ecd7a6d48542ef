//! Which time a picture shows, and which phases of a bench ran in it.
//!
//! ```text
//! recording: time 0 = time_zero_unix_s  result: run began at started_at_unix_s, phase at + start_s
//!                     └────────── both in Unix time ─────────┘
//! ```
//!
//! All times here are microseconds of the recording.

use floodwall_model::{Phase, PhaseKind};

use super::error::SeeksError;
use super::recording::Recording;
use super::view::View;
use crate::schema::Document;

/// No picture shows less than this: a millisecond.
const MIN_US: f64 = 1e3;

/// A phase, or its warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Band {
    pub(super) kind: PhaseKind,
    pub(super) round: u32,
    pub(super) start_us: f64,
    pub(super) end_us: f64,
    /// The time before the measured part, in which the loads run already.
    pub(super) warmup: bool,
}

/// The time that a picture shows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) start_us: f64,
    pub(super) end_us: f64,
    /// Where the axis's seconds are counted from.
    pub(super) zero_us: f64,
    /// What happened then, for the axis's name.
    pub(super) zero_name: &'static str,
    /// Unix time of `start_us`, in seconds.
    pub(super) start_unix_s: Option<f64>,
    /// Clipped to the span, in order.
    pub(super) bands: Vec<Band>,
    /// The phase that it was cut to.
    pub(super) phase: Option<(PhaseKind, u32)>,
}

impl Span {
    /// The time that a view asks for.
    pub(super) fn new(
        recording: &Recording,
        result: Option<&Document>,
        view: &View,
    ) -> Result<Self, SeeksError> {
        let first = recording.requests.first().map_or(0.0, |r| r.time_us);
        let last = recording.requests.iter().map(|r| r.completed_us()).fold(first, f64::max);
        let last = last.max(first + MIN_US);
        let zero_unix_s = recording.about.as_ref().map(|a| a.time_zero_unix_s);
        let mut span = Self {
            start_us: first,
            end_us: last,
            zero_us: 0.0,
            zero_name: "the device came up",
            start_unix_s: None,
            bands: Vec::new(),
            phase: None,
        };
        if let Some(document) = result {
            let zero_unix_s = zero_unix_s.ok_or(SeeksError::NoUnixTime { what: "recording" })?;
            let started = document.run.started_at_unix_s;
            if started <= 0.0 {
                return Err(SeeksError::NoUnixTime { what: "result" });
            }
            span.zero_us = (started - zero_unix_s) * 1e6;
            span.zero_name = "the run began";
            let phases = phases(document, span.zero_us);
            if let Some(kind) = view.phase {
                span.cut_to(kind, view.round, &phases, zero_unix_s)?;
            } else if !phases.iter().any(|band| band.overlaps(&span)) {
                return Err(not_covered(&span, zero_unix_s, "the run", &phases));
            }
            span.bands = phases.iter().filter_map(|band| band.clipped(&span)).collect();
        }
        span.start_unix_s = zero_unix_s.map(|zero| zero + span.start_us / 1e6);
        Ok(span)
    }

    /// Length in seconds.
    pub(super) fn seconds(&self) -> f64 {
        (self.end_us - self.start_us) / 1e6
    }

    /// Whether a moment is shown.
    pub(super) fn contains(&self, time_us: f64) -> bool {
        (self.start_us..=self.end_us).contains(&time_us)
    }

    /// A moment as the axis counts it, in seconds.
    pub(super) fn axis_s(&self, time_us: f64) -> f64 {
        (time_us - self.zero_us) / 1e6
    }

    /// Cuts to the wanted phase with its warm-up: of the wanted round, or of the first that was
    /// recorded.
    fn cut_to(
        &mut self,
        kind: PhaseKind,
        round: Option<u32>,
        phases: &[Band],
        zero_unix_s: f64,
    ) -> Result<(), SeeksError> {
        let wanted: Vec<Band> = phases
            .iter()
            .filter(|b| b.kind == kind && round.is_none_or(|r| r == b.round))
            .copied()
            .collect();
        if wanted.is_empty() {
            let there = phases
                .iter()
                .filter(|b| !b.warmup)
                .map(|b| format!("{} {}", b.kind.name(), b.round));
            let round = round.map_or_else(String::new, |r| format!(" of round {r}"));
            let there = there.collect::<Vec<_>>().join(", ");
            return Err(SeeksError::NoPhase { wanted: format!("'{}'{round}", kind.name()), there });
        }
        let Some(found) = wanted.iter().find(|b| !b.warmup && b.overlaps(self)) else {
            return Err(not_covered(
                self,
                zero_unix_s,
                &format!("the phase '{}'", kind.name()),
                &wanted,
            ));
        };
        let of_round = || wanted.iter().filter(|b| b.round == found.round);
        let start = of_round().map(|b| b.start_us).fold(f64::MAX, f64::min);
        let end = of_round().map(|b| b.end_us).fold(f64::MIN, f64::max);
        self.start_us = self.start_us.max(start);
        self.end_us = self.end_us.min(end).max(self.start_us + MIN_US);
        self.phase = Some((kind, found.round));
        Ok(())
    }
}

impl Band {
    fn overlaps(&self, span: &Span) -> bool {
        self.start_us < span.end_us && self.end_us > span.start_us
    }

    fn clipped(&self, span: &Span) -> Option<Self> {
        self.overlaps(span).then(|| Self {
            start_us: self.start_us.max(span.start_us),
            end_us: self.end_us.min(span.end_us),
            ..*self
        })
    }
}

/// All phases of a result and their warm-ups, by start.
fn phases(document: &Document, run_us: f64) -> Vec<Band> {
    let mut bands: Vec<Band> = document
        .trials
        .iter()
        .flat_map(|trial| trial.phases.iter().map(|phase| (trial.round, phase)))
        .flat_map(|(round, phase)| bands_of(round, phase, run_us))
        .collect();
    bands.sort_by(|a, b| a.start_us.total_cmp(&b.start_us));
    bands
}

fn bands_of(round: u32, phase: &Phase, run_us: f64) -> impl Iterator<Item = Band> {
    let measured_us = run_us + phase.start_s * 1e6;
    let band =
        |start_us, end_us, warmup| Band { kind: phase.kind, round, start_us, end_us, warmup };
    // The measured part begins when the warm-up ends.
    let warmup = (phase.warmup.seconds > 0.0)
        .then(|| band(measured_us - phase.warmup.seconds * 1e6, measured_us, true));
    let measured = band(measured_us, measured_us + phase.seconds * 1e6, false);
    warmup.into_iter().chain([measured])
}

fn not_covered(span: &Span, zero_unix_s: f64, what: &str, bands: &[Band]) -> SeeksError {
    let utc = |us: f64| utc(zero_unix_s + us / 1e6);
    let start = bands.iter().map(|b| b.start_us).fold(f64::MAX, f64::min);
    let end = bands.iter().map(|b| b.end_us).fold(f64::MIN, f64::max);
    let ran = if bands.is_empty() {
        "has no phases".to_owned()
    } else {
        format!("ran from {} to {}", utc(start), utc(end))
    };
    SeeksError::NotCovered {
        recorded: format!("{} to {}", utc(span.start_us), utc(span.end_us)),
        what: what.to_owned(),
        ran,
    }
}

/// `2026-11-21 02:40:10 UTC`. Days to civil date as in H. Hinnant, "chrono-Compatible Low-Level
/// Date Algorithms".
pub(crate) fn utc(unix_s: f64) -> String {
    // A float that is out of range becomes the nearest integer; a year of a million is still
    // printed.
    let seconds = (unix_s.floor() as i64).clamp(-1 << 44, 1 << 44);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_s, text) in [
            (0.0, "1970-01-01 00:00:00 UTC"),
            (951_782_399.9, "2000-02-28 23:59:59 UTC"),
            (951_782_400.0, "2000-02-29 00:00:00 UTC"),
            (1_795_228_810.0, "2026-11-21 02:40:10 UTC"),
            (4_107_542_400.0, "2100-03-01 00:00:00 UTC"),
            (-1.0, "1969-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(utc(unix_s), text);
        }
    }
}
