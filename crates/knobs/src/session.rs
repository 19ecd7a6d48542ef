//! Changing settings: recover what a crash left, apply a plan, roll back.
//!
//! ```text
//! recover:  holds whose process is gone → what was cut short, newest first: undo
//!           a hold whose process lives is left alone
//!           a killed process still inside a write: of its hold everything is undone but what
//!           has to do with that write
//! apply:    recover → refused where a hold is in the way → plan → may we write? → begin (fsynced)
//!             → steps, each: intent → write → read back → done → commit
//!             any failure: undo what was done
//! rollback: recover → standing transactions, newest first: undo
//! undo:     every value still ours → the order of a plan → write → read back → closed
//!           what others have changed is left and said, what a hold has on top waits
//! ```
//!
//! The caller holds the journal's lock for as long as a session lives, so an open transaction found
//! here has lost its process, unless it is a [hold].

use std::io::ErrorKind;
use std::path::PathBuf;

use floodwall_host::task::start_ticks;

use crate::cell::Cell;
use crate::change::Change;
use crate::clock::Clock;
use crate::entry::Entry;
use crate::error::PlanError;
use crate::files::{Files, read_line};
use crate::hold::{self, in_the_way};
use crate::journal::{
    Begin, Closing, JournalError, Phase, Record, SavedEntry, Store, Transaction, prune,
};
use crate::owner::{Life, Occupied, life};
pub use crate::owner::{is_alive, is_at_it};
use crate::plan::{Plan, plan};
use crate::run::{Mode, Run, StepError};
use crate::undo::Undone;

/// The process that changes settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Process.
    pub pid: u32,
    /// When it started, in clock ticks since boot. 0 if that can't be read; such a process may not
    /// [hold].
    pub pid_start_ticks: u64,
    /// The socket at which it can be asked to yield a knob, if it steers and has one.
    pub socket: Option<PathBuf>,
    /// User.
    pub uid: u32,
    /// Command line.
    pub command: String,
}

impl Who {
    /// This process. `files` are the live machine's.
    #[must_use]
    pub fn this_process(files: &dyn Files) -> Self {
        let start =
            files.read("/proc/self/stat").ok().and_then(|text| start_ticks(text.as_bytes()));
        let command = files.read("/proc/self/cmdline").unwrap_or_default().replace('\0', " ");
        Self {
            pid: std::process::id(),
            pid_start_ticks: start.unwrap_or(0),
            socket: None,
            uid: rustix::process::getuid().as_raw(),
            command: command.trim().chars().take(200).collect(),
        }
    }

    /// For whom we keep out: `pid 4711 (floodwall apply …)`.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("pid {} ({})", self.pid, self.command)
    }
}

/// The findings of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Transactions of an earlier boot, closed without a write.
    pub earlier_boots: Vec<u64>,
    /// Transactions that a crash had cut short, undone now.
    pub undone: Vec<Undone>,
    /// Expired transactions that no process had put back, undone now.
    pub expired: Vec<Undone>,
    /// Invalid journals, and why; renamed to `.bad`.
    pub set_aside: Vec<(String, String)>,
}

impl Recovery {
    /// Whether there is anything to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A change that could not be put back as a whole, if there is one.
    #[must_use]
    pub fn incomplete(&self) -> Option<&Undone> {
        self.undone.iter().chain(&self.expired).find(|undone| !undone.is_complete())
    }

    /// A transaction with an entry that could not be put back, if there is one.
    #[must_use]
    pub fn failed(&self) -> Option<&Undone> {
        self.undone.iter().chain(&self.expired).find(|undone| undone.has_failed())
    }
}

/// The outcome of an apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The transaction; none if everything was as asked for already.
    pub id: Option<u64>,
    /// The plan that was carried out.
    pub plan: Plan,
    /// Values that the kernel made another one of, in words.
    pub adjusted: Vec<String>,
    /// The transactions recovered first.
    pub recovery: Recovery,
}

