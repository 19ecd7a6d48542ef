//! Floods: writes that fill the device's queue, buffered unless `mode` says otherwise. No program
//! waits for them, so no latency is recorded.
//!
//! | kind | files of a stream | goes round by |
//! |---|---|---|
//! | seq | one, from nothing to its share of the size | seeking to 0 and rewriting |
//! | random | one, written beforehand | – |
//! | files | many small ones, 1,000 to a directory | opening them again with O_TRUNC |
//! | mmap | one, written beforehand, mapped shared | starting at its first page again |
//! | copy | a source written beforehand, a destination, half the share each | seeking both to 0 |
//!
//! An operation is one write call, or one block dirtied in a mapping. Bytes are what the kernel has
//! accepted.

mod map;
pub(crate) mod order;
mod place;
mod small;
mod start;
mod stream;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use floodwall_model::Flood;
use floodwall_model::scenario::{FloodKind, WriteMode};
use rustix::fs::OFlags;

use crate::apart::{Apart, FloodProcess};
use crate::command::{self, CommandLoad, Role};
use crate::dir::Dir;
use crate::error::{LoadError, MAKE_DIRECTORY};
use crate::file::{NamedFile, make_dir, sync_dir};
use crate::preflight::Preflight;
use crate::running::Running;
use crate::user::User;
pub(crate) use map::Mapping;
use order::Order;
use place::{Place, Target, flags};
use start::start_streams;

/// A flood whose files exist as far as they must: it can be started as often as there are phases.
#[derive(Debug)]
pub struct PreparedFlood {
    flood: Flood,
    dir: PathBuf,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Streams(Vec<Arc<Place>>),
    Command(CommandLoad),
}

/// Bytes of scratch space that a flood takes at the most: its size. `None` for a command, which
/// knows it alone, and for a flood whose size is not settled.
#[must_use]
pub fn flood_bytes(flood: &Flood) -> Option<u64> {
    match flood.kind {
        FloodKind::Command { .. } => None,
        _ => flood.size.map(|size| size.0),
    }
}

/// Refuses a flood that can't work in `dir`, before anything is written. Such a flood has no size,
/// or its files are too small for a block, too long, too many to keep open, or impossible to map.
/// Makes a small temporary file.
///
/// The needs of other loads are not counted, nor is free space. A command is not tried.
///
/// # Errors
/// [`LoadError::NoSize`], [`LoadError::TooSmall`], [`LoadError::Io`].
pub fn check_flood(dir: &Dir, flood: &Flood) -> Result<(), LoadError> {
    if let FloodKind::Command { .. } = flood.kind {
        return Ok(());
    }
    let share = Share::of(flood)?;
    let (longest, files) = match flood.kind {
        FloodKind::Copy => (share.space, 2),
        // The open file, its directory, and the directory of those.
        FloodKind::Files { file } => (file.0, 3),
        _ => (share.space, 1),
    };
    Preflight::with(dir, |preflight| {
        preflight.length(longest)?;
        if flood.kind == FloodKind::Mmap {
            preflight.mapping(share.space)?;
        }
        match flood.mode {
            WriteMode::Direct => preflight.direct_io(flood.block)?,
            WriteMode::DontCache => preflight.dont_cache()?,
            WriteMode::Buffered | WriteMode::Dsync | WriteMode::SyncFileRange => {}
        }
        preflight.descriptors(files * u64::from(flood.streams))
    })
}

/// What each stream of a flood gets.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// Bytes within which it stays: a whole number of blocks, or of small files.
    space: u64,
    /// Bytes of each write.
    block: u64,
}

impl Share {
    fn of(flood: &Flood) -> Result<Self, LoadError> {
        let size = flood.size.ok_or_else(|| LoadError::NoSize { name: flood.name.clone() })?;
        let space = size.0 / u64::from(flood.streams.max(1));
        let block = flood.block.0;
        let whole = |space: u64, unit: u64| space - space % unit.max(1);
        let (share, what) = match flood.kind {
            FloodKind::Copy => {
                let space = whole(space / 2, block);
                (Self { space, block }, format!("a block of {} twice", flood.block))
            }
            FloodKind::Files { file } => {
                // Short files take a block of the filesystem each.
                let space = whole(space, small::footprint(file.0));
                (Self { space, block: block.min(file.0) }, format!("a file of {file}"))
            }
            _ => {
                (Self { space: whole(space, block), block }, format!("a block of {}", flood.block))
            }
        };
        if share.space == 0 || share.block == 0 {
            let what = format!("{what} in each of {} streams", flood.streams);
            return Err(LoadError::TooSmall { name: flood.name.clone(), space: size, what });
        }
        Ok(share)
    }
}

