//! A victim's files: made once, open as long as the victim is prepared, shared by its threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use floodwall_model::Victim;
use floodwall_model::scenario::{Access, Engine, SyncMethod, VictimKind};
use rustix::fs::{Advice, OFlags};

use super::kind::{access, sync_method};
use crate::dir::Dir;
use crate::error::LoadError;
use crate::file::{NamedFile, sync_dir};
use crate::preflight::Preflight;

/// The files of one victim. One descriptor a file, whatever the number of threads, as in sysbench:
/// fsync on a shared file is the published case.
#[derive(Debug)]
pub(super) struct Files {
    /// Where they are.
    pub(super) dir: Dir,
    pub(super) files: Vec<NamedFile>,
    /// How often a block fits into each.
    pub(super) slots: u64,
    /// Bytes of a block.
    pub(super) block: u64,
    /// For each file, where its log goes on; used by `wal` alone.
    pub(super) logs: Vec<Log>,
    /// How the files are open.
    pub(super) flags: OFlags,
}

/// Name of a file, counted from 0.
pub(super) fn file_name(number: usize) -> String {
    format!("data-{number:05}")
}

/// Length of each file: its share of the size in whole blocks.
pub(super) fn file_len(victim: &Victim) -> u64 {
    let share = victim.size.0 / u64::from(victim.files.max(1));
    share - share % victim.block.0.max(1)
}

/// Refuses a victim whose files can't be made, kept open or used in `dir`.
pub(super) fn check(dir: &Dir, victim: &Victim) -> Result<(), LoadError> {
    let len = file_len(victim);
    if len == 0 {
        return Err(LoadError::TooSmall {
            name: victim.name.clone(),
            space: victim.size,
            what: format!("a block of {} in each of {} files", victim.block, victim.files),
        });
    }
    Preflight::with(dir, |preflight| {
        if victim.kind.is_direct() {
            preflight.direct_io(victim.block)?;
        }
        preflight.length(len)?;
        preflight.descriptors(descriptors(victim))
    })
}

/// How many files a victim has open while it runs.
fn descriptors(victim: &Victim) -> u64 {
    let (files, threads) = (u64::from(victim.files), u64::from(victim.threads));
    // A scan's threads have their own, and share some where their regions meet in the middle of a
    // file.
    let own = match victim.kind {
        VictimKind::Scan { .. } if files.is_multiple_of(threads.max(1)) => files,
        VictimKind::Scan { .. } => files + threads - 1,
        _ => 0,
    };
    let rings = if victim.engine == Engine::IoUring { threads } else { 0 };
    // Their directory is one more.
    1 + files + own + rings
}

impl Files {
    /// Makes, fills and opens the files of a victim that passed [`check`].
    pub(super) fn prepare(
        dir: Dir,
        victim: &Victim,
        seed: u64,
        progress: &mut dyn FnMut(u64),
        stop: &AtomicBool,
    ) -> Result<Self, LoadError> {
        let len = file_len(victim);
        let flags = open_flags(&victim.kind);
        let growing = matches!(victim.kind, VictimKind::Wal { preallocated: false, .. });
        let mut files = Vec::new();
        for i in 0..victim.files {
            let name = file_name(i as usize);
            {
                let new = NamedFile::create(&dir, &name, OFlags::RDWR)?;
                if growing {
                    new.sync()?;
                } else {
                    new.fill(len, seed.wrapping_add(u64::from(i)), progress, stop)?;
                }
            }
            let file = NamedFile::open(&dir, &name, flags)?;
            if access(&victim.kind) == Some(Access::Evict)
                && !matches!(victim.kind, VictimKind::Scan { .. })
            {
                file.expect(Advice::Random)?;
            }
            files.push(file);
        }
        sync_dir(&dir)?;
        let logs = files.iter().map(|_| Log::new(len / victim.block.0, growing)).collect();
        Ok(Self { dir, files, slots: len / victim.block.0, block: victim.block.0, logs, flags })
    }
}

/// How its files are opened. A mixed victim with direct access writes directly too: it has one
/// descriptor, as databases do.
fn open_flags(kind: &VictimKind) -> OFlags {
    let mut flags = if kind.writes() { OFlags::RDWR } else { OFlags::RDONLY };
    if kind.is_direct() {
        flags |= OFlags::DIRECT;
    }
    match sync_method(kind) {
        Some(SyncMethod::ODsync) => flags | OFlags::DSYNC,
        Some(SyncMethod::OSync) => flags | OFlags::SYNC,
        _ => flags,
    }
}

/// Where a log goes on. Its records are handed out in order, over all threads that append to it.
#[derive(Debug)]
pub(super) struct Log {
    slots: u64,
    next: AtomicU64,
    /// A growing log is cut to nothing at the beginning of each lap. The lock holds the lap. A
    /// thread that appends holds it shared, so that no record is cut off while it is written.
    lap: Option<RwLock<u64>>,
}

/// Permission to append one record; a growing log is not cut while it lives.
pub(super) struct Record<'a> {
    pub(super) slot: u64,
    _lap: Option<RwLockReadGuard<'a, u64>>,
}

impl Log {
    fn new(slots: u64, growing: bool) -> Self {
        Self { slots, next: AtomicU64::new(0), lap: growing.then(|| RwLock::new(0)) }
    }

    /// The next record's place; cuts the file if a new lap begins.
    pub(super) fn append(&self, file: &NamedFile) -> Result<Record<'_>, LoadError> {
        loop {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let (lap, slot) = (n / self.slots, n % self.slots);
            let Some(current) = &self.lap else { return Ok(Record { slot, _lap: None }) };
            loop {
                let guard = current.read().unwrap_or_else(PoisonError::into_inner);
                if *guard == lap {
                    return Ok(Record { slot, _lap: Some(guard) });
                }
                if *guard > lap {
                    // Overtaken by a whole lap: this place belongs to the past.
                    break;
                }
                drop(guard);
                let mut guard = current.write().unwrap_or_else(PoisonError::into_inner);
                if *guard < lap {
                    file.truncate(0)?;
                    *guard = lap;
                }
            }
        }
    }
}
