//! The confirming subset: the same cells behind the real kernel, on the lab's devices.
//!
//! ```text
//! lab up (xfs) → elevator as a disk's
//!   → floodwall tune ─▶ a setting → floodwall compare default, 15 MB, the setting ─┐
//!     floodwall bench without and with floodwall guard ────────────────────────────┤
//!                                                 data/lab/CELL.json ◀─ lab down ◀─┘
//! ```
//!
//! Everything goes through the binary, as a user would do it. A loop device begins without an
//! elevator where a disk has mq-deadline, so it is given that.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail};
use floodwall_knobs::value::as_written;
use floodwall_model::Setting;
use processes::guarded::Guarded;
use processes::interrupt;
use published::document::replace_section;
use published::origin::{self, Origin};
use published::stored;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cells::{self, Cell};

/// The recipe of 2010, whatever the device.
const RECIPE: &str = "2010-15MB";
/// The cells measured by default: the experiment of 2010, and a cell of each other kind.
const SUBSET: [&str; 5] = [
    "raid10-bbwc-2010_commit-10x16k_flood-1",
    "hdd-7200_commit-1x4k_flood-1",
    "cloud-gp3_read_flood-1",
    "sata-ssd-worn_commit-10x16k_flood-4",
    "usb-stick_scan_flood-1",
];

/// What the figures depend on besides the machine.
const INPUTS: [&str; 5] = ["law", "tuner", "lab", "device-presets", "setting-presets"];

/// How and where.
#[derive(clap::Args)]
pub(crate) struct LabArgs {
    /// Cells by name; a subset of one for each kind of device if none is named
    cells: Vec<String>,
    /// The binary to measure
    #[arg(long, default_value = "target/release/floodwall")]
    floodwall: PathBuf,
    /// How long a search may take
    #[arg(long, default_value = "10m")]
    time: String,
    /// Rounds of the comparison
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Measured part of its phases
    #[arg(long, default_value = "15s")]
    measure: String,
    /// Rounds without and with the guard
    #[arg(long, default_value_t = 2)]
    guard_rounds: u32,
    /// Measured part of their phases: what the guard tries at first takes half a minute
    #[arg(long, default_value = "45s")]
    guard_measure: String,
    /// Neither search nor compare fixed settings
    #[arg(long)]
    only_guard: bool,
    /// Where what was measured is kept; a cell that is there is not repeated
    #[arg(long, default_value = "benches/league/data/lab")]
    data: PathBuf,
    /// Where the whole results of searches and comparisons are put, for `floodwall report`
    #[arg(long, default_value = "target/league-lab")]
    raw: PathBuf,
    /// The document whose section is written anew
    #[arg(long, default_value = "docs/league.md")]
    out: PathBuf,
}

/// A cell on the lab.
#[derive(Debug, Default, Serialize, Deserialize)]
struct OnLab {
    cell: String,
    kernel: String,
    /// What `tune` said.
    outcome: String,
    why: String,
    trials: u64,
    seconds: f64,
    /// What both runs were made with; empty if that was not recorded.
    #[serde(default, skip_serializing_if = "Origin::is_empty")]
    origin: Origin,
    setting: Setting,
    contenders: Vec<MeasuredSetting>,
    /// Without and with the guard, in a separate run with longer phases.
    #[serde(default)]
    guard: Vec<MeasuredSetting>,
}

/// A setting of the comparison.
#[derive(Debug, Serialize, Deserialize)]
struct MeasuredSetting {
    name: String,
    iops: f64,
    p99_us: f64,
    victim_kept: f64,
    flood_kept: f64,
    /// `None` where too few bursts were measured.
    burst_kept: Option<f64>,
    dead_seconds: f64,
    of_seconds: f64,
}

