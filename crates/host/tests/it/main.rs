//! The readers and the findings on whole trees (`fixtures/hosts`) and on garbage.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod garbage;
#[path = "../../../../fixtures/hosts/server-64-disks.rs"]
mod large;
mod machines;
mod support;
mod trees;
