//! One trial on a device that is there: a database, a way in force, the victim alone, the flood,
//! the victim beside it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use published::{interrupt, process};
use serde_json::{Value, json};

use super::flood::{Flood, Kind};
use super::mariadb::Mariadb;
use super::postgres::Postgres;
use super::sqlite::Sqlite;
use super::summary::Measured;
use super::way::{InForce, Way, knobs};
use crate::devices::Floodwall;

/// After the database is made, and before anything is measured.
const SETTLE: Duration = Duration::from_secs(5);
/// How long the flood runs before the victim is measured beside it: until the page cache is filled
/// and the kernel throttles it.
const LEAD: Duration = Duration::from_secs(10);

/// Of each measurement, unless others are asked for.
pub(super) const SECONDS: u32 = 30;

/// What the victim does, and for how long.
#[derive(clap::Args, Clone)]
pub(crate) struct Load {
    /// Seconds of each measurement
    #[arg(long, default_value_t = SECONDS, value_parser = clap::value_parser!(u32).range(5..=600))]
    pub(super) seconds: u32,
    /// Connections to PostgreSQL and to MariaDB
    #[arg(long, default_value_t = 10)]
    pub(super) clients: u32,
    /// Size of the database: a unit is 16 MB of PostgreSQL (pgbench's scale) and 5 MB of MariaDB
    #[arg(long, default_value_t = 20)]
    pub(super) scale: u32,
    /// Transactions a second that PostgreSQL is asked for, whatever it takes; as many as it can
    /// without it
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rate: Option<u32>,
    /// What the way 'paced' lets the flood write, a second
    #[arg(long)]
    pub(super) pace: Option<String>,
}

impl Load {
    /// What a stored trial must agree with. `rate` and `pace` are absent where they are not asked
    /// for.
    pub(super) fn plan(&self) -> Value {
        let mut plan =
            json!({ "seconds": self.seconds, "clients": self.clients, "scale": self.scale });
        if let Some(rate) = self.rate {
            plan["rate"] = json!(rate);
        }
        if let Some(pace) = &self.pace {
            plan["pace"] = json!(pace);
        }
        plan
    }

    /// The same as arguments.
    pub(super) fn args(&self) -> Vec<String> {
        let mut args = vec![
            format!("--seconds={}", self.seconds),
            format!("--clients={}", self.clients),
            format!("--scale={}", self.scale),
        ];
        args.extend(self.rate.map(|rate| format!("--rate={rate}")));
        args.extend(self.pace.as_ref().map(|pace| format!("--pace={pace}")));
        args
    }
}

/// A victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Who {
    Postgres,
    Sqlite,
    Mariadb,
}

/// The name that a value has on the command line, in files and in tables.
pub(super) fn name(of: impl clap::ValueEnum) -> String {
    of.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Which one.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct Trial {
    #[arg(long)]
    pub(super) who: Who,
    #[arg(long)]
    pub(super) flood: Kind,
    #[arg(long)]
    pub(super) way: Way,
    #[arg(long)]
    pub(super) round: u32,
}

/// A database that can be asked to commit.
pub(super) trait Database {
    /// Commits for so long.
    fn run(&mut self, time: Duration) -> anyhow::Result<Measured>;
    /// The process that serves it, if there is one before it is asked to commit.
    fn process(&self) -> Option<u32> {
        None
    }
    /// The command, in words, that loads lines of its standard input into a table of the database;
    /// `FLOOD` in them stands for the table's name.
    fn load(&self) -> Vec<String>;
    /// Its version and settings, for the record.
    fn about(&mut self) -> anyhow::Result<Value>;
}

/// The device of a trial.
pub(super) struct Disk {
    /// `/dev/loopN`.
    pub(super) path: PathBuf,
    /// Where it is mounted.
    pub(super) dir: PathBuf,
    /// The control group (cgroup v2) that the flood is put into; this program's without it.
    pub(super) flood: Option<PathBuf>,
}

/// Measures. `log`: where the guard's log goes.
pub(super) fn measure(
    floodwall: &Floodwall,
    disk: &Disk,
    load: &Load,
    trial: Trial,
    log: &Path,
) -> anyhow::Result<Value> {
    let time = Duration::from_secs(load.seconds.into());
    // Dropped from the last to the first: flood, setting or guard, database.
    let mut database: Box<dyn Database> = match trial.who {
        Who::Postgres => Box::new(Postgres::make(&disk.dir, load)?),
        Who::Sqlite => Box::new(Sqlite::make(&disk.dir)?),
        Who::Mariadb => Box::new(Mariadb::make(&disk.dir, load)?),
    };
    process::finished(std::process::Command::new("sync").arg("-f").arg(&disk.dir))?;
    interrupt::sleep(SETTLE)?;
    let in_force = InForce::put(floodwall, trial.way, disk, load, database.process(), log)?;
    let alone = database.run(time)?;
    let flood = Flood::start(trial.flood, disk, database.load())?;
    interrupt::sleep(LEAD)?;
    let (flooded, written, begin) = (flood.bytes()?, written_bytes(&disk.path)?, Instant::now());
    let beside = database.run(time)?;
    // A stalled victim takes longer than it was asked to.
    let seconds = begin.elapsed().as_secs_f64();
    let (flooded, written) =
        (flood.bytes()?.saturating_sub(flooded), written_bytes(&disk.path)? - written);
    let knobs = knobs();
    drop(flood);
    let guard = in_force.history()?;
    let about = database.about()?;
    let applied = in_force.take_back()?;
    let kernel =
        std::fs::read_to_string("/proc/sys/kernel/osrelease").context("the kernel's version")?;
    Ok(json!({
        "kernel": kernel.trim(),
        "knobs": knobs,
        "applied": applied,
        "victim": name(trial.who),
        "way": name(trial.way),
        "round": trial.round,
        "about": about,
        "alone": alone.json(),
        "beside": beside.json(),
        "dead_seconds": beside.dead_seconds(alone.per_second()),
        "flood": { "kind": name(trial.flood), "bytes": flooded, "seconds": seconds },
        "device_written_bytes": written,
        "guard": guard,
    }))
}

/// Bytes written to a device since it appeared (Documentation/block/stat.rst).
fn written_bytes(device: &Path) -> anyhow::Result<u64> {
    let name = device.file_name().context("the device has no name")?.to_string_lossy();
    let path = format!("/sys/block/{name}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let sectors: u64 = text.split_whitespace().nth(6).and_then(|n| n.parse().ok()).context(path)?;
    Ok(sectors * 512)
}
