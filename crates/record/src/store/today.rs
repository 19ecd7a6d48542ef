//! The files of the day that is written: the frame first, then its entry. A frame without a whole
//! entry never existed.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use crc32fast::hash;
use floodwall_model::frame::Frame;

use super::chunk::{Packed, Packer};
use super::day::Day;
use super::directory::{Directory, io_error};
use super::error::RecordError;
use super::index::{ENTRY, Entry, FORMAT, HEADER, Header, read_header};
use super::slots::{Slot, Slots};

/// A file as far as appending needs it. Tests bring one that becomes full.
pub(super) trait Sink {
    /// Writes all bytes at an offset.
    fn put(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts or extends it.
    fn cut(&self, length: u64) -> io::Result<()>;
}

impl Sink for File {
    fn put(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// The day that is written.
pub(super) struct Today<F = File> {
    day: Day,
    frames: Part<F>,
    index: Part<F>,
    packer: Packer,
}

/// One of its two files, up to its last whole frame or entry.
struct Part<F> {
    file: F,
    path: PathBuf,
    length: u64,
}

impl Today {
    /// Opens a day's files, makes them if they are absent, and cuts off what is not whole.
    pub(super) fn open(directory: &Directory, day: Day) -> Result<Self, RecordError> {
        let part = |name: &str, length| {
            let file = directory.make_file(name)?;
            Ok(Part { file, path: directory.path_of(name), length })
        };
        let (frames, index) = (part(&day.frames(), 0)?, part(&day.index(), HEADER)?);
        let mut today = Self { day, frames, index, packer: Packer::new() };
        let path = &today.index.path;
        let header = read_header(&today.index.file).map_err(|e| io_error("read", path, e))?;
        if let Header::Format(format) = header
            && format > FORMAT
        {
            return Err(RecordError::Newer { path: path.clone(), format });
        }
        let recovered = today.recover(header);
        recovered.map_err(|e| io_error("recover", &today.index.path, e))?;
        Ok(today)
    }

    fn recover(&mut self, header: Header) -> io::Result<()> {
        let mut slots = Slots::default();
        slots.refresh(&self.index.file)?;
        let written = self.frames.file.metadata()?.len();
        let end = |slot: &Slot| slot.entry()?.end().filter(|end| *end <= written);
        let whole = (1..).zip(slots.all()).filter_map(|(count, slot)| Some((count, end(slot)?)));
        if let Some((count, end)) = whole.last() {
            self.index.length = HEADER + count * ENTRY;
            self.frames.length = end;
        }
        if header == Header::Damaged {
            self.index.file.write_all_at(&Header::bytes(), 0)?;
        }
        self.cut()
    }

    /// Whether nothing else has removed or changed the files.
    pub(super) fn is_as_left(&self) -> bool {
        [&self.frames, &self.index].iter().all(|part| {
            let now = part.file.metadata();
            now.is_ok_and(|now| now.nlink() > 0 && now.len() == part.length)
        })
    }
}

impl<F: Sink> Today<F> {
    /// Which day it is.
    pub(super) fn day(&self) -> Day {
        self.day
    }

    /// How many frames it has, damaged ones included.
    pub(super) fn frames(&self) -> u64 {
        (self.index.length - HEADER) / ENTRY
    }

    /// How many bytes it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.frames.length + self.index.length
    }

    /// Appends a frame. After an error both files are as they were before.
    pub(super) fn append(&mut self, frame: &Frame) -> Result<(), RecordError> {
        let at_unix_ms = frame.at_unix_ms;
        let packed = self.packer.pack(frame);
        let Packed { bytes, begins_chunk } =
            packed.map_err(|why| RecordError::Frame { at_unix_ms, why })?;
        let offset = self.frames.length;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = Entry { at_unix_ms, offset, length, begins_chunk, crc: hash(&bytes) };
        let written = self.frames.append(&bytes).and_then(|()| self.index.append(&entry.bytes()));
        if written.is_err() {
            // The next frame must not build on this one. Bytes that stay are written over.
            self.packer.begin();
            let _ = self.cut();
            return written;
        }
        self.frames.length += u64::from(length);
        self.index.length += ENTRY;
        Ok(())
    }

    /// Cuts off what lies beyond the last whole frame.
    fn cut(&self) -> io::Result<()> {
        self.index.file.cut(self.index.length)?;
        self.frames.file.cut(self.frames.length)
    }
}

impl<F: Sink> Part<F> {
    fn append(&self, bytes: &[u8]) -> Result<(), RecordError> {
        let written = self.file.put(bytes, self.length);
        written.map_err(|e| io_error("write", &self.path, e))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::super::reader::Recording;
    use super::*;

    /// A file on a filesystem with so much room left.
    struct Full {
        file: File,
        room: Rc<Cell<u64>>,
    }

    impl Sink for Full {
        fn put(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            let fits = usize::try_from(self.room.get()).unwrap().min(bytes.len());
            self.room.set(self.room.get() - fits as u64);
            self.file.write_all_at(&bytes[..fits], offset)?;
            if fits == bytes.len() { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
        }

        fn cut(&self, length: u64) -> io::Result<()> {
            self.file.set_len(length)
        }
    }

    fn full(today: Today, room: &Rc<Cell<u64>>) -> Today<Full> {
        let Today { day, frames, index, packer } = today;
        let part = |part: Part<File>| Part {
            file: Full { file: part.file, room: Rc::clone(room) },
            path: part.path,
            length: part.length,
        };
        Today { day, frames: part(frames), index: part(index), packer }
    }

    fn frame(at_unix_ms: u64) -> Frame {
        Frame { at_unix_ms, source: "sim".into(), ..Frame::default() }
    }

    #[test]
    fn a_disk_that_is_full_at_any_byte_leaves_the_recording_as_it_was() {
        let mut is_enough = false;
        let mut tried = 0;
        while !is_enough {
            let dir = tempfile::tempdir().unwrap();
            let directory = Directory::make(dir.path()).unwrap();
            let mut today = Today::open(&directory, Day::of(0).unwrap()).unwrap();
            today.append(&frame(1)).unwrap();
            let lengths = (today.frames.length, today.index.length);
            let room = Rc::new(Cell::new(tried));
            let mut today = full(today, &room);
            let appended = today.append(&frame(2));
            let now = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().len();
            let mut expected = vec![1];
            match appended {
                Ok(()) => {
                    is_enough = true;
                    expected.push(2);
                }
                Err(e) => {
                    assert!(e.is_full());
                    assert_eq!((now("1970-01-01.frames"), now("1970-01-01.index")), lengths);
                }
            }
            let mut recording = Recording::open(dir.path()).unwrap();
            let mut moments = || -> Vec<u64> {
                recording.between(0, 9).map(|frame| frame.unwrap().at_unix_ms).collect()
            };
            assert_eq!(moments(), expected);
            room.set(u64::MAX);
            today.append(&frame(3)).unwrap();
            expected.push(3);
            assert_eq!(moments(), expected);
            tried += 1;
        }
        assert!(tried > ENTRY, "the frame and its entry were tried byte by byte: {tried}");
    }
}
