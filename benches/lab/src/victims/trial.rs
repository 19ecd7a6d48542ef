//! One trial on a device that is there: a database, a way in force, the victim alone, the flood,
//! the victim beside it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use processes::{child, interrupt};
use serde_json::{Value, json};

use super::database::Database;
use super::disk::Disk;
use super::flood::{Flood, Kind};
use super::load::{Load, name};
use super::mariadb::Mariadb;
use super::postgres::Postgres;
use super::sqlite::Sqlite;
use super::way::{InForce, Way, knobs};
use crate::devices::Floodwall;

/// After the database is made, and before anything is measured.
const SETTLE: Duration = Duration::from_secs(5);
/// How long the flood runs before the victim is measured beside it: until the page cache is filled
/// and the kernel throttles it.
const LEAD: Duration = Duration::from_secs(10);

/// A victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Who {
    Postgres,
    Sqlite,
    Mariadb,
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
    child::finished(std::process::Command::new("sync").arg("-f").arg(&disk.dir))?;
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
