//! How far a guest of user-mode Linux is to be trusted: the same trial in it and behind this
//! machine's own kernel.
//!
//! ```text
//! round × preset × (host, guest; who begins alternates):
//!   floodwall lab run PRESET [--kernel uml] -- apply limits; bench ─▶ DATA/PRESET-WHERE-ROUND.json
//! all that is in DATA ─▶ a ratio of guest to host a figure, by rounds ─▶ docs/lab.md
//! ```
//!
//! Both have the same dirty limits: those of a share of memory would differ with the memory. A
//! trial that is there is not repeated, so that an interrupted run goes on where it was.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use published::origin::{self, Origin};
use published::stored;
use serde_json::{Value, json};

use crate::devices::{Floodwall, run_accepting, scenario_file};
use crate::record::phases;
use crate::trials;
use crate::victims::summary::Rounds;

/// What the figures depend on besides the machine.
const INPUTS: [&str; 3] = ["lab", "device-presets", "engines"];
/// The trials behind the table of docs/lab.md.
const DATA: &str = "benches/lab/guest";
const PRESETS: [&str; 3] = ["raid10-bbwc-2010", "hdd-7200", "sata-ssd"];
const PLACES: [&str; 2] = ["host", "guest"];
/// The guest's memory; the host's is not limited.
const RAM: &str = "4GiB";
/// In force in both, put back at the end, or by itself after ten minutes.
const LIMITS: &str = "vm.dirty_bytes=256MiB vm.dirty_background_bytes=128MiB";
const SCENARIO: &str = r#"name = "guest-and-host"
[[victim]]
kind = "commit"
threads = 4
block = "16KiB"
size = "256MiB"
[[flood]]
kind = "seq"
block = "1MiB"
size = "2GiB"
data = "zero"
[timing]
rounds = 1
measure = "5s"
warmup_max = "4s"
settle = "1s"
device_cache = "1B"
"#;

/// A figure of a trial: its name, the phase, where it is in that, and how many of its unit a shown
/// one has.
struct Figure {
    name: &'static str,
    phase: &'static str,
    pointer: &'static str,
    unit: f64,
}

const FIGURES: [Figure; 5] = [
    Figure { name: "commits/s alone", phase: "victim", pointer: "/victim/iops", unit: 1.0 },
    Figure {
        name: "a commit alone, mean ms",
        phase: "victim",
        pointer: "/victim/commit_us/mean",
        unit: 1e3,
    },
    Figure { name: "flood alone, MB/s", phase: "flood", pointer: "/flood_bytes_per_s", unit: 1e6 },
    Figure {
        name: "commits/s beside the flood",
        phase: "both",
        pointer: "/victim/iops",
        unit: 1.0,
    },
    Figure {
        name: "flood beside the commits, MB/s",
        phase: "both",
        pointer: "/flood_bytes_per_s",
        unit: 1e6,
    },
];

/// The measurement, and the directory of its results.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds of each
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Where what was measured is kept; a trial that is there is not repeated
    #[arg(long, default_value = DATA)]
    data: PathBuf,
    /// The document whose section is written anew; only printed without it
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Measures the missing trials, and writes the table of all stored ones.
pub(crate) fn run(floodwall: &Floodwall, options: &Options) -> anyhow::Result<()> {
    std::fs::create_dir_all(&options.data)
        .with_context(|| format!("can't make '{}'", options.data.display()))?;
    for round in 1..=options.rounds {
        for preset in PRESETS {
            for at in 0..PLACES.len() {
                let place = PLACES[(at + round as usize) % PLACES.len()];
                let path = options.data.join(format!("{preset}-{place}-{round}.json"));
                if path.exists() {
                    continue;
                }
                eprintln!("{preset}, {place}, round {round} of {}", options.rounds);
                let measured = measure(floodwall, preset, place, round)?;
                stored::write(&path, &measured)?;
            }
        }
    }
    let section = section(&options.data)?;
    trials::publish(
        section,
        options.out.as_deref(),
        "lab-guest",
        "target/release/lab-bench guest --out docs/lab.md",
    )
}

