//! What the records tell of one entry: the last value read back, and the writes under way since.

use super::record::Record;
use crate::catalogue::cell::State;
use crate::plan::entry::Entry;

/// An entry's history in the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trace {
    /// The last value read back; none if there was none, or it was not there.
    pub(super) last: Option<State>,
    /// Written since, or about to be.
    pub(super) under_way: Vec<State>,
    /// A write under way whose outcome can't be foreseen: the kernel adjusts it, or resets this
    /// entry beside another one.
    pub(super) unforeseeable: bool,
    pub(super) touched: bool,
    pub(super) yielded: Option<bool>,
}

impl Trace {
    /// Whether a write that may change the entry has begun and has not been read back.
    pub(super) fn is_under_way(&self) -> bool {
        self.unforeseeable || !self.under_way.is_empty()
    }
    /// Whether a value found in the entry is the last one read back, or follows from a write under
    /// way.
    pub(super) fn explains(&self, entry: &Entry, found: &State) -> bool {
        let ours = |state: &State| entry.cell.follows(state, found);
        self.unforeseeable
            || self.last.as_ref().is_some_and(ours)
            || self.under_way.iter().any(ours)
    }

    /// Whether the entry holds something else than it did, by our doing.
    pub(super) fn holds(&self, entry: &Entry) -> bool {
        let differs =
            |last: &State| !entry.old.as_ref().is_some_and(|old| entry.cell.same(old, last));
        self.yielded.is_none() && (self.is_under_way() || self.last.as_ref().is_some_and(differs))
    }
}

/// Applies a record to the entries.
pub(super) fn learn(entries: &[Entry], traces: &mut [Trace], record: &Record) {
    match record {
        Record::Intent { entry: at, to } => {
            let Some(cause) = entries.get(*at) else { return };
            for (entry, trace) in entries.iter().zip(&mut *traces) {
                if cause.resets(entry) {
                    (trace.touched, trace.unforeseeable) = (true, true);
                }
            }
            if let Some(trace) = traces.get_mut(*at) {
                trace.touched = true;
                trace.unforeseeable |= cause.knob.adjusts.is_some();
                trace.under_way.push(to.clone());
            }
        }
        Record::Done { readings } | Record::Commit { readings } => {
            for reading in readings {
                if let Some(trace) = traces.get_mut(reading.entry) {
                    *trace = Trace {
                        last: reading.state.clone(),
                        touched: true,
                        yielded: trace.yielded,
                        ..Trace::default()
                    };
                }
            }
        }
        Record::Yield { entry, asked } => {
            if let Some(trace) = traces.get_mut(*entry) {
                trace.yielded = Some(*asked);
            }
        }
        Record::Begin(_) | Record::Save { .. } | Record::Undo { .. } | Record::Closed { .. } => {}
    }
}
