//! One transaction being carried out: intent, write, read back, done.

use std::io;
use std::time::Duration;

use floodwall_host::queue::choices;
use rustix::io::Errno;

use crate::apply::clock::Clock;
use crate::catalogue::Unit;
use crate::catalogue::cell::{Cell, State};
use crate::catalogue::files::{Files, read_line};
use crate::catalogue::systemd;
use crate::journal::{Closing, JournalError, Record, Store, Transaction};
use crate::plan::dirty_limit::{FLUSHER_CHUNK_BYTES, Memory, dirty_bytes};
use crate::plan::entry::{Entry, Step};
use crate::plan::short;

/// Between two attempts at a file that says "busy" (`nr_requests` in 6.18), and how many.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
const BUSY_ATTEMPTS: u32 = 50;
/// Time between two steps of a hard limit: the kernel's own estimates move every 200 ms
/// (mm/page-writeback.c `BANDWIDTH_INTERVAL`).
const STEP_PAUSE: Duration = Duration::from_millis(200);
/// How long a step waits for dirty data to drain before it stops caring whom it stops.
const STEP_PATIENCE: Duration = Duration::from_secs(60);

/// Whether things are being changed or put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Without its journal nothing is written.
    Apply,
    /// Putting back goes on without a journal: a full disk must not keep wrong values in force.
    Undo,
}

/// A step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The journal could not be continued, so nothing more was written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The kernel refused a value.
    #[error("the kernel refused {label} = {value}: {why}")]
    Write {
        /// The knob.
        label: String,
        /// The written value.
        value: String,
        /// Why, and what to do.
        why: String,
        /// Its error number.
        errno: Errno,
    },
    /// The kernel took a value and holds another.
    #[error("the kernel took {label} = {wanted} and holds {found}")]
    NotTaken {
        /// The knob.
        label: String,
        /// The written value.
        wanted: String,
        /// The value found.
        found: String,
    },
    /// A request to stop came.
    #[error("stopped on request")]
    Cancelled,
}

impl Entry {
    /// Writes a state to the kernel; "busy" is tried again.
    ///
    /// # Errors
    /// [`StepError::Write`].
    pub(crate) fn write(
        &self,
        to: &State,
        files: &dyn Files,
        clock: &dyn Clock,
    ) -> Result<(), StepError> {
        let mut attempts = 0;
        loop {
            match files.write(&to.path, &to.value) {
                Err(Errno::BUSY | Errno::AGAIN) if attempts < BUSY_ATTEMPTS => {
                    attempts += 1;
                    clock.sleep(BUSY_PAUSE);
                }
                written => {
                    return written.map_err(|errno| StepError::write(files, self, to, errno));
                }
            }
        }
    }
}

impl StepError {
    /// Puts the kernel's answer into words.
    pub(crate) fn write(files: &dyn Files, entry: &Entry, to: &State, errno: Errno) -> Self {
        let why = match errno {
            Errno::TIMEDOUT | Errno::SRCH | Errno::REMOTEIO | Errno::NOENT
                if matches!(entry.cell, Cell::Property { .. }) =>
            {
                systemd::ask::in_words(errno)
            }
            Errno::ACCESS | Errno::PERM => "permission denied; run as root".to_owned(),
            Errno::ROFS => "read-only file system; not from inside this container".to_owned(),
            Errno::NODEV | Errno::NOENT | Errno::NXIO => "it is gone".to_owned(),
            Errno::BUSY => "it stayed busy; try again".to_owned(),
            Errno::INVAL if entry.knob.unit == Unit::Elevator => {
                let listed = read_line(files, &to.path)
                    .map(|text| choices(&text).collect::<Vec<_>>().join(", "));
                format!("no such elevator; it has {}", listed.into_value().unwrap_or_default())
            }
            Errno::INVAL if entry.knob.name.starts_with("bdi.min_") => {
                "invalid; Linux 6.2 to 6.7 take only 0, and all devices' shares must stay below \
                 100 %"
                    .to_owned()
            }
            other => io::Error::from(other).to_string(),
        };
        Self::Write { label: entry.label(), value: to.value.clone(), why, errno }
    }

    /// Another value was found than the written one.
    pub(crate) fn not_taken(entry: &Entry, wanted: &State, found: Option<&State>) -> Self {
        let label = entry.label();
        let found = found.map_or_else(|| "nothing".to_owned(), |found| short(&label, found));
        Self::NotTaken { wanted: short(&label, wanted), found, label }
    }

    /// Whether systemd did not answer in time.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Self::Write { errno: Errno::TIMEDOUT, .. })
    }

    /// Whether a privilege or a writable /proc or /sys is missing.
    #[must_use]
    pub fn lacks_privilege(&self) -> bool {
        match self {
            Self::Write { errno, .. } => {
                matches!(*errno, Errno::ACCESS | Errno::PERM | Errno::ROFS)
            }
            Self::Journal(error) => error.lacks_privilege(),
            Self::NotTaken { .. } | Self::Cancelled => false,
        }
    }
}

/// A transaction and the means to carry it out.
pub(crate) struct Run<'a> {
    pub(crate) files: &'a dyn Files,
    pub(crate) store: &'a dyn Store,
    pub(crate) clock: &'a dyn Clock,
    /// The journal's file.
    pub(crate) name: String,
    pub(crate) transaction: Transaction,
    pub(crate) mode: Mode,
    /// Records that the journal had no room for, in their order: they count, and are appended when
    /// there is room again.
    pub(crate) owed: Vec<Record>,
}

