//! The rows of a shard on disk: JSON Lines, append-only, locked by their writer.
//!
//! ```text
//! {"cell":7,"sweep":"3f0c…","of_cells":24,"build":"0.1.0+9b1e…","shard":"1/2","device":…}
//! ```
//!
//! Each row names what it belongs to, so that a part needs no header, and a query over several
//! parts sees a foreign one. A row is whole once its line has ended. What a crash tore is at the
//! end: it is dropped, and its cells are run again.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::hash::Hasher;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value as Json;
use twox_hash::XxHash64;

use super::plan::{Figures, Sweep};
use super::shard::Shard;
use crate::exit::UsageError;
use crate::output::{self, notice};

/// What every row begins with.
const BEGIN: &[u8] = b"{\"cell\":";
/// The executable that runs, also where its file was replaced meanwhile.
const SELF: &str = "/proc/self/exe";
/// How often rows are synced. More often, a slow disk would hold up all workers.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// The sweep, build and shard that a row belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    /// Digest of the sweep.
    pub(super) sweep: String,
    /// Cells of the whole sweep.
    of_cells: u64,
    /// The build of floodwall.
    build: String,
    /// The shard.
    shard: String,
}

impl Origin {
    /// # Errors
    /// If `/proc` is not mounted.
    pub(super) fn of(sweep: &Sweep, shard: Shard) -> anyhow::Result<Self> {
        let build =
            build().with_context(|| format!("can't read '{SELF}' to tell which build it is"));
        Ok(Self {
            sweep: sweep.digest(),
            of_cells: sweep.cells.len() as u64,
            build: build?,
            shard: shard.to_string(),
        })
    }

    /// Why rows of another origin are not this one's, and what to do; `None` if they are.
    fn differs(&self, there: &Self) -> Option<String> {
        if there.build != self.build {
            return Some(format!(
                "has rows of floodwall {}, and this is {}: go on with that build",
                there.build, self.build
            ));
        }
        if (&there.sweep, there.of_cells) != (&self.sweep, self.of_cells) {
            return Some(
                "has rows of another sweep: its file, or a file that it names, has changed since; \
                 undo that to go on"
                    .to_owned(),
            );
        }
        (there.shard != self.shard)
            .then(|| format!("is of shard {}, not {}: give that to go on", there.shard, self.shard))
    }
}

/// The version and a digest of the executable. A version does not tell: between two releases the
/// model changes, and a build for another processor may round a logarithm differently.
fn build() -> io::Result<String> {
    let mut file = File::open(SELF)?;
    let (mut hasher, mut block) = (XxHash64::with_seed(0), vec![0; 1 << 20]);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(format!("{}+{:016x}", env!("CARGO_PKG_VERSION"), hasher.finish())),
            n => hasher.write(&block[..n]),
        }
    }
}

/// A cell's figures, with everything that leads to them.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    cell: u64,
    #[serde(flatten)]
    origin: &'a Origin,
    #[serde(flatten, serialize_with = "as_map")]
    columns: Vec<(&'a str, &'a Json)>,
    setting: String,
    #[serde(flatten)]
    figures: Figures,
}

fn as_map<S: Serializer>(pairs: &[(&str, &Json)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().copied())
}

impl<'a> Row<'a> {
    pub(super) fn new(
        sweep: &'a Sweep,
        origin: &'a Origin,
        cell: u64,
        setting: String,
        figures: Figures,
    ) -> Self {
        Self { cell, origin, columns: sweep.columns(cell), setting, figures }
    }
}

/// What a sweep that is resumed needs of a row.
#[derive(Deserialize)]
struct Kept {
    cell: u64,
    #[serde(flatten)]
    origin: Origin,
    error: Option<String>,
}

impl Kept {
    /// `None` of what is not a whole row.
    fn of(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line.strip_suffix(b"\n")?).ok()
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
    file: File,
    /// Up to here all rows are whole.
    length: u64,
    synced: Instant,
    /// The cells in it.
    pub(super) cells: HashSet<u64>,
    /// Cells that could not be run, and the reason of one.
    pub(super) unable: usize,
    pub(super) reason: Option<String>,
}

