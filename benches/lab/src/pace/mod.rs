//! A victim beside a copy that is paced, beside the same copy unpaced, and beside other ways to
//! copy politely.
//!
//! ```text
//! round × device × victim × way: fresh device ─▶ floodwall bench --flood-cmd WAY ─▶ DATA/….json
//! all files of DATA ─▶ a row for each device, victim and way ─▶ docs/pace.md
//! ```
//!
//! A stored measurement is not repeated, so an interrupted run goes on where it was.

mod measured;
mod table;
mod way;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::ValueEnum;
use jiff::Timestamp;
use published::origin::{self, Origin};
use published::stored;
use serde_json::Value;

use crate::devices::{self, Floodwall};
use crate::trials;

use self::measured::{Figures, Measured};
use self::way::Way;

/// The code that the figures depend on.
const INPUTS: [&str; 4] = ["lab", "device-presets", "pace", "engines"];
/// The measurements behind the table of docs/pace.md.
const DATA: &str = "benches/lab/pace";
/// The section's name.
const NAME: &str = "lab-pace";
const COMMAND: &str = "make lab-pace";
/// The file that is copied. It is in memory, so no read of another disk limits the copy.
const SOURCE: &str = "/dev/shm/floodwall-pace-source";
const SOURCE_BYTES: u64 = 2 << 30;

/// The victims' scenarios.
const VICTIMS: [&str; 2] = ["copy-vs-database", "copy-vs-database-open"];

/// A victim, by the scenario that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Victim {
    /// Commits one after the other.
    #[value(name = "copy-vs-database")]
    Closed,
    /// Commits at a third of its rate alone.
    #[value(name = "copy-vs-database-open")]
    Open,
}

/// The measurement, and the directory of its results.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these devices
    #[arg(long, value_delimiter = ',', default_values = way::DEVICES)]
    devices: Vec<String>,
    /// Only these victims
    #[arg(long, value_delimiter = ',', default_values = VICTIMS)]
    victims: Vec<Victim>,
    /// Only these ways
    #[arg(long, value_delimiter = ',', default_values = Way::ALL.map(Way::name))]
    ways: Vec<Way>,
    /// Rounds of each
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds of each phase
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Measure at most so many now, the others in later runs
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    cells: usize,
    /// The directory of stored measurements, which are not repeated
    #[arg(long, default_value = DATA)]
    data: PathBuf,
    /// The document whose section is written anew
    #[arg(long, default_value = "docs/pace.md")]
    out: PathBuf,
}

/// Takes the missing measurements, and writes the table of all stored ones.
pub(crate) fn run(floodwall: &Floodwall, options: &Options) -> anyhow::Result<()> {
    let root = origin::root()?;
    fs::create_dir_all(&options.data)
        .with_context(|| format!("can't make '{}'", options.data.display()))?;
    let mut left = options.cells;
    let source = Source::make()?;
    for round in 1..=options.rounds {
        for device in &options.devices {
            for victim in &options.victims {
                for way in &options.ways {
                    let cell = format!("{device}-{}-{}", name_of(*victim), way.name());
                    let path = options.data.join(format!("{cell}-{round}.json"));
                    if path.exists() || left == 0 {
                        continue;
                    }
                    left -= 1;
                    eprintln!("{cell}, round {round}");
                    let origin = Origin::now(&root, &INPUTS)?;
                    let load = measured::load()?;
                    let (figures, kept_up) = cell_of(floodwall, device, *victim, *way, options)?;
                    let measured = Measured {
                        device: device.clone(),
                        victim: name_of(*victim),
                        way: way.name().to_owned(),
                        round,
                        origin,
                        date: Timestamp::now().strftime("%Y-%m-%d").to_string(),
                        kernel: measured::read("/proc/sys/kernel/osrelease")?,
                        load,
                        kept_up,
                        figures,
                    };
                    stored::write_pretty(&path, &measured)?;
                }
            }
        }
    }
    drop(source);
    trials::publish(section(&options.data)?, Some(&options.out), NAME, COMMAND)
}

fn name_of(victim: Victim) -> String {
    victim.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// One victim beside one way to copy, on a fresh device.
fn cell_of(
    floodwall: &Floodwall,
    preset: &str,
    victim: Victim,
    way: Way,
    options: &Options,
) -> anyhow::Result<(Figures, Option<bool>)> {
    let device = floodwall.up(preset, &["--fs", "xfs"])?;
    let mut command = Command::new(&floodwall.program);
    command
        .args(["bench", "--json", "--progress", "never", "--no-burst", "--rounds", "1"])
        .args(["--scenario", &name_of(victim), "--flood", "none"])
        .args(["--measure", &format!("{}s", options.seconds)])
        .args(["--flood-cmd", &way.command(&floodwall.program, Path::new(SOURCE))])
        .arg(device.dir()?);
    // A status of 3 (not conclusive) has figures as well.
    let json = devices::run_accepting(&mut command, &[0, 3])?;
    let result: Value = serde_json::from_str(&json).context("bench --json")?;
    let kept_up = device.stats()?.pointer("/timings/kept_up").and_then(Value::as_bool);
    Ok((Figures::of(&result)?, kept_up))
}

/// The file that is copied. It is removed when this is dropped.
struct Source;

impl Source {
    fn make() -> anyhow::Result<Self> {
        let mut of = std::ffi::OsString::from("of=");
        of.push(SOURCE);
        let blocks = format!("count={}", SOURCE_BYTES >> 20);
        let mut dd = Command::new("dd");
        devices::run(dd.args(["if=/dev/zero", "bs=1M", &blocks]).arg(of))?;
        Ok(Self)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let _ = fs::remove_file(SOURCE);
    }
}

/// The table of all stored measurements, and the origin of their code.
fn section(data: &Path) -> anyhow::Result<(String, Origin)> {
    let all: Vec<Measured> = stored::read_all(data)?.into_values().collect();
    let origins: Vec<Origin> = all.iter().map(|one| one.origin.clone()).collect();
    Ok((table::section(&all), Origin::of_parts(&origins)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_table_follows_from_what_is_stored() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = fs::read_to_string(root.join("docs/pace.md")).unwrap();
        let sections = published::document::sections(&text).unwrap();
        let written = sections.iter().find(|section| section.name == NAME).unwrap();
        let (section, origin) = section(&root.join(DATA)).unwrap();
        assert!(written.text == section, "`{}` writes it anew", written.command);
        assert_eq!(written.origin, origin);
    }
}
