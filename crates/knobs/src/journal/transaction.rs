//! The meaning of a journal's records: how far a transaction got, and which process wrote a value
//! that is found later. Also the present values of a transaction's entries.

use floodwall_model::Reading as Value;

use super::record::{Begin, Closing, FORMAT, Reading, Record, SavedAt, SavedEntry};
use super::trace::{Trace, learn};
use crate::catalogue::cell::State;
use crate::catalogue::files::Files;
use crate::plan::entry::Entry;

/// How far a transaction got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Cut short while it was being applied.
    Interrupted,
    /// Applied; it can be rolled back.
    Standing,
    /// A process steers, or has lost its life at it ([`crate::journal::owner`]).
    Steering,
    /// Cut short while it was being undone.
    Undoing,
    /// Over.
    Closed(Closing),
}

/// How an entry of a change that stands is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Now {
    /// As it was before the change.
    AsBefore,
    /// As the change has set it, or as another program has since.
    At {
        /// The value.
        state: State,
        /// Whether the change has set it.
        ours: bool,
    },
    /// It can't be read.
    Unknown(String),
}

/// One transaction as its records tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The first record.
    pub begin: Begin,
    /// The same entries, with their cells.
    pub entries: Vec<Entry>,
    records: Vec<Record>,
    /// Their traces, for each entry.
    traces: Vec<Trace>,
}

impl Transaction {
    /// A transaction that has only begun.
    #[must_use]
    pub fn new(begin: Begin, entries: Vec<Entry>) -> Self {
        let traces = vec![Trace::default(); entries.len()];
        Self { begin, entries, records: Vec::new(), traces }
    }

