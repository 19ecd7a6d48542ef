//! Five situations in which people ask why it is slow, or whether it will be.

use std::fs;

use floodwall_testing::ensure;
use serde_json::Value;

use crate::Test;
use crate::answer::{Answer, Known, about, is, paragraph, says};
use crate::bed::{BACKLOG_MIB, LIMIT_MIB, Lab, STICK_BACKLOG_MIB, STICK_LIMIT_MIB, Unit};
use crate::loads::{self, POSTGRES_VERSIONS, Postgres};

/// How a backlog is told. How long it takes stands behind it where the look saw the disk drain.
const WAITING: &str = " are waiting";

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a copy beside PostgreSQL",
        needs: &[POSTGRES_VERSIONS, "install", "cp"],
        body: copy_beside_postgresql,
    },
    Test {
        name: "a backup beside SQLite",
        needs: &["mkfs.xfs", "sqlite3", "tar"],
        body: backup_beside_sqlite,
    },
    Test { name: "a USB stick beside another disk", needs: &["cp"], body: stick_beside_a_disk },
    Test { name: "commits without a flood", needs: &[], body: no_flood },
    Test { name: "many small files beside commits", needs: &["tar"], body: many_small_files },
];

fn copy_beside_postgresql() -> Result<(), String> {
    let lab = Lab::up("hdd-7200")?.limited_to(LIMIT_MIB)?;
    let (database, copies) = (Unit::new("postgresql.service")?, Unit::new("backup.service")?);
    let postgres = Postgres::start(&lab, &database)?;
    let copy = loads::copy(&lab, Some(&copies))?;
    lab.until_backlog(BACKLOG_MIB)?;
    let answer = Answer::now(&lab)?;
    let known = Known { pid: copy.load.pid(), name: "cp", unit: Some(&copies) };
    answer.names(&lab, "stalling", known)?;
    answer.victims(&lab, |victim| {
        let pid = victim["pid"].as_u64().unwrap_or(0);
        let known = Known { pid: pid as u32, name: "postgres", unit: Some(&database) };
        postgres.is(pid) && is(victim, known)
    })?;
    lab.until_backlog(BACKLOG_MIB)?;
    let paragraph = paragraph(&lab, 1)?;
    let flood = format!("because cp (pid {}, backup.service) dirties ", known.pid);
    let place = format!(" on {} ({}), ", lab.name, lab.mount());
    let drains = format!(" and {} drains ", lab.name);
    let database = ", postgresql.service) ";
    says(&paragraph, &["postgres (pid ", database, &place, &flood, &drains, WAITING])
}

fn backup_beside_sqlite() -> Result<(), String> {
    // On ext4 a journal commit as long as the look stops the flood too, which is not seen then.
    let lab = Lab::with("hdd-7200", "xfs")?.limited_to(LIMIT_MIB)?;
    let unit = Unit::new("nightly.service")?;
    let database = loads::sqlite(&lab)?;
    let backup = loads::backup(&lab, Some(&unit))?;
    lab.until_backlog(BACKLOG_MIB)?;
    let answer = Answer::now(&lab)?;
    let known = Known { pid: backup.load.pid(), name: "tar", unit: Some(&unit) };
    answer.names(&lab, "stalling", known)?;
    let victim = Known { pid: database.pid(), name: "sqlite3", unit: None };
    answer.victims(&lab, |named| is(named, victim))?;
    let victim = format!("sqlite3 (pid {}) ", victim.pid);
    let flood = format!("because tar (pid {}, nightly.service) dirties ", known.pid);
    lab.until_backlog(BACKLOG_MIB)?;
    says(&paragraph(&lab, 1)?, &[&victim, &lab.mount(), &flood, WAITING])
}

fn stick_beside_a_disk() -> Result<(), String> {
    let stick = Lab::up("usb-stick")?.limited_to(STICK_LIMIT_MIB)?;
    let disk = Lab::up("sata-ssd")?;
    let _victim = loads::victim(&disk, 20)?;
    let copy = loads::copy(&stick, None)?;
    stick.until_backlog(STICK_BACKLOG_MIB)?;
    let answer = Answer::now(&stick)?;
    let known = Known { pid: copy.load.pid(), name: "cp", unit: None };
    answer.names(&stick, "flooding", known)?;
    ensure(
        answer.disk(&stick).is_some_and(|disk| disk["victims"] == Value::Array(vec![])),
        || answer.told(),
    )?;
    // As long as less waits than half of the machine's limits, only those who write to the stick
    // are slowed (mm/page-writeback.c `dirty_freerun_ceiling`).
    answer.leaves_out(&disk)?;
    let flood = format!("cp (pid {}) dirties ", known.pid);
    let place = format!(" on {} ({}), ", stick.name, stick.mount());
    let drains = format!("{} drains ", stick.name);
    says(&paragraph(&stick, 0)?, &[&flood, &place, &drains, "Nothing waits long for it now"])?;
    says(&about(&disk, 0)?, &["no process waited long for a disk or flooded one."])
}

fn no_flood() -> Result<(), String> {
    let lab = Lab::up("sata-ssd")?;
    let victim = loads::victim(&lab, 10)?;
    victim.name()?;
    Answer::now(&lab)?.leaves_out(&lab)?;
    let quiet = about(&lab, 0)?;
    let could = format!(" could wait to be written to {}", lab.name);
    says(
        &quiet,
        &["no process waited long for a disk or flooded one.", "If a flood came, ", &could],
    )
}

fn many_small_files() -> Result<(), String> {
    let lab = Lab::up("hdd-7200")?.limited_to(LIMIT_MIB)?;
    let victim = loads::victim(&lab, 0)?;
    let name = victim.name()?;
    let files = loads::small_files(&lab)?;
    lab.until_backlog(BACKLOG_MIB)?;
    let answer = Answer::now(&lab)?;
    let known = Known { pid: files.pid(), name: "tar", unit: None };
    answer.names(&lab, "stalling", known)?;
    answer
        .victims(&lab, |named| is(named, Known { pid: victim.pid(), name: &name, unit: None }))?;
    let made = fs::read_dir(lab.directory.join("small")).into_iter().flatten().count();
    ensure(made > 0, || "no files were made".to_owned())?;
    let flood = format!("because tar (pid {}) dirties ", known.pid);
    let victim = format!("{name} (pid {}) ", victim.pid());
    lab.until_backlog(BACKLOG_MIB)?;
    says(&paragraph(&lab, 1)?, &[&victim, &lab.mount(), &flood, WAITING])
}
