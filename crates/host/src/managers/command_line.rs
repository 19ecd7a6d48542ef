//! `elevator=` on the kernel's command line.
//!
//! It chose the scheduler of legacy single-queue devices. Linux 5.0 removed those, and with them
//! its effect; it is still on many command lines.

use floodwall_model::Reading;
use floodwall_model::managers::{Kind, Manager, Place, Standing};

use super::{Found, Source, Wanted};
use crate::memory;

pub(super) const FILE: &str = "/proc/cmdline";
pub(super) const PARAMETER: &str = "elevator=";

/// Collects what the command line sets.
pub(super) fn read(found: &mut Found<'_>) {
    let Some(text) = found.text(FILE) else { return };
    // The last one counts (block/elevator.c `elevator_setup`).
    let Some(value) = text.split_whitespace().filter_map(|word| word.strip_prefix(PARAMETER)).next_back()
    else {
        return;
    };
    found.present(Manager {
        kind: Kind::CommandLine,
        name: format!("the kernel's command line ({PARAMETER}{value})"),
        running: Reading::Absent("it is read once".to_owned()),
        at_boot: Reading::Value(true),
    });
    let source = Source {
        by: Kind::CommandLine,
        who: "the kernel's command line",
        file: FILE,
        line: None,
        when: "at boot",
        settle: format!("take {PARAMETER}{value} off the kernel's command line"),
    };
    let wanted = || Wanted { knob: "scheduler", value: Some(value.to_owned()), written: value };
    let kernel = memory::read_kernel(found.root).into_value();
    match kernel.as_deref().and_then(major) {
        Some(major) if major >= 5 => {
            let why = "kernels since 5.0 take no notice of elevator=".to_owned();
            let place = Place::Matching("a legacy single queue".to_owned());
            found.claim(&source, place, wanted(), Standing::NotApplied { why });
        }
        _ => {
            for place in found.disks.iter().map(super::Disk::place).collect::<Vec<_>>() {
                let why = "only devices with a legacy single queue take it".to_owned();
                found.claim(&source, place, wanted(), Standing::Uncertain { why });
            }
        }
    }
}

/// The first number of a kernel's release.
fn major(release: &str) -> Option<u32> {
    release.split('.').next()?.parse().ok()
}
