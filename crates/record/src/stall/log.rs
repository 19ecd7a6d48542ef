//! The stall log: a file of one JSON document a line.
//!
//! ```text
//! {"began_unix_ms":…,"disk":"sda",…}                      a stall, appended when it has ended
//! {"watched_from_unix_ms":…,"watched_to_unix_ms":…}       the stalls of this time are in the log
//! ```
//!
//! A line that is no such document is left out: the last one of a power loss, or one of a newer
//! version. The next line begins after it. Lines are in the order in which they were written.
//!
//! Nothing is synced when a stall is appended: the disk that stalled may be the log's. Old lines go
//! in a new file that takes the log's place, whole and synced.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use floodwall_model::stall::Stall;
use serde::{Deserialize, Serialize};

use crate::store::{Appended, Directory, LOG, RecordError, io_error};

/// What replaces it while it is written.
const NEW: &str = "stalls.jsonl.new";

/// A larger log loses its oldest lines, in bytes: many thousand stalls of a few kilobytes.
const MOST_BYTES: u64 = 64 << 20;

/// Lines leave the log a day after their time, so that it is not written again for each one.
const DAY_MS: u64 = 86_400_000;

/// Lines that wait while the log can't be written; then the oldest are lost.
const MOST_LINES: usize = 1_000;

/// The log of a recorder.
#[derive(Debug)]
pub struct Log {
    directory: Directory,
    keep_ms: u64,
    waiting: Lines,
}

/// Lines for the log.
#[derive(Debug, Default)]
pub struct Lines {
    lines: Vec<Line>,
    /// The present moment, if old lines may be removed.
    pub(super) quiet_ms: Option<u64>,
}

impl Log {
    /// The log in a directory that exists. Stalls are kept for so many milliseconds.
    ///
    /// # Errors
    /// If the directory can't be opened.
    pub fn open(directory: &Path, keep_ms: u64) -> Result<Self, RecordError> {
        let directory = Directory::open(directory)?;
        Ok(Self { directory, keep_ms, waiting: Lines::default() })
    }

    /// Appends lines, and removes old ones. Lines stay until they could be written.
    ///
    /// # Errors
    /// If the log can't be written; the next call tries again.
    pub fn write(&mut self, lines: Lines) -> Result<Appended, RecordError> {
        self.waiting.extend(lines.lines);
        if self.waiting.lines.is_empty() {
            return Ok(Appended::Within);
        }
        append(&self.directory, &self.waiting.lines)?;
        self.waiting.lines.clear();
        let removed = lines.quiet_ms.map_or(Ok(()), |now_ms| {
            prune(&self.directory, now_ms.saturating_sub(self.keep_ms), MOST_BYTES)
        });
        Ok(removed.map_or_else(Appended::Unremoved, |()| Appended::Within))
    }
}

impl Lines {
    pub(super) fn extend(&mut self, more: impl IntoIterator<Item = Line>) {
        self.lines.extend(more);
        let excess = self.lines.len().saturating_sub(MOST_LINES);
        self.lines.drain(..excess);
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line {
    Stall(Box<Stall>),
    Watched(Watched),
}

/// A time whose frames a recorder has watched, the one at its beginning left out. All stalls of
/// them are in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Watched {
    #[serde(rename = "watched_from_unix_ms")]
    pub(super) from_ms: u64,
    #[serde(rename = "watched_to_unix_ms")]
    pub(super) to_ms: u64,
}

impl Line {
    fn parse(line: &[u8]) -> Option<Self> {
        // A line without a disk may parse as a stall: all of its fields may be absent.
        match serde_json::from_slice::<Stall>(line) {
            Ok(stall) if !stall.disk.is_empty() => Some(Self::Stall(Box::new(stall))),
            _ => serde_json::from_slice(line).ok().map(Self::Watched),
        }
    }

    fn json(&self) -> serde_json::Result<Vec<u8>> {
        let mut line = match self {
            Self::Stall(stall) => serde_json::to_vec(stall),
            Self::Watched(watched) => serde_json::to_vec(watched),
        }?;
        line.push(b'\n');
        Ok(line)
    }

    fn ended_ms(&self) -> u64 {
        match self {
            Self::Stall(stall) => stall.ended_unix_ms,
            Self::Watched(watched) => watched.to_ms,
        }
    }
}

/// Appends lines. After an error the log is as it was before.
fn append(directory: &Directory, lines: &[Line]) -> Result<(), RecordError> {
    let path = directory.path_of(LOG);
    let fail = |e| io_error("write", &path, e);
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend(line.json().map_err(|e| fail(e.into()))?);
    }
    let file = directory.make_file(LOG)?;
    let length = file.metadata().map_err(fail)?.len();
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1).map_err(fail)?;
    }
    if last != *b"\n" {
        bytes.insert(0, b'\n');
    }
    let written = file.write_all_at(&bytes, length);
    if written.is_err() {
        // Whole lines of it would be logged a second time.
        let _ = file.set_len(length);
    }
    written.map_err(fail)
}

