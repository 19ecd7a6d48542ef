//! `floodwall fix` where a process stalls: it commits again, and the disk's settings come back.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use floodwall_testing::process::{everything, output};
use floodwall_testing::{ensure, said, until};

use crate::Test;
use crate::bed::{BACKLOG_MIB, FLOODWALL, LIMIT_MIB, Lab, PATIENCE};
use crate::bed::{STICK_BACKLOG_MIB, STICK_LIMIT_MIB, Unit};
use crate::loads::{self, POSTGRES_VERSIONS, Postgres};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a fix for PostgreSQL beside a copy",
        needs: &[POSTGRES_VERSIONS, "install", "cp"],
        body: postgresql,
    },
    Test { name: "a fix for SQLite beside a backup", needs: &["sqlite3", "tar"], body: sqlite },
    Test { name: "a fix for commits to a USB stick", needs: &["cp"], body: stick },
];

/// How long a fix holds: longer than its looks and the test's own.
const HOLDS: &str = "60s";
/// How long commits are counted.
const COUNTED: Duration = Duration::from_secs(4);
/// So many times more commits are no stall any more. Without a fix there are a few at most.
const MORE: f64 = 3.0;
/// What a fix may change on a disk.
const QUEUE: [&str; 4] = ["scheduler", "nr_requests", "max_sectors_kb", "wbt_lat_usec"];

fn postgresql() -> Result<(), String> {
    let lab = Lab::up("hdd-7200")?.limited_to(LIMIT_MIB)?;
    let (database, copies) = (Unit::new("postgresql.service")?, Unit::new("backup.service")?);
    let _postgres = Postgres::start(&lab, &database)?;
    let _copy = loads::copy(&lab, Some(&copies))?;
    lab.until_backlog(BACKLOG_MIB)?;
    is_fixed(&lab, Some(&copies), &|| lab.flushes())
}

fn sqlite() -> Result<(), String> {
    let lab = Lab::up("hdd-7200")?.limited_to(LIMIT_MIB)?;
    let _database = loads::sqlite(&lab)?;
    let _backup = loads::backup(&lab, None)?;
    lab.until_backlog(BACKLOG_MIB)?;
    is_fixed(&lab, None, &|| lab.flushes())
}

fn stick() -> Result<(), String> {
    let lab = Lab::up("usb-stick")?.limited_to(STICK_LIMIT_MIB)?;
    let victim = loads::victim(&lab, 20)?;
    let _copy = loads::copy(&lab, None)?;
    lab.until_backlog(STICK_BACKLOG_MIB)?;
    // Such a stick has no cache that it could be told to flush.
    is_fixed(&lab, None, &|| victim.writes())
}

/// Fixes it, and holds the answer against what the kernel counts: flushes of the disk, or writes of
/// the victim. Each commit takes one.
fn is_fixed(
    lab: &Lab,
    paced: Option<&Unit>,
    commits: &dyn Fn() -> Result<u64, String>,
) -> Result<(), String> {
    let settings = || -> Result<Vec<String>, String> {
        // A unit is paced where the kernel can do that; its queue is left alone then.
        Ok([queue(lab)?, paced.map(Unit::limits).unwrap_or_default()].concat())
    };
    let own = settings()?;
    let stalled = per_s(commits)?;
    let journal = tempfile::tempdir().map_err(said("a journal"))?;
    let fixed = output(
        Command::new(FLOODWALL)
            .args(["fix", &lab.mount(), "--yes", "--for", HOLDS, "--journal"])
            .arg(journal.path()),
    )?;
    ensure(fixed.status.success(), || everything(&fixed))?;
    let (changed, now) = (settings()?, per_s(commits)?);
    ensure(changed != own, || format!("{changed:?}\n{}", everything(&fixed)))?;
    let most = MORE * stalled.max(1.0 / COUNTED.as_secs_f64());
    ensure(now >= most, || format!("{stalled} and {now} commits/s\n{}", everything(&fixed)))?;
    let is_back = || settings().is_ok_and(|now| now == own);
    until(PATIENCE, "the fix is undone by itself", is_back)
}

fn per_s(commits: &dyn Fn() -> Result<u64, String>) -> Result<f64, String> {
    let before = commits()?;
    sleep(COUNTED);
    Ok(commits()?.saturating_sub(before) as f64 / COUNTED.as_secs_f64())
}

fn queue(lab: &Lab) -> Result<Vec<String>, String> {
    let read = |name: &str| {
        let path = format!("/sys/block/{}/queue/{name}", lab.name);
        fs::read_to_string(&path).map_err(said(&path))
    };
    QUEUE.into_iter().map(read).collect()
}
