//! A flood as a child process can run it: its work, and the descriptors of its files.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;

use floodwall_model::scenario::{Data, FloodKind, WriteMode};
use floodwall_stats::recorder::Recorder;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::stream::Stream;
use super::{Place, PreparedFlood, Target, flags};
use crate::apart::path_of_number;
use crate::dir::Dir;
use crate::error::LoadError;
use crate::file::NamedFile;
use crate::pace::Limit;
use crate::running::{self, Running, Work};

/// What a process is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    kind: FloodKind,
    data: Data,
    /// Bytes a second over all streams.
    rate: Option<f64>,
    seed: u64,
    places: Vec<OrderedPlace>,
}

#[derive(Debug, Serialize, Deserialize)]
struct OrderedPlace {
    space: u64,
    block: u64,
    mode: WriteMode,
    target: OrderedTarget,
}

#[derive(Debug, Serialize, Deserialize)]
enum OrderedTarget {
    Grown(OrderedFile),
    Filled(OrderedFile),
    Pair { source: OrderedFile, destination: OrderedFile },
    Directory { dir: OrderedFile, file: u64 },
}

/// An open file that the child inherits.
#[derive(Debug, Serialize, Deserialize)]
struct OrderedFile {
    fd: RawFd,
    /// Its name, for messages.
    name: PathBuf,
}

impl OrderedFile {
    fn of(file: &NamedFile) -> Self {
        Self { fd: file.fd.as_raw_fd(), name: file.path.clone() }
    }

    fn open(self, mode: WriteMode) -> Result<NamedFile, LoadError> {
        let again = path_of_number(self.fd);
        let fd =
            rustix::fs::open(again, OFlags::RDWR | OFlags::CLOEXEC | flags(mode), Mode::empty());
        Ok(NamedFile { fd: fd.map_err(|e| LoadError::io("open", &self.name, e))?, path: self.name })
    }
}

impl OrderedTarget {
    fn of(target: &Target) -> Self {
        match target {
            Target::Grown(file) => Self::Grown(OrderedFile::of(file)),
            Target::Filled(file) => Self::Filled(OrderedFile::of(file)),
            Target::Pair { source, destination } => Self::Pair {
                source: OrderedFile::of(source),
                destination: OrderedFile::of(destination),
            },
            Target::Directory { dir, file } => Self::Directory {
                dir: OrderedFile { fd: dir.as_fd().as_raw_fd(), name: dir.path().to_owned() },
                file: *file,
            },
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        match self {
            Self::Grown(file) | Self::Filled(file) | Self::Directory { dir: file, .. } => {
                vec![file.fd]
            }
            Self::Pair { source, destination } => vec![source.fd, destination.fd],
        }
    }

    fn open(self, mode: WriteMode) -> Result<Target, LoadError> {
        Ok(match self {
            Self::Grown(file) => Target::Grown(file.open(mode)?),
            Self::Filled(file) => Target::Filled(file.open(mode)?),
            Self::Pair { source, destination } => Target::Pair {
                source: source.open(WriteMode::Buffered)?,
                destination: destination.open(mode)?,
            },
            Self::Directory { dir, file } => {
                let opened = Dir::open(&path_of_number(dir.fd))
                    .map_err(|e| LoadError::io("open", &dir.name, e))?;
                Target::Directory { dir: opened, file }
            }
        })
    }
}

impl Order {
    pub(super) fn of(flood: &PreparedFlood, places: &[Arc<Place>], seed: u64) -> Self {
        let place = |place: &Arc<Place>| OrderedPlace {
            space: place.space,
            block: place.block,
            mode: place.mode,
            target: OrderedTarget::of(&place.target),
        };
        Self {
            kind: flood.flood.kind.clone(),
            data: flood.flood.data,
            rate: flood.flood.rate.map(|rate| rate.0),
            seed,
            places: places.iter().map(place).collect(),
        }
    }

    /// The descriptors that the child must inherit.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.places.iter().flat_map(|place| place.target.descriptors()).collect()
    }

    /// Starts it here, in the process that was ordered.
    pub(crate) fn start(self) -> Result<Running, LoadError> {
        let open = |place: OrderedPlace| {
            let target = place.target.open(place.mode)?;
            Ok(Arc::new(Place { space: place.space, block: place.block, mode: place.mode, target }))
        };
        let places = self.places.into_iter().map(open).collect::<Result<Vec<_>, LoadError>>()?;
        start_streams(&places, &self.kind, self.data, self.rate, self.seed)
    }
}

/// Starts a thread for each place.
pub(super) fn start_streams(
    places: &[Arc<Place>],
    kind: &FloodKind,
    data: Data,
    rate: Option<f64>,
    seed: u64,
) -> Result<Running, LoadError> {
    let limit = rate.map(|rate| Arc::new(Limit::new(rate)));
    let work = places.iter().zip(0..).map(|(place, number)| {
        let stream = Stream {
            place: Arc::clone(place),
            limit: limit.clone(),
            kind: kind.clone(),
            data,
            streams: places.len() as u32,
            seed,
            number,
        };
        let work: Work = Box::new(move |worker| stream.run(worker));
        (Recorder::new(&[]), work)
    });
    running::start("flood", work.collect(), None)
}

#[cfg(test)]
impl Default for Order {
    fn default() -> Self {
        Self { kind: FloodKind::Seq, data: Data::Random, rate: None, seed: 0, places: Vec::new() }
    }
}