/// The stalls that ended at a moment or after it, and all times that were watched.
#[derive(Debug, Default)]
pub(super) struct Logged {
    pub(super) stalls: Vec<Stall>,
    pub(super) watched: Vec<Range<u64>>,
    /// Lines that can't be read.
    pub(super) damaged: u64,
}

/// Reads the log; empty without one.
pub(super) fn read(directory: &Path, from_ms: u64) -> Result<Logged, RecordError> {
    let mut logged = Logged::default();
    each(&Directory::open(directory)?, |line, _| match line {
        Some(Line::Stall(stall)) if stall.ended_unix_ms >= from_ms => logged.stalls.push(*stall),
        Some(Line::Stall(_)) => {}
        Some(Line::Watched(watched)) => logged.watched.push(watched.from_ms..watched.to_ms),
        None => logged.damaged += 1,
    })?;
    Ok(logged)
}

/// Removes lines whose time ended before a moment, and the oldest of a log that is too large.
fn prune(directory: &Directory, before_ms: u64, most_bytes: u64) -> Result<(), RecordError> {
    let length = directory.length(LOG)?;
    if length <= most_bytes && !is_old(directory, before_ms.saturating_sub(DAY_MS))? {
        return Ok(());
    }
    // A quarter more than the excess: room for the next lines.
    let excess = if length > most_bytes { length - most_bytes / 4 * 3 } else { 0 };
    rewrite(directory, |line, at| line.ended_ms() >= before_ms && at >= excess)
}

/// Whether the first line's time ended before a moment.
fn is_old(directory: &Directory, before_ms: u64) -> Result<bool, RecordError> {
    let Some(file) = directory.file(LOG)? else { return Ok(false) };
    let mut first = Vec::new();
    let read = BufReader::new(file).read_until(b'\n', &mut first);
    read.map_err(|e| io_error("read", &directory.path_of(LOG), e))?;
    // A damaged first line goes as well.
    Ok(!first.is_empty() && Line::parse(&first).is_none_or(|line| line.ended_ms() < before_ms))
}

/// Puts the lines that stay into a new file, and that in the log's place. Watched times that follow
/// each other become one.
fn rewrite(directory: &Directory, stays: impl Fn(&Line, u64) -> bool) -> Result<(), RecordError> {
    let new = directory.path_of(NEW);
    let fail = |e| io_error("write", &new, e);
    let file = directory.make_file(NEW)?;
    file.set_len(0).map_err(fail)?;
    let mut out = BufWriter::new(file);
    let mut watched: Option<Watched> = None;
    let mut written = Ok(());
    let put = |out: &mut BufWriter<File>, line: Line| out.write_all(&line.json()?);
    each(directory, |line, at| {
        let Some(line) = line.filter(|line| stays(line, at)) else { return };
        if written.is_err() {
            return;
        }
        written = match (line, &mut watched) {
            (Line::Watched(next), Some(last)) if next.from_ms == last.to_ms => {
                last.to_ms = next.to_ms;
                Ok(())
            }
            (Line::Watched(next), last) => match last.replace(next) {
                Some(last) => put(&mut out, Line::Watched(last)),
                None => Ok(()),
            },
            (line, _) => put(&mut out, line),
        };
    })?;
    written.map_err(fail)?;
    if let Some(last) = watched {
        put(&mut out, Line::Watched(last)).map_err(fail)?;
    }
    let file = out.into_inner().map_err(|e| fail(e.into_error()))?;
    file.sync_all().map_err(fail)?;
    directory.replace(NEW, LOG)
}

