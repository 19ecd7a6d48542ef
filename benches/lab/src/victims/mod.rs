//! Real victims on a lab device: PostgreSQL and SQLite beside the copy of a large file, under the default setting, under
//! others (15 MB, a short queue, the victim first under bfq), and guarded.
//!
//! ```text
//! round × victim × way (the ways in another order each round):
//!   fresh device (xfs) → database made → way in force → the victim alone → cp begins → the victim beside it → all gone ─▶ DATA/PRESET-VICTIM-WAY-ROUND.json
//! all that is in DATA, whatever the plan ─▶ a table a plan ─▶ docs/lab.md
//! ```
//!
//! What is measured is the victim's own: transactions a second and the time of each, by pgbench's log and by the clock of the program that talks to sqlite3.
//! Every process ends with this one at the latest; a setting is put back by `floodwall rollback`, else by itself after [`APPLIED_FOR`]. A trial that is
//! there is not repeated, so that an interrupted run goes on where it was.

mod copy;
mod postgres;
mod sqlite;
pub(crate) mod summary;
mod way;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use published::origin::{self, Origin};
use published::{interrupt, process};
use serde_json::{Value, json};

use crate::devices::{Device, Floodwall};
use crate::trials;
use copy::Copy;
use postgres::Postgres;
use sqlite::Sqlite;
use summary::Measured;
use way::{InForce, Way};

/// What the figures depend on besides the machine.
const INPUTS: [&str; 3] = ["law", "lab", "device-presets"];
/// The trials behind the tables of docs/lab.md.
const DATA: &str = "benches/lab/victims";
/// A setting is put back by itself after this time, if nobody else does.
const APPLIED_FOR: &str = "20m";
/// After the database is made, and before anything is measured.
const SETTLE: Duration = Duration::from_secs(5);
/// How long the copy runs before the victim is measured beside it: until the page cache is filled and the kernel throttles it.
const LEAD: Duration = Duration::from_secs(10);

/// What is measured, and how.
#[derive(clap::Args, Clone)]
pub(crate) struct Options {
    /// Device to measure on
    #[arg(long, default_value = "raid10-bbwc-2010")]
    preset: String,
    /// Elevator that the device is given, such as the mq-deadline of a disk; the loop device's own without it
    #[arg(long)]
    scheduler: Option<String>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(5..=600))]
    seconds: u32,
    /// Rounds of each
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Connections to PostgreSQL
    #[arg(long, default_value_t = 10)]
    clients: u32,
    /// Size of PostgreSQL's database: pgbench's scale, 16 MB each
    #[arg(long, default_value_t = 20)]
    scale: u32,
    /// Which victims
    #[arg(long, value_delimiter = ',', default_value = "postgres,sqlite")]
    victims: Vec<Who>,
    /// Under what
    #[arg(long, value_delimiter = ',', default_value = "default,15mb,guard")]
    ways: Vec<Way>,
    /// Where what was measured is kept
    #[arg(long, default_value = DATA)]
    data: PathBuf,
    /// Where the guard's log goes
    #[arg(long, default_value = "target/lab-victims")]
    logs: PathBuf,
    /// Measure at most this many trials now, the others in later runs
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    trials: usize,
    /// The document whose section is written anew; only printed without it
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Who {
    Postgres,
    Sqlite,
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        }
    }
}

/// A database that can be asked to commit.
trait Database {
    /// Commits for so long.
    fn run(&mut self, time: Duration) -> anyhow::Result<Measured>;
    /// The process that serves it, if there is one before it is asked to commit.
    fn process(&self) -> Option<u32> {
        None
    }
    /// What it says of itself, for the record.
    fn about(&mut self) -> anyhow::Result<Value>;
}

/// One trial.
#[derive(Clone, Copy)]
struct Trial {
    who: Who,
    way: Way,
    round: u32,
}

impl Trial {
    fn name(self, preset: &str) -> String {
        format!("{preset}-{}-{}-{}", self.who.name(), self.way.name(), self.round)
    }
}

impl Options {
    /// What a stored trial must agree with.
    fn plan(&self) -> Value {
        json!({
            "preset": self.preset, "scheduler": self.scheduler, "seconds": self.seconds, "clients": self.clients, "scale": self.scale,
        })
    }

    /// Victims in turn, and ways in an order that rotates with the round.
    fn trials(&self) -> Vec<Trial> {
        let mut all = Vec::new();
        for round in 1..=self.rounds {
            for who in &self.victims {
                for at in 0..self.ways.len() {
                    let way = self.ways[(at + round as usize - 1) % self.ways.len()];
                    all.push(Trial { who: *who, way, round });
                }
            }
        }
        all
    }
}

