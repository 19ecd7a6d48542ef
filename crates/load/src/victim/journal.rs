//! A database that keeps the old content of each page in a rollback journal until the new one is
//! stable. The calls are those that sqlite3 makes for a commit of one changed page with
//! `journal_mode=DELETE` and `synchronous=FULL`; `crates/cli/tests/kernel/check.rs` compares them.
//!
//! ```text
//! make the journal ─▶ old pages ─▶ sync ─▶ sync the directory ─▶ header: the pages count ─▶ sync
//!   ─▶ new pages into the database ─▶ sync ─▶ remove the journal: the commit
//! ```
//!
//! Two pages change: the one that was asked for, and the first, which holds a counter of changes.

use std::time::{Duration, Instant};

use floodwall_model::scenario::SyncMethod;
use floodwall_stats::recorder::Op;
use rustix::fs::{self as rfs, OFlags};

use super::choose::{Chooser, Schedule, ns_between};
use super::job::Job;
use super::kind::sync_method;
use super::psync::{blocks, make_stable};
use crate::error::LoadError;
use crate::file::{NamedFile, retry};
use crate::running::Worker;

/// Beside the database.
const JOURNAL: &str = "journal";
/// Bytes of the journal's header: a sector.
const HEADER: usize = 512;
/// Of which these are written again when the journal is stable: magic number and number of pages.
const COUNT: usize = 12;
/// Bytes of a page's number before it in the journal, and of its checksum behind it.
const MARK: usize = 4;
/// How much longer than a page the pool of random bytes is.
const VARIETY: usize = 64 << 10;

/// The one thread.
pub(super) fn run(job: &Job, worker: &mut Worker<'_>) -> Result<(), LoadError> {
    let page = job.files.block as usize;
    let mut chooser = Chooser::new(job);
    let mut contents = blocks(job, VARIETY, 0);
    let database = &job.files.files[0];
    let call = sync_method(&job.victim.kind).unwrap_or(SyncMethod::Fdatasync);

    let Some(begin) = worker.arrive() else { return Ok(()) };
    let mut schedule = Schedule::new(job, begin);
    while let Some(due) = schedule.wait_for_turn(worker) {
        // The first page changes in any case.
        let offset = chooser.next()?.offset.max(page as u64);
        let start = Instant::now();
        let mut syncs = Syncs { call, took: Duration::ZERO };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let journal = NamedFile::open(&job.files.dir, JOURNAL, flags)?;
        journal.write_all_at(&[0; HEADER], 0)?;
        let mut at = HEADER as u64;
        for _ in 0..2 {
            let old = contents.next(page);
            for part in [&[0; MARK][..], old, &[0; MARK]] {
                journal.write_all_at(part, at)?;
                at += part.len() as u64;
            }
        }
        syncs.file(&journal)?;
        syncs.directory(job)?;
        journal.write_all_at(&[1; COUNT], 0)?;
        syncs.file(&journal)?;
        for offset in [0, offset] {
            database.write_all_at(contents.next(page), offset)?;
        }
        syncs.file(database)?;
        drop(journal);
        job.files
            .dir
            .remove_file(JOURNAL)
            .map_err(|e| LoadError::io("remove", job.files.dir.path().join(JOURNAL), e))?;
        let end = Instant::now();
        let recorder = worker.recorder;
        let sync_ns = ns_between(start, start + syncs.took);
        recorder.record(Op::Sync, sync_ns);
        recorder.record(Op::Write, ns_between(start, end) - sync_ns);
        recorder.record(Op::Commit, ns_between(due.unwrap_or(start), end));
        recorder.add_bytes(2 * page as u64);
        chooser.done();
    }
    schedule.close(worker);
    Ok(())
}

/// The syncs of one commit.
struct Syncs {
    call: SyncMethod,
    /// How long they took together.
    took: Duration,
}

impl Syncs {
    fn file(&mut self, file: &NamedFile) -> Result<(), LoadError> {
        let begin = Instant::now();
        make_stable(file, self.call, 0, 0)?;
        self.took += begin.elapsed();
        Ok(())
    }

    /// Makes the journal's name stable.
    fn directory(&mut self, job: &Job) -> Result<(), LoadError> {
        let dir = &job.files.dir;
        let begin = Instant::now();
        let (operation, synced) = match self.call {
            SyncMethod::Fdatasync => ("fdatasync", retry(|| rfs::fdatasync(dir))),
            _ => ("fsync", retry(|| rfs::fsync(dir))),
        };
        synced.map_err(|e| LoadError::io(operation, dir.path(), e))?;
        self.took += begin.elapsed();
        Ok(())
    }
}
