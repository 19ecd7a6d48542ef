//! The readers on whole trees (`fixtures/hosts`), on garbage, and on this machine beside other tools.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod garbage;
mod live;
mod support;
mod trees;
