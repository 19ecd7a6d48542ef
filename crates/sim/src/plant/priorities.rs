//! I/O priorities while a plant runs: `pid:N.ioprio` of each load, and `journal.ioprio`.
//!
//! They are knobs while bfq is in force, and as long as they hold another value than at the start.
//! The elevator reads a thread's priority at its next request (block/bfq-iosched.c
//! `bfq_check_ioprio_change`). A machine with control groups has none of them: the model's bfq has
//! no groups.

use floodwall_model::plant::{KnobWrite, PlantError};
use floodwall_model::priority::NotAPriority;
use floodwall_model::setting::{JOURNAL_PRIORITY, PROCESS};
use floodwall_model::{Priority, Setting};

use super::state::Device;
use crate::fs::FsKind;
use crate::machine::Machine;
use crate::settings::Priorities;

/// The name of a load as a process.
pub(super) fn process(load: usize) -> String {
    format!("{PROCESS}{}", load + 1)
}

/// The priorities that are knobs now: each with its load, or `None` for the journal, and its value.
fn all(device: &Device, machine: &Machine) -> Vec<(String, Option<usize>, Priority)> {
    let options = &device.options;
    // The plant could not be built with wrong ones.
    let own = Priorities::new(&device.setting, machine.generation, options.fs).unwrap_or_default();
    let victims = device.loads.victims.iter().map(|placed| (placed.load, own.victims));
    let floods = device.loads.floods.iter().map(|placed| (placed.load, Priority::None));
    let mut known: Vec<(String, Option<usize>, Priority)> = Vec::new();
    for (load, own) in victims.chain(floods) {
        known.push((format!("{}.ioprio", process(load)), Some(load), own));
    }
    if options.fs == FsKind::Ext4 && machine.generation.shows_journal_thread() {
        known.push((JOURNAL_PRIORITY.to_owned(), None, own.journal));
    }
    let has_bfq = machine.block.elevator().name() == "bfq" && device.facts.bfq_groups;
    let heeds = has_bfq && machine.groups.is_empty();
    let mut offered = Vec::new();
    for (knob, load, own) in known {
        let now = machine.priority(load).unwrap_or(own);
        if heeds || now != own {
            offered.push((knob, load, now));
        }
    }
    offered
}

/// Adds the priorities to a device's knobs.
pub(super) fn read(device: &Device, machine: &Machine, knobs: &mut Setting) {
    knobs.0.extend(all(device, machine).into_iter().map(|(knob, _, now)| (knob, now.to_string())));
}

/// Sets the priority of a load's threads or of the journal's.
pub(super) fn write(
    device: &Device,
    machine: &mut Machine,
    write: &KnobWrite,
) -> Result<(), PlantError> {
    let refused = |why: String| PlantError::Refused { write: write.clone(), why };
    let Some((_, load, _)) =
        all(device, machine).into_iter().find(|(knob, ..)| *knob == write.knob)
    else {
        return Err(refused(
            "the device has it only while bfq with group support is in force".to_owned(),
        ));
    };
    let priority = write.value.trim().parse().map_err(|e: NotAPriority| refused(e.to_string()))?;
    machine.prioritise(load, priority);
    Ok(())
}
