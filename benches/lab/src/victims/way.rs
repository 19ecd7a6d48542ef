//! Under what a victim is measured: the default setting, settings through `floodwall apply`, or
//! `floodwall guard`. Given back when dropped.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use processes::child::finished;
use processes::guarded::Guarded;
use serde_json::{Value, json};

use super::disk::Disk;
use super::load::Load;
use crate::devices::Floodwall;

/// A setting is put back automatically after this time and both measurements, unless it has been
/// put back before.
const APPLIED_FOR: Duration = Duration::from_secs(20 * 60);

/// The dirty domain of a paced flood.
const DOMAIN: &str = "memory.high=128MiB";
pub(super) const NO_GROUP: &str =
    "the way 'paced' needs cgroup v2, which a guest has: --guest 6GiB";
pub(super) const NO_PACE: &str = "the way 'paced' needs a rate: --pace 100MB";
const LIMIT: &str = "vm.dirty_bytes=15MB";
/// What must read the same before and after.
const KNOBS: [&str; 4] =
    ["dirty_bytes", "dirty_ratio", "dirty_background_bytes", "dirty_background_ratio"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Way {
    Default,
    #[value(name = "15mb")]
    Limit,
    /// The queue as short as the best known setting has it.
    Short,
    /// bfq, and the victim's threads first in it.
    Priority,
    /// The flood's control group held to a rate, with a separate dirty domain.
    Paced,
    Guard,
    /// The guard beside an administrator's good setting.
    LimitedGuard,
}

impl Way {
    pub(super) fn is_guarded(self) -> bool {
        matches!(self, Self::Guard | Self::LimitedGuard)
    }

    /// What `floodwall apply` takes for it; nothing where it is not a setting. `victim`: the number
    /// of the victim's process, from which all that serve connections are forked.
    fn changes(self, disk: &Disk, load: &Load, victim: Option<u32>) -> anyhow::Result<Vec<String>> {
        let name = disk.path.file_name().context("the device has no name")?.to_string_lossy();
        let of_disk = |knobs: &[&str]| knobs.iter().map(|knob| format!("{name}.{knob}")).collect();
        Ok(match self {
            Self::Default | Self::Guard => Vec::new(),
            Self::Limit | Self::LimitedGuard => vec![LIMIT.to_owned()],
            Self::Short => {
                of_disk(&["scheduler=mq-deadline", "nr_requests=8", "max_sectors_kb=128"])
            }
            Self::Priority => {
                let victim = victim.context(
                    "this victim has no process before it is measured: leave priority out",
                )?;
                vec![format!("{name}.scheduler=bfq"), format!("pid:{victim}.ioprio=be/0")]
            }
            Self::Paced => {
                let group = disk.flood.as_deref().and_then(Path::file_name).context(NO_GROUP)?;
                let (group, pace) =
                    (group.to_string_lossy(), load.pace.as_deref().context(NO_PACE)?);
                vec![format!("{group}:{name}.io.max=wbps={pace}"), format!("{group}:{DOMAIN}")]
            }
        })
    }
}

/// A way that is in force.
pub(super) struct InForce<'a> {
    floodwall: &'a Floodwall,
    /// The argument of `rollback --to` that undoes this change.
    before: Option<String>,
    guard: Option<Guarded>,
    changes: Vec<String>,
    knobs: Vec<String>,
}

/// The `vm.dirty_*` values in force, as `name=value`.
pub(super) fn knobs() -> Vec<String> {
    let read = |name: &str| {
        std::fs::read_to_string(Path::new("/proc/sys/vm").join(name)).unwrap_or_default()
    };
    KNOBS.iter().map(|name| format!("{name}={}", read(name).trim())).collect()
}

impl<'a> InForce<'a> {
    pub(super) fn put(
        floodwall: &'a Floodwall,
        way: Way,
        disk: &Disk,
        load: &Load,
        victim: Option<u32>,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let changes = way.changes(disk, load, victim)?;
        let mut in_force = Self { floodwall, before: None, guard: None, changes, knobs: knobs() };
        let changes = &in_force.changes;
        if !changes.is_empty() {
            let mut apply = Command::new(&floodwall.program);
            let time = APPLIED_FOR.as_secs() + 2 * u64::from(load.seconds);
            apply.args([
                "apply",
                "--yes",
                "--for",
                &format!("{time}s"),
                "--why",
                "real victims on the lab",
            ]);
            let output =
                apply.args(changes).stdin(Stdio::null()).output().context("can't run floodwall")?;
            let told = [output.stderr, output.stdout]
                .map(|o| String::from_utf8_lossy(&o).into_owned())
                .concat();
            ensure!(
                output.status.success(),
                "{apply:?} ended with {}: {}",
                output.status,
                told.trim()
            );
            in_force.before = undo_number(&told);
            ensure!(
                in_force.before.is_some(),
                "{} was in force already, or floodwall did not say how to undo it: {told}",
                changes.join(" ")
            );
        }
        if way.is_guarded() {
            in_force.guard = Some(Guarded::start(&floodwall.program, &disk.path, log)?);
        }
        Ok(in_force)
    }

    /// What the guard did, for the record.
    pub(super) fn history(&self) -> anyhow::Result<Value> {
        let Some(guard) = &self.guard else { return Ok(Value::Null) };
        let lines = guard.says("history")?;
        let history: Vec<Value> =
            lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let status: Value =
            serde_json::from_str(&guard.says("status")?).context("guard status --json")?;
        Ok(json!({ "status": status, "history": history }))
    }

    /// Gives everything back, and makes sure of it. Returns the applied setting.
    pub(super) fn take_back(mut self) -> anyhow::Result<Vec<String>> {
        self.give_back()?;
        let now = knobs();
        ensure!(
            now == self.knobs,
            "the machine is not as it was: {} became {}",
            self.knobs.join(" "),
            now.join(" ")
        );
        Ok(std::mem::take(&mut self.changes))
    }

    fn give_back(&mut self) -> anyhow::Result<()> {
        // A guard that does not end keeps no setting in force.
        let ended = self.guard.take().map_or(Ok(()), |mut guard| guard.end().map(drop));
        if let Some(before) = self.before.take() {
            finished(Command::new(&self.floodwall.program).args(["rollback", "--to", &before]))?;
        }
        ended
    }
}

impl Drop for InForce<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.give_back() {
            eprintln!("{error:#}");
        }
    }
}

/// Of `change 4 applied; floodwall rollback --to 3 puts it back` the 3.
fn undo_number(told: &str) -> Option<String> {
    let rest = told.split("rollback --to ").nth(1)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_to_undo_is_read_from_what_apply_says() {
        let told = "change 4 applied; floodwall rollback --to 3 puts it back";
        assert_eq!((undo_number(told).as_deref(), undo_number("nothing")), (Some("3"), None));
    }
}
