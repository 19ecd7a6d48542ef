//! The checks in their order, each reported when it begins and when it has ended.

use std::time::Instant;

use super::line::Line;
use super::{files, guard, journal, knobs, lab, paced, persist, probe, status, systemd};
use crate::said::{Outcome, Said};

/// A check's name and body. Its error is the fact that does not hold. It returns the confirmed
/// fact, or the reason why it could not be checked.
type Check = (&'static str, fn(&Line) -> anyhow::Result<Outcome>);

/// Of the first boot.
const FIRST: [Check; 7] = [
    ("status", status::check),
    ("knobs", knobs::check),
    ("journal", journal::check),
    ("probe", probe::check),
    ("guard", guard::check),
    ("lab", lab::check),
    ("persist", persist::keep),
];
/// Of the boot after it, whose first process is systemd where this machine has it.
const SECOND: [Check; 3] =
    [("reboot", persist::kept), ("systemd", systemd::check), ("paced", paced::check)];
/// Names of the checks that need the second boot.
pub(crate) const OF_SECOND_BOOT: [&str; 3] = [SECOND[0].0, SECOND[1].0, SECOND[2].0];

/// The word of the kernel's command line that asks for the checks of the second boot.
pub(crate) const SECOND_BOOT: &str = "matrix.second";
/// The word that asks for some checks alone: `matrix.only=status,knobs`.
pub(crate) const ONLY: &str = "matrix.only=";

/// Whether the kernel's command line asks for the second boot's checks.
pub(crate) fn is_second_boot() -> bool {
    let words = files::read("/proc/cmdline").unwrap_or_default();
    words.split_whitespace().any(|word| word == SECOND_BOOT)
}

pub(crate) fn run(line: &Line) -> anyhow::Result<()> {
    let words = files::read("/proc/cmdline").unwrap_or_default();
    let only: Option<Vec<&str>> = words
        .split_whitespace()
        .find_map(|word| word.strip_prefix(ONLY))
        .map(|names| names.split(',').collect());
    line.say(&Said::Kernel(files::read("/proc/sys/kernel/osrelease").unwrap_or_default()));
    let checks: &[Check] = if is_second_boot() { &SECOND } else { &FIRST };
    for (name, body) in checks {
        if only.as_ref().is_some_and(|only| !only.contains(name)) {
            continue;
        }
        line.say(&Said::Begun((*name).to_owned()));
        let begin = Instant::now();
        let outcome = body(line).unwrap_or_else(|e| Outcome::Failed(format!("{e:#}")));
        let seconds = begin.elapsed().as_secs_f64();
        line.say(&Said::Ended { check: (*name).to_owned(), outcome, seconds });
    }
    line.say(&Said::Done);
    Ok(())
}