impl Run<'_> {
    /// Appends a record. It counts for us even if it could not be written.
    pub(crate) fn note(&mut self, record: Record) -> Result<(), StepError> {
        let appended = append_owed(self.store, &self.name, &mut self.owed)
            .and_then(|_| self.store.append(&self.name, record.line().as_bytes()));
        if appended.is_err() {
            self.owed.push(record.clone());
        }
        self.transaction.push(record);
        match self.mode {
            Mode::Apply => Ok(appended?),
            Mode::Undo => Ok(()),
        }
    }

    /// Says that there is nothing more to do.
    pub(crate) fn close(&mut self, how: Closing) -> Result<(), JournalError> {
        let record = Record::Closed { at_unix_s: self.clock.now_unix_s(), how };
        self.store.append(&self.name, record.line().as_bytes())?;
        self.transaction.push(record);
        Ok(())
    }

    /// Carries out one step.
    pub(crate) fn perform(&mut self, step: &Step) -> Result<(), StepError> {
        match step {
            Step::Set { entry, to } => self.bring(*entry, to),
            Step::Lower { entry, to, limit_bytes } => {
                let lowered = self.lower(*entry, *limit_bytes);
                // Putting back the right value at once is better than not at all.
                if self.mode == Mode::Apply {
                    lowered?;
                }
                self.bring(*entry, to)
            }
        }
    }

    /// Brings an entry to a state, unless it is there already, and checks that it is.
    pub(crate) fn bring(&mut self, index: usize, to: &State) -> Result<(), StepError> {
        let Some(entry) = self.transaction.entries.get(index).cloned() else { return Ok(()) };
        if self.mode == Mode::Apply && self.clock.cancelled() {
            return Err(StepError::Cancelled);
        }
        let now = entry.cell.read(self.files).into_value();
        let way = entry.cell.way(now.as_ref(), to);
        if way.is_empty() {
            return Ok(());
        }
        for state in way {
            self.note(Record::Intent { entry: index, to: state.clone() })?;
            entry.write(&state, self.files, self.clock)?;
        }
        let (readings, found) = self.transaction.read_back(index, self.files);
        self.note(Record::Done { readings })?;
        let taken = found.as_ref().is_some_and(|found| entry.cell.reaches(found, to, self.files));
        if taken || (entry.knob.adjusts.is_some() && found.is_some()) {
            return Ok(());
        }
        Err(StepError::not_taken(&entry, to, found.as_ref()))
    }

    /// Lowers a hard limit towards `target` in steps of at most 10 %, never below the dirty pages,
    /// so that writers slow down but don't stop. Since 4.18 a lower limit applies at once
    /// (`writeback_set_ratelimit`). Ends when one more write can reach the target.
    fn lower(&mut self, index: usize, target: u64) -> Result<(), StepError> {
        let Some(entry) = self.transaction.entries.get(index).cloned() else { return Ok(()) };
        let Cell::Pair { bytes: path, .. } = &entry.cell else { return Ok(()) };
        let memory = Memory::read(self.files);
        let now = entry.cell.read(self.files).into_value();
        let Some(mut limit) = now.and_then(|state| memory.limit_bytes(&state)) else {
            return Ok(());
        };
        let page = self.files.page_bytes();
        let mut waited = Duration::ZERO;
        loop {
            // At a 16th above the dirty pages the kernel still lets writers run at a third to a
            // half of the drain rate.
            let dirty = dirty_bytes(self.files).unwrap_or(0);
            let held = dirty + dirty / 16;
            if held <= target || limit <= target.max(FLUSHER_CHUNK_BYTES) {
                return Ok(());
            }
            if self.mode == Mode::Apply && self.clock.cancelled() {
                return Err(StepError::Cancelled);
            }
            let floor = if waited < STEP_PATIENCE { held } else { 0 };
            let next =
                (limit - limit / 10).max(floor).max(target).max(FLUSHER_CHUNK_BYTES).div_ceil(page)
                    * page;
            if next < limit {
                self.bring(index, &State { path: path.clone(), value: next.to_string() })?;
                limit = next;
            } else {
                waited += STEP_PAUSE;
            }
            self.clock.sleep(STEP_PAUSE);
        }
    }

    /// Values that the kernel made another one of, in words.
    pub(crate) fn adjusted(&self) -> Vec<String> {
        let entries = self.transaction.entries.iter().enumerate();
        let differs = entries.filter_map(|(index, entry)| {
            let (wanted, found) = (entry.new.as_ref()?, self.transaction.last_reading(index)?);
            if entry.cell.same(wanted, found) {
                return None;
            }
            let why = entry.knob.adjusts.unwrap_or("the kernel adjusts it");
            Some(format!("{}: {} became {} ({why})", entry.label(), wanted.value, found.value))
        });
        differs.collect()
    }
}

/// Appends records that the journal had no room for, as far as it has now, and says how many bytes
/// that took.
pub(crate) fn append_owed(
    store: &dyn Store,
    name: &str,
    owed: &mut Vec<Record>,
) -> Result<u64, JournalError> {
    let mut bytes = 0;
    while let Some(first) = owed.first() {
        let line = first.line();
        store.append(name, line.as_bytes())?;
        bytes += line.len() as u64;
        owed.remove(0);
    }
    Ok(bytes)
}
