//! The guard's encounter with a victim and a flood on a disk of the lab. It changes the queue while
//! both are there and puts everything back when the flood has gone. When it is killed, its values
//! are put back too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::files::read;
use super::line::Line;
use super::worker::Worker;
use super::{knobs, lab};
use crate::said::Outcome;

/// How long each state is waited for.
const PATIENCE: Duration = Duration::from_secs(150);
const POLL: Duration = Duration::from_millis(250);

pub(crate) fn check(_line: &Line) -> anyhow::Result<Outcome> {
    let lab = lab::Lab::up("hdd-7200", "ext4", lab::disks_elevator())?;
    // The flusher begins with the first tens of MiB.
    std::fs::write(format!("/sys/block/{}/bdi/max_ratio", lab.name), "2")
        .context("can't set max_ratio")?;
    let original = lab_knobs(&lab.name);
    let log = std::fs::File::create("/tmp/guard.log")?;
    let mut guard = Command::new("floodwall")
        .args(["guard", "--device", &lab.name, "--source", "perf"])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    let outcome = encounter(&mut guard, &lab, &original);
    if outcome.is_err() {
        let _ = guard.kill();
        let _ = guard.wait();
        let _ = knobs::floodwall(&["guard", "restore"]);
    }
    outcome.with_context(|| {
        let log = read("/tmp/guard.log").unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(6).collect();
        format!("the guard's last lines, the newest first: {}", last.join(" / "))
    })
}

fn encounter(
    guard: &mut Child,
    lab: &lab::Lab,
    original: &BTreeMap<PathBuf, String>,
) -> anyhow::Result<Outcome> {
    let is_original = || lab_knobs(&lab.name) == *original;
    let _committer = Worker::start(&["commit", &lab.file("commits")])?;
    let flood = Worker::start(&["flood", &lab.file("flood")])?;
    until("the guard changes nothing while it floods", guard, || !is_original())?;
    let changed: Vec<String> = differences(original, &lab_knobs(&lab.name));
    drop(flood);
    until("after the flood not everything is put back", guard, is_original)?;

    let _flood = Worker::start(&["flood", &lab.file("flood")])?;
    until("the guard changes nothing while it floods again", guard, || !is_original())?;
    // Its worker is killed; its parent process puts everything back, with the flood still there.
    let children = read(format!("/proc/{0}/task/{0}/children", guard.id())).unwrap_or_default();
    let worker = children.split_whitespace().next().context("the guard has no worker")?;
    let killed = Command::new("kill").args(["-9", worker]).status()?;
    anyhow::ensure!(killed.success(), "can't kill the guard's worker");
    let begin = Instant::now();
    while !is_original() {
        if begin.elapsed() > PATIENCE {
            bail!(
                "a killed guard's changes stay: {:?}",
                differences(original, &lab_knobs(&lab.name))
            );
        }
        std::thread::sleep(POLL);
    }
    let _ = Command::new("kill").args(["-15", &guard.id().to_string()]).status();
    let begin = Instant::now();
    while guard.try_wait()?.is_none() {
        anyhow::ensure!(begin.elapsed() < PATIENCE, "the guard does not end");
        std::thread::sleep(POLL);
    }
    anyhow::ensure!(
        is_original(),
        "the end left {:?}",
        differences(original, &lab_knobs(&lab.name))
    );
    Ok(Outcome::Passed(format!(
        "it changed {}, and everything came back, twice",
        changed.join(", ")
    )))
}

fn until(otherwise: &str, guard: &mut Child, holds: impl Fn() -> bool) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !holds() {
        if let Some(status) = guard.try_wait()? {
            bail!("the guard ended with {status}");
        }
        anyhow::ensure!(begin.elapsed() < PATIENCE, "{otherwise}, for {} s", PATIENCE.as_secs());
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Names of files that differ.
pub(crate) fn differences(
    before: &BTreeMap<PathBuf, String>,
    now: &BTreeMap<PathBuf, String>,
) -> Vec<String> {
    let differ = before.iter().filter(|(path, value)| now.get(*path) != Some(value));
    differ
        .map(|(path, _)| path.file_name().unwrap_or_default().to_string_lossy().into_owned())
        .collect()
}

/// What the guard may steer.
pub(crate) fn lab_knobs(name: &str) -> BTreeMap<PathBuf, String> {
    let block = Path::new("/sys/block").join(name);
    let names = ["scheduler", "nr_requests", "max_sectors_kb", "wbt_lat_usec"]
        .map(|file| format!("queue/{file}"));
    let limits = ["max_ratio", "min_ratio", "max_ratio_fine", "strict_limit"]
        .map(|file| format!("bdi/{file}"));
    let paths = names.into_iter().chain(limits).map(|file| block.join(file));
    paths.filter_map(|path| Some((path.clone(), read(path)?))).collect()
}
