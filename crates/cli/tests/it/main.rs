//! The binary as scripts meet it: exit statuses, messages, documents. Needs no privilege and no
//! disk: everything runs on tmpfs.

#![expect(clippy::unwrap_used, reason = "a test's own functions fail with it")]

mod bench;
mod dump;
mod errors;
mod findings;
mod guard;
mod knobs;
mod others;
mod persist;
mod report;
mod seeks;
mod sim;
mod stalls;
mod status;
mod sweep;
mod tune;
mod why;

use std::process::{Command, Output};

use floodwall_testing::process::{output, text};

/// Runs `floodwall` with these arguments.
fn floodwall(args: &[&str]) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_floodwall")).args(args)).unwrap()
}

fn stderr(output: &Output) -> String {
    text(&output.stderr)
}

fn stdout(output: &Output) -> String {
    text(&output.stdout)
}

/// A directory on tmpfs, where nothing that is measured depends on a disk.
fn tmpfs() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

#[test]
fn the_version_is_printed() {
    let output = floodwall(&["--version"]);
    assert_eq!(stdout(&output).trim(), format!("floodwall {}", env!("CARGO_PKG_VERSION")));
}
