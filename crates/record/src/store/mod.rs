//! Frames in daily files.
//!
//! ```text
//! condense Frame ─▶ fewer digits ─▶ Frame                                    recorder
//! writer   Frame ─▶ names, table: columns ─▶ text: JSON
//!          ─▶ chunk: deflate ─▶ DAY.frames, then its entry ─▶ DAY.index
//!          limits: whole days go, the oldest first
//! reader   DAY.index ─▶ entries ─▶ bytes of DAY.frames ─▶ chunk: inflate ─▶ names, table ─▶ Frame
//! ```
//!
//! docs/record.md describes the files. Moments are milliseconds since 1970, a day is one of UTC.
//!
//! Nothing is synced: a recorder that waits for the disk whose stall it records is a victim itself.
//! A killed recorder loses nothing that it has appended, because the kernel has it. A power loss
//! costs what the kernel had not written back, usually the last half minute. Checksums tell
//! which frames are whole.

mod chunk;
mod condense;
mod day;
mod directory;
mod error;
mod index;
mod limits;
mod names;
mod open_day;
mod reader;
mod slots;
mod table;
mod text;
mod today;
mod writer;

pub use condense::condensed;
pub use directory::LOG;
pub(crate) use directory::{Directory, io_error};
pub use error::RecordError;
pub use index::FORMAT;
pub(crate) use limits::FRAMES_BEFORE_AGE;
pub use limits::Limits;
pub(crate) use reader::LONGEST_WINDOW_MS;
pub use reader::{Between, Damage, Recording};
pub use writer::{Appended, Writer};
