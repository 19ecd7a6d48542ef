//! Journals that are written whole: a new transaction's, and a hold's that is written again.

use super::log::{JOURNAL, file_name};
use super::record::{Begin, Record};
use super::store::{JournalError, Store};
use super::transaction::Transaction;
use crate::plan::entry::Entry;

/// The number of the next transaction.
pub(crate) fn next_id(store: &dyn Store) -> Result<u64, JournalError> {
    let names = store.names()?;
    let last = names.iter().filter_map(|name| name.get(..6)?.parse::<u64>().ok()).max();
    Ok(last.unwrap_or(0) + 1)
}

/// Writes the first record of a new transaction, durably, and gives its file. `entries` are those
/// of the record, with their cells.
pub(crate) fn begin(
    store: &dyn Store,
    begin: Begin,
    entries: Vec<Entry>,
) -> Result<(String, Transaction), JournalError> {
    let name = file_name(begin.id);
    write_whole(store, &name, &Record::Begin(begin.clone()).line())?;
    Ok((name, Transaction::new(begin, entries)))
}

/// Writes a journal whole or not at all, durably.
pub(crate) fn write_whole(store: &dyn Store, name: &str, text: &str) -> Result<(), JournalError> {
    let fresh = format!("{}.new", name.trim_end_matches(JOURNAL));
    store.write_new(&fresh, text.as_bytes())?;
    store.rename(&fresh, name)
}
