//! The entries of one day, as they are read, and which frames of it can be.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::index::{ENTRY, Entry, HEADER, MOST_ENTRIES};

/// Entries that are read at once.
const AT_ONCE: u64 = 2048;

/// An entry's place in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A whole entry, and the place of the frame that begins its chunk.
    Entry(Entry, usize),
    /// A whole entry after a damaged one of its chunk: its frame can't be read.
    Orphan(Entry),
    /// An entry with a wrong checksum.
    Damaged,
}

impl Slot {
    /// The entry, if it is whole.
    pub(super) fn entry(&self) -> Option<&Entry> {
        match self {
            Self::Entry(entry, _) | Self::Orphan(entry) => Some(entry),
            Self::Damaged => None,
        }
    }

    /// When its frame ended, if that can be told.
    pub(super) fn at_unix_ms(&self) -> Option<u64> {
        self.entry().map(|entry| entry.at_unix_ms)
    }
}

/// The entries of one day up to the last whole one.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<Slot>);

impl Slots {
    /// The entries.
    pub(super) fn all(&self) -> &[Slot] {
        &self.0
    }

    /// Reads what has been appended. An entry that is not whole at the end is not there yet.
    pub(super) fn refresh(&mut self, index: &File) -> io::Result<()> {
        let length = index.metadata()?.len();
        let entries = (length.saturating_sub(HEADER) / ENTRY).min(MOST_ENTRIES);
        // A recorder that was started again has cut off what was not whole.
        self.0.truncate(usize::try_from(entries).unwrap_or(usize::MAX));
        let mut at = self.0.len() as u64;
        while at < entries {
            let count = (entries - at).min(AT_ONCE);
            let mut bytes = vec![0; (count * ENTRY) as usize];
            match index.read_exact_at(&mut bytes, HEADER + at * ENTRY) {
                // It has just been cut.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => break,
                other => other?,
            }
            let (entries, _) = bytes.as_chunks();
            for bytes in entries {
                let slot = self.slot(Entry::parse(bytes));
                self.0.push(slot);
            }
            at += count;
        }
        let whole = self.0.iter().rposition(|slot| *slot != Slot::Damaged).map_or(0, |at| at + 1);
        self.0.truncate(whole);
        Ok(())
    }

    fn slot(&self, entry: Option<Entry>) -> Slot {
        let Some(entry) = entry else { return Slot::Damaged };
        if entry.begins_chunk {
            return Slot::Entry(entry, self.0.len());
        }
        match self.0.last() {
            Some(Slot::Entry(before, begin)) if before.end() == Some(entry.offset) => {
                Slot::Entry(entry, *begin)
            }
            _ => Slot::Orphan(entry),
        }
    }
}