    /// Reads a journal, and how many of its bytes are whole lines. A last line without its end was
    /// cut short by a crash and does not count.
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
        let entries =
            begin.entries.iter().map(SavedEntry::believed).collect::<Result<Vec<_>, _>>()?;
        let mut transaction = Self::new(begin, entries);
        for (n, line) in lines {
            let record = Record::parse(line).map_err(|why| numbered(n, why))?;
            transaction.check(&record).map_err(|why| numbered(n, why))?;
            transaction.push(record);
        }
        Ok((transaction, whole as u64))
    }

    /// Whether a record can be one of this transaction.
    pub(crate) fn check(&self, record: &Record) -> Result<(), String> {
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
            Record::Yield { .. } if !self.begin.steers => {
                Err("a record of a hold in a change that is none".to_owned())
            }
            Record::Save { cells } => {
                let mut known = self.entries.len();
                for SavedAt { at, cell } in cells {
                    let new = cell.believed()?;
                    match self.entries.get(*at) {
                        Some(old) if old.cell == new.cell && old.target == new.target => {}
                        None if *at == known => known += 1,
                        _ => return Err(format!("{} is not entry {at}", new.label())),
                    }
                }
                Ok(())
            }
            Record::Yield { entry, .. } if self.entries.get(*entry).is_none() => {
                Err(format!("there is no entry {entry}"))
            }
            Record::Yield { .. } | Record::Undo { .. } | Record::Closed { .. } => Ok(()),
        }
    }

    /// Whether it should have been put back by now.
    #[must_use]
    pub fn has_expired(&self, now_unix_s: u64) -> bool {
        self.begin.expires_at_unix_s.is_some_and(|at| at <= now_unix_s)
    }

    /// The present values of all entries.
    pub(crate) fn readings(&self, files: &dyn Files) -> Vec<Reading> {
        (0..self.entries.len()).filter_map(|entry| self.reading(entry, files)).collect()
    }

    /// The present value of one entry.
    pub(crate) fn reading(&self, entry: usize, files: &dyn Files) -> Option<Reading> {
        let state = self.entries.get(entry)?.cell.read(files).into_value();
        Some(Reading { entry, state })
    }

    /// After a write of an entry: the present values of the entry and of those that it resets, and
    /// the entry's value by itself.
    pub(crate) fn read_back(
        &self,
        index: usize,
        files: &dyn Files,
    ) -> (Vec<Reading>, Option<State>) {
        let resets =
            |other: &Entry| self.entries.get(index).is_some_and(|entry| entry.resets(other));
        let its = self.entries.iter().enumerate().filter(|(i, other)| *i == index || resets(other));
        let readings: Vec<Reading> = its.filter_map(|(i, _)| self.reading(i, files)).collect();
        let found = readings.iter().find(|reading| reading.entry == index);
        let found = found.and_then(|reading| reading.state.clone());
        (readings, found)
    }

    /// Adds a record.
    pub fn push(&mut self, record: Record) {
        if let Record::Save { cells } = &record {
            for SavedAt { at, cell } in cells {
                let Ok(entry) = cell.believed() else { continue };
                match (self.entries.get_mut(*at), self.traces.get_mut(*at)) {
                    (Some(known), Some(trace)) => {
                        *known = entry;
                        *trace = Trace::default();
                    }
                    _ => {
                        self.entries.push(entry);
                        self.traces.push(Trace::default());
                    }
                }
            }
        }
        learn(&self.entries, &mut self.traces, &record);
        let of_entries = matches!(
            record,
            Record::Intent { .. }
                | Record::Done { .. }
                | Record::Save { .. }
                | Record::Yield { .. }
        );
        // A hold goes on for months: what its records say of the entries has been learnt.
        if !(self.begin.steers && of_entries) {
            self.records.push(record);
        }
    }

    /// How far it got.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let mut phase = if self.begin.steers { Phase::Steering } else { Phase::Interrupted };
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

    /// When it was closed, in seconds since 1970; `None` while it is open.
    #[must_use]
    pub fn closed_at_unix_s(&self) -> Option<u64> {
        self.records.iter().rev().find_map(|record| match record {
            Record::Closed { at_unix_s, .. } => Some(*at_unix_s),
            _ => None,
        })
    }

    /// Whether a value found in an entry is the transaction's: the last one read back, or one that
    /// a write under way explains.
    #[must_use]
    pub fn owns(&self, index: usize, found: &State) -> bool {
        let (Some(entry), Some(trace)) = (self.entries.get(index), self.traces.get(index)) else {
            return false;
        };
        trace.explains(entry, found)
    }

    /// How an entry is now; `None` if there is no such entry.
    #[must_use]
    pub fn now(&self, index: usize, files: &dyn Files) -> Option<Now> {
        let entry = self.entries.get(index)?;
        Some(match entry.cell.read(files) {
            Value::Value(now)
                if entry.old.as_ref().is_some_and(|old| entry.cell.same(old, &now)) =>
            {
                Now::AsBefore
            }
            Value::Value(now) => Now::At { ours: self.owns(index, &now), state: now },
            Value::Absent(why) | Value::Unreadable(why) => Now::Unknown(why),
        })
    }

    /// Whether a write that may change an entry has begun and has not been read back.
    #[must_use]
    pub fn is_under_way(&self, index: usize) -> bool {
        self.traces.get(index).is_some_and(Trace::is_under_way)
    }

    /// Whether an entry holds something else than it did, by our doing, as far as the journal
    /// knows.
    #[must_use]
    pub fn holds(&self, index: usize) -> bool {
        let (Some(entry), Some(trace)) = (self.entries.get(index), self.traces.get(index)) else {
            return false;
        };
        trace.holds(entry)
    }

    /// Whether an entry was ever written, beside another one included, since it was saved.
    #[must_use]
    pub fn is_touched(&self, index: usize) -> bool {
        self.traces.get(index).is_some_and(|trace| trace.touched)
    }

    /// Whether an entry was given up: `Some(true)` if its process was asked for it, `Some(false)`
    /// if another program has changed it.
    #[must_use]
    pub fn yielded(&self, index: usize) -> Option<bool> {
        self.traces.get(index)?.yielded
    }

    /// The last value read back for an entry.
    #[must_use]
    pub fn last_reading(&self, index: usize) -> Option<&State> {
        self.traces.get(index)?.last.as_ref()
    }

    /// The records of a hold without its history: begin, saved values, last readings, cells given
    /// up. Entries that are not to be `kept` are left out, so that those behind them move up.
    #[must_use]
    pub fn compacted(&self, kept: impl Fn(&Entry) -> bool) -> Vec<Record> {
        let mut all = Self::new(self.begin.clone(), Vec::new());
        let entries = self.entries.iter().zip(&self.traces).filter(|(entry, _)| kept(entry));
        (all.entries, all.traces) =
            entries.map(|(entry, trace)| (entry.clone(), trace.clone())).unzip();
        all.all_records()
    }

    fn all_records(&self) -> Vec<Record> {
        let mut records = vec![Record::Begin(Begin { entries: Vec::new(), ..self.begin.clone() })];
        let cells = self.entries.iter().enumerate();
        let cells = cells.map(|(at, entry)| SavedAt { at, cell: SavedEntry::from(entry) });
        records.push(Record::Save { cells: cells.collect() });
        let held = (0..self.entries.len()).filter(|index| self.holds(*index));
        let readings: Vec<Reading> =
            held.map(|entry| Reading { entry, state: self.last_reading(entry).cloned() }).collect();
        if !readings.is_empty() {
            records.push(Record::Done { readings });
        }
        for (entry, trace) in self.traces.iter().enumerate() {
            records
                .extend(trace.under_way.iter().map(|to| Record::Intent { entry, to: to.clone() }));
            records.extend(trace.yielded.map(|asked| Record::Yield { entry, asked }));
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalogue::target::Target;

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
            socket: None,
            uid: 0,
            command: "floodwall apply".to_owned(),
            at_unix_s: 1_700_000_000,
            why: "a test".to_owned(),
            expires_at_unix_s: None,
            steers: false,
            entries: vec![
                entry(
                    "vm.dirty_bytes",
                    state("dirty_ratio", "20"),
                    state("dirty_bytes", "15000000"),
                ),
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
        Record::Done {
            readings: vec![Reading { entry: 0, state: Some(state("dirty_bytes", value)) }],
        }
    }

    #[test]
    fn a_line_is_json_with_its_checksum() {
        insta::assert_snapshot!(intent("15000000").line(), @"\
            {\"sum\":\"5f3d8ca2a88286c6\",\"record\":{\"intent\":{\"entry\":0,\
            \"to\":{\"path\":\"/proc/sys/vm/dirty_bytes\",\"value\":\"15000000\"}}}}");
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
        let (transaction, _) =
            Transaction::parse(Record::Begin(timed.clone()).line().as_bytes()).unwrap();
        assert_eq!(transaction.begin, timed);
        assert!(transaction.has_expired(1_700_000_600) && !transaction.has_expired(1_700_000_599));
    }

    #[test]
    fn the_socket_of_a_process_that_steers_is_kept_and_a_journal_without_one_is_read() {
        let line = Record::Begin(begin()).line();
        assert!(!line.contains("socket"), "{line}");
        let hold = Begin { socket: Some("/run/guard.sock".into()), steers: true, ..begin() };
        let (transaction, _) =
            Transaction::parse(Record::Begin(hold.clone()).line().as_bytes()).unwrap();
        assert_eq!(transaction.begin, hold);
        assert!(matches!(transaction.compacted(|_| true).first(), Some(Record::Begin(b))
                if b.socket == hold.socket));
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
        assert!(!owns(
            &[intent("9000000"), done("9000000"), intent("8000000"), done("8000000")],
            "9000000"
        ));
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
        assert_eq!(
            phase(&[commit, Record::Undo { at_unix_s: at }, closed]),
            Phase::Closed(Closing::Undone)
        );
    }

    #[test]
    fn journals_that_name_other_files_or_values_are_not_believed() {
        let refusal = |change: &dyn Fn(&mut Begin)| {
            let mut begin = begin();
            change(&mut begin);
            Transaction::parse(Record::Begin(begin).line().as_bytes()).unwrap_err()
        };
        let passwd = State { path: "/etc/passwd".to_owned(), value: "x".to_owned() };
        insta::assert_snapshot!(refusal(&|b| b.entries[0].old = Some(passwd.clone())), @"'x > \
            /etc/passwd' is not a value of vm.dirty_bytes");
        insta::assert_snapshot!(refusal(&|b| b.entries[0].knob = "vm.nonsense".into()), @"there is \
            no knob 'vm.nonsense'");
        insta::assert_snapshot!(refusal(&|b| b.format = "other/2".into()), @"its format is \
            'other/2', not floodwall-journal/1");
        let lines = state("dirty_expire_centisecs", "1\n2");
        insta::assert_snapshot!(refusal(&|b| b.entries[1].new = Some(lines.clone())), @"\
            '1\\u{a}2 > /proc/sys/vm/dirty_expire_centisecs' is not a value of \
            vm.dirty_expire_centisecs");
        let group = Target::Group { path: "../../etc".into(), device: None, systemd: false };
        let elsewhere = |b: &mut Begin| {
            b.entries[0].knob = "io.weight".into();
            b.entries[0].target = group.clone();
        };
        insta::assert_snapshot!(refusal(&elsewhere), @"io.weight does not belong where it says");
    }

    #[test]
    fn a_record_about_no_entry_is_not_believed() {
        let wrong = Record::Intent { entry: 7, to: state("dirty_bytes", "9000000") };
        assert_eq!(
            Transaction::parse(&journal(&[wrong])).unwrap_err(),
            "line 2: there is no entry 7"
        );
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
