//! The kernel's defaults as changes.

use crate::catalogue::cell::Cell;
use crate::catalogue::files::Files;
use crate::catalogue::target::{Device, Target};
use crate::catalogue::value::{Form, check};
use crate::catalogue::{Scope, knobs};
use crate::plan::change::Change;

/// The defaults that are the same on every machine, of the knobs that this one has.
#[must_use]
pub fn defaults(device: Option<&Device>, files: &dyn Files) -> Vec<Change> {
    let mut cells = Vec::new();
    let mut changes = Vec::new();
    for knob in knobs() {
        let target = match (knob.scope, device) {
            (Scope::Global, _) => Target::Machine,
            (Scope::Queue | Scope::Elevator(_) | Scope::Bdi | Scope::Scsi, Some(device)) => {
                Target::Device(device.clone())
            }
            _ => continue,
        };
        // Where the default depends on the device it is a sentence, and no value.
        let Ok(value) = check(knob, knob.default, Form::Kernel) else { continue };
        let cell = Cell::of(knob, &target, files);
        if cell.read(files).value().is_some() && !cells.contains(&cell) {
            cells.push(cell);
            changes.push(Change { knob, target, value });
        }
    }
    changes
}