/// Measures the missing cells and writes the section.
pub(crate) fn run(args: &LabArgs) -> anyhow::Result<()> {
    interrupt::install()?;
    let root = origin::root()?;
    std::fs::create_dir_all(&args.data)
        .with_context(|| format!("can't make '{}'", args.data.display()))?;
    let program =
        args.floodwall.canonicalize().context("no floodwall binary: cargo build --release")?;
    let wanted: Vec<&str> = match args.cells.as_slice() {
        [] => SUBSET.to_vec(),
        named => named.iter().map(String::as_str).collect(),
    };
    for name in wanted {
        let cell = cells::all().into_iter().find(|c| c.name() == name);
        let cell = cell.with_context(|| format!("no cell is called '{name}'"))?;
        let path = args.data.join(format!("{name}.json"));
        let mut measured =
            stored::read(&path)?.unwrap_or_else(|| OnLab { cell: cell.name(), ..OnLab::default() });
        let (searches, guards) =
            (measured.contenders.is_empty() && !args.only_guard, measured.guard.is_empty());
        if !searches && !guards {
            eprintln!("{name}: is there");
            continue;
        }
        eprintln!("{name}");
        let now = Origin::now(&root, &INPUTS)?;
        let is_new = measured.contenders.is_empty() && measured.guard.is_empty();
        measured.origin = if is_new { now } else { Origin::of_parts([&measured.origin, &now]) };
        let keep = |measured: &OnLab| stored::write_pretty(&path, measured);
        if searches {
            let place = Place::up(&program, &cell)?;
            search(&mut measured, &place, &cell, args)?;
            keep(&measured)?;
        }
        if guards {
            let place = Place::up(&program, &cell)?;
            guard(&mut measured, &place, &cell, args)?;
            keep(&measured)?;
        }
    }
    let (section, origin) = section(&args.data)?;
    println!("{section}");
    replace_section(&args.out, "league-lab", "league lab", &section, &origin, &root)
}

/// A device with a filesystem, taken down whatever happens.
struct Place<'a> {
    program: &'a Path,
    name: String,
    device: PathBuf,
    mount: PathBuf,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Err(error) = finished(Command::new(self.program).args(["lab", "down", &self.name])) {
            eprintln!("{error:#}");
        }
    }
}

impl<'a> Place<'a> {
    fn up(program: &'a Path, cell: &Cell) -> anyhow::Result<Self> {
        let name = format!("league-{}", std::process::id());
        let mut up = Command::new(program);
        up.args([
            "lab",
            "up",
            cell.device,
            "--json",
            "--name",
            &name,
            "--memory",
            "6GiB",
            "--fs",
            "xfs",
        ]);
        // As the kernel has it for a disk.
        let told = finished(up.args(["--scheduler", "mq-deadline"]))?;
        // From here on it is taken down.
        let mut place = Self { program, name, device: PathBuf::new(), mount: PathBuf::new() };
        interrupt::check()?;
        let info: Value = serde_json::from_str(&told).context("lab up --json")?;
        place.device = info["device"].as_str().context("lab up named no device")?.into();
        place.mount = info["mounts"][0].as_str().context("the device is not mounted")?.into();
        Ok(place)
    }

    /// `floodwall COMMAND --json` with the cell's loads; the directory is still to be said.
    fn floodwall(&self, command: &str, cell: &Cell) -> Command {
        let mut floodwall = Command::new(self.program);
        floodwall.args([command, "--json", "--victim", cell.victim_spec()]);
        // Zeros take no memory on a lab device, and filesystems and models take them like any data.
        floodwall.arg("--flood").arg(format!("seq,streams={},data=zero", cell.streams));
        floodwall
    }

    /// Deleted data still takes the lab's memory until the filesystem discards it.
    fn trim(&self) -> anyhow::Result<()> {
        said(Command::new("fstrim").arg(&self.mount)).map(drop)
    }
}

