//! The finished runs of a sweep, on disk: append-only, synced, locked by its writer.
//!
//! The first line says which sweep and shard it is of; each other line is a checksum, a tab, and a
//! run's line ([`Figures::to_line`]). A line that a crash tore fails its checksum: it is passed
//! over, and its run is done again.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use floodwall_sim::sweep::{Figures, Key, Run, checksum};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::table::Facts;
use crate::exit::UsageError;
use crate::output::notice;

/// What the first line begins with: the form of the lines after it.
const FORM: &str = "floodwall-sweep-journal/1";

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Up to here all lines are whole.
    length: u64,
}

impl Journal {
    /// The journal of a table.
    pub(super) fn path_of(out: &Path) -> PathBuf {
        let mut name = out.as_os_str().to_owned();
        name.push(".journal");
        name.into()
    }

    /// Opens the journal of a sweep, or begins one, and reads its runs.
    ///
    /// # Errors
    /// [`UsageError`] if it is of another sweep or another process writes it; else the error of the
    /// disk.
    pub(super) fn open(
        path: &Path,
        facts: &Facts,
    ) -> anyhow::Result<(Self, HashMap<Key, Figures>)> {
        let fail = || format!("can't open the journal '{}'", path.display());
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // Its name is predictable; a link planted there leads elsewhere.
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)
            .with_context(fail)?;
        // Some network filesystems have no locks; going on without one is better than not at all.
        if let Err(Errno::WOULDBLOCK) =
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        {
            let shown = path.display();
            let message = format!(
                "another sweep writes '{shown}' now; wait for it, or name another file with -o"
            );
            return Err(UsageError(message).into());
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(fail)?;
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |last| last + 1);
        let mut journal = Self { path: path.to_owned(), file, length: whole as u64 };
        let header = format!("{FORM}\t{}\t{}", facts.fingerprint, facts.shard);
        let mut lines = bytes[..whole].split_inclusive(|b| *b == b'\n');
        let Some(first) = lines.next() else {
            journal.length = 0;
            journal.write(&format!("{header}\n")).with_context(fail)?;
            sync_directory(path);
            return Ok((journal, HashMap::new()));
        };
        if first.strip_suffix(b"\n") != Some(header.as_bytes()) {
            return Err(UsageError(format!(
                "the sweep is not the one that '{}' was begun with: its file, a file that it \
                 names, its shard or floodwall changed; \
                 undo that to go on, remove the journal to begin anew, or name another file with -o",
                path.display()
            ))
            .into());
        }
        let (mut known, mut damaged) = (HashMap::new(), 0);
        for line in lines {
            match read_line(line) {
                Some((key, figures)) => {
                    known.insert(key, figures);
                }
                None => damaged += 1,
            }
        }
        if damaged > 0 {
            notice(&format!(
                "'{}': {damaged} damaged lines are passed over; their runs are done again",
                path.display()
            ));
        }
        // What follows the last whole line would run into the next one.
        journal.file.set_len(journal.length).with_context(fail)?;
        Ok((journal, known))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps runs: on disk when this returns.
    ///
    /// # Errors
    /// What the disk says; the journal is then as it was before.
    pub(super) fn append(&mut self, done: &[(Run, Figures)]) -> io::Result<()> {
        let mut text = String::new();
        for (run, figures) in done {
            let line = figures.to_line(run.key);
            text.push_str(&format!("{:016x}\t{line}\n", checksum(&line)));
        }
        self.write(&text)
    }

    /// Removes it, once its table is on disk.
    ///
    /// # Errors
    /// What the disk says.
    pub(super) fn remove(self) -> anyhow::Result<()> {
        fs::remove_file(&self.path)
            .with_context(|| format!("can't remove the journal '{}'", self.path.display()))
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let written = self
            .file
            .seek(SeekFrom::Start(self.length))
            .and_then(|_| self.file.write_all(text.as_bytes()))
            .and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => {
                self.length += text.len() as u64;
                Ok(())
            }
            Err(e) => {
                // Shrinking needs no space; should it fail all the same, the checksum tells the
                // torn line.
                let _ = self.file.set_len(self.length);
                Err(e)
            }
        }
    }
}

