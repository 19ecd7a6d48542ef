//! Knobs that a living process holds in the way of a change or of a rollback. That process is asked
//! to yield them.
//!
//! ```text
//! locked:    a change, or changes to put back ─▶ Session::in_the_way ─▶ holds with their cells
//! unlocked:  ask each of their processes, which puts the knobs back and notes that it yields them
//! locked:    nothing in the way any more ─▶ the change
//! ```
//!
//! The process needs the journal's lock to yield, so the lock is let go meanwhile. Nothing is
//! written between the two: after a crash anywhere, each value has one owner, or it is the
//! administrator's.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::apply::hold::{describe, in_the_way};
use crate::apply::session::Session;
use crate::catalogue::Knob;
use crate::catalogue::target::Target;
use crate::journal::owner::{Life, life};
use crate::journal::{JournalError, Phase, Transaction, open};
use crate::plan::change::Change;
use crate::plan::entry::Entry;

/// A knob by its place, as a process is asked for it: `nr_requests` or `journal.ioprio` of `8:0`,
/// `GROUP:io.max`, `pid:4711:ioprio`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnobName {
    /// The number of its device; none for a knob of the machine, of a process, or of a control
    /// group as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Its name, behind the path of its control group or the number of its process, and a colon.
    pub knob: String,
}

impl KnobName {
    /// The name of a knob at a place.
    #[must_use]
    pub fn of(knob: &Knob, target: &Target) -> Self {
        let device = target.device().map(|device| device.number.clone());
        let knob = match target {
            Target::Group { path, .. } => format!("{path}:{}", knob.name),
            Target::Process(process) => format!("pid:{}:{}", process.pid, knob.name),
            _ => knob.name.to_owned(),
        };
        Self { device, knob }
    }
}

impl fmt::Display for KnobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.device {
            Some(device) => write!(f, "{device} {}", self.knob),
            None => f.write_str(&self.knob),
        }
    }
}

/// The knobs that one process holds in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTheWay {
    /// The process: `pid 4711 (floodwall guard)`.
    pub by: String,
    /// Where it can be asked; none if it has no socket.
    pub socket: Option<PathBuf>,
    /// The knobs.
    pub knobs: Vec<KnobName>,
    /// The same, as people write them.
    pub labels: Vec<String>,
}

/// What a session is about to do.
#[derive(Clone, Copy, Debug)]
pub enum Intention<'a> {
    /// Make changes.
    Apply(&'a [Change]),
    /// Put back the changes above a number, and those that a recovery puts back.
    Rollback(u64),
    /// Put back one change.
    RollbackOne(u64),
}

/// A process that asks another one for knobs; `Err` says why that does not yield them.
pub type Ask = fn(&InTheWay) -> Result<(), String>;

impl Session<'_> {
    /// The knobs that a living process holds in the way, for it to be asked.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn in_the_way(&self, of: Intention<'_>) -> Result<Option<InTheWay>, JournalError> {
        let open = open(self.store, &self.boot_id)?.into_iter();
        let (holds, changes): (Vec<_>, Vec<_>) = open.partition(|t| t.begin.steers);
        let now_unix_s = self.clock.now_unix_s();
        let is_to_go = |t: &Transaction| match of {
            Intention::Apply(_) => false,
            Intention::Rollback(above) => {
                t.begin.id > above || t.phase() != Phase::Standing || t.has_expired(now_unix_s)
            }
            Intention::RollbackOne(id) => t.begin.id == id,
        };
        let entries: Vec<Entry> = match of {
            Intention::Apply(changes) => {
                changes.iter().map(|change| change.entry(self.files)).collect()
            }
            _ => changes.into_iter().filter(is_to_go).flat_map(|t| t.entries).collect(),
        };
        for hold in holds {
            let mut places: Vec<usize> =
                entries.iter().flat_map(|entry| in_the_way(&hold, entry)).collect();
            places.sort_unstable();
            places.dedup();
            if places.is_empty() || life(self.files, self.store, &hold.begin)? != Life::Lives {
                continue;
            }
            let held: Vec<&Entry> = places.iter().filter_map(|at| hold.entries.get(*at)).collect();
            return Ok(Some(InTheWay {
                by: describe(&hold),
                socket: hold.begin.socket.clone(),
                knobs: held.iter().map(|entry| KnobName::of(entry.knob, &entry.target)).collect(),
                labels: held.iter().map(|entry| entry.label()).collect(),
            }));
        }
        Ok(None)
    }
}
