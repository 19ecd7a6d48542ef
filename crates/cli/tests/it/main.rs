//! The binary as scripts meet it: exit statuses, messages, documents. Needs no privilege and no
//! disk: everything runs on tmpfs.

#![expect(clippy::unwrap_used, reason = "a test's own functions fail with it")]

mod bench;
mod check;
#[path = "../documents/mod.rs"]
mod commands_of_documents;
mod documents;
mod dump;
mod errors;
mod findings;
mod guard;
mod hwdb;
mod knobs;
mod others;
mod pace;
mod persist;
mod report;
mod seeks;
mod sim;
mod stalls;
mod status;
mod sweep;
mod tune;
mod why;

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use floodwall_testing::process::{Process, output, text};
use floodwall_testing::until;

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
    let version = format!("floodwall {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(stdout(&floodwall(&["-V"])).trim(), version);
    let long = stdout(&floodwall(&["--version"]));
    assert_eq!(long.lines().next(), Some(version.as_str()));
    for name in ["commit: ", "build: ", "features: "] {
        assert!(long.lines().any(|line| line.starts_with(name)), "{name}: {long}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_each_output_and_is_no_failure() {
    for line in [
        &format!("dump --json --dir {}", dump::RECORDING),
        "compat iostat 1",
        "probe --source proc --interval 100ms",
        "status --seconds 50ms --watch 100ms",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floodwall"));
        command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Process(command.spawn().unwrap());
        drop(child.0.stdout.take());
        until(Duration::from_secs(60), line, || child.0.try_wait().unwrap().is_some()).unwrap();
        let mut said = String::new();
        child.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.0.wait().unwrap().success(), "{line}: {said}");
        assert!(!said.contains("can't write"), "{line}: {said}");
    }
}
