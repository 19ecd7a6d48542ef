//! The journals that there are, each as far as it is to be believed.

use std::io::ErrorKind;

use super::owner::is_alive;
use super::store::{JournalError, Store};
use super::transaction::{Phase, Transaction};
use crate::catalogue::files::{Files, read_line};

/// A journal and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The file.
    pub name: String,
    /// Its transaction, or why the journal is not valid.
    pub transaction: Result<Transaction, String>,
    /// Bytes of whole lines.
    pub(crate) whole: u64,
    /// Bytes.
    pub(crate) length: u64,
}

/// How journals' names end …
pub(super) const JOURNAL: &str = ".jsonl";
/// … and those of journals that were set aside.
const ASIDE: &str = ".jsonl.bad";

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
    names.filter_map(|name| if_there(logged(store, name)).transpose()).collect()
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

/// The numbers of changes that a recovery would put back because they were cut short, and of holds
/// whose process is gone.
///
/// # Errors
/// [`JournalError`] if the journal can't be read.
pub fn cut_short(store: &dyn Store, files: &dyn Files) -> Result<Vec<u64>, JournalError> {
    let mut ids = Vec::new();
    for transaction in log(store)?.into_iter().filter_map(|logged| logged.transaction.ok()) {
        let (begin, phase) = (&transaction.begin, transaction.phase());
        let is_open = matches!(phase, Phase::Interrupted | Phase::Undoing | Phase::Steering);
        if is_open && !(begin.steers && is_alive(files, store, begin)?) {
            ids.push(begin.id);
        }
    }
    Ok(ids)
}

/// Invalid journals that were set aside, with the reason, ordered by name. Their changes have not
/// been put back.
///
/// # Errors
/// [`JournalError`] if the directory can't be read.
pub fn kept_aside(store: &dyn Store) -> Result<Vec<(String, String)>, JournalError> {
    let names = store.names()?.into_iter().filter(|name| name.ends_with(ASIDE));
    let why = |logged: Logged| match logged {
        Logged { name, transaction: Err(why), .. } => (name, why),
        Logged { name, .. } => (name, "set aside by hand, or by an older floodwall".to_owned()),
    };
    names.filter_map(|name| if_there(logged(store, name).map(why)).transpose()).collect()
}

/// Where one transaction is; `None` if its journal is not there, or not to be believed (any more).
///
/// # Errors
/// [`JournalError`] if it can't be read.
pub fn phase(store: &dyn Store, id: u64) -> Result<Option<Phase>, JournalError> {
    let logged = if_there(logged(store, file_name(id)))?;
    Ok(logged.and_then(|logged| Some(logged.transaction.ok()?.phase())))
}

/// `None` for a file that is not there (any more): a process with the journal's lock may remove old
/// ones.
fn if_there<T>(read: Result<T, JournalError>) -> Result<Option<T>, JournalError> {
    match read {
        Ok(read) => Ok(Some(read)),
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

/// The file of a transaction's journal.
pub(super) fn file_name(id: u64) -> String {
    format!("{id:06}{JOURNAL}")
}