/// What a search finds, beside the default and the recipe.
fn search(
    measured: &mut OnLab,
    place: &Place<'_>,
    cell: &Cell,
    args: &LabArgs,
) -> anyhow::Result<()> {
    let mut tune = place.floodwall("tune", cell);
    let told = said(tune.args(["--time", &args.time]).arg(&place.mount))?;
    let tuned = kept(&args.raw, &format!("{}.tune.json", cell.name()), &told)?;
    let setting: Setting =
        serde_json::from_value(tuned["recommended"]["setting"].clone()).unwrap_or_default();
    place.trim()?;
    let mut compare = place.floodwall("compare", cell);
    compare.args(["--set", "default", "--set"]).arg(format!("{RECIPE}=preset:{RECIPE}"));
    if !setting.is_empty() {
        compare.arg("--set").arg(format!("tune={}", as_written(&setting).join(",")));
    }
    compare.arg("--rounds").arg(args.rounds.to_string()).args(["--measure", &args.measure]);
    let told = said(compare.arg(&place.mount))?;
    let compared = kept(&args.raw, &format!("{}.compare.json", cell.name()), &told)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    measured.kernel = text(&tuned["host"]["kernel"]);
    measured.outcome = text(&tuned["recommended"]["outcome"]);
    measured.why = text(&tuned["recommended"]["why"]);
    measured.trials = tuned["trials_run"].as_u64().unwrap_or(0);
    measured.seconds = tuned["seconds"].as_f64().unwrap_or(0.0);
    measured.setting = setting;
    measured.contenders =
        compared["contenders"].as_array().into_iter().flatten().map(contender).collect();
    Ok(())
}

/// The same loads without the guard and with it.
fn guard(
    measured: &mut OnLab,
    place: &Place<'_>,
    cell: &Cell,
    args: &LabArgs,
) -> anyhow::Result<()> {
    let bench = |name: &str, baseline: Option<&Path>| {
        let mut bench = place.floodwall("bench", cell);
        bench
            .arg("--rounds")
            .arg(args.guard_rounds.to_string())
            .args(["--measure", &args.guard_measure]);
        if let Some(baseline) = baseline {
            bench.arg("--baseline").arg(baseline);
        }
        let told = said(bench.arg(&place.mount))?;
        place.trim()?;
        kept(&args.raw, &format!("{}.{name}.json", cell.name()), &told)
    };
    let without = bench("default", None)?;
    let baseline = args.raw.join(format!("{}.default.json", cell.name()));
    let log = args.raw.join(format!("{}.guard.log", cell.name()));
    let mut guarded = Guarded::start(place.program, &place.device, &log)?;
    let with = bench("guard", Some(&baseline))?;
    guarded.end()?;
    if measured.kernel.is_empty() {
        measured.kernel = without["host"]["kernel"].as_str().unwrap_or_default().to_owned();
    }
    let named =
        |name: &str, result: &Value| MeasuredSetting { name: name.into(), ..contender(result) };
    measured.guard = vec![named("default", &without), named("guard", &with)];
    Ok(())
}

/// A result, once it is on disk as it is.
fn kept(directory: &Path, name: &str, text: &str) -> anyhow::Result<Value> {
    let path = directory.join(name);
    stored::write_text(&path, text)?;
    serde_json::from_str(text).with_context(|| format!("'{}'", path.display()))
}

fn contender(c: &Value) -> MeasuredSetting {
    let known = |path: &str| c.pointer(path).and_then(Value::as_f64);
    let number = |path: &str| known(path).unwrap_or(0.0);
    MeasuredSetting {
        name: c["name"].as_str().unwrap_or_default().to_owned(),
        iops: number("/summary/both/iops"),
        p99_us: number("/summary/both/operation_us/p99"),
        victim_kept: number("/summary/victim_kept/value"),
        flood_kept: number("/summary/flood_kept/value"),
        burst_kept: known("/summary/burst_kept/value"),
        dead_seconds: number("/summary/dead_seconds/value"),
        of_seconds: number("/summary/of_seconds"),
    }
}

/// Runs a command and returns what it printed; its progress goes to our stderr. A signal ends it.
fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = interrupt::output(
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()),
    )?;
    printed(command, &output)
}

