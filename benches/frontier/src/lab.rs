//! A cell behind a real kernel, through the binary, as a user would measure it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use floodwall_knobs::value::as_written;
use floodwall_model::Setting;
use floodwall_report::schema::Document;
use floodwall_report::schema::contest::Contender;
use processes::interrupt;
use published::origin::{self, Origin};

use crate::cells::{Cell, FLOOD, Pace, Place};
use crate::data::{Row, Run};
use crate::families;

/// What the figures depend on besides the machine.
const INPUTS: [&str; 4] = ["lab", "engines", "device-presets", "settings"];

/// Measures a cell: the flood alone first, then all families.
pub(crate) fn measure(
    cell: &Cell,
    pace: Pace,
    floodwall: &Path,
    raw: &Path,
) -> anyhow::Result<Run> {
    let program = floodwall.canonicalize().context("no floodwall binary: cargo build --release")?;
    let root = origin::root()?;
    std::fs::create_dir_all(raw).with_context(|| format!("can't make '{}'", raw.display()))?;
    let flood = flood_alone(cell, pace, &program, raw)?;
    let families = families::of(cell, flood);
    let mut compare = in_lab(cell, &program);
    compare.args(["compare", "--json", "--progress", "never", "--alone-once", "--no-burst"]);
    loads(&mut compare, pace, Some(cell));
    for (name, setting) in &families {
        compare.arg("--set").arg(format!("{name}={}", written(setting)));
    }
    let document = result(compare.arg("."), raw, &cell.name().replace('/', "_"))?;
    let contest = document.contest.as_ref().context("a comparison has contenders")?;
    Ok(Run {
        kernel: document.run.host.kernel.clone().unwrap_or_default(),
        flood_bytes_per_s: flood,
        origin: Origin::now(&root, &INPUTS)?,
        warnings: document.run.warnings.clone(),
        rows: rows(&families, &contest.contenders),
    })
}

/// A comparison's contenders as rows.
fn rows(families: &[families::Family], contenders: &[Contender]) -> Vec<Row> {
    let row = |((name, setting), contender): (&families::Family, &Contender)| Row {
        family: (*name).to_owned(),
        setting: setting.clone(),
        summary: contender.summary.clone(),
        failure: contender.failure.clone(),
    };
    families.iter().zip(contenders).map(row).collect()
}

/// A setting as the command line takes it.
fn written(setting: &Setting) -> String {
    if setting.is_empty() { "default".to_owned() } else { as_written(setting).join(",") }
}

/// `floodwall lab run …  -- floodwall`.
fn in_lab(cell: &Cell, program: &Path) -> Command {
    let mut lab = Command::new(program);
    lab.args(["lab", "run", cell.device, "--fs", "xfs"]);
    if cell.place == Place::Guest {
        lab.args(["--kernel", "uml", "--ram"]).arg(format!("{}B", Place::GUEST_RAM.0));
    }
    lab.arg("--").arg(program);
    lab
}

fn loads(command: &mut Command, pace: Pace, victim: Option<&Cell>) {
    command.arg("--rounds").arg(pace.rounds.to_string());
    command.arg("--measure").arg(format!("{}s", pace.measure_s));
    command.arg("--victim").arg(victim.map_or_else(|| "none".to_owned(), Cell::victim_spec));
    command.args(["--flood", FLOOD]);
}

/// What the device takes from the flood alone under the default setting, in bytes a second.
fn flood_alone(cell: &Cell, pace: Pace, program: &Path, raw: &Path) -> anyhow::Result<f64> {
    let mut bench = in_lab(cell, program);
    bench.args(["bench", "--json", "--progress", "never", "--no-burst"]);
    loads(&mut bench, pace, None);
    let name = format!("{}_{}_flood", cell.place.name(), cell.device);
    let document = result(bench.arg("."), raw, &name)?;
    let flood = document.summary.flood.as_ref().and_then(|flood| flood.flood_bytes_per_s);
    flood.filter(|rate| *rate > 0.0).context("the flood alone was not measured")
}

/// Runs a command that prints a result, keeps it and reads it.
fn result(command: &mut Command, raw: &Path, name: &str) -> anyhow::Result<Document> {
    let output = interrupt::output(
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()),
    )?;
    // Not conclusive is a result.
    if !matches!(output.status.code(), Some(0 | 3)) {
        bail!("{name}: {:?} ended with {}", command.get_program(), output.status);
    }
    let path = raw.join(format!("{name}.json"));
    std::fs::write(&path, &output.stdout)
        .with_context(|| format!("can't write '{}'", path.display()))?;
    read(&path)
}

fn read(path: &Path) -> anyhow::Result<Document> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("can't read '{}'", path.display()))?;
    Document::read(&text).with_context(|| format!("'{}'", path.display()))
}
