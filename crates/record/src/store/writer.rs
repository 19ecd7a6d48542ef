//! Appends frames: data first, then the entry. What has no whole entry never existed.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crc32fast::hash;
use floodwall_model::frame::Frame;

use super::chunk::{MOST_JSON, Packer};
use super::day::Day;
use super::directory::{Directory, Lock, io_error};
use super::error::RecordError;
use super::index::{ENTRY, Entry, FORMAT, HEADER, Header};
use super::limits::{self, Limits};
use super::slots::{Slot, Slots};

/// A day goes for its age once the present one has so many frames (an hour of them). So a clock
/// that is wrong for a moment, as at boot, removes nothing.
const FRAMES_BEFORE_AGE: u64 = 720;

/// How a frame was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Appended {
    /// As it should be.
    Within,
    /// The present day alone takes more bytes than are allowed. It is written on, and this is said
    /// once a day: the night's stall is worth more than the limit.
    OverLimit {
        /// Bytes of the present day.
        today_bytes: u64,
    },
}

/// Appends frames to a recording. One process does so at a time.
pub struct Writer {
    directory: Directory,
    _lock: Lock,
    limits: Limits,
    today: Option<Today>,
    /// Bytes of the other days.
    others_bytes: u64,
}

/// The files of the day that is written.
struct Today {
    day: Day,
    frames: File,
    index: File,
    frames_length: u64,
    index_length: u64,
    packer: Packer,
    is_said: bool,
    is_aged: bool,
}

impl Writer {
    /// Makes this process the recorder of a directory, which is made if it is absent.
    ///
    /// # Errors
    /// [`RecordError::Busy`] if another process records there; a directory that can't be used.
    pub fn open(directory: &Path, limits: Limits) -> Result<Self, RecordError> {
        let directory = Directory::make(directory)?;
        let lock = directory.lock()?;
        Ok(Self { directory, _lock: lock, limits, today: None, others_bytes: 0 })
    }

    /// Appends a frame to the files of its day.
    ///
    /// # Errors
    /// If it can't be written; the recording is then as it was before, and a later frame may fit
    /// again. Also if a day beyond the limits can't be removed; the frame is written then.
    pub fn append(&mut self, frame: &Frame) -> Result<Appended, RecordError> {
        let at_unix_ms = frame.at_unix_ms;
        let unfit = |why| RecordError::Frame { at_unix_ms, why };
        let day = Day::of(at_unix_ms).ok_or_else(|| unfit("the clock is past the year 9999"))?;
        let json = serde_json::to_vec(frame).map_err(|_| unfit("it has no form in JSON"))?;
        if json.len() > MOST_JSON {
            return Err(unfit("it is larger than 16 MiB"));
        }
        let is_current = |today: &Today| today.day == day && today.is_as_left();
        let mut today = match self.today.take().filter(is_current) {
            Some(today) => today,
            None => {
                let today = Today::open(&self.directory, day)?;
                self.others_bytes = u64::MAX;
                today
            }
        };
        let appended = today.append(&self.directory, at_unix_ms, &json);
        let today = self.today.insert(today);
        appended?;
        let bytes = today.bytes();
        let may_age = today.entries() >= FRAMES_BEFORE_AGE;
        let is_over = bytes.saturating_add(self.others_bytes) > self.limits.bytes;
        if (is_over && self.others_bytes > 0) || (may_age && !today.is_aged) {
            self.others_bytes = limits::enforce(&self.directory, self.limits, day, bytes, may_age)?;
            today.is_aged = may_age;
        }
        if bytes <= self.limits.bytes || today.is_said {
            return Ok(Appended::Within);
        }
        today.is_said = true;
        Ok(Appended::OverLimit { today_bytes: bytes })
    }
}

impl Today {
    fn open(directory: &Directory, day: Day) -> Result<Self, RecordError> {
        let (frames_name, index_name) = (day.frames(), day.index());
        let frames = directory.make_file(&frames_name)?;
        let index = directory.make_file(&index_name)?;
        let mut today = Self {
            day,
            frames,
            index,
            frames_length: 0,
            index_length: HEADER,
            packer: Packer::new(),
            is_said: false,
            is_aged: false,
        };
        let index_path = directory.path_of(&index_name);
        let header = read_header(&today.index).map_err(|e| io_error("read", &index_path, e))?;
        if let Header::Format(format @ FORMAT..) = header
            && format > FORMAT
        {
            return Err(RecordError::Newer { path: index_path, format });
        }
        today.recover(header).map_err(|e| io_error("write", &index_path, e))?;
        Ok(today)
    }

    /// Cuts off what is not whole.
    fn recover(&mut self, header: Header) -> io::Result<()> {
        let mut slots = Slots::default();
        slots.refresh(&self.index)?;
        let data = self.frames.metadata()?.len();
        let end = |slot: &Slot| match slot {
            Slot::Entry(entry, _) | Slot::Orphan(entry) => entry.end().filter(|end| *end <= data),
            Slot::Damaged => None,
        };
        let last = slots.all().iter().enumerate().rev();
        let last = last.filter_map(|(at, slot)| Some((at as u64, end(slot)?))).next();
        if let Some((at, end)) = last {
            self.index_length = HEADER + (at + 1) * ENTRY;
            self.frames_length = end;
        }
        if header == Header::Damaged {
            self.index.write_all_at(&Header::bytes(), 0)?;
        }
        self.cut()
    }

    /// Whether nobody has removed or cut the files.
    fn is_as_left(&self) -> bool {
        let is = |file: &File, length| {
            file.metadata().is_ok_and(|now| now.nlink() > 0 && now.len() == length)
        };
        is(&self.frames, self.frames_length) && is(&self.index, self.index_length)
    }

    fn append(
        &mut self,
        directory: &Directory,
        at_unix_ms: u64,
        json: &[u8],
    ) -> Result<(), RecordError> {
        let unfit = |why| RecordError::Frame { at_unix_ms, why };
        let packed = self.packer.pack(json).ok_or_else(|| unfit("it can't be compressed"))?;
        let (bytes, begins_chunk) = packed;
        let length = u32::try_from(bytes.len()).map_err(|_| unfit("it is too large"))?;
        let offset = self.frames_length;
        let entry = Entry { at_unix_ms, offset, length, begins_chunk, crc: hash(&bytes) };
        let written = self.frames.write_all_at(&bytes, offset).map_err(|e| (self.day.frames(), e));
        let written = written.and_then(|()| {
            let written = self.index.write_all_at(&entry.bytes(), self.index_length);
            written.map_err(|e| (self.day.index(), e))
        });
        if let Err((name, e)) = written {
            // The next frame must not build on this one. What can't be cut off is written over.
            self.packer.begin();
            let _ = self.cut();
            return Err(io_error("write", &directory.path_of(&name), e));
        }
        self.frames_length += u64::from(length);
        self.index_length += ENTRY;
        Ok(())
    }

    /// Cuts off what lies beyond the last whole entry.
    fn cut(&self) -> io::Result<()> {
        self.index.set_len(self.index_length)?;
        self.frames.set_len(self.frames_length)
    }

    fn entries(&self) -> u64 {
        (self.index_length - HEADER) / ENTRY
    }

    fn bytes(&self) -> u64 {
        self.frames_length + self.index_length
    }
}

/// What an index's first bytes say.
fn read_header(index: &File) -> io::Result<Header> {
    let mut bytes = [0; HEADER as usize];
    match index.read_exact_at(&mut bytes, 0) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(Header::Damaged),
        other => other.map(|()| Header::parse(&bytes)),
    }
}