/// Settings could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The journal. Nothing has been changed.
    #[error("nothing was changed: {0}")]
    Journal(#[from] JournalError),
    /// A file that may not be written. Nothing has been changed.
    #[error("nothing was changed: {0}")]
    MayNotWrite(StepError),
    /// An earlier, interrupted change could not be undone.
    #[error(
        "nothing was changed: change {id} was interrupted and could not be undone ({why}); settle \
         that first, with floodwall rollback"
    )]
    Unrecovered {
        /// Which.
        id: u64,
        /// The defect.
        why: String,
    },
    /// A value that another change holds for a time. When that one ends, what it found must be what
    /// it left behind.
    #[error(
        "nothing was changed: {label} is set for a time by change {id}; floodwall rollback ends it"
    )]
    Temporary {
        /// The knob.
        label: String,
        /// Which change.
        id: u64,
    },
    /// A value that a process that steers holds. It has to be asked first
    /// ([`Session::in_the_way`]).
    #[error("nothing was changed: {label} is held by {by}; pause or stop that first")]
    Steered {
        /// The knob.
        label: String,
        /// The process.
        by: String,
    },
    /// A value of a queue at which a process that steered, and has been killed, is still inside a
    /// write.
    #[error(
        "nothing was changed: {label} can't be set, because {by} has been killed and is still \
         inside a write to its queue; try again when the device has let go of it"
    )]
    Occupied {
        /// The knob.
        label: String,
        /// The process.
        by: String,
    },
    /// A step failed; what had been done was undone.
    #[error("{cause}; \
        {}", if undone.is_complete() { "everything is as before" } else { "not everything could be put back: run floodwall rollback" })]
    RolledBack {
        /// The failed step.
        cause: StepError,
        /// How far it was undone.
        undone: Undone,
    },
}

impl ApplyError {
    /// Whether a privilege or a writable /proc or /sys is missing.
    #[must_use]
    pub fn lacks_privilege(&self) -> bool {
        match self {
            Self::Plan(PlanError::Unreadable { .. }) => true,
            Self::Journal(error) => error.lacks_privilege(),
            Self::MayNotWrite(error) | Self::RolledBack { cause: error, .. } => {
                error.lacks_privilege()
            }
            Self::Plan(_)
            | Self::Unrecovered { .. }
            | Self::Temporary { .. }
            | Self::Steered { .. }
            | Self::Occupied { .. } => false,
        }
    }
}

/// A journal and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The file.
    pub name: String,
    /// Its transaction, or why the journal is not valid.
    pub transaction: Result<Transaction, String>,
    /// Bytes of whole lines.
    whole: u64,
    /// Bytes.
    length: u64,
}

/// How journals' names end …
const JOURNAL: &str = ".jsonl";
/// … and those of journals that were set aside.
const ASIDE: &str = ".jsonl.bad";

/// Everything that a change needs.
pub struct Session<'a> {
    /// The kernel's files.
    pub files: &'a dyn Files,
    /// The journal, locked.
    pub store: &'a dyn Store,
    /// Time.
    pub clock: &'a dyn Clock,
    /// This process.
    pub who: Who,
    /// This boot.
    pub boot_id: String,
}

/// The identity of this boot; a captured tree without one has only ever had one.
#[must_use]
pub fn boot_id(files: &dyn Files) -> String {
    read_line(files, "/proc/sys/kernel/random/boot_id")
        .into_value()
        .unwrap_or_else(|| "captured".to_owned())
}

/// Every journal in the order of its age, those that are not to be believed included.
///
/// # Errors
/// [`JournalError`] if the directory can't be read.
pub fn log(store: &dyn Store) -> Result<Vec<Logged>, JournalError> {
    let names = store.names()?.into_iter().filter(|name| name.ends_with(JOURNAL));
    names.map(|name| logged(store, name)).collect()
}

/// Changes and holds of a boot that have not been put back, in the order of their age. Journals
/// that are not to be believed are left out.
///
/// # Errors
/// [`JournalError`] if the directory can't be read.
pub fn open(store: &dyn Store, boot_id: &str) -> Result<Vec<Transaction>, JournalError> {
    let is_open =
        |t: &Transaction| t.begin.boot_id == boot_id && !matches!(t.phase(), Phase::Closed(_));
    let all = log(store)?.into_iter().filter_map(|logged| logged.transaction.ok());
    Ok(all.filter(is_open).collect())
}

/// Invalid journals that were set aside, with the reason, ordered by name. Their changes have not
/// been put back.
///
/// # Errors
/// [`JournalError`] if the directory can't be read.
pub fn kept_aside(store: &dyn Store) -> Result<Vec<(String, String)>, JournalError> {
    let names = store.names()?.into_iter().filter(|name| name.ends_with(ASIDE));
    let why = |name: String| {
        let why = match logged(store, name)? {
            Logged { name, transaction: Err(why), .. } => (name, why),
            Logged { name, .. } => (name, "set aside by hand, or by an older floodwall".to_owned()),
        };
        Ok(why)
    };
    names.map(why).collect()
}

