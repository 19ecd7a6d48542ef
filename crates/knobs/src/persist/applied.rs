//! The changes in force, from the journal: `floodwall persist` keeps these when it is given no
//! settings.

use floodwall_model::Reading;

use crate::catalogue::cell::{Cell, State};
use crate::catalogue::files::Files;
use crate::catalogue::knobs;
use crate::catalogue::value::{Form, check};
use crate::journal::{JournalError, Phase, Store, log};
use crate::plan::change::Change;
use crate::plan::entry::Entry;
use crate::plan::short;

/// Changes that stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Each knob's last one.
    pub changes: Vec<Change>,
    /// Knobs left out and why, for people.
    pub notes: Vec<String>,
}

/// The values that Floodwall's changes of this boot have set and no other program has changed
/// since.
///
/// Left out with a note: temporary changes, values that another program has changed, devices that
/// are gone.
///
/// # Errors
/// [`JournalError`] if the journal can't be read.
pub fn applied(
    store: &dyn Store,
    files: &dyn Files,
    boot_id: &str,
) -> Result<Applied, JournalError> {
    let mut found = Applied::default();
    for transaction in log(store)?.into_iter().filter_map(|logged| logged.transaction.ok()) {
        let id = transaction.begin.id;
        if transaction.begin.boot_id != boot_id || transaction.phase() != Phase::Standing {
            continue;
        }
        if transaction.begin.expires_at_unix_s.is_some() {
            found.notes.push(format!("change {id} is for a time and left out"));
            continue;
        }
        for (index, entry) in transaction.entries.iter().enumerate() {
            let Some(new) = &entry.new else { continue };
            let gone = entry.target.check(files).err();
            let left_out = match (gone, entry.cell.read(files)) {
                (Some(why), _) => Some(why),
                (None, Reading::Value(now)) if transaction.owns(index, &now) => None,
                (None, Reading::Value(now)) => {
                    Some(format!("it holds {}, not by change {id}", short(&entry.label(), &now)))
                }
                (None, other) => other.why(),
            };
            let change = change_of(entry, new);
            if let Some(change) = &change {
                // A later change of the same cell counts, even if it is left out.
                found.changes.retain(|old| {
                    old.target != change.target || !super::one_cell(old.knob, change.knob)
                });
            }
            match (left_out, change) {
                (Some(why), _) => found.notes.push(format!("{} is left out: {why}", entry.label())),
                (None, Some(change)) => found.changes.push(change),
                (None, None) => found
                    .notes
                    .push(format!("{} is left out: '{new}' is no knob's value", entry.label())),
            }
        }
    }
    Ok(found)
}

/// An entry's change, with the knob of the file that was written: `bdi.max_bytes` is kept as the
/// share computed from it.
fn change_of(entry: &Entry, new: &State) -> Option<Change> {
    let (_, file) = new.path.rsplit_once('/')?;
    let knob = knobs().find(|knob| {
        knob.file_name() == file
            && std::mem::discriminant(&knob.scope) == std::mem::discriminant(&entry.knob.scope)
    })?;
    let cell = match &entry.cell {
        Cell::Property { limit, .. } => limit,
        cell => cell,
    };
    let value = match cell {
        // A line begins with its device.
        Cell::Keyed { .. } => new.value.split_once(' ').map_or("", |(_, value)| value),
        _ => new.value.as_str(),
    };
    Some(Change {
        knob,
        target: entry.target.clone(),
        value: check(knob, value, Form::Kernel).ok()?,
    })
}
