//! Records, their lines, and what they say of a value found later.

use serde::{Deserialize, Serialize};

use crate::catalogue::find;
use crate::cell::{Cell, State};
use crate::plan::Entry;
use crate::target::Target;

/// Written in every first line; anything else is not replayed.
const FORMAT: &str = "floodwall-journal/1";

/// Who changed what, when and why: the first record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// `floodwall-journal/1`.
    pub format: String,
    /// Counts up; also the file's name.
    pub id: u64,
    /// /proc/sys/kernel/random/boot_id: a later boot has forgotten the values, so there is nothing to undo.
    pub boot_id: String,
    /// The process.
    pub pid: u32,
    /// When it started, in clock ticks since boot: process numbers are used again.
    pub pid_start_ticks: u64,
    /// Its user.
    pub uid: u32,
    /// Its command line.
    pub command: String,
    /// Seconds since 1970.
    pub at_unix_s: u64,
    /// What for, in somebody's words.
    pub why: String,
    /// When it is to be put back by itself, in seconds since 1970; none if it stands until somebody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_unix_s: Option<u64>,
    /// What changes, and what changes with it.
    pub entries: Vec<SavedEntry>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedEntry {
    /// The knob that names it.
    pub knob: String,
    /// What it belongs to.
    pub target: Target,
    /// What it held.
    pub old: Option<State>,
    /// What it is to hold; none if it is saved because another write may change it.
    pub new: Option<State>,
}

/// What an entry read after a write; none if it was not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// Which entry.
    pub entry: usize,
    /// What it held.
    pub state: Option<State>,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closing {
    /// Everything that was still ours was put back.
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
    /// Written; this is what the entry, and those that it resets, read now.
    Done {
        /// What they read.
        readings: Vec<Reading>,
    },
    /// All written and read back: it stands.
    Commit {
        /// What all entries read.
        readings: Vec<Reading>,
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

/// A line is `{"sum":"0123456789abcdef","record":…}`: JSON to everybody, and to us a checksum and the text that it is of.
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

    fn parse(line: &str) -> Result<Self, String> {
        let parts = line.strip_prefix(BEFORE_SUM).and_then(|rest| rest.split_once(BEFORE_RECORD));
        let Some((sum, text)) = parts.and_then(|(sum, rest)| Some((sum, rest.strip_suffix('}')?))) else {
            return Err("not a record".to_owned());
        };
        if sum != format!("{:016x}", checksum(text.as_bytes())) {
            return Err("its checksum is wrong".to_owned());
        }
        serde_json::from_str(text).map_err(|e| format!("not a record: {e}"))
    }
}

/// FNV-1a, 64 bits: against accidents, not against an attacker, whom the directory's permissions keep out.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// How far a transaction got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Cut short while it was being applied.
    Interrupted,
    /// Applied; it can be rolled back.
    Standing,
    /// Cut short while it was being undone.
    Undoing,
    /// Over.
    Closed(Closing),
}

/// One transaction as its records tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The first record.
    pub begin: Begin,
    /// The same entries, with their cells.
    pub entries: Vec<Entry>,
    records: Vec<Record>,
}

impl Begin {
    /// A first record.
    #[must_use]
    pub fn format() -> String {
        FORMAT.to_owned()
    }
}

impl Transaction {
    /// A transaction that has only begun.
    #[must_use]
    pub fn new(begin: Begin, entries: Vec<Entry>) -> Self {
        Self { begin, entries, records: Vec::new() }
    }

