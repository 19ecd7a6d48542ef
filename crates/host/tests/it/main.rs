//! The readers and the findings on whole trees (`fixtures/hosts`), on garbage, and on this machine beside other tools.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod garbage;
#[path = "../../../../fixtures/hosts/server-64-disks.rs"]
mod large;
mod live;
mod machines;
mod support;
mod trees;
