//! A stored measurement.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::place::Place;
use crate::stamp::Stamp;

/// A victim beside one way to copy.
#[derive(Deserialize, Serialize)]
pub(super) struct Measured {
    #[serde(default)]
    pub(super) place: Place,
    pub(super) device: String,
    /// The scenario's name.
    pub(super) victim: String,
    pub(super) way: String,
    #[serde(flatten)]
    pub(super) stamp: Stamp,
    pub(super) figures: Figures,
}

/// Rates are of the measured part of a phase. The copy's are those of the device's writes, less the
/// writes that as many operations of the victim cause alone. Bytes in the page cache do not count.
#[derive(Clone, Copy, Deserialize, Serialize)]
pub(super) struct Figures {
    pub(super) victim_alone_per_s: f64,
    pub(super) victim_beside_per_s: f64,
    /// None with fewer than 100 commits, …
    pub(super) p99_alone_us: Option<f64>,
    /// … as here.
    pub(super) p99_beside_us: Option<f64>,
    pub(super) slowest_beside_us: f64,
    pub(super) dead_seconds: f64,
    pub(super) copy_alone_bytes_per_s: f64,
    pub(super) copy_beside_bytes_per_s: f64,
}

impl Figures {
    /// The part of its rate alone that the victim keeps.
    pub(super) fn victim_kept(&self) -> f64 {
        self.victim_beside_per_s / self.victim_alone_per_s
    }

    /// The p99 of the victim's commits, as a multiple of that alone.
    pub(super) fn p99_ratio(&self) -> Option<f64> {
        Some(self.p99_beside_us? / self.p99_alone_us?)
    }

    /// Of a result of `floodwall bench`.
    pub(super) fn of(result: &Value) -> anyhow::Result<Self> {
        let phases = result.pointer("/trials/0/phases").and_then(Value::as_array);
        let phases = phases.context("the result has no phases")?;
        let figure = |phase: &str, path: &str| {
            let phase = phases.iter().find(|one| one["name"] == phase);
            phase
                .and_then(|phase| phase.pointer(path))
                .and_then(Value::as_f64)
                .with_context(|| format!("the result has no {path} of a phase"))
        };
        let written = |phase| {
            Ok::<f64, anyhow::Error>(
                figure(phase, "/device/written_bytes")? / figure(phase, "/seconds")?,
            )
        };
        let (alone, beside) = (figure("victim", "/victim/iops")?, figure("both", "/victim/iops")?);
        Ok(Self {
            victim_alone_per_s: alone,
            victim_beside_per_s: beside,
            p99_alone_us: figure("victim", "/victim/commit_us/p99").ok(),
            p99_beside_us: figure("both", "/victim/commit_us/p99").ok(),
            slowest_beside_us: figure("both", "/victim/commit_us/max")?,
            dead_seconds: figure("both", "/victim/dead_seconds")?,
            copy_alone_bytes_per_s: written("flood")?,
            copy_beside_bytes_per_s: written("both")? - written("victim")? * beside / alone,
        })
    }
}
