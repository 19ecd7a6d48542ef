//! A flood as a child process can run it: its work, and the descriptors of its files.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;

use floodwall_model::Flood;
use floodwall_model::scenario::{Data, FloodKind, WriteMode};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::place::{Place, Target, flags};
use crate::dir::Dir;
use crate::error::LoadError;
use crate::file::{NamedFile, path_of_number};

/// What a process is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(super) kind: FloodKind,
    pub(super) data: Data,
    /// Bytes a second over all streams.
    pub(super) rate: Option<f64>,
    pub(super) seed: u64,
    pub(super) places: Vec<OrderedPlace>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OrderedPlace {
    pub(super) space: u64,
    pub(super) block: u64,
    pub(super) mode: WriteMode,
    pub(super) target: OrderedTarget,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum OrderedTarget {
    Grown(OrderedFile),
    Filled(OrderedFile),
    Pair { source: OrderedFile, destination: OrderedFile },
    Directory { dir: OrderedFile, file: u64 },
}

/// An open file that the child inherits.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OrderedFile {
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

    pub(super) fn open(self, mode: WriteMode) -> Result<Target, LoadError> {
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
    pub(super) fn of(flood: &Flood, places: &[Arc<Place>], seed: u64) -> Self {
        let place = |place: &Arc<Place>| OrderedPlace {
            space: place.space,
            block: place.block,
            mode: place.mode,
            target: OrderedTarget::of(&place.target),
        };
        Self {
            kind: flood.kind.clone(),
            data: flood.data,
            rate: flood.rate.map(|rate| rate.0),
            seed,
            places: places.iter().map(place).collect(),
        }
    }

    /// The descriptors that the child must inherit.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.places.iter().flat_map(|place| place.target.descriptors()).collect()
    }
}

#[cfg(test)]
impl Default for Order {
    fn default() -> Self {
        Self { kind: FloodKind::Seq, data: Data::Random, rate: None, seed: 0, places: Vec::new() }
    }
}
