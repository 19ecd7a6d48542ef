//! Frames in daily files.
//!
//! ```text
//! writer   Frame ─▶ JSON ─▶ chunk: deflate ─▶ DAY.frames, then its entry ─▶ DAY.index
//!          limits: whole days go, the oldest first
//! reader   DAY.index ─▶ entries ─▶ bytes of DAY.frames ─▶ chunk: inflate ─▶ JSON ─▶ Frame
//! ```
//!
//! docs/record.md describes the files. Moments are milliseconds since 1970, a day is one of UTC.
//!
//! Nothing is synced: a recorder that waits for the disk whose stall it records is a victim itself.
//! A killed recorder loses nothing that it has appended, because the kernel has it. A power loss
//! costs what the kernel had not written back, usually the last half minute. The checksums tell
//! what is missing.

mod chunk;
mod day;
mod directory;
mod error;
mod index;
mod limits;
mod reader;
mod slots;
mod writer;

pub use error::RecordError;
pub use index::FORMAT;
pub use limits::Limits;
pub use reader::{Between, Damage, Recording};
pub use writer::{Appended, Writer};
