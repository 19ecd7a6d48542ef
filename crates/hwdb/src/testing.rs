//! Submissions for tests.

use jiff::civil::{Date, date};

use crate::{Best, Evidence, Figure, SCHEMA, Submission, digest};

/// The day on which tests read.
pub(crate) const TODAY: Date = date(2026, 11, 28);

pub(crate) fn figure(value: f64, low: f64, high: f64) -> Figure {
    Figure { value, low: Some(low), high: Some(high), rounds: 5 }
}

/// A result of a machine with this name: it drains at a rate in MB/s, ± 5 %.
pub(crate) fn submission(source: u64, drain_mb_s: f64) -> Submission {
    let rate = drain_mb_s * 1e6;
    Submission {
        schema: SCHEMA.into(),
        source: Some(format!("{source:016x}")),
        modelled_by: None,
        model: "ST1000DM003".into(),
        firmware: Some("CC43".into()),
        size_class: "1TB".into(),
        kernel: "6.18.5".into(),
        ram_gib: 16,
        filesystem: "ext4".into(),
        date: "2026-11-27".into(),
        drain_bytes_per_s: Some(figure(rate, rate * 0.95, rate * 1.05)),
        sync_us: Some(figure(8_300.0, 8_000.0, 8_600.0)),
        best: None,
    }
}

pub(crate) fn best(setting: &str) -> Best {
    Best {
        victim: "commit".into(),
        setting: setting.into(),
        victim_kept: figure(0.8, 0.7, 0.9),
        flood_kept: figure(0.6, 0.5, 0.7),
    }
}

pub(crate) fn evidence(submission: Submission) -> Evidence {
    Evidence { hash: digest(submission.to_text().as_bytes()), submission }
}
