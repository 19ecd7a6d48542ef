//! A database and a backup as units of a real systemd, beside the packaged guard on a lab disk.
//! The backup's unit is paced, the database's is not, and `guard status` says so. When the backup
//! or the guard is stopped, the limits are as the administrator has them again.
//!
//! ```text
//! database.service ─ commits ─┐
//! backup.service ─── floods ──┴─▶ lab disk ◀─ the guard ─▶ io.max, memory.high of backup.service
//! ```

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use floodwall_model::Rate;
use serde_json::Value;

use super::files::read;
use super::guard::{differences, lab_knobs};
use super::knobs::floodwall;
use super::lab::{Lab, disks_elevator};
use super::line::Line;
use super::systemd::{self, CONFIG, PATIENCE, POLL, UNIT, UNITS, systemctl};
use super::worker::WORKER;
use crate::said::Outcome;

/// The units, and the names of their programs.
const DATABASE: &str = "database";
const BACKUP: &str = "backup";
/// The group in which systemd has its services.
const GROUPS: &str = "/sys/fs/cgroup/system.slice";
/// A disk that is slower than a flood of the emulated processor, however slow that is.
const PRESET: &str = "hdd-7200";
const SLOW: [(&str, &str); 3] =
    [("outer_rate", "10MB/s"), ("inner_rate", "10MB/s"), ("write_cache", "2MiB")];
const SLOW_PRESET: &str = "/run/matrix-slow.toml";
/// Commits on the emulated processor keep it beside a paced flood.
const GOAL: &str = "300ms";
/// The backup's own limit, which it gets back: more than any pace allows it here.
const OWN_HIGH: u64 = 1 << 30;
/// The least `memory.high` of a pace (docs/guard.md).
const LEAST_DOMAIN: u64 = 64 << 20;
/// For so long the administrator's knobs are looked at while the backup is paced.
const WATCHED: Duration = Duration::from_secs(5);
/// How often a rate and a status that belong together are looked for: a pace changes now and then.
const TRIES: u32 = 40;

pub(crate) fn check(_line: &Line) -> anyhow::Result<Outcome> {
    if !systemd::is_here() {
        return Ok(Outcome::LeftOut("needs systemd of this machine".to_owned()));
    }
    if let Some(why) = lacks(read("/sys/fs/cgroup/cgroup.controllers").as_deref()) {
        return Ok(Outcome::LeftOut(why));
    }
    systemd::install()?;
    let scene = Scene::up()?;
    systemctl(&["start", "backup.service"])?;
    if !Path::new(GROUPS).join("backup.service/io.max").exists() {
        return Ok(Outcome::LeftOut("this kernel's control groups have no io.max".to_owned()));
    }
    let own = scene.limits(BACKUP);
    scene.stop_backup()?;
    ensure!(own == Some((String::new(), OWN_HIGH.to_string())), "unpaced, the backup has {own:?}");
    let status = scene.play(&own).with_context(|| {
        let history = floodwall(&["guard", "history", "--last", "8"]).unwrap_or_default();
        format!("the guard's last decisions: {}", history.replace('\n', " / "))
    })?;
    Ok(Outcome::Passed(format!(
        "the backup's unit was paced, twice; its limits and the queue were the administrator's \
         again after the backup's end and after the guard's; guard status: {status}"
    )))
}

/// The controller that pacing needs and the kernel lacks.
fn lacks(controllers: Option<&str>) -> Option<String> {
    let Some(controllers) = controllers else {
        return Some("pacing needs cgroup v2, which is not mounted".to_owned());
    };
    let missing =
        ["io", "memory"].into_iter().find(|name| !controllers.split(' ').any(|has| has == *name));
    missing
        .map(|name| format!("pacing needs cgroup v2's controller {name}, which this kernel lacks"))
}

/// A preset with the rates and the cache of a slow disk.
fn slower(preset: &str) -> anyhow::Result<String> {
    let mut lines: Vec<String> = preset.lines().map(str::to_owned).collect();
    for (name, value) in SLOW {
        let is_its =
            |line: &&mut String| line.split('=').next().is_some_and(|key| key.trim() == name);
        let line =
            lines.iter_mut().find(is_its).with_context(|| format!("{PRESET} has no {name}"))?;
        *line = format!("{name} = \"{value}\"");
    }
    Ok(lines.join("\n") + "\n")
}

