//! When and under which circumstances a stored measurement was taken.

use std::collections::BTreeSet;

use anyhow::Context;
use jiff::Timestamp;
use published::origin::{self, Origin};
use serde::{Deserialize, Serialize};

/// The circumstances of a measurement, as they are stored with it.
#[derive(Deserialize, Serialize)]
pub(crate) struct Stamp {
    pub(crate) round: u32,
    pub(crate) origin: Origin,
    date: String,
    kernel: String,
    /// Processes that ran or waited for the disk on average in the minute before.
    load: f64,
    /// Whether the lab kept up with its model; `None` if it can't tell.
    pub(crate) kept_up: Option<bool>,
}

impl Stamp {
    /// Of a measurement that begins now. `inputs` is the code that its figures depend on.
    pub(crate) fn now(round: u32, inputs: &[&str]) -> anyhow::Result<Self> {
        Ok(Self {
            round,
            origin: Origin::now(&origin::root()?, inputs)?,
            date: Timestamp::now().strftime("%Y-%m-%d").to_string(),
            kernel: read("/proc/sys/kernel/osrelease")?,
            load: load()?,
            kept_up: None,
        })
    }
}

fn read(path: &str) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {path}"))?;
    Ok(text.trim().to_owned())
}

fn load() -> anyhow::Result<f64> {
    let text = read("/proc/loadavg")?;
    let first = text.split_whitespace().next().and_then(|load| load.parse().ok());
    first.context("/proc/loadavg has no figure")
}

/// When and on what all of them were taken, in two sentences.
pub(crate) fn circumstances(all: &[&Stamp]) -> String {
    let set = |of: fn(&Stamp) -> &str| {
        let all: BTreeSet<&str> = all.iter().map(|stamp| of(stamp)).collect();
        all.into_iter().collect::<Vec<_>>().join(" and ")
    };
    let loads = || all.iter().map(|stamp| stamp.load);
    let (least, most) = (loads().fold(f64::MAX, f64::min), loads().fold(0.0, f64::max));
    format!(
        "Measured on {}, Linux {}. The load average before each measurement was {least:.1} to \
         {most:.1}; an earlier one is part of that.",
        set(|stamp| &stamp.date),
        // What follows is the distribution's or the builder's.
        set(|stamp| stamp.kernel.split_once('-').map_or(&*stamp.kernel, |(version, _)| version)),
    )
}

/// In how many of them the lab was late, as part of a sentence; none if in none.
pub(crate) fn late(all: &[&Stamp]) -> Option<String> {
    let late = all.iter().filter(|stamp| stamp.kept_up == Some(false)).count();
    (late > 0).then(|| {
        format!("In {late} of {} measurements the lab did not keep up with its model", all.len())
    })
}
