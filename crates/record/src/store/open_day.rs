//! One day's files, open to be read.
//!
//! ```text
//! index ─▶ slots ─▶ bytes, checked ─▶ Unpacker, from the first frame of the chunk on ─▶ Frame
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use crc32fast::hash;
use floodwall_model::frame::Frame;

use super::chunk::{MOST_BYTES, Unpacker};
use super::day::Day;
use super::directory::{Directory, io_error};
use super::error::RecordError;
use super::index::{FORMAT, Header, read_header};
use super::slots::{Slot, Slots};

/// One day's files.
pub(super) struct OpenDay {
    day: Day,
    frames: File,
    index: File,
    slots: Slots,
    chunk: Option<Chunk>,
}

/// A chunk that is being read.
struct Chunk {
    /// Its first frame.
    begin: usize,
    /// The frame that `unpacker` reads next.
    next: usize,
    unpacker: Unpacker,
    /// The first frame that can't be read; nor can those after it.
    damaged: Option<usize>,
}

/// Why a frame can't be read, as a part of a sentence.
pub(super) type Unread = &'static str;

const AFTER_DAMAGE: Unread = "a frame before it is damaged";
const DAMAGED_ENTRY: Unread = "its entry in the index is damaged";

impl OpenDay {
    /// Opens a day; `None` if it has just been removed.
    pub(super) fn new(directory: &Directory, day: Day) -> Result<Option<Self>, RecordError> {
        let (Some(frames), Some(index)) =
            (directory.file(&day.frames())?, directory.file(&day.index())?)
        else {
            return Ok(None);
        };
        let path = || directory.path_of(&day.index());
        match read_header(&index).map_err(|e| io_error("read", &path(), e))? {
            Header::Format(format) if format > FORMAT => {
                Err(RecordError::Newer { path: path(), format })
            }
            _ => Ok(Some(Self { day, frames, index, slots: Slots::default(), chunk: None })),
        }
    }

    /// Reads what has been appended.
    pub(super) fn refresh(&mut self) -> io::Result<()> {
        let before = self.slots.all().len();
        self.slots.refresh(&self.index)?;
        if self.slots.all().len() < before {
            self.chunk = None;
        }
        Ok(())
    }

    /// Which day it is.
    pub(super) fn day(&self) -> Day {
        self.day
    }

    /// Its entries.
    pub(super) fn slots(&self) -> &[Slot] {
        self.slots.all()
    }

    /// Whether its files have not been removed.
    pub(super) fn is_there(&self) -> bool {
        self.index.metadata().is_ok_and(|now| now.nlink() > 0)
    }

    /// The frame of an entry, or why it can't be read.
    pub(super) fn read(&mut self, at: usize) -> Result<Frame, Unread> {
        let (wanted, begin) = match self.slots.all().get(at) {
            Some(Slot::Entry(entry, begin)) => (*entry, *begin),
            Some(Slot::Orphan(_)) => return Err(AFTER_DAMAGE),
            _ => return Err(DAMAGED_ENTRY),
        };
        let chunk = self.chunk.take().filter(|chunk| chunk.begin == begin);
        let mut chunk = chunk.unwrap_or_else(|| Chunk::new(begin));
        let read = self.read_of(&mut chunk, at);
        self.chunk = Some(chunk);
        match read? {
            frame if frame.at_unix_ms == wanted.at_unix_ms => Ok(frame),
            _ => Err("its entry in the index is another frame's"),
        }
    }

    /// A frame of a chunk. Those before it are passed.
    fn read_of(&self, chunk: &mut Chunk, at: usize) -> Result<Frame, Unread> {
        if chunk.damaged.is_some_and(|damaged| damaged <= at) {
            return Err(AFTER_DAMAGE);
        }
        if chunk.next > at {
            *chunk = Chunk { damaged: chunk.damaged, ..Chunk::new(chunk.begin) };
        }
        loop {
            let position = chunk.next;
            // After an error nothing more can be read.
            chunk.next = usize::MAX;
            let read = self.bytes(position).and_then(|bytes| {
                let frame = if position == at {
                    chunk.unpacker.frame(&bytes).map(Some)
                } else {
                    chunk.unpacker.pass(&bytes).map(|()| None)
                };
                frame.ok_or("it is no frame")
            });
            let read = read.inspect_err(|_| chunk.damaged = Some(position))?;
            chunk.next = position + 1;
            if let Some(frame) = read {
                return Ok(frame);
            }
        }
    }

    /// A frame's bytes, checked.
    fn bytes(&self, at: usize) -> Result<Vec<u8>, Unread> {
        let Some(Slot::Entry(entry, _)) = self.slots.all().get(at) else {
            return Err(DAMAGED_ENTRY);
        };
        let length = Some(entry.length as usize).filter(|length| *length <= MOST_BYTES);
        let mut bytes = vec![0; length.ok_or(DAMAGED_ENTRY)?];
        self.frames.read_exact_at(&mut bytes, entry.offset).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => "its bytes are missing",
            _ => "the disk can't read its bytes",
        })?;
        if hash(&bytes) == entry.crc { Ok(bytes) } else { Err("its checksum is wrong") }
    }
}

impl Chunk {
    fn new(begin: usize) -> Self {
        Self { begin, next: begin, unpacker: Unpacker::new(), damaged: None }
    }
}