/// The lab disk with both units. They are stopped before the disk goes.
struct Scene {
    lab: Lab,
    /// The disk's number, as `io.max` has it.
    number: String,
}

impl Drop for Scene {
    fn drop(&mut self) {
        for unit in [UNIT, "backup.service", "database.service"] {
            let _ = systemctl(&["stop", unit]);
        }
    }
}

impl Scene {
    fn up() -> anyhow::Result<Self> {
        std::fs::write(SLOW_PRESET, slower(&floodwall(&["lab", "show", PRESET])?)?)?;
        let lab = Lab::up(SLOW_PRESET, "ext4", disks_elevator())?;
        let number =
            read(format!("/sys/block/{}/dev", lab.name)).context("the lab's disk has no number")?;
        let config = format!("devices = [\"{}\"]\np99 = \"{GOAL}\"\n", lab.name);
        std::fs::write(CONFIG, config).with_context(|| format!("can't write '{CONFIG}'"))?;
        for (name, work, own) in [
            (DATABASE, "commit", String::new()),
            (BACKUP, "flood", format!("MemoryHigh={OWN_HIGH}\n")),
        ] {
            // The process is named after the file by which it is started.
            let program = format!("/usr/bin/{name}");
            let _ = std::fs::remove_file(&program);
            symlink("/matrix", &program)?;
            let file = lab.file(name);
            let unit = format!(
                "[Service]\nExecStart={program} {WORKER} {work} {file}\nIOAccounting=yes\n\
                 MemoryAccounting=yes\n{own}"
            );
            std::fs::write(format!("{UNITS}/{name}.service"), unit)?;
        }
        systemctl(&["daemon-reload"])?;
        Ok(Self { lab, number })
    }

    /// The next run writes a new file, as a backup does. Cached pages of the old one would stay
    /// charged to the group that has gone (mm/memcontrol.c).
    fn stop_backup(&self) -> anyhow::Result<()> {
        systemctl(&["stop", "backup.service"])?;
        std::fs::remove_file(self.lab.file(BACKUP)).context("can't remove the backup's file")
    }

    /// The limits of a unit's group: its line of `io.max` for the disk, empty without one, and
    /// `memory.high`. `None` if there is no such group.
    fn limits(&self, unit: &str) -> Option<(String, String)> {
        let group = Path::new(GROUPS).join(format!("{unit}.service"));
        let lines = read(group.join("io.max"))?;
        let line = lines.lines().find_map(|line| line.strip_prefix(&format!("{} ", self.number)));
        Some((line.unwrap_or_default().to_owned(), read(group.join("memory.high"))?))
    }

    /// The backup's rate in bytes a second and its `memory.high`, once both are limits of a pace.
    fn pace(&self) -> Option<(f64, u64)> {
        let (io_max, high) = self.limits(BACKUP)?;
        let rate = io_max.split(' ').find_map(|pair| pair.strip_prefix("wbps=")?.parse().ok())?;
        high.parse().ok().filter(|high| *high < OWN_HIGH).map(|high| (rate, high))
    }

    /// Everything that happens to both units and the guard. What `guard status` said.
    fn play(&self, own: &Option<(String, String)>) -> anyhow::Result<String> {
        let original = lab_knobs(&self.lab.name);
        let as_before = || lab_knobs(&self.lab.name) == original;
        systemctl(&["start", UNIT])?;
        systemctl(&["start", "database.service"])?;
        self.until("the guard sees no commits", || names(&self.device()?, "victims", DATABASE))?;
        let free = floodwall(&["guard", "status"])?;
        ensure!(!free.contains("wbps"), "a guard that paces nothing says: {free}");

        systemctl(&["start", "backup.service"])?;
        self.until("the backup is not paced", || Ok(self.pace().is_some() && as_before()))?;
        self.stays_paced(&original)?;
        let status = self.explained()?;
        self.stop_backup()?;
        self.until("the stopped backup's pace has not ended", || {
            let device = self.device()?;
            Ok(device["state"] == "free" && device["held"] == Value::Array(Vec::new()))
        })?;
        ensure!(self.limits(BACKUP).is_none() && as_before(), "a stopped backup leaves limits");

        systemctl(&["start", "backup.service"])?;
        self.until("the backup is not paced again", || Ok(self.pace().is_some() && as_before()))?;
        systemctl(&["stop", UNIT])?;
        let now = self.limits(BACKUP);
        ensure!(now == *own, "a stopped guard leaves the backup {now:?}, it had {own:?}");
        let left = differences(&original, &lab_knobs(&self.lab.name));
        ensure!(left.is_empty(), "a stopped guard leaves {}", left.join(", "));
        Ok(status)
    }

