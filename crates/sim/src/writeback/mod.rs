//! The flusher: the files written without a process's request (fs/fs-writeback.c; up to 2.6.31
//! mm/pdflush.c).
//!
//! ```text
//! first dirty page
//!    ▼
//! b_dirty ── old enough, or background ──▶ b_io ── a chunk each ──▶ clean: off the lists
//!    ▲                                       │
//!    └─ could not be written ────────────────┼─ chunk used up ─▶ b_more_io ─▶ b_io, next round
//! ```
//!
//! A machine with control groups has a flusher for each of them beside the root group's, with
//! separate lists (`cgwb_create`). A file belongs to the group that dirtied it first. A flusher
//! that waits holds up no other group's.
//!
//! Work in the order of `wb_do_writeback`: old data every `dirty_writeback_centisecs`, then
//! background while over the background limit. A writer of 2.6 that has to write for itself goes
//! over the same lists ([`Pass`]).

mod flusher;
mod lists;
mod pass;

pub(crate) use lists::{Flusher, Pass, Progress, Why};