/// Makes a flood's directory below `dir` and those of its files that have to exist beforehand.
/// These are the source of a `copy`, and the files of `random` and `mmap` at their full length.
/// They are written with random data, synced and dropped from the page cache.
///
/// A command runs as `user`, or as the caller without one. `progress` gets the bytes of each
/// step.
///
/// # Errors
/// Those of [`check_flood`], before anything is written; [`LoadError::Io`];
/// [`LoadError::Interrupted`] once `stop` is raised. The files stay until the caller removes `dir`.
pub fn prepare_flood(
    dir: &Dir,
    flood: &Flood,
    user: Option<&User>,
    seed: u64,
    progress: &mut dyn FnMut(u64),
    stop: &AtomicBool,
) -> Result<PreparedFlood, LoadError> {
    check_flood(dir, flood)?;
    let own = make_dir(dir, &flood.name)?;
    let path = own.path().to_owned();
    if let FloodKind::Command { command } = &flood.kind {
        let inner = Inner::Command(CommandLoad::new(command, dir, &own, Role::Flood, user)?);
        return Ok(PreparedFlood { flood: flood.clone(), dir: path, inner });
    }
    let share = Share::of(flood)?;
    let mut places = Vec::new();
    for i in 0..flood.streams {
        let seed = seed.wrapping_add(u64::from(i));
        places.push(Arc::new(place(&own, flood, i, share, seed, progress, stop)?));
    }
    sync_dir(&own)?;
    Ok(PreparedFlood { flood: flood.clone(), dir: path, inner: Inner::Streams(places) })
}

fn place(
    dir: &Dir,
    flood: &Flood,
    stream: u32,
    share: Share,
    seed: u64,
    progress: &mut dyn FnMut(u64),
    stop: &AtomicBool,
) -> Result<Place, LoadError> {
    let new = |name: String| NamedFile::create(dir, &name, OFlags::RDWR);
    let written = |name: String| NamedFile::create(dir, &name, OFlags::RDWR | flags(flood.mode));
    let target = match flood.kind {
        FloodKind::Seq => Target::Grown(written(format!("seq-{stream:04}"))?),
        FloodKind::Random | FloodKind::Mmap => {
            let file = new(format!("data-{stream:04}"))?;
            file.fill(share.space, seed, progress, stop)?;
            // Filled through the page cache, whatever comes then.
            Target::Filled(file.reopened(OFlags::RDWR | flags(flood.mode))?)
        }
        FloodKind::Copy => {
            let source = new(format!("source-{stream:04}"))?;
            source.fill(share.space, seed, progress, stop)?;
            Target::Pair { source, destination: written(format!("copy-{stream:04}"))? }
        }
        FloodKind::Files { file } => {
            let name = format!("stream-{stream:04}");
            let made = dir.make_dir(&name);
            let dir = made.map_err(|e| LoadError::io(MAKE_DIRECTORY, dir.path().join(name), e))?;
            Target::Directory { dir, file: file.0 }
        }
        FloodKind::Command { .. } => return Err(LoadError::NoSize { name: flood.name.clone() }),
    };
    Ok(Place { space: share.space, block: share.block, mode: flood.mode, target })
}

impl PreparedFlood {
    /// Its name in the scenario.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.flood.name
    }

    /// The directory of its files; of a command, those that hold its output.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts it as threads of this process. Equal seeds give equal offsets.
    ///
    /// `proc_root` is `/proc`, or what stands in for it; only commands are looked up there.
    ///
    /// # Errors
    /// [`LoadError::Thread`], [`LoadError::Io`]; for a command [`LoadError::Spawn`] and
    /// [`LoadError::NoAccounting`].
    pub fn start(&self, seed: u64, proc_root: &Path) -> Result<Running, LoadError> {
        let flood = &self.flood;
        match &self.inner {
            Inner::Command(load) => command::start(load, proc_root, None),
            Inner::Streams(places) => {
                start_streams(places, &flood.kind, flood.data, flood.rate.map(|rate| rate.0), seed)
            }
        }
    }

    /// The same in a separate process, or in the control group that `apart` names.
    ///
    /// # Errors
    /// Those of [`Self::start`], and [`LoadError::Apart`].
    pub fn start_apart(
        &self,
        seed: u64,
        proc_root: &Path,
        apart: &Apart,
    ) -> Result<Running, LoadError> {
        match &self.inner {
            Inner::Command(load) => command::start(load, proc_root, apart.group.clone()),
            Inner::Streams(places) => {
                FloodProcess::start(apart, Order::of(&self.flood, places, seed))
                    .map(Running::of_process)
            }
        }
    }

    /// Throws the flood's backlog away between two phases: files that allow it are truncated or
    /// removed, so that their dirty pages vanish without ever being written. It must not be
    /// running.
    ///
    /// Files that were written beforehand stay as they are, dirty pages included. To write those
    /// takes as long as the backlog is deep, and fsync(2) can't be interrupted. So do the files of
    /// a command. A caller that wants no backlog waits for it after this, in a way that can be
    /// stopped, for instance with syncfs(2) in a separate thread.
    ///
    /// # Errors
    /// [`LoadError::Io`], [`LoadError::Remove`].
    pub fn discard(&self) -> Result<(), LoadError> {
        let Inner::Streams(places) = &self.inner else { return Ok(()) };
        for place in places {
            if let Target::Directory { dir, .. } = &place.target {
                dir.remove_contents(None)?;
            }
        }
        self.cut()
    }

    /// Cuts the files that it writes from begin to end to nothing, also while it ends. ext4 and XFS
    /// write a file back when it is closed if it was truncated before (ext4_release_file). A flood
    /// that was asked to stop would then end only once its whole backlog is written.
    ///
    /// # Errors
    /// [`LoadError::Io`].
    pub fn cut(&self) -> Result<(), LoadError> {
        let Inner::Streams(places) = &self.inner else { return Ok(()) };
        for place in places {
            match &place.target {
                Target::Grown(file) => file.truncate(0)?,
                Target::Pair { destination, .. } => destination.truncate(0)?,
                Target::Filled(_) | Target::Directory { .. } => {}
            }
        }
        Ok(())
    }
}
