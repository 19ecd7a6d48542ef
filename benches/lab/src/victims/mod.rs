//! Real victims on a lab device: PostgreSQL, SQLite and MariaDB beside a flood, such as the copy of
//! a large file. They run under the default setting, under other settings, and guarded. Other
//! settings are 15 MB, a short queue, the victim first under bfq, and a paced flood.
//!
//! ```text
//! round × victim × flood × way (the ways in another order each round):
//!   place   fresh device (xfs), behind this kernel or a guest's
//!   trial     database made → way in force → victim alone → flood begins → victim beside it
//!           all gone ─▶ DATA/PRESET-VICTIM-FLOOD-WAY-ROUND.json (without FLOOD where it is a copy)
//! all that is in DATA, whatever the plan ─▶ a table a plan ─▶ docs/lab.md
//! ```
//!
//! The figures are the victim's own: transactions a second and the time of each. They come from the
//! logs of pgbench and sysbench, and from the clock of the program that talks to sqlite3. Every
//! process ends with this one at the latest. A setting is put back by `floodwall rollback`, else by
//! itself later. A trial that is there is not repeated, so that an interrupted run goes on where it
//! was.

mod database;
mod disk;
mod flood;
pub(crate) mod load;
mod mariadb;
mod options;
pub(crate) mod place;
mod postgres;
mod sqlite;
pub(crate) mod summary;
pub(crate) mod trial;
mod way;

use std::path::Path;

use anyhow::{Context, ensure};
use published::origin::{self, Origin};
use published::stored;
use serde_json::Value;

use crate::devices::Floodwall;
use crate::trials;
use flood::Kind;
pub(crate) use options::Options;
use trial::{Trial, Who};

/// What the figures depend on besides the machine.
const INPUTS: [&str; 3] = ["law", "lab", "device-presets"];
/// Measures the missing trials, and writes the tables of all that are kept.
pub(crate) fn run(floodwall: &Floodwall, options: &Options) -> anyhow::Result<()> {
    for dir in [&options.data, &options.logs] {
        std::fs::create_dir_all(dir).with_context(|| format!("can't make '{}'", dir.display()))?;
    }
    options.check(floodwall)?;
    ensure!(
        options.guest.is_none() || !options.floods.contains(&Kind::Load),
        "a guest's device has no room for the flood 'load'; leave it out"
    );
    ensure!(
        options.load.rate.is_none() || options.victims.iter().all(|who| *who == Who::Postgres),
        "only PostgreSQL can be asked for so many transactions a second; leave --rate out"
    );
    let plan = options.plan()?;
    let mut measured = 0;
    for trial in options.trials() {
        let path = options.file(&options.data, trial, "json");
        if measured == options.trials || is_stored(&path, &plan)? {
            continue;
        }
        eprintln!("{} of {} rounds", options.name(trial), options.rounds);
        let mut result =
            measure(floodwall, options, trial, &options.file(&options.logs, trial, "log"))?;
        result["plan"] = plan.clone();
        stored::write(&path, &result)?;
        measured += 1;
    }
    let section = section(&options.data)?;
    trials::publish(section, options.out.as_deref(), "lab-victims", "make lab-victims")
}

/// The tables of all stored trials, and what those were measured with.
fn section(data: &Path) -> anyhow::Result<(String, Origin)> {
    let (trials, origin) = trials::read_all(data)?;
    Ok((summary::section(&trials)?, origin))
}

/// Whether there is a trial of the same plan.
fn is_stored(path: &Path, plan: &Value) -> anyhow::Result<bool> {
    Ok(stored::read::<Value>(path)?.is_some_and(|trial| trial.get("plan") == Some(plan)))
}

fn measure(
    floodwall: &Floodwall,
    options: &Options,
    trial: Trial,
    log: &Path,
) -> anyhow::Result<Value> {
    let mut result = match &options.guest {
        None => place::on_host(floodwall, options, trial, log)?,
        Some(memory) => place::in_guest(floodwall, options, trial, memory)?,
    };
    result["origin"] = serde_json::to_value(Origin::now(&origin::root()?, &INPUTS)?)?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(words: &str) -> Vec<String> {
        #[derive(clap::Parser)]
        struct Args {
            #[command(flatten)]
            options: Options,
        }
        let words = std::iter::once("victims").chain(words.split(' '));
        let options = <Args as clap::Parser>::parse_from(words).options;
        let file = |trial| options.file(Path::new("data"), trial, "json").display().to_string();
        options.trials().into_iter().map(file).collect()
    }

    #[test]
    fn each_trial_has_a_file_and_those_of_a_model_have_its_name() {
        let words = "--preset ./models/my.disk.toml --rounds 2 --ways default,limited-guard \
            --floods copy,load";
        let files = files(words);
        let different: std::collections::BTreeSet<&String> = files.iter().collect();
        assert_eq!((files.len(), different.len()), (2 * 2 * 2 * 2, files.len()));
        assert_eq!(files[0], "data/my.disk-postgres-default-1.json");
        assert!(files.iter().all(|file| file.starts_with("data/my.disk-")), "{files:?}");
    }

    #[test]
    fn a_file_tells_what_is_not_the_default_and_older_ones_are_found() {
        let one = "--rounds 1 --ways guard --victims";
        assert_eq!(files(&format!("{one} sqlite")), ["data/raid10-bbwc-2010-sqlite-guard-1.json"]);
        assert_eq!(
            files(&format!("--preset cloud-gp3 --guest 6GiB --rate 20 {one} postgres")),
            ["data/cloud-gp3-guest-postgres-20-guard-1.json"]
        );
        let long = "--guest 6GiB --kernel target/kernel/vmlinuz --seconds 600 --floods backup";
        assert_eq!(
            files(&format!("--preset hdd-7200 {long} {one} mariadb")),
            ["data/hdd-7200-guest-vmlinuz-mariadb-600s-backup-guard-1.json"]
        );
    }

    #[test]
    fn the_documents_tables_follow_from_the_stored_trials() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("docs/lab.md")).unwrap();
        let sections = published::document::sections(&text).unwrap();
        let written = sections.iter().find(|section| section.name == "lab-victims").unwrap();
        let data = root.join(options::DATA);
        if !data.is_dir() {
            // The table is older than the raw data that would be kept of it, and says so.
            assert!(
                written.origin.is_empty(),
                "the table says what it was measured with, and no trial is stored"
            );
            return;
        }
        let (section, origin) = section(&data).unwrap();
        assert!(written.text == section, "`{}` writes it anew", written.command);
        assert_eq!(written.origin, origin);
    }
}