    /// For some seconds: limits of a pace for the backup, none for the database, and the queue as
    /// the administrator has it.
    fn stays_paced(&self, original: &BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < WATCHED {
            let limits = self.limits(BACKUP);
            let (_, high) =
                self.pace().with_context(|| format!("the pace has ended: {limits:?}"))?;
            ensure!(
                high >= LEAST_DOMAIN,
                "memory.high {high} of a pace is less than {LEAST_DOMAIN}"
            );
            let database = self.limits(DATABASE);
            let none = Some((String::new(), "max".to_owned()));
            ensure!(database == none, "the database's unit has {database:?}");
            let changed = differences(original, &lab_knobs(&self.lab.name));
            ensure!(changed.is_empty(), "beside the pace the guard changed {}", changed.join(", "));
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// `guard status` names both, the rate in force and the reason. Its words on the disk.
    fn explained(&self) -> anyhow::Result<String> {
        let mut last = String::new();
        for _ in 0..TRIES {
            let before = self.pace();
            let text = floodwall(&["guard", "status"])?;
            if let (Some((rate, _)), true) = (before, before == self.pace()) {
                // The first paragraph is the guard's own, the next one is the disk's.
                let said = text.split("\n\n").nth(1).unwrap_or_default();
                let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
                let rate = format!("to {}", Rate(rate));
                let needed = [
                    &format!("{}: {DATABASE} (", self.lab.name),
                    "commit",
                    "300 ms",
                    "the disk",
                    "unit backup.service",
                    "so the guard holds",
                    &rate,
                    "'floodwall guard pause --for 10m'",
                ];
                let missing: Vec<&str> =
                    needed.into_iter().filter(|word| !said.contains(word)).collect();
                if missing.is_empty() {
                    return Ok(said);
                }
                last = format!("guard status lacks {missing:?}: {}", text.replace('\n', " / "));
            }
            std::thread::sleep(POLL);
        }
        bail!("{last}")
    }

    /// The disk in the guard's document.
    fn device(&self) -> anyhow::Result<Value> {
        let status: Value = serde_json::from_str(&floodwall(&["guard", "status", "--json"])?)?;
        let all = status["devices"].as_array().context("guard status has no devices")?;
        let device = all.iter().find(|device| device["name"] == self.lab.name.as_str());
        device.cloned().with_context(|| format!("guard status has no {}", self.lab.name))
    }

    fn until(
        &self,
        otherwise: &str,
        holds: impl Fn() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let begin = Instant::now();
        while !holds()? {
            if begin.elapsed() > PATIENCE {
                let status = floodwall(&["guard", "status"])?.replace('\n', " / ");
                bail!("{otherwise}: it has {:?}; {status}", self.limits(BACKUP));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// Whether a list of the document names a program.
fn names(device: &Value, list: &str, program: &str) -> anyhow::Result<bool> {
    let all = device[list].as_array().with_context(|| format!("guard status has no {list}"))?;
    Ok(all.iter().filter_map(Value::as_str).any(|name| name.contains(program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_what_pacing_needs_is_left_out() {
        assert_eq!(lacks(Some("cpuset cpu io memory pids")), None);
        assert!(lacks(None).unwrap().contains("cgroup v2"));
        assert!(lacks(Some("cpu iox memory")).unwrap().contains("controller io"));
        assert!(lacks(Some("io pids")).unwrap().contains("controller memory"));
    }
}
