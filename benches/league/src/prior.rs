//! What a device of each kind drains, of devices drawn at random: the law's prior for a device that
//! it does not know.
//!
//! ```text
//! seeds 0 … 99 × classes ─▶ a copy alone for a minute ─▶ what the device writes in its second half
//! ```
//!
//! The law has the quarter of each kind: three of four devices drain at least as much. No preset
//! and no device of the table of drawn devices is among them.

use std::collections::BTreeMap;
use std::fmt::Write;
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;

use floodwall_guard::config::prior;
use floodwall_model::Setting;
use floodwall_model::plant::DeviceKind;
use floodwall_sim::PlantDevice;
use published::document::replace_section;
use published::origin::{self, Origin};
#[cfg(test)]
use published::stored::read;
use published::stored::write;
use serde::{Deserialize, Serialize};

use crate::measure::rounded;
use crate::stage::Stage;
use crate::{cells, work};

/// The section of `docs/guard.md`.
const SECTION: &str = "guard-prior";
/// What the figures depend on. The law only uses them.
const INPUTS: [&str; 1] = ["simulator"];
/// Draws of each class. Seeds are small numbers; those of the drawn devices' table are of commits.
const DRAWS: u32 = 100;
/// A copy's second half, in seconds: caches are full then.
const HALF: u64 = 30;
/// The quantile that the law has.
const QUARTER: f64 = 0.25;

/// The classes that look alike to Linux. Cloud volumes look like NVMe drives or like other disks
/// that do not turn; those of virtio say that they turn, and are left out there.
const KINDS: [(&str, DeviceKind, &[&str]); 4] = [
    ("rotating", DeviceKind::Rotating, &["drawn-disk", "drawn-array"]),
    ("solid state", DeviceKind::SolidState, &["drawn-sata-ssd", "drawn-cloud"]),
    ("NVMe", DeviceKind::Nvme, &["drawn-nvme", "drawn-cloud"]),
    ("USB stick, SD card", DeviceKind::Removable, &["drawn-usb-stick"]),
];

/// Which draws, and where the figures go.
#[derive(clap::Args)]
pub(crate) struct PriorArgs {
    /// Devices at the same time; all cores if not given
    #[arg(long)]
    jobs: Option<usize>,
    /// Where what was measured is kept
    #[arg(long, default_value = "benches/league/data/prior.json")]
    data: PathBuf,
    /// The document whose section is written anew
    #[arg(long, default_value = "docs/guard.md")]
    out: PathBuf,
    /// Only measure and print
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The stored figures: by class, bytes a second of each draw.
#[derive(Default, Serialize, Deserialize)]
struct Drained {
    origin: Origin,
    classes: BTreeMap<String, Vec<f64>>,
}

pub(crate) fn run(args: &PriorArgs) -> anyhow::Result<()> {
    let root = origin::root()?;
    // Every class has a cell for each victim: one of them is enough.
    let is_first = |cell: &cells::Cell| cell.victim == cells::VICTIMS[0].0;
    let draws: Vec<cells::Cell> = cells::drawn(0..DRAWS).into_iter().filter(is_first).collect();
    let rates = std::sync::Mutex::new(BTreeMap::new());
    work::all(&draws, args.jobs, &|cell, _| {
        let rate = drained(cell)?;
        rates.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(cell.name(), rate);
        Ok(())
    })?;
    let rates = rates.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut all = Drained { origin: Origin::now(&root, &INPUTS)?, classes: BTreeMap::new() };
    for cell in &draws {
        all.classes.entry(cell.device.to_owned()).or_default().push(rates[&cell.name()]);
    }
    let section = section(&all);
    println!("{section}");
    if !args.dry_run {
        write(&args.data, &all)?;
        replace_section(&args.out, SECTION, "league prior", &section, &all.origin, &root)?;
    }
    Ok(())
}

/// Bytes a second that a device writes beside a copy alone.
fn drained(cell: &cells::Cell) -> anyhow::Result<f64> {
    let scenario = cell.scenario()?;
    let flood = scenario.floods[0].name.clone();
    let part = PlantDevice { options: cell.machine(1)?, scenario };
    let mut stage = Stage::new(vec![part], &Setting::default(), false)?;
    stage.start(0, &flood)?;
    stage.until(2 * HALF)?;
    let seconds = stage.seconds[HALF as usize..].iter();
    let written: u64 = seconds.filter_map(|s| Some(s.host.device.as_ref()?.written_bytes)).sum();
    Ok(rounded(written as f64 / HALF as f64))
}

/// Rates of a kind's draws, in order.
fn of(all: &Drained, classes: &[&str]) -> Vec<f64> {
    let mut rates: Vec<f64> =
        classes.iter().filter_map(|class| all.classes.get(*class)).flatten().copied().collect();
    rates.sort_by(f64::total_cmp);
    rates
}

fn at(rates: &[f64], share: f64) -> f64 {
    rates.get((share * rates.len() as f64) as usize).copied().unwrap_or(f64::NAN)
}

fn section(all: &Drained) -> String {
    let mut out = "| kind | drawn devices | a quarter drains less than | the middle one | three \
        quarters | the law takes |\n|---|---|---|---|---|---|\n"
        .to_owned();
    for (name, kind, classes) in KINDS {
        let rates = of(all, classes);
        let [quarter, middle, most] =
            [QUARTER, 0.5, 1.0 - QUARTER].map(|share| at(&rates, share) / 1e6);
        let _ = writeln!(
            out,
            "| {name} | {} | {quarter:.1} MB/s | {middle:.0} MB/s | {most:.0} MB/s | {:.0} MB/s |",
            rates.len(),
            prior(kind) / 1e6
        );
    }
    out
}

/// The stored section.
#[cfg(test)]
pub(crate) fn stored(data: &Path) -> anyhow::Result<Option<(&'static str, String, Origin)>> {
    let stored: Option<Drained> = read(data)?;
    Ok(stored.map(|all| (SECTION, section(&all), all.origin)))
}

/// By kind, what the law takes and what the stored draws say.
#[cfg(test)]
pub(crate) fn taken(data: &Path) -> anyhow::Result<Vec<(&'static str, f64, f64)>> {
    let all: Drained = read(data)?.unwrap_or_default();
    Ok(KINDS
        .map(|(name, kind, classes)| (name, prior(kind), at(&of(&all, classes), QUARTER)))
        .to_vec())
}