    /// Reads a journal, and how many of its bytes are whole lines. A last line without its end was cut short by a crash and does not count.
    ///
    /// # Errors
    /// Why the journal is not to be believed.
    pub fn parse(bytes: &[u8]) -> Result<(Self, u64), String> {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let text = std::str::from_utf8(&bytes[..whole]).map_err(|_| "it is not text".to_owned())?;
        let mut lines = text.lines().enumerate();
        let numbered = |n: usize, why: String| format!("line {}: {why}", n + 1);
        let (_, first) = lines.next().ok_or("it is empty or its first line is cut short")?;
        let Record::Begin(begin) = Record::parse(first).map_err(|why| numbered(0, why))? else {
            return Err("it does not begin with a begin record".to_owned());
        };
        if begin.format != FORMAT {
            return Err(format!("its format is '{}', not {FORMAT}", begin.format));
        }
        let entries = begin.entries.iter().map(believe).collect::<Result<Vec<_>, _>>()?;
        let mut transaction = Self::new(begin, entries);
        for (n, line) in lines {
            let record = Record::parse(line).map_err(|why| numbered(n, why))?;
            transaction.check(&record).map_err(|why| numbered(n, why))?;
            transaction.records.push(record);
        }
        Ok((transaction, whole as u64))
    }

    fn check(&self, record: &Record) -> Result<(), String> {
        let admits = |entry: usize, state: &State| match self.entries.get(entry) {
            Some(known) if known.cell.admits(state) => Ok(()),
            Some(known) => Err(format!("'{state}' is not a value of {}", known.label())),
            None => Err(format!("there is no entry {entry}")),
        };
        match record {
            Record::Begin(_) => Err("a second begin record".to_owned()),
            Record::Intent { entry, to } => admits(*entry, to),
            Record::Done { readings } | Record::Commit { readings } => readings
                .iter()
                .try_for_each(|r| r.state.as_ref().map_or(Ok(()), |state| admits(r.entry, state))),
            Record::Undo { .. } | Record::Closed { .. } => Ok(()),
        }
    }

    /// Whether it should have been put back by now.
    #[must_use]
    pub fn has_expired(&self, now_unix_s: u64) -> bool {
        self.begin.expires_at_unix_s.is_some_and(|at| at <= now_unix_s)
    }

    /// Adds a record.
    pub fn push(&mut self, record: Record) {
        self.records.push(record);
    }

    /// How far it got.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let mut phase = Phase::Interrupted;
        for record in &self.records {
            phase = match record {
                Record::Commit { .. } => Phase::Standing,
                Record::Undo { .. } => Phase::Undoing,
                Record::Closed { how, .. } => Phase::Closed(*how),
                _ => phase,
            };
        }
        phase
    }

    /// Whether a value found in an entry is ours: the last one read back, or one that a write under way explains.
    #[must_use]
    pub fn owns(&self, index: usize, found: &State) -> bool {
        let Some(entry) = self.entries.get(index) else { return false };
        let mut last = None;
        let mut under_way: Vec<&State> = Vec::new();
        // A write under way whose outcome can't be foreseen: the kernel adjusts it, or resets this entry beside another one.
        let mut unforeseeable = false;
        for record in &self.records {
            match record {
                Record::Intent { entry: at, to } if *at == index => {
                    under_way.push(to);
                    unforeseeable |= entry.knob.adjusts.is_some();
                }
                Record::Intent { entry: at, .. } => {
                    unforeseeable |= self.entries.get(*at).is_some_and(|other| other.resets(entry));
                }
                Record::Done { readings } | Record::Commit { readings } => {
                    if let Some(reading) = readings.iter().find(|reading| reading.entry == index) {
                        last = reading.state.as_ref();
                        under_way.clear();
                        unforeseeable = false;
                    }
                }
                _ => {}
            }
        }
        let same = |state: &State| entry.cell.same(state, found);
        unforeseeable || last.is_some_and(same) || under_way.into_iter().any(same)
    }

    /// The last value read back for an entry.
    #[must_use]
    pub fn last_reading(&self, index: usize) -> Option<&State> {
        self.records.iter().rev().find_map(|record| match record {
            Record::Done { readings } | Record::Commit { readings } => {
                readings.iter().find(|reading| reading.entry == index).map(|reading| reading.state.as_ref())
            }
            _ => None,
        })?
    }
}

