//! The published NFS experiment of 2016 behind a real client and server, in user-mode Linux.
//!
//! ```text
//! round: floodwall lab run null --kernel uml -- scripts/nfs-2016 ─▶ its output ─▶ DATA/ROUND.json
//! all that is in DATA, published figures ─▶ a row a trial ─▶ docs/reproductions.md
//! ```
//!
//! A round that is there is not repeated, so that an interrupted run goes on where it was.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use published::Experiment;
use published::origin::{self, Origin};
use published::stored;
use serde_json::{Value, json};

use crate::devices::{Floodwall, run as run_command};
use crate::trials;
use crate::victims::summary::Rounds;

/// What the figures depend on besides the machine.
const INPUTS: [&str; 4] = ["lab", "device-presets", "published-figures", "nfs-script"];
/// The rounds behind the table of docs/reproductions.md.
const DATA: &str = "benches/lab/nfs-2016";
const SCRIPT: &str = "scripts/nfs-2016";
/// The guest's memory, which client and server share. The published client was ready to hold back
/// 1.6 GB: about a tenth of this, where the kernel begins to write (`dirty_background_ratio`).
const RAM: &str = "16GiB";

/// The script's word for a row, its published figure, and what the row is.
const ROWS: [(&str, &str, &str); 4] = [
    ("local", "local_mb_s", "on the server itself"),
    ("sync-default", "export_sync_default_mb_s", "NFS, sync, default limits"),
    ("sync-tuned", "export_sync_tuned_mb_s", "NFS, sync, limits from bandwidth × delay"),
    ("async-default", "export_async_mb_s", "NFS, async (not stable when it returns)"),
];

/// The measurement, and the directory of its results.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds of each
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Where what was measured is kept; a round that is there is not repeated
    #[arg(long, default_value = DATA)]
    data: PathBuf,
    /// The document whose section is written anew; only printed without it
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Measures the missing rounds, and writes the table of all stored ones.
pub(crate) fn run(floodwall: &Floodwall, options: &Options) -> anyhow::Result<()> {
    let root = origin::root()?;
    std::fs::create_dir_all(&options.data)
        .with_context(|| format!("can't make '{}'", options.data.display()))?;
    for round in 1..=options.rounds {
        let path = options.data.join(format!("{round}.json"));
        if path.exists() {
            continue;
        }
        eprintln!("round {round} of {}", options.rounds);
        let mut command = Command::new(&floodwall.program);
        command.args([
            "lab", "run", "null", "--memory", "16MiB", "--kernel", "uml", "--ram", RAM, "--",
        ]);
        let printed = run_command(command.arg(root.join(SCRIPT)).arg("1"))?;
        let origin = Origin::now(&root, &INPUTS)?;
        stored::write(
            &path,
            &json!({ "round": round, "ram": RAM, "origin": origin, "printed": printed }),
        )?;
    }
    let published = root.join("benches/published/measurements.toml");
    let section = section(&options.data, &published)?;
    trials::publish(
        section,
        options.out.as_deref(),
        "lab-2016",
        "target/release/lab-bench nfs --out docs/reproductions.md",
    )
}

/// The table of all stored rounds, and what those were measured with.
fn section(data: &Path, published: &Path) -> anyhow::Result<(String, Origin)> {
    let (rounds, origin) = trials::read_all(data)?;
    Ok((table(&rounds, &Experiment::read(published, "nfs_gige_2016")?)?, origin))
}

fn table(rounds: &[Value], published: &Experiment) -> anyhow::Result<String> {
    let mut printed = Vec::new();
    for round in rounds {
        anyhow::ensure!(
            round["ram"] == RAM,
            "round {} is of another guest; remove it",
            round["round"]
        );
        printed.push(round["printed"].as_str().context("a round without what the script printed")?);
    }
    let late = printed.iter().map(|text| is_late(text)).collect::<anyhow::Result<Vec<bool>>>()?;
    let late = late.into_iter().filter(|late| *late).count();
    let mut out = format!(
        "MB/s of `dd bs=1M count=1000 conv=fdatasync`, {} rounds; in brackets the 95 % interval. \
         The lab did not keep up with its model in {late} of them.\n\n\
         | figure | published | in the guest | guest / published |\n|---|---|---|---|\n",
        printed.len()
    );
    for (row, figure, what) in ROWS {
        let rates =
            printed.iter().map(|text| rate(text, row)).collect::<anyhow::Result<Vec<f64>>>()?;
        let published = published.number(figure)?;
        let ratios = rates.iter().map(|rate| rate / published).collect();
        writeln!(
            out,
            "| {what} | {published:.0} | {} | {} |",
            Rounds(rates).shown(printed.len(), |rate| format!("{rate:.1}")),
            Rounds(ratios).shown(printed.len(), |ratio| format!("{ratio:.2}")),
        )?;
    }
    Ok(out)
}

/// Whether the lab did not keep up with its model, or can't tell.
fn is_late(printed: &str) -> anyhow::Result<bool> {
    let found = printed.lines().find_map(|line| line.trim().strip_prefix("kept up"));
    let answer = found.context("the script did not print whether the lab kept up")?;
    Ok(!answer.trim_start().starts_with("yes:"))
}

/// The rate of a row: `ROUND ROW MB/s`.
fn rate(printed: &str, row: &str) -> anyhow::Result<f64> {
    let found = printed.lines().find_map(|line| {
        let [_, name, rate] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        if name == row { rate.parse().ok() } else { None }
    });
    found.with_context(|| format!("the script printed no rate of '{row}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_table_follows_from_the_stored_rounds() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("docs/reproductions.md")).unwrap();
        let sections = published::document::sections(&text).unwrap();
        let written = sections.iter().find(|section| section.name == "lab-2016").unwrap();
        let published = root.join("benches/published/measurements.toml");
        let (section, origin) = section(&root.join(DATA), &published).unwrap();
        assert!(written.text == section, "`{}` writes it anew", written.command);
        assert_eq!(written.origin, origin);
    }

    #[test]
    fn rows_are_found_by_their_name_and_a_late_lab_is_counted() {
        let published =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../published/measurements.toml");
        let published = Experiment::read(&published, "nfs_gige_2016").unwrap();
        let round = |local: f64, kept_up: &str| {
            let rates = format!(
                "1 local {local}\n1 sync-default 44\n1 sync-tuned 56\n1 async-default 100\n"
            );
            json!({ "ram": RAM, "printed": format!("{rates}lateness    n 5\n\
                kept up     {kept_up}\n") })
        };
        let rounds = [round(66.0, "yes: within"), round(33.0, "nothing to tell it by")];
        let text = table(&rounds, &published).unwrap();
        assert!(text.contains("in 1 of them"), "{text}");
        assert!(
            text.contains(
                "sync, default limits | 44 | 44.0 (44.0 to 44.0) | 1.00 (1.00 to 1.00) |"
            ),
            "{text}"
        );
        let missing = [json!({ "ram": RAM, "printed": "1 local 66\nkept up yes: within\n" })];
        let said = table(&missing, &published).unwrap_err().to_string();
        assert!(said.contains("sync-default"), "{said}");
        let silent = [json!({ "ram": RAM, "printed": "1 local 66\n" })];
        assert!(table(&silent, &published).unwrap_err().to_string().contains("kept up"));
    }
}