fn measure(floodwall: &Floodwall, preset: &str, place: &str, round: u32) -> anyhow::Result<Value> {
    let scenario = scenario_file(SCENARIO)?;
    let script = format!(
        "floodwall apply --yes --for 10m {LIMITS} >/dev/null || exit 1
         floodwall bench --json --progress never --scenario {} .; status=$?
         floodwall rollback >/dev/null && exit $status",
        scenario.path().display()
    );
    let mut command = Command::new(&floodwall.program);
    command.args(["lab", "run", preset, "--size", "32GiB", "--memory", "1GiB", "--fs", "ext4"]);
    if place == "guest" {
        command.args(["--kernel", "uml", "--ram", RAM]);
    }
    let text = run_accepting(command.args(["--", "sh", "-c", &script]), &[0, 3])?;
    let bench: Value = serde_json::from_str(&text).context("bench --json")?;
    let host = &bench["host"];
    Ok(json!({
        "preset": preset,
        "place": place,
        "round": round,
        "scenario": SCENARIO,
        "limits": LIMITS,
        "origin": Origin::now(&origin::root()?, &INPUTS)?,
        "host": { "kernel": host["kernel"], "ram_bytes": host["ram_bytes"], "cpus": host["cpus"] },
        "late": text.contains("did not keep up with its model"),
        "phases": phases(&bench),
    }))
}

/// The table of all stored trials, and what those were measured with.
fn section(data: &Path) -> anyhow::Result<(String, Origin)> {
    let (trials, origin) = trials::read_all(data)?;
    Ok((table(&trials)?, origin))
}

fn table(trials: &[Value]) -> anyhow::Result<String> {
    let mut out = String::from(
        "Geometric means over the rounds with 95 % intervals. The ratio is guest to host within a \
         round. *Late* counts the rounds \
         in which the lab did not keep up with its model.\n\n\
         | preset | figure | rounds | host | guest | guest / host | late, host and guest |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for preset in PRESETS {
        let of = |place: &str| {
            let mut of: Vec<&Value> =
                trials.iter().filter(|t| t["preset"] == preset && t["place"] == place).collect();
            of.sort_by_key(|trial| trial["round"].as_u64());
            of
        };
        let (host, guest) = (of("host"), of("guest"));
        let rounds = host.len().min(guest.len());
        let late = |trials: &[&Value]| trials.iter().filter(|trial| trial["late"] == true).count();
        for figure in &FIGURES {
            let values = |trials: &[&Value]| -> Vec<f64> {
                trials.iter().take(rounds).filter_map(|trial| figure.of(trial)).collect()
            };
            let (host_values, guest_values) = (values(&host), values(&guest));
            let ratios =
                guest_values.iter().zip(&host_values).map(|(guest, host)| guest / host).collect();
            let shown = |values: Vec<f64>| {
                Rounds(values).shown(rounds, |value| number(value / figure.unit))
            };
            writeln!(
                out,
                "| `{preset}` | {} | {rounds} | {} | {} | {} | {} and {} |",
                figure.name,
                shown(host_values),
                shown(guest_values),
                Rounds(ratios).shown(rounds, |ratio| format!("{ratio:.2}")),
                late(&host),
                late(&guest),
            )?;
        }
    }
    Ok(out)
}

impl Figure {
    fn of(&self, trial: &Value) -> Option<f64> {
        let phases = trial["phases"].as_array()?;
        phases.iter().find(|phase| phase["name"] == self.phase)?.pointer(self.pointer)?.as_f64()
    }
}

fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_table_follows_from_the_stored_trials() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("docs/lab.md")).unwrap();
        let sections = published::document::sections(&text).unwrap();
        let written = sections.iter().find(|section| section.name == "lab-guest").unwrap();
        let (section, origin) = section(&root.join(DATA)).unwrap();
        assert!(written.text == section, "`{}` writes it anew", written.command);
        assert_eq!(written.origin, origin);
    }

    #[test]
    fn a_ratio_is_taken_within_a_round() {
        let trial = |place: &str, round: u32, iops: f64| {
            json!({
                "preset": "hdd-7200", "place": place, "round": round, "late": place == "guest",
                "phases": [{ "name": "both", "victim": { "iops": iops } }],
            })
        };
        let trials = [
            trial("guest", 2, 40.0),
            trial("host", 1, 10.0),
            trial("guest", 1, 20.0),
            trial("host", 2, 20.0),
        ];
        let table = table(&trials).unwrap();
        let row = table.lines().find(|l| l.contains("`hdd-7200` | commits/s beside")).unwrap();
        assert!(row.contains("| 2.00 (2.00 to 2.00) | 0 and 2 |"), "{row}");
    }
}