impl Drop for Part {
    fn drop(&mut self) {
        // A child that is between fork(2) and execve(2) has the file open too, so closing it here
        // is not enough to unlock it.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl Part {
    /// Opens a part, or begins one, and reads which cells it has.
    ///
    /// # Errors
    /// [`UsageError`] if it is not of this origin or another process writes it; else the error of
    /// the disk.
    pub(super) fn open(path: &Path, origin: &Origin) -> anyhow::Result<Self> {
        let shown = path.display();
        let fail = || format!("can't open '{shown}'");
        let usage = |why: String| Err(UsageError(format!("'{shown}' {why}")).into());
        let target = output::check_writable(path)?;
        let mut options = OpenOptions::new();
        // Links that may be followed have been; one that is planted now leads elsewhere.
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let file = options.read(true).append(true).create(true).open(&target).with_context(fail)?;
        if !file.metadata().with_context(fail)?.is_file() {
            return usage("is not a regular file; name another with -o".to_owned());
        }
        // Some network filesystems have no locks; going on without one is better than not at all.
        if let Err(Errno::WOULDBLOCK) =
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        {
            return usage(
                "is written by another sweep now; wait for it, or name another file with -o".into(),
            );
        }
        let mut reader = BufReader::new(file.try_clone().with_context(fail)?);
        let mut part = Self {
            path: path.to_owned(),
            file,
            length: 0,
            synced: Instant::now(),
            cells: HashSet::new(),
            unable: 0,
            reason: None,
        };
        let foreign =
            || usage("is there and holds no sweep; remove it, or name another file with -o".into());
        let begin = reader.fill_buf().with_context(fail)?;
        if !begin.starts_with(BEGIN) && !BEGIN.starts_with(begin) {
            return foreign();
        }
        let (mut line, mut number, mut damaged) = (Vec::new(), 0, None);
        while reader.read_until(b'\n', &mut line).with_context(fail)? > 0 {
            number += 1;
            match (Kept::of(&line), damaged) {
                (Some(kept), None) => {
                    if let Some(why) = origin.differs(&kept.origin) {
                        return usage(format!(
                            "{why}, remove the part to begin anew, or name another file with -o"
                        ));
                    }
                    part.length += line.len() as u64;
                    part.note(kept.cell, kept.error);
                }
                (Some(_), Some(first)) => {
                    return usage(format!("is damaged: remove its line {first} to go on"));
                }
                // A crash cuts a line short. A whole line of other JSON is from another program.
                (None, _) if line.ends_with(b"\n") && is_json(&line) => return foreign(),
                (None, first) => damaged = first.or(Some(number)),
            }
            line.clear();
        }
        if let Some(first) = damaged {
            part.file.set_len(part.length).with_context(fail)?;
            notice(&format!(
                "'{shown}': line {first} was cut short and is dropped: its cell is run again"
            ));
        }
        output::sync_directory(&target);
        Ok(part)
    }

    /// Writes rows.
    ///
    /// # Errors
    /// What the disk says; the part is then as it was before.
    pub(super) fn append(&mut self, rows: Vec<Row<'_>>) -> anyhow::Result<()> {
        let mut text = Vec::new();
        for row in &rows {
            serde_json::to_writer(&mut text, row)?;
            text.push(b'\n');
        }
        if let Err(e) = self.file.write_all(&text) {
            // Shrinking needs no space.
            let _ = self.file.set_len(self.length);
            return Err(self.failed(&e));
        }
        self.length += text.len() as u64;
        for row in rows {
            self.note(row.cell, row.figures.error);
        }
        if self.synced.elapsed() < SYNC_EVERY { Ok(()) } else { self.sync() }
    }

    /// # Errors
    /// What the disk says.
    pub(super) fn sync(&mut self) -> anyhow::Result<()> {
        self.synced = Instant::now();
        self.file.sync_data().map_err(|e| self.failed(&e))
    }

    fn failed(&self, error: &io::Error) -> anyhow::Error {
        let (shown, cells) = (self.path.display(), self.cells.len());
        anyhow::anyhow!(
            "can't write '{shown}': {error}; {cells} cells are in it: make room, then give the \
             same command again to go on"
        )
    }

    fn note(&mut self, cell: u64, error: Option<String>) {
        if self.cells.insert(cell) && error.is_some() {
            self.unable += 1;
            self.reason = self.reason.take().or(error);
        }
    }
}

fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<Json>(line).is_ok()
}

#[cfg(test)]
#[path = "part_tests.rs"]
mod tests;