/// Where one transaction is; `None` if its journal is not there, or not to be believed (any more).
///
/// # Errors
/// [`JournalError`] if it can't be read.
pub fn phase(store: &dyn Store, id: u64) -> Result<Option<Phase>, JournalError> {
    match logged(store, file_name(id)) {
        Ok(logged) => Ok(logged.transaction.ok().map(|transaction| transaction.phase())),
        Err(JournalError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// One journal, as far as it is to be believed.
fn logged(store: &dyn Store, name: String) -> Result<Logged, JournalError> {
    let bytes = match store.read(&name) {
        Ok(bytes) => bytes,
        Err(JournalError::Foreign { why, .. }) => {
            return Ok(Logged { name, transaction: Err(why), whole: 0, length: 0 });
        }
        Err(e) => return Err(e),
    };
    let length = bytes.len() as u64;
    let parsed = Transaction::parse(&bytes).and_then(|(transaction, whole)| {
        if name.starts_with(&file_name(transaction.begin.id)) {
            Ok((transaction, whole))
        } else {
            Err(format!("it says that it is number {}", transaction.begin.id))
        }
    });
    Ok(match parsed {
        Ok((transaction, whole)) => Logged { name, transaction: Ok(transaction), whole, length },
        Err(why) => Logged { name, transaction: Err(why), whole: 0, length },
    })
}

/// Refuses to change what another transaction holds for a time: put back out of turn, the older
/// value would come back with the newer change's end.
fn not_held(plan: &Plan, standing: &[(String, Transaction)]) -> Result<(), ApplyError> {
    for (_, transaction) in standing.iter().filter(|(_, t)| t.begin.expires_at_unix_s.is_some()) {
        let held = |cell: &Cell| transaction.entries.iter().any(|entry| entry.cell == *cell);
        if let Some(entry) = plan.entries.iter().find(|entry| held(&entry.cell)) {
            return Err(ApplyError::Temporary { label: entry.label(), id: transaction.begin.id });
        }
    }
    Ok(())
}

/// A hold whose process lives, or has been killed and is still inside a write.
pub(crate) struct Steered {
    /// Its transaction.
    pub(crate) transaction: Transaction,
    /// The files that the killed process is writing; `None` if it lives.
    pub(crate) occupied: Option<Occupied>,
}

/// The open transactions after a recovery.
#[derive(Default)]
pub(crate) struct Listing {
    /// Changes that stand, newest first.
    pub(crate) standing: Vec<(String, Transaction)>,
    /// Holds whose process is not gone.
    pub(crate) steered: Vec<Steered>,
}

/// The killed process whose unfinished write keeps an entry from being touched.
fn occupier(steered: &[Steered], entry: &Entry) -> Option<String> {
    let covers =
        |hold: &&Steered| hold.occupied.as_ref().is_some_and(|occupied| occupied.covers(entry));
    steered.iter().find(covers).map(|hold| hold::describe(&hold.transaction))
}

/// The living process that holds a cell in the way of an entry.
fn holder(steered: &[Steered], entry: &Entry) -> Option<String> {
    let mut living = steered.iter().filter(|hold| hold.occupied.is_none());
    let hold = living.find(|hold| in_the_way(&hold.transaction, entry).next().is_some())?;
    Some(hold::describe(&hold.transaction))
}

/// Why an entry must not be put back now.
fn obstacle(steered: &[Steered], entry: &Entry) -> Option<String> {
    let killed = occupier(steered, entry)
        .map(|by| format!("{by} has been killed and is still inside a write to its queue"));
    killed
        .or_else(|| Some(format!("{} holds it; pause or stop that first", holder(steered, entry)?)))
}

fn file_name(id: u64) -> String {
    format!("{id:06}{JOURNAL}")
}

impl Session<'_> {
    /// Closes the journals of earlier boots, undoes what a crash cut short, and sets aside what is
    /// not to be believed.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn recover(&self) -> Result<Recovery, JournalError> {
        self.recover_and_list().map(|(recovery, _)| recovery)
    }

    /// Recovers, and lists standing changes and holds. Removes surplus closed journals.
    pub(crate) fn recover_and_list(&self) -> Result<(Recovery, Listing), JournalError> {
        let mut recovery = Recovery::default();
        let mut listing = Listing::default();
        let mut closed = Vec::new();
        let (mut left_holds, mut left) = (Vec::new(), Vec::new());
        let now_unix_s = self.clock.now_unix_s();
        // Newest first, as always when undoing.
        for logged in log(self.store)?.into_iter().rev() {
            let transaction = match logged.transaction {
                Ok(transaction) => transaction,
                Err(why) => {
                    self.store.rename(&logged.name, &format!("{}.bad", logged.name))?;
                    recovery.set_aside.push((logged.name, why));
                    continue;
                }
            };
            let phase = transaction.phase();
            if matches!(phase, Phase::Closed(_)) {
                closed.push(logged.name);
                continue;
            }
            if logged.length > logged.whole {
                self.store.truncate(&logged.name, logged.whole)?;
            }
            let (id, name) = (transaction.begin.id, logged.name);
            if transaction.begin.boot_id != self.boot_id {
                self.run(name, transaction, Mode::Undo).close(Closing::EarlierBoot)?;
                recovery.earlier_boots.push(id);
            } else if transaction.begin.steers {
                match life(self.files, self.store, &transaction.begin)? {
                    Life::Gone => left_holds.push((name, transaction, None)),
                    Life::Ending(occupied) => {
                        let occupied = occupied.of(&transaction.entries);
                        left_holds.push((name, transaction, Some(occupied)));
                    }
                    Life::Lives => listing.steered.push(Steered { transaction, occupied: None }),
                }
            } else {
                left.push((name, transaction, phase));
            }
        }
        // A hold is on top of every change.
        for (name, transaction, occupied) in left_holds {
            let mut run = self.run(name, transaction, Mode::Undo);
            let why = format!(
                "{} has been killed and is still inside a write",
                hold::describe(&run.transaction)
            );
            let undone = run.undo_around(|entry| {
                occupied.as_ref().is_some_and(|of| of.covers(entry)).then(|| why.clone())
            });
            if occupied.is_some() && !undone.closed {
                listing.steered.push(Steered { transaction: run.transaction, occupied });
            }
            recovery.undone.push(undone);
        }
        for (name, transaction, phase) in left {
            if phase != Phase::Standing {
                recovery.undone.push(self.undo(name, transaction, &listing.steered));
            } else if transaction.has_expired(now_unix_s) {
                recovery.expired.push(self.undo(name, transaction, &listing.steered));
            } else {
                listing.standing.push((name, transaction));
            }
        }
        prune(self.store, &closed);
        Ok((recovery, listing))
    }

    /// Carries out changes that stand until they are put back.
    ///
    /// # Errors
    /// [`ApplyError`], which says whether anything was changed.
    pub fn apply(&self, changes: &[Change], why: &str) -> Result<Applied, ApplyError> {
        self.apply_until(changes, why, None)
    }

    /// Carries out changes. At `expires_at_unix_s` the caller is to run [`Self::rollback_one`];
    /// otherwise the next session puts them back. Until then no other change may cover them.
    ///
    /// # Errors
    /// [`ApplyError`], which says whether anything was changed.
    pub fn apply_until(
        &self,
        changes: &[Change],
        why: &str,
        expires_at_unix_s: Option<u64>,
    ) -> Result<Applied, ApplyError> {
        let (recovery, Listing { standing, steered }) = self.recover_and_list()?;
        if let Some(stuck) = recovery.failed() {
            return Err(ApplyError::Unrecovered { id: stuck.id, why: stuck.to_string() });
        }
        // Planning reads the knob, and that read blocks while a write is pending.
        for change in changes {
            let entry = change.entry(self.files);
            if let Some(by) = occupier(&steered, &entry) {
                return Err(ApplyError::Occupied { label: entry.label(), by });
            }
            if let Some(by) = holder(&steered, &entry) {
                return Err(ApplyError::Steered { label: entry.label(), by });
            }
        }
        let plan = plan(changes, self.files)?;
        if plan.is_empty() {
            return Ok(Applied { id: None, plan, adjusted: Vec::new(), recovery });
        }
        not_held(&plan, &standing)?;
        self.may_write(&plan)?;
        let mut run = self.begin(&plan, why, expires_at_unix_s)?;
        for step in &plan.steps {
            if let Err(cause) = run.perform(step) {
                return Err(ApplyError::RolledBack { cause, undone: run.undo() });
            }
        }
        let readings = run.transaction.readings(self.files);
        if let Err(cause) = run.note(Record::Commit { readings }) {
            return Err(ApplyError::RolledBack { cause, undone: run.undo() });
        }
        let adjusted = run.adjusted();
        Ok(Applied { id: Some(run.transaction.begin.id), plan, adjusted, recovery })
    }

    /// Undoes every standing transaction above a number, newest first; 0 undoes all. Stops at one
    /// that could not be undone completely.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn rollback(&self, to: u64) -> Result<(Recovery, Vec<Undone>), JournalError> {
        let (recovery, Listing { standing, steered }) = self.recover_and_list()?;
        let mut all = Vec::new();
        // An older change is not put back before the changes on top of it.
        let standing = standing.into_iter().filter(|_| recovery.failed().is_none());
        for (name, transaction) in standing.filter(|(_, t)| t.begin.id > to) {
            let undone = self.undo(name, transaction, &steered);
            let complete = undone.is_complete();
            all.push(undone);
            if !complete {
                break;
            }
        }
        Ok((recovery, all))
    }

    /// Undoes one standing transaction, even if others follow it; `None` if it does not, or no
    /// longer, stand.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn rollback_one(&self, id: u64) -> Result<(Recovery, Option<Undone>), JournalError> {
        let (recovery, Listing { standing, steered }) = self.recover_and_list()?;
        let found = standing.into_iter().find(|(_, transaction)| transaction.begin.id == id);
        let undone = found.map(|(name, transaction)| self.undo(name, transaction, &steered));
        Ok((recovery, undone))
    }

    /// Undoes a change, except for what a hold has on top, and what a killed process is writing.
    fn undo(&self, name: String, transaction: Transaction, steered: &[Steered]) -> Undone {
        self.run(name, transaction, Mode::Undo).undo_around(|entry| obstacle(steered, entry))
    }

    pub(crate) fn run(&self, name: String, transaction: Transaction, mode: Mode) -> Run<'_> {
        Run {
            files: self.files,
            store: self.store,
            clock: self.clock,
            name,
            transaction,
            mode,
            owed: Vec::new(),
        }
    }

    /// Opens every file that the plan writes, without writing: half a plan is worse than none.
    fn may_write(&self, plan: &Plan) -> Result<(), ApplyError> {
        for step in &plan.steps {
            let Some(entry) = plan.entries.get(step.entry()) else { continue };
            // The tunable of an elevator that is yet to be switched to.
            if entry.old.is_none() {
                continue;
            }
            let to = step.to();
            self.files.may_write(&to.path).map_err(|error| {
                ApplyError::MayNotWrite(StepError::write(self.files, entry, to, error))
            })?;
        }
        Ok(())
    }

    fn begin(
        &self,
        plan: &Plan,
        why: &str,
        expires_at_unix_s: Option<u64>,
    ) -> Result<Run<'_>, JournalError> {
        let (name, transaction) =
            self.begin_transaction(plan.entries.clone(), why, expires_at_unix_s, false)?;
        Ok(self.run(name, transaction, Mode::Apply))
    }

    /// Writes the first record of a new transaction, durably, and gives its file.
    pub(crate) fn begin_transaction(
        &self,
        entries: Vec<Entry>,
        why: &str,
        expires_at_unix_s: Option<u64>,
        steers: bool,
    ) -> Result<(String, Transaction), JournalError> {
        let last =
            self.store.names()?.iter().filter_map(|name| name.get(..6)?.parse::<u64>().ok()).max();
        let id = last.unwrap_or(0) + 1;
        let begin = Begin {
            format: Begin::format(),
            id,
            boot_id: self.boot_id.clone(),
            pid: self.who.pid,
            pid_start_ticks: self.who.pid_start_ticks,
            socket: self.who.socket.clone().filter(|_| steers),
            uid: self.who.uid,
            command: self.who.command.clone(),
            at_unix_s: self.clock.now_unix_s(),
            why: why.to_owned(),
            expires_at_unix_s,
            steers,
            entries: entries.iter().map(SavedEntry::from).collect(),
        };
        let (fresh, name) = (format!("{id:06}.new"), file_name(id));
        self.store.write_new(&fresh, Record::Begin(begin.clone()).line().as_bytes())?;
        self.store.rename(&fresh, &name)?;
        Ok((name, Transaction::new(begin, entries)))
    }
}
