//! Copies files so that other users of the same disk hardly notice.
//!
//! ```text
//! Request ─▶ plan: kinds, sizes, free space ─▶ Plan
//! Plan ─▶ run, for each file:
//!   source ─▶ reflinked, or read a MiB at a time without its holes
//!          ─▶ NAME.floodwall-part ─▶ Writeback: pieces, started early, each waited for
//!          ─▶ attributes ─▶ on the disk ─▶ compared (verify) ─▶ renamed to NAME
//! cat: files or standard input ─▶ an open file, in the same pieces
//! ```
//!
//! # Where the data is
//!
//! A file gets its name when its data is on the disk. An interrupted copy therefore never leaves a
//! truncated file under the final name. A file of 64 MiB or more is synced by itself. Smaller files
//! are written back early as well. They are synced and renamed in groups, because a journal commit
//! for each would cost more than their data. A group ends after two seconds. The kernel tells of
//! lost data only once, so after the first such error all unfinished files are removed.
//!
//! # Page cache
//!
//! Pages that the copy wrote are dropped once they are on the disk. Pages that it read are dropped
//! as well, unless they were in the cache before. Files below 1 MiB stay in the cache.
//!
//! # Going on (`resume`)
//!
//! - A part file is continued at its end, rounded down to 1 MiB, if the 128 MiB before that equal
//!   the source's, read back from the disk. The window of writes under way is smaller, so a power
//!   failure can't have left a gap before them.
//! - The part file is begun anew if those bytes differ, if it is longer than the source, if another
//!   user could have written it, or if the source was modified after the part file was made.
//! - A finished file is not copied again if it has the source's size, is not older, and ends with
//!   the same MiB.
//!
//! # Names
//!
//! Directories are opened once, and their entries are named relative to them without following
//! symlinks. So the owner of a directory can't redirect the copy with a symlink. Symlinks in the
//! paths that the caller names are followed.

mod attributes;
mod behind;
mod cat;
mod data;
mod error;
mod file;
mod finish;
mod folder;
mod holes;
mod job;
mod names;
mod part;
mod pending;
mod plan;
mod request;
mod resident;
mod resume;
mod sizes;
mod source;
mod stream;
mod summary;
mod tree;
mod verify;
mod work;

pub use cat::{Input, cat};
pub use error::CopyError;
pub use names::PART_SUFFIX;
pub use plan::{Plan, plan};
pub use request::{Options, Progress, Request};
pub use summary::{Summary, Unkept};
pub use tree::run;
