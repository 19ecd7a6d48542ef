//! Commands that have the disk for themselves, with `pace` and without it.
//!
//! ```text
//! round × device × way × (plain, paced; who begins alternates):
//!   fresh device ─▶ the command, until its data is on the disk ─▶ seconds ─▶ DATA/….json
//! all files of DATA ─▶ a row for each device and way ─▶ docs/pace.md
//! ```
//!
//! A stored measurement is not repeated.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use published::origin::Origin;
use published::stored;
use serde::{Deserialize, Serialize};

use super::source::Source;
use super::way::Way;
use crate::devices::{self, Floodwall};
use crate::stamp::{self, Stamp};
use crate::{rounds, trials};

const DATA: &str = "benches/lab/pace-alone";
const NAME: &str = "lab-pace-alone";
const COMMAND: &str = "make lab-pace";
/// The code that the figures depend on.
const INPUTS: [&str; 3] = ["lab", "device-presets", "pace"];
const DEVICES: [&str; 2] = ["hdd-7200", "cloud-gp3"];

/// The measurement, and the directory of its results.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these devices
    #[arg(long, value_delimiter = ',', default_values = DEVICES)]
    devices: Vec<String>,
    /// Only these ways
    #[arg(long, value_delimiter = ',', default_values = paced().map(Way::name))]
    ways: Vec<Way>,
    /// Rounds of each
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// The directory of stored measurements, which are not repeated
    #[arg(long, default_value = DATA)]
    data: PathBuf,
    /// The document whose section is written anew
    #[arg(long, default_value = "docs/pace.md")]
    out: PathBuf,
}

/// A stored measurement.
#[derive(Deserialize, Serialize)]
struct Measured {
    device: String,
    way: String,
    #[serde(flatten)]
    stamp: Stamp,
    plain_s: f64,
    paced_s: f64,
}

/// Takes the missing measurements, and writes the table of all stored ones.
pub(crate) fn run(floodwall: &Floodwall, options: &Options) -> anyhow::Result<()> {
    fs::create_dir_all(&options.data)
        .with_context(|| format!("can't make '{}'", options.data.display()))?;
    let path = |round: u32, device: &str, way: Way| {
        options.data.join(format!("{device}-{}-{round}.json", way.name()))
    };
    let all = (1..=options.rounds).flat_map(|round| {
        let devices = options.devices.iter();
        devices.flat_map(move |device| options.ways.iter().map(move |way| (round, device, *way)))
    });
    let missing = all.filter(|(round, device, way)| !path(*round, device, *way).exists());
    let missing: Vec<_> = missing.collect();
    let source = Source::new(!missing.is_empty())?;
    for (round, device, way) in missing {
        eprintln!("{device}, {}, round {round}", way.name());
        let measured = measure(floodwall, &source, device, way, round)?;
        stored::write_pretty(&path(round, device, way), &measured)?;
    }
    drop(source);
    trials::publish(section(&options.data)?, Some(&options.out), NAME, COMMAND)
}

/// Every paced way.
fn paced() -> impl Iterator<Item = Way> {
    Way::ALL.into_iter().filter(|way| way.is_paced())
}

fn measure(
    floodwall: &Floodwall,
    source: &Source,
    device: &str,
    way: Way,
    round: u32,
) -> anyhow::Result<Measured> {
    let mut stamp = Stamp::now(round, &INPUTS)?;
    let mut seconds = [0.0; 2];
    let mut kept_up = Some(true);
    for turn in 0..seconds.len() {
        let is_paced = (turn + round as usize) % seconds.len();
        let up = floodwall.up(device, &["--fs", "xfs"])?;
        let command = way.command((is_paced == 1).then_some(&floodwall.program), source);
        let begin = Instant::now();
        devices::run(Command::new("sh").args(["-c", &command]).current_dir(up.dir()?))?;
        seconds[is_paced] = begin.elapsed().as_secs_f64();
        kept_up = kept_up.zip(up.kept_up()?).map(|(before, now)| before && now);
    }
    stamp.kept_up = kept_up;
    let [plain_s, paced_s] = seconds;
    Ok(Measured { device: device.to_owned(), way: way.name().to_owned(), stamp, plain_s, paced_s })
}

/// The table of all stored measurements, and the origin of their code.
fn section(data: &Path) -> anyhow::Result<(String, Origin)> {
    let all: Vec<Measured> = stored::read_all(data)?.into_values().collect();
    let origins: Vec<Origin> = all.iter().map(|one| one.stamp.origin.clone()).collect();
    Ok((table(&all), Origin::of_parts(&origins)))
}

/// All measurements, as Markdown.
fn table(all: &[Measured]) -> String {
    let stamps: Vec<&Stamp> = all.iter().map(|one| &one.stamp).collect();
    if stamps.is_empty() {
        return "Nothing is measured yet.\n".to_owned();
    }
    let late = stamp::late(&stamps).map(|late| format!(" {late}.")).unwrap_or_default();
    let mut text = format!(
        "{}{late} The middle of the rounds, and in brackets each round.\n\n\
         | device | command | plain, s | paced, s | paced / plain |\n|---|---|---|---|---|\n",
        stamp::circumstances(&stamps)
    );
    for device in DEVICES {
        for way in paced() {
            let same = |one: &&Measured| one.device == device && one.way == way.name();
            let mut rounds: Vec<&Measured> = all.iter().filter(same).collect();
            rounds.sort_by_key(|one| one.stamp.round);
            let cell = |digits, figure: fn(&Measured) -> f64| {
                rounds::cell(rounds.iter().map(|one| figure(one)).collect(), digits)
            };
            if !rounds.is_empty() {
                let _ = writeln!(
                    text,
                    "| {device} | {} | {} | {} | {} |",
                    way.words(),
                    cell(1, |one| one.plain_s),
                    cell(1, |one| one.paced_s),
                    cell(2, |one| one.paced_s / one.plain_s),
                );
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::written;
    use super::*;

    #[test]
    fn the_documents_table_follows_from_what_is_stored() {
        let (written, data) = written(NAME, DATA);
        assert_eq!((written.text, written.origin), section(&data).unwrap());
    }
}