/// Takes an entry for true only as far as the catalogue does: the knob exists, its file is the one that the knob has, its values are one line.
fn believe(saved: &SavedEntry) -> Result<Entry, String> {
    let knob = find(&saved.knob).ok_or_else(|| format!("there is no knob '{}'", saved.knob))?;
    if !saved.target.is_well_formed() || !saved.target.suits(knob.scope) {
        return Err(format!("{} does not belong where it says", saved.knob));
    }
    let path = saved.old.as_ref().or(saved.new.as_ref()).map(|state| state.path.as_str());
    let cell = Cell::of_saved(knob, &saved.target, path.unwrap_or_default());
    for state in saved.old.iter().chain(&saved.new) {
        if !cell.admits(state) {
            return Err(format!("'{state}' is not a value of {}", saved.target.label(knob)));
        }
    }
    Ok(Entry { knob, target: saved.target.clone(), cell, old: saved.old.clone(), new: saved.new.clone() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn state(file: &str, value: &str) -> State {
        State { path: format!("/proc/sys/vm/{file}"), value: value.to_owned() }
    }

    fn begin() -> Begin {
        let entry = |knob: &str, old: State, new: State| SavedEntry {
            knob: knob.to_owned(),
            target: Target::Machine,
            old: Some(old),
            new: Some(new),
        };
        Begin {
            format: Begin::format(),
            id: 3,
            boot_id: "b".to_owned(),
            pid: 1,
            pid_start_ticks: 2,
            uid: 0,
            command: "floodwall apply".to_owned(),
            at_unix_s: 1_700_000_000,
            why: "a test".to_owned(),
            expires_at_unix_s: None,
            entries: vec![
                entry("vm.dirty_bytes", state("dirty_ratio", "20"), state("dirty_bytes", "15000000")),
                entry(
                    "vm.dirty_expire_centisecs",
                    state("dirty_expire_centisecs", "3000"),
                    state("dirty_expire_centisecs", "100"),
                ),
            ],
        }
    }

    fn journal(records: &[Record]) -> Vec<u8> {
        let mut text = Record::Begin(begin()).line();
        for record in records {
            text.push_str(&record.line());
        }
        text.into_bytes()
    }

    fn intent(value: &str) -> Record {
        Record::Intent { entry: 0, to: state("dirty_bytes", value) }
    }

    fn done(value: &str) -> Record {
        Record::Done { readings: vec![Reading { entry: 0, state: Some(state("dirty_bytes", value)) }] }
    }

    #[test]
    fn a_line_is_json_with_its_checksum() {
        insta::assert_snapshot!(intent("15000000").line(), @r#"{"sum":"5f3d8ca2a88286c6","record":{"intent":{"entry":0,"to":{"path":"/proc/sys/vm/dirty_bytes","value":"15000000"}}}}"#);
    }

    #[test]
    fn what_was_written_is_read_back_and_a_torn_end_does_not_count() {
        let mut bytes = journal(&[intent("15000000")]);
        let whole = bytes.len() as u64;
        bytes.extend_from_slice(b"{\"sum\":\"12");
        let (transaction, length) = Transaction::parse(&bytes).unwrap();
        assert_eq!(length, whole);
        assert_eq!(transaction.begin, begin());
        assert_eq!(transaction.phase(), Phase::Interrupted);
        assert_eq!(transaction.records, [intent("15000000")]);
    }

    #[test]
    fn a_deadline_is_kept_and_one_that_is_not_there_is_not_written() {
        let line = Record::Begin(begin()).line();
        assert!(!line.contains("expires"), "{line}");
        let timed = Begin { expires_at_unix_s: Some(1_700_000_600), ..begin() };
        let (transaction, _) = Transaction::parse(Record::Begin(timed.clone()).line().as_bytes()).unwrap();
        assert_eq!(transaction.begin, timed);
        assert!(transaction.has_expired(1_700_000_600) && !transaction.has_expired(1_700_000_599));
    }

    #[test]
    fn ours_is_what_was_read_back_or_is_under_way() {
        let owns = |records: &[Record], value: &str| {
            let (transaction, _) = Transaction::parse(&journal(records)).unwrap();
            transaction.owns(0, &state("dirty_bytes", value))
        };
        assert!(!owns(&[], "15000000"));
        assert!(owns(&[intent("9000000")], "9000000"));
        assert!(owns(&[intent("9000000"), done("9000000"), intent("8000000")], "9000000"));
        assert!(!owns(&[intent("9000000"), done("9000000"), intent("8000000"), done("8000000")], "9000000"));
        assert!(!owns(&[intent("9000000")], "7000000"));
    }

    #[test]
    fn phases() {
        let at = 5;
        let phase = |records: &[Record]| Transaction::parse(&journal(records)).unwrap().0.phase();
        let commit = Record::Commit { readings: vec![] };
        assert_eq!(phase(&[intent("9000000")]), Phase::Interrupted);
        assert_eq!(phase(std::slice::from_ref(&commit)), Phase::Standing);
        assert_eq!(phase(&[commit.clone(), Record::Undo { at_unix_s: at }]), Phase::Undoing);
        let closed = Record::Closed { at_unix_s: at, how: Closing::Undone };
        assert_eq!(phase(&[commit, Record::Undo { at_unix_s: at }, closed]), Phase::Closed(Closing::Undone));
    }

    #[test]
    fn journals_that_name_other_files_or_values_are_not_believed() {
        let refusal = |change: &dyn Fn(&mut Begin)| {
            let mut begin = begin();
            change(&mut begin);
            Transaction::parse(Record::Begin(begin).line().as_bytes()).unwrap_err()
        };
        let passwd = State { path: "/etc/passwd".to_owned(), value: "x".to_owned() };
        insta::assert_snapshot!(refusal(&|b| b.entries[0].old = Some(passwd.clone())), @"'x > /etc/passwd' is not a value of vm.dirty_bytes");
        insta::assert_snapshot!(refusal(&|b| b.entries[0].knob = "vm.nonsense".into()), @"there is no knob 'vm.nonsense'");
        insta::assert_snapshot!(refusal(&|b| b.format = "other/2".into()), @"its format is 'other/2', not floodwall-journal/1");
        insta::assert_snapshot!(refusal(&|b| b.entries[1].new = Some(state("dirty_expire_centisecs", "1\n2"))), @r"'1\n2 > /proc/sys/vm/dirty_expire_centisecs' is not a value of vm.dirty_expire_centisecs");
        let group = Target::Group { path: "../../etc".into(), device: None };
        insta::assert_snapshot!(refusal(&|b| { b.entries[0].knob = "io.weight".into(); b.entries[0].target = group.clone(); }), @"io.weight does not belong where it says");
    }

    #[test]
    fn a_record_about_no_entry_is_not_believed() {
        let wrong = Record::Intent { entry: 7, to: state("dirty_bytes", "9000000") };
        assert_eq!(Transaction::parse(&journal(&[wrong])).unwrap_err(), "line 2: there is no entry 7");
        assert!(Transaction::parse(b"").is_err());
        assert!(Transaction::parse(b"hello\n").is_err());
    }

    proptest! {
        /// A journal with any byte changed is refused, or reads the same (a torn end).
        #[test]
        fn a_flipped_bit_is_noticed(at in 0_usize..10_000, bit in 0_u8..8) {
            let mut bytes = journal(&[intent("9000000"), done("9000000")]);
            let (before, _) = Transaction::parse(&bytes).unwrap();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            if let Ok((after, _)) = Transaction::parse(&bytes) {
                prop_assert_eq!(&after.begin, &before.begin);
                prop_assert!(before.records.starts_with(&after.records));
            }
        }
    }
}
