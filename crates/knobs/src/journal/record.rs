//! Records and their lines.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::catalogue::cell::{Cell, State};
use crate::catalogue::find;
use crate::catalogue::target::Target;
use crate::plan::entry::Entry;

/// Written in every first line; anything else is not replayed.
pub(super) const FORMAT: &str = "floodwall-journal/1";

/// The first record: the process, the time and the reason of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// `floodwall-journal/1`.
    pub format: String,
    /// Counts up; also the file's name.
    pub id: u64,
    /// /proc/sys/kernel/random/boot_id: a later boot has forgotten the values, so there is nothing
    /// to undo.
    pub boot_id: String,
    /// The process.
    pub pid: u32,
    /// When it started, in clock ticks since boot: process numbers are used again.
    pub pid_start_ticks: u64,
    /// The socket at which a process that steers can be asked to yield a knob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// Its user.
    pub uid: u32,
    /// Its command line.
    pub command: String,
    /// Seconds since 1970.
    pub at_unix_s: u64,
    /// The reason, in words.
    pub why: String,
    /// When it is put back automatically, in seconds since 1970; `None` without a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_unix_s: Option<u64>,
    /// Whether it is a hold: the process lives on and writes its knobs again and again, until it
    /// closes the hold or ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steers: bool,
    /// The changed cells, and those that change with them.
    pub entries: Vec<SavedEntry>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedEntry {
    /// The knob that names it.
    pub knob: String,
    /// The place that it belongs to.
    pub target: Target,
    /// Its state before.
    pub old: Option<State>,
    /// The wanted state; none if it is saved because another write may change it.
    pub new: Option<State>,
}

impl From<&Entry> for SavedEntry {
    fn from(entry: &Entry) -> Self {
        Self {
            knob: entry.knob.name.to_owned(),
            target: entry.target.clone(),
            old: entry.old.clone(),
            new: entry.new.clone(),
        }
    }
}

impl SavedEntry {
    /// The entry, accepted only if it agrees with the catalogue: the knob exists, the file is that
    /// knob's, and each value is one line.
    pub(super) fn believed(&self) -> Result<Entry, String> {
        let knob = find(&self.knob).ok_or_else(|| format!("there is no knob '{}'", self.knob))?;
        if !self.target.is_well_formed() || !self.target.suits(knob.scope) {
            return Err(format!("{} does not belong where it says", self.knob));
        }
        let path = self.old.as_ref().or(self.new.as_ref()).map(|state| state.path.as_str());
        let cell = Cell::of_saved(knob, &self.target, path.unwrap_or_default());
        for state in self.old.iter().chain(&self.new) {
            if !cell.admits(state) {
                return Err(format!("'{state}' is not a value of {}", self.target.label(knob)));
            }
        }
        Ok(Entry {
            knob,
            target: self.target.clone(),
            cell,
            old: self.old.clone(),
            new: self.new.clone(),
        })
    }
}

/// A cell that is saved after the beginning, and its place among the entries: the next one, or that
/// of the same cell, saved anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedAt {
    /// Which entry it is from here on.
    pub at: usize,
    /// The cell and its value.
    pub cell: SavedEntry,
}

/// An entry's value after a write; `None` if it was missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// Which entry.
    pub entry: usize,
    /// Its state before.
    pub state: Option<State>,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closing {
    /// Every value that was still Floodwall's was put back.
    Undone,
    /// The machine has been booted since: nothing was written.
    EarlierBoot,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Record {
    /// The first.
    Begin(Begin),
    /// About to write.
    Intent {
        /// Which entry.
        entry: usize,
        /// What.
        to: State,
    },
    /// Written; the values of the entry, and of those that it resets, are these.
    Done {
        /// Their values.
        readings: Vec<Reading>,
    },
    /// All written and read back: it stands.
    Commit {
        /// The values of all entries.
        readings: Vec<Reading>,
    },
    /// The states that these are put back to from here on. In a hold they may be written later
    /// (fsynced). In an undoing another program has set them, and the writes of the undoing reset
    /// them.
    Save {
        /// The cells and their values.
        cells: Vec<SavedAt>,
    },
    /// A hold's entry belongs to another owner from here on: it is neither written nor put back.
    Yield {
        /// Which entry.
        entry: usize,
        /// Whether the process was asked for it and has put it back; otherwise another program has
        /// changed it.
        asked: bool,
    },
    /// Being undone from here on.
    Undo {
        /// Seconds since 1970.
        at_unix_s: u64,
    },
    /// Nothing more to do.
    Closed {
        /// Seconds since 1970.
        at_unix_s: u64,
        /// How it ended.
        how: Closing,
    },
}

/// A line is `{"sum":"0123456789abcdef","record":…}`: JSON to other programs, and to us a checksum
/// and its text.
const BEFORE_SUM: &str = "{\"sum\":\"";
const BEFORE_RECORD: &str = "\",\"record\":";

impl Record {
    /// The line that is appended, with its end.
    #[must_use]
    pub fn line(&self) -> String {
        // Strings, numbers and structs of them: there is nothing in a record that JSON can't hold.
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("{BEFORE_SUM}{:016x}{BEFORE_RECORD}{text}}}\n", checksum(text.as_bytes()))
    }

    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let parts = line.strip_prefix(BEFORE_SUM).and_then(|rest| rest.split_once(BEFORE_RECORD));
        let Some((sum, text)) = parts.and_then(|(sum, rest)| Some((sum, rest.strip_suffix('}')?)))
        else {
            return Err("not a record".to_owned());
        };
        if sum != format!("{:016x}", checksum(text.as_bytes())) {
            return Err("its checksum is wrong".to_owned());
        }
        serde_json::from_str(text).map_err(|e| format!("not a record: {e}"))
    }
}

/// FNV-1a, 64 bits: against accidents, not against an attacker, whom the directory's permissions
/// keep out.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Begin {
    /// A first record.
    #[must_use]
    pub fn format() -> String {
        FORMAT.to_owned()
    }
}
