//! The index of a day: a header, then an entry of 32 bytes for each frame. Numbers are little
//! endian.
//!
//! ```text
//! header   0 magic "FWRECORD"   8 format   12 CRC-32 of the 12 bytes before
//! entry    0 moment, ms since 1970   8 offset   16 length   20 flags
//!          24 CRC-32 of the frame's bytes   28 CRC-32 of the 28 bytes before
//! ```
//!
//! The header keeps its form in every format, so that a reader knows a newer one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crc32fast::hash;

/// The format that is written.
pub const FORMAT: u32 = 1;
/// Bytes of the header.
pub(super) const HEADER: u64 = 16;
/// Bytes of an entry.
pub(super) const ENTRY: u64 = 32;
/// More entries than a day has: twelve frames a second. A larger index is not read to its end.
pub(super) const MOST_ENTRIES: u64 = 1 << 20;

const MAGIC: [u8; 8] = *b"FWRECORD";
/// Of the flags: the frame begins a chunk.
const BEGINS: u32 = 1;

/// Where a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// When the frame ended.
    pub(super) at_unix_ms: u64,
    /// Where its bytes begin.
    pub(super) offset: u64,
    /// How many they are.
    pub(super) length: u32,
    /// It can be read without the frame before it.
    pub(super) begins_chunk: bool,
    /// CRC-32 of its bytes.
    pub(super) crc: u32,
}

impl Entry {
    /// Where its bytes end; `None` if no file is that long.
    pub(super) fn end(&self) -> Option<u64> {
        self.offset.checked_add(u64::from(self.length)).filter(|end| i64::try_from(*end).is_ok())
    }

    /// As it is stored.
    pub(super) fn bytes(&self) -> [u8; ENTRY as usize] {
        let flags = if self.begins_chunk { BEGINS } else { 0 };
        let mut bytes = [0; ENTRY as usize];
        bytes[..8].copy_from_slice(&self.at_unix_ms.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.length.to_le_bytes());
        bytes[20..24].copy_from_slice(&flags.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.crc.to_le_bytes());
        let crc = hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// A stored entry; `None` if its checksum is wrong or it can't be.
    pub(super) fn parse(bytes: &[u8; ENTRY as usize]) -> Option<Self> {
        if u32_at(bytes, 28)? != hash(&bytes[..28]) {
            return None;
        }
        let entry = Self {
            at_unix_ms: u64_at(bytes, 0)?,
            offset: u64_at(bytes, 8)?,
            length: u32_at(bytes, 16)?,
            begins_chunk: u32_at(bytes, 20)? & BEGINS != 0,
            crc: u32_at(bytes, 24)?,
        };
        entry.end().map(|_| entry)
    }
}

/// What a file's first bytes say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// Whole, of this format.
    Format(u32),
    /// None, or a damaged one. Entries have their own checksums, so they may be whole nevertheless.
    Damaged,
}

impl Header {
    /// As it is stored.
    pub(super) fn bytes() -> [u8; HEADER as usize] {
        let mut bytes = [0; HEADER as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        let crc = hash(&bytes[..12]);
        bytes[12..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// A stored header, as far as it is there.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let format = || {
            let is_whole = bytes.starts_with(&MAGIC) && u32_at(bytes, 12)? == hash(&bytes[..12]);
            u32_at(bytes, 8).filter(|_| is_whole)
        };
        format().map_or(Self::Damaged, Self::Format)
    }
}

/// What an index's first bytes say. A file that has just been made has none yet.
pub(super) fn read_header(index: &File) -> io::Result<Header> {
    let mut bytes = [0; HEADER as usize];
    match index.read_exact_at(&mut bytes, 0) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(Header::Damaged),
        other => other.map(|()| Header::parse(&bytes)),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry() -> impl Strategy<Value = Entry> {
        (any::<u64>(), 0..u64::MAX / 4, any::<u32>(), any::<bool>(), any::<u32>()).prop_map(
            |(at_unix_ms, offset, length, begins_chunk, crc)| Entry {
                at_unix_ms,
                offset,
                length,
                begins_chunk,
                crc,
            },
        )
    }

    proptest! {
        #[test]
        fn an_entry_reads_back_and_a_changed_one_is_none(
            entry in entry(), at in 0..ENTRY as usize, with in 1..=255_u8
        ) {
            let mut bytes = entry.bytes();
            prop_assert_eq!(Entry::parse(&bytes), Some(entry));
            bytes[at] ^= with;
            prop_assert_eq!(Entry::parse(&bytes), None);
        }

        #[test]
        fn a_changed_header_is_damaged(at in 0..HEADER as usize, with in 1..=255_u8) {
            let mut bytes = Header::bytes();
            prop_assert_eq!(Header::parse(&bytes), Header::Format(FORMAT));
            bytes[at] ^= with;
            prop_assert_eq!(Header::parse(&bytes), Header::Damaged);
        }

        #[test]
        fn any_bytes_are_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Header::parse(&bytes);
            if let Some(bytes) = bytes.first_chunk() {
                let _ = Entry::parse(bytes);
            }
        }
    }
}
