//! Victims, floods and commands on real directories, judged by what the kernel and the files say.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are tests, which clippy sees only by their attribute"
)]

mod checks;
mod child;
mod commands;
mod floods;
mod full_disk;
mod support;
mod victims;
