//! The checks in their order, each reported when it begins and when it has ended.

use std::time::Instant;

use super::line::Line;
use super::{files, guard, journal, knobs, lab, persist, probe, status};
use crate::said::{Outcome, Said};

/// A check's name and body. Its error is what does not hold; what it returns, what was seen to hold, or why it could
/// not be checked.
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
/// Of the boot after it.
const SECOND: [Check; 1] = [(REBOOT, persist::kept)];

/// The check that needs a second boot.
pub(crate) const REBOOT: &str = "reboot";

/// The word of the kernel's command line that asks for the checks of the second boot.
pub(crate) const SECOND_BOOT: &str = "matrix.second";
/// The word that asks for some checks alone: `matrix.only=status,knobs`.
pub(crate) const ONLY: &str = "matrix.only=";

pub(crate) fn run(line: &Line) -> anyhow::Result<()> {
    let words = files::read("/proc/cmdline").unwrap_or_default();
    let only: Option<Vec<&str>> = words
        .split_whitespace()
        .find_map(|word| word.strip_prefix(ONLY))
        .map(|names| names.split(',').collect());
    line.say(&Said::Kernel(files::read("/proc/sys/kernel/osrelease").unwrap_or_default()));
    let checks: &[Check] =
        if words.split_whitespace().any(|word| word == SECOND_BOOT) { &SECOND } else { &FIRST };
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
