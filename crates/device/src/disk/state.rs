//! A disk's state: its commands on their way, its head, its cache.

use std::collections::VecDeque;

use super::geometry::{Geometry, Mechanics, Parked, Spot};
use super::read_buffer::{Buffer, Hit};
use super::shingle::{Shingle, ShingleParams};
use crate::device::{Completion, Request};
use crate::events::EventQueue;
use crate::lane::Lane;
use crate::time::Nanos;
use crate::write_cache::{DirtyMap, Run};

/// What a disk is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskParams {
    /// Platters and arm.
    pub mechanics: Mechanics,
    /// Electronics per command.
    pub command: Nanos,
    /// Interface, in bytes per second: 300 MB/s for SATA 3 Gbit/s (8b/10b coded).
    pub link_rate: f64,
    /// Commands among which it chooses; 1 without native queueing.
    pub queue_depth: u32,
    /// How long a command may be passed over.
    pub age_limit: Nanos,
    /// Bytes that it reads ahead, at most; 0 switches the read buffer off.
    pub read_ahead: u64,
    /// Segments of the read buffer.
    pub segments: u32,
    /// Volatile write cache in bytes; 0 means that writes go through.
    pub write_cache: u64,
    /// Shingled recording, if it has it.
    pub shingles: Option<ShingleParams>,
}

#[derive(Clone, Copy)]
pub(super) struct Queued {
    pub(super) request: Request,
    pub(super) spot: Spot,
    pub(super) arrived: Nanos,
}

/// What the head is doing.
pub(super) enum Work {
    Read {
        id: u64,
        offset: u64,
        len: u64,
        arrived: Nanos,
    },
    /// A write past the cache.
    Write {
        id: u64,
        offset: u64,
        len: u64,
    },
    Destage(Run),
    /// Moving a band's data home from the media cache of a shingled drive.
    Clean,
}

pub(super) struct Forced {
    pub(super) id: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) arrived: Nanos,
}

pub(super) struct Flush {
    pub(super) id: u64,
    pub(super) epoch: u64,
    pub(super) arrived: Nanos,
}

/// Work that has waited too long.
#[derive(Clone, Copy)]
pub(super) enum Overdue {
    /// The oldest command of the queue.
    Command,
    /// The oldest FUA write.
    Forced,
    /// The oldest FLUSH: what it covers goes out before any command.
    Flush,
}

/// What the head could do next.
#[derive(Clone, Copy)]
pub(super) enum Choice {
    /// A command, by its place in the queue, and where a read would find its data, if that is
    /// known.
    Queue(usize, Option<Hit>),
    /// The dirty range that begins there.
    Dirty(u64),
}

/// What the heads have done.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    pub(super) busy_ns: u64,
    pub(super) seeks: u64,
    pub(super) seek_bytes: u64,
}

/// A command that was begun when it was handed over, before it arrives, and how things stood
/// before: see [`Disk::begin`].
pub(super) struct Begun {
    pub(super) at: Nanos,
    pub(super) request: Request,
    pub(super) head: Parked,
    pub(super) head_offset: u64,
    pub(super) counts: Counts,
}

/// See the [module](super).
pub struct Disk {
    pub(super) p: DiskParams,
    pub(super) geometry: Geometry,
    /// Angle of the platters at time zero, as a time.
    pub(super) phase: Nanos,
    /// Commands on their way in.
    pub(super) arrivals: EventQueue<Request>,
    /// How many of them can be complete before the head is free again.
    pub(super) urgent: usize,
    pub(super) begun: Option<Begun>,
    /// Commands that will be done at a known time.
    pub(super) done: EventQueue<Completion>,
    /// Commands that are done at the moment that is being handled.
    pub(super) ready: Vec<Completion>,
    pub(super) command_free: Nanos,
    pub(super) link: Lane,
    /// The commands that it may choose from, oldest first.
    pub(super) queue: Vec<Queued>,
    /// Commands beyond the queue's depth.
    pub(super) backlog: VecDeque<Queued>,
    pub(super) head: Parked,
    /// Where the head's last transfer ended, as an offset.
    pub(super) head_offset: u64,
    pub(super) work: Option<(Nanos, Work)>,
    pub(super) buffer: Buffer,
    pub(super) cache: DirtyMap,
    /// Writers that wait for space in the cache.
    pub(super) waiting: VecDeque<Request>,
    pub(super) forced: Vec<Forced>,
    pub(super) flushes: VecDeque<Flush>,
    pub(super) shingle: Option<Shingle>,
    pub(super) counts: Counts,
}

impl Disk {
    /// `phase` is where the platters stand at time zero: disks of an array do not turn in step.
    #[must_use]
    pub fn new(p: DiskParams, phase: Nanos) -> Self {
        let geometry = Geometry::new(p.mechanics);
        Self {
            p,
            phase,
            arrivals: EventQueue::new(),
            urgent: 0,
            begun: None,
            done: EventQueue::new(),
            ready: Vec::new(),
            command_free: Nanos::ZERO,
            link: Lane::new(p.link_rate),
            queue: Vec::new(),
            backlog: VecDeque::new(),
            head: Parked::OUTSIDE,
            head_offset: 0,
            work: None,
            buffer: Buffer::new(p.segments as usize, p.read_ahead, p.mechanics.capacity),
            cache: DirtyMap::new(),
            waiting: VecDeque::new(),
            forced: Vec::new(),
            flushes: VecDeque::new(),
            shingle: p.shingles.map(Shingle::new),
            counts: Counts::default(),
            geometry,
        }
    }
}