/// Calls with each line and its place in bytes; `None` is one that can't be read.
fn each(directory: &Directory, mut take: impl FnMut(Option<Line>, u64)) -> Result<(), RecordError> {
    let Some(file) = directory.file(LOG)? else { return Ok(()) };
    let fail = |e: io::Error| io_error("read", &directory.path_of(LOG), e);
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut at = 0;
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).map_err(fail)?;
        if read == 0 {
            return Ok(());
        }
        // A line that has no end yet may be one that is being written.
        let is_whole = line.ends_with(b"\n");
        if is_whole && line.len() > 1 {
            take(Line::parse(&line), at);
        }
        at += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn stall(began_ms: u64, ended_ms: u64) -> Line {
        let stall = Stall {
            began_unix_ms: began_ms,
            ended_unix_ms: ended_ms,
            disk: "sda".into(),
            ..Stall::default()
        };
        Line::Stall(Box::new(stall))
    }

    fn watched(from_ms: u64, to_ms: u64) -> Line {
        Line::Watched(Watched { from_ms, to_ms })
    }

    fn append(directory: &Path, lines: &[Line]) -> Result<(), RecordError> {
        super::append(&Directory::open(directory)?, lines)
    }

    fn prune_to(directory: &Path, before_ms: u64, most_bytes: u64) -> Result<(), RecordError> {
        prune(&Directory::open(directory)?, before_ms, most_bytes)
    }

    fn began(directory: &Path) -> Vec<u64> {
        read(directory, 0).unwrap().stalls.iter().map(|stall| stall.began_unix_ms).collect()
    }

    fn text(directory: &Path) -> String {
        fs::read_to_string(directory.join(LOG)).unwrap()
    }

    #[test]
    fn stalls_and_watched_times_read_back() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path(), 0).unwrap().stalls.is_empty(), "no log is an empty one");
        append(dir.path(), &[stall(10, 30), watched(0, 40)]).unwrap();
        append(dir.path(), &[stall(50, 70), watched(40, 80)]).unwrap();
        let logged = read(dir.path(), 0).unwrap();
        assert_eq!((logged.stalls.len(), logged.damaged), (2, 0));
        assert_eq!(logged.watched, [0..40, 40..80]);
        assert_eq!(read(dir.path(), 31).unwrap().stalls[0].began_unix_ms, 50);
        assert_eq!(text(dir.path()).lines().count(), 4);
    }

    #[test]
    fn a_torn_last_line_is_left_out_and_the_next_one_begins_after_it() {
        let dir = tempfile::tempdir().unwrap();
        append(dir.path(), &[stall(10, 30), stall(50, 70)]).unwrap();
        let whole = text(dir.path());
        for length in 0..whole.len() {
            fs::write(dir.path().join(LOG), &whole[..length]).unwrap();
            let before = began(dir.path());
            assert!([10, 50].starts_with(&before), "{length}: {before:?}");
            append(dir.path(), &[stall(90, 99)]).unwrap();
            let after = began(dir.path());
            assert_eq!(after.last(), Some(&90), "{length}");
            // A line that lacks its end alone was whole.
            assert!(after.starts_with(&before) && after.len() <= before.len() + 2, "{length}");
        }
    }

    #[test]
    fn lines_of_newer_versions_are_read_as_far_as_they_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let lines =
            "{\"disk\":\"sda\",\"began_unix_ms\":7,\"colour\":1}\n{\"weather\":3}\n\0\0\n\n";
        fs::write(dir.path().join(LOG), lines).unwrap();
        let logged = read(dir.path(), 0).unwrap();
        assert_eq!((logged.stalls[0].began_unix_ms, logged.damaged), (7, 2));
    }

    #[test]
    fn old_lines_go_a_day_late_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        prune_to(dir.path(), 100, MOST_BYTES).unwrap();
        let lines =
            [watched(0, 40), stall(10, 30), watched(40, 60), stall(50, 70), watched(60, 80)];
        append(dir.path(), &lines).unwrap();
        let before = text(dir.path());
        prune_to(dir.path(), DAY_MS + 40, MOST_BYTES).unwrap();
        assert_eq!(text(dir.path()), before, "not yet");
        prune_to(dir.path(), DAY_MS + 41, MOST_BYTES).unwrap();
        assert_eq!(text(dir.path()), "", "all are older than that");

        append(dir.path(), &lines).unwrap();
        rewrite(&Directory::open(dir.path()).unwrap(), |line, _| line.ended_ms() >= 35).unwrap();
        assert_eq!(began(dir.path()), [50]);
        assert_eq!(read(dir.path(), 0).unwrap().watched, vec![0..80]);
        append(dir.path(), &[stall(90, 95)]).unwrap();
        assert_eq!(began(dir.path()), [50, 90]);
    }

    #[test]
    fn a_log_that_is_too_large_loses_its_oldest_lines() {
        let dir = tempfile::tempdir().unwrap();
        let one = stall(1, 2).json().unwrap();
        fs::write(dir.path().join(LOG), one.repeat(200)).unwrap();
        append(dir.path(), &[stall(3, 4)]).unwrap();
        let most = 100 * one.len() as u64;
        prune_to(dir.path(), 0, most).unwrap();
        assert_eq!(began(dir.path()), [vec![1; 74], vec![3]].concat());
        let before = text(dir.path());
        prune_to(dir.path(), 0, most).unwrap();
        assert_eq!(text(dir.path()), before);
    }

    #[test]
    fn a_stall_is_logged_once_though_old_lines_stay() {
        let dir = tempfile::tempdir().unwrap();
        // Something that can't be written.
        fs::create_dir(dir.path().join(NEW)).unwrap();
        let mut log = Log::open(dir.path(), 0).unwrap();
        let late = Lines { lines: vec![stall(10, 30)], quiet_ms: Some(2 * DAY_MS) };
        assert!(matches!(log.write(late).unwrap(), Appended::Unremoved(_)));
        assert!(matches!(log.write(Lines::default()).unwrap(), Appended::Within));
        assert_eq!(began(dir.path()), [10]);
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, dir.path().join(LOG)).unwrap();
        assert!(append(dir.path(), &[stall(1, 2)]).is_err());
        assert!(!elsewhere.exists());
    }
}