/// A whole line, or `None` if it is damaged.
fn read_line(line: &[u8]) -> Option<(Key, Figures)> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (sum, line) = line.split_once('\t')?;
    if u64::from_str_radix(sum, 16) != Ok(checksum(line)) {
        return None;
    }
    Figures::from_line(line).ok()
}

/// Makes a new file's name as durable as its content. Where directories can't be synced the name is
/// written in time all the same.
fn sync_directory(path: &Path) {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _ = File::open(parent).and_then(|directory| directory.sync_all());
}

#[cfg(test)]
mod tests {
    use floodwall_sim::sweep::{Shard, Which};

    use super::*;

    fn facts(fingerprint: u128) -> Facts {
        Facts {
            name: "x".into(),
            fingerprint: Key(fingerprint),
            version: "1".into(),
            cells: 9,
            shard: Shard::WHOLE,
        }
    }

    fn done(key: u128) -> (Run, Figures) {
        (Run { key: Key(key), which: Which::Cell(0) }, Figures::impossible(format!("why {key}")))
    }

    fn known(path: &Path) -> Vec<u128> {
        let (_, known) = Journal::open(path, &facts(1)).unwrap();
        let mut keys: Vec<u128> = known.keys().map(|key| key.0).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("s.journal"), dir.path().join("target"));
        fs::write(&target, "mine").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let said = format!("{:#}", Journal::open(&path, &facts(1)).unwrap_err());
        assert!(said.contains("symbolic link"), "{said}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    }

    #[test]
    fn what_is_appended_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = Journal::path_of(&dir.path().join("t.parquet"));
        assert!(path.ends_with("t.parquet.journal"));
        let (mut journal, empty) = Journal::open(&path, &facts(1)).unwrap();
        assert!(empty.is_empty());
        journal.append(&[done(1), done(2)]).unwrap();
        journal.append(&[done(3)]).unwrap();
        drop(journal);
        assert_eq!(known(&path), [1, 2, 3]);
        let (_, again) = Journal::open(&path, &facts(1)).unwrap();
        assert_eq!(again[&Key(2)], done(2).1);
    }

    #[test]
    fn every_prefix_of_a_journal_can_be_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let (mut journal, _) = Journal::open(&path, &facts(1)).unwrap();
        journal.append(&[done(1), done(2)]).unwrap();
        drop(journal);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let (mut journal, had) = Journal::open(&path, &facts(1)).unwrap();
            assert!(had.len() <= 1, "{length}");
            journal.append(&[done(7)]).unwrap();
            drop(journal);
            assert_eq!(known(&path).len(), had.len() + 1, "{length}");
        }
    }

    #[test]
    fn a_damaged_line_is_passed_over_and_the_others_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let (mut journal, _) = Journal::open(&path, &facts(1)).unwrap();
        journal.append(&[done(1), done(2), done(3)]).unwrap();
        drop(journal);
        let text = fs::read_to_string(&path).unwrap().replace("why 2", "why 9");
        fs::write(&path, text).unwrap();
        assert_eq!(known(&path), [1, 3]);
    }

    #[test]
    fn another_sweeps_journal_is_refused_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        drop(Journal::open(&path, &facts(1)).unwrap());
        let error = Journal::open(&path, &facts(2)).unwrap_err();
        assert!(error.is::<UsageError>());
        assert!(
            error.to_string().contains("undo that to go on, remove the journal to begin anew"),
            "{error}"
        );
    }

    #[test]
    fn only_one_writes_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let held = Journal::open(&path, &facts(1)).unwrap();
        let error = Journal::open(&path, &facts(1)).unwrap_err();
        assert!(error.to_string().contains("another sweep writes"), "{error}");
        drop(held);
        assert!(Journal::open(&path, &facts(1)).is_ok());
    }
}