/// The same for commands that bring something up or put it back: an earlier signal does not end
/// them.
fn finished(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("can't run {:?}", command.get_program()))?;
    printed(command, &output)
}

/// Not conclusive is a result.
fn printed(command: &Command, output: &Output) -> anyhow::Result<String> {
    if !matches!(output.status.code(), Some(0 | 3)) {
        bail!("{:?} ended with {}", command, output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The section from the stored data, and its origin.
pub(crate) fn section(data: &Path) -> anyhow::Result<(String, Origin)> {
    let all: Vec<OnLab> = stored::read_all(data)?.into_values().collect();
    let mut out = String::new();
    table(&mut out, all.iter().map(|cell| (cell.cell.as_str(), cell.contenders.as_slice())));
    out.push('\n');
    for cell in all.iter().filter(|cell| !cell.contenders.is_empty()) {
        // The last sentence of a search is about its trials; the table has the trials that judge
        // it.
        out.push_str(&format!(
            "- {} (kernel {}, {} trials): {} {}\n",
            cell.cell,
            cell.kernel,
            cell.trials,
            cell.outcome,
            if cell.setting.is_empty() {
                "the default".to_owned()
            } else {
                format!("`{}`", cell.setting)
            }
        ));
    }
    out.push_str(
        "\nThe guard, in a separate run with longer phases. It knows nothing of the device when it \
        begins:\n\n",
    );
    table(&mut out, all.iter().map(|cell| (cell.cell.as_str(), cell.guard.as_slice())));
    Ok((out, Origin::of_parts(all.iter().map(|cell| &cell.origin))))
}

fn table<'a>(out: &mut String, cells: impl Iterator<Item = (&'a str, &'a [MeasuredSetting])>) {
    out.push_str(
        "| cell | setting | victim, per second | × default | p99 | dead seconds | flood kept | \
         burst kept |\n|---|---|---|---|---|---|---|---|\n",
    );
    for (cell, contenders) in cells {
        let Some(default) = contenders.first() else { continue };
        for c in contenders {
            // Where no operation ended none was timed.
            let p99 = std::time::Duration::try_from_secs_f64(c.p99_us / 1e6)
                .ok()
                .filter(|p99| !p99.is_zero());
            let what = if c.iops * c.of_seconds < 100.0 { "slowest " } else { "" };
            let p99 = p99.map_or_else(
                || "–".to_owned(),
                |p99| format!("{what}{}", floodwall_model::units::human_duration(p99)),
            );
            out.push_str(&format!(
                "| {cell} | {} | {:.0} | {:.1} | {p99} | {:.0} of {:.0} | {:.0} % | {} |\n",
                c.name,
                c.iops,
                c.iops / default.iops.max(1e-9),
                c.dead_seconds,
                c.of_seconds,
                c.flood_kept * 100.0,
                c.burst_kept
                    .map_or_else(|| "–".to_owned(), |kept| format!("{:.0} %", kept * 100.0)),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subset_is_of_the_league() {
        for name in SUBSET {
            assert!(cells::all().iter().any(|c| c.name() == name), "{name}");
        }
    }

    #[test]
    fn a_comparison_is_read_by_the_names_of_the_schema() {
        let json = serde_json::json!({"name": "tune", "summary": {
            "both": {"iops": 700.0, "operation_us": {"p99": 31_000.0}}, "of_seconds": 80,
            "victim_kept": {"value": 0.5}, "flood_kept": {"value": 0.8},
            "burst_kept": {"value": 1.0}, "dead_seconds": {"value": 3}}});
        let c = contender(&json);
        assert_eq!((c.iops, c.p99_us, c.dead_seconds, c.of_seconds), (700.0, 31_000.0, 3.0, 80.0));
        assert_eq!((c.victim_kept, c.flood_kept, c.burst_kept), (0.5, 0.8, Some(1.0)));
    }
}