/// Measures what is missing, and writes the tables of all trials that are kept.
pub(crate) fn run(floodwall: &Floodwall, options: &Options) -> anyhow::Result<()> {
    for dir in [&options.data, &options.logs] {
        std::fs::create_dir_all(dir).with_context(|| format!("can't make '{}'", dir.display()))?;
    }
    for way in &options.ways {
        way.check(floodwall)?;
    }
    let mut measured = 0;
    for trial in options.trials() {
        let name = trial.name(&options.preset);
        let path = options.data.join(&name).with_extension("json");
        if measured == options.trials || is_stored(&path, options)? {
            continue;
        }
        eprintln!("{name} of {} rounds", options.rounds);
        let result = measure(floodwall, options, trial, &options.logs.join(&name).with_extension("log"))?;
        trials::write(&path, &result)?;
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
fn is_stored(path: &Path, options: &Options) -> anyhow::Result<bool> {
    let is_there = path.try_exists().with_context(|| format!("can't look for '{}'", path.display()))?;
    Ok(is_there && trials::read(path)?.get("plan") == Some(&options.plan()))
}

fn measure(floodwall: &Floodwall, options: &Options, trial: Trial, log: &Path) -> anyhow::Result<Value> {
    let time = Duration::from_secs(options.seconds.into());
    // Dropped from the last to the first: copy, setting or guard, database, device, mount point. PostgreSQL's user must get there.
    let mount = tempfile::tempdir().context("can't make a mount point")?;
    std::fs::set_permissions(mount.path(), PermissionsExt::from_mode(0o711)).context("the mount point")?;
    let at = mount.path().to_str().context("the mount point's name")?;
    let scheduler = options.scheduler.iter().flat_map(|name| ["--scheduler", name]);
    let fixed = ["--memory", "6GiB", "--size", "64GiB", "--fs", "xfs", "--mount", at];
    let more: Vec<&str> = fixed.into_iter().chain(scheduler).collect();
    let device = floodwall.up(&options.preset, &more)?;
    let mut database: Box<dyn Database> = match trial.who {
        Who::Postgres => Box::new(Postgres::make(device.dir()?, options.clients, options.scale)?),
        Who::Sqlite => Box::new(Sqlite::make(device.dir()?)?),
    };
    process::finished(std::process::Command::new("sync").arg("-f").arg(device.dir()?))?;
    interrupt::sleep(SETTLE)?;
    let in_force = InForce::put(floodwall, trial.way, &device, database.process(), log)?;
    let alone = database.run(time)?;
    let copy = Copy::start(device.dir()?)?;
    interrupt::sleep(LEAD)?;
    let (copied, written) = (copy.bytes()?, written_bytes(&device)?);
    let beside = database.run(time)?;
    let (copied, written) = (copy.bytes()? - copied, written_bytes(&device)? - written);
    let knobs = way::knobs();
    drop(copy);
    let guard = in_force.history()?;
    let about = database.about()?;
    let lab = device.stats()?;
    in_force.take_back()?;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").context("the kernel's version")?;
    Ok(json!({
        "plan": options.plan(),
        "origin": Origin::now(&origin::root()?, &INPUTS)?,
        "kernel": kernel.trim(),
        "knobs": knobs,
        "victim": trial.who.name(),
        "way": trial.way.name(),
        "round": trial.round,
        "about": about,
        "alone": alone.json(),
        "beside": beside.json(),
        "dead_seconds": beside.dead_seconds(alone.per_second()),
        "copy": { "bytes": copied, "seconds": beside.seconds },
        "device_written_bytes": written,
        "guard": guard,
        "lab": lab["timings"],
    }))
}

/// Bytes written to the device since it appeared (Documentation/block/stat.rst).
fn written_bytes(device: &Device<'_>) -> anyhow::Result<u64> {
    let name = device.path.file_name().context("the device has no name")?.to_string_lossy();
    let path = format!("/sys/block/{name}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let sectors: u64 = text.split_whitespace().nth(6).and_then(|n| n.parse().ok()).context(path)?;
    Ok(sectors * 512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_tables_follow_from_the_stored_trials() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("docs/lab.md")).unwrap();
        let sections = published::document::sections(&text).unwrap();
        let written = sections.iter().find(|section| section.name == "lab-victims").unwrap();
        let data = root.join(DATA);
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
