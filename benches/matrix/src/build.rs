//! floodwall, the journal's tests for real kernels and this program, linked statically: a guest
//! needs no libraries for them. Beside the other builds: `target/guests`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use serde::Deserialize;

use crate::tree::Built;

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Of the tests for real kernels, the crate whose suite runs in the guests.
const SUITE: &str = "knobs";

/// A line of cargo's `--message-format json`.
#[derive(Deserialize)]
struct Message {
    package_id: Option<String>,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Builds them.
///
/// # Errors
/// A build that fails.
pub(crate) fn build(repository: &Path) -> anyhow::Result<Built> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let run = |words: &[&str]| {
        let mut command = Command::new(&cargo);
        command
            .args(words)
            .args(["--locked", "--target", TARGET, "--target-dir", "target/guests"])
            .args(["--message-format", "json-render-diagnostics"])
            .env("RUSTFLAGS", "-C target-feature=+crt-static")
            // Emulation is slow, and unoptimised code would be ten times slower.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .current_dir(repository)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let output = processes::interrupt::output(&mut command)?;
        anyhow::ensure!(output.status.success(), "the build for the guests failed");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // One call, so that common crates are compiled once.
    let suite = format!("floodwall-{SUITE}");
    let built = run(&[
        "build",
        "--bins",
        "--test",
        "kernel",
        "-p",
        &suite,
        "-p",
        "floodwall",
        "-p",
        "matrix",
    ])?;
    let lines = built.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let files: Vec<(String, String, PathBuf)> = lines
        .filter_map(|line| Some((crate_of(&line.package_id?), line.target?.name, line.executable?)))
        .collect();
    let find = |of: &str, target: &str| {
        let found = files.iter().find(|(name, kind, _)| name == of && kind == target);
        found
            .map(|(_, _, file)| file.clone())
            .with_context(|| format!("cargo built no '{target}' of {of}"))
    };
    Ok(Built {
        init: find("matrix", "matrix")?,
        floodwall: find("cli", "floodwall")?,
        suites: vec![(SUITE.to_owned(), find(SUITE, "kernel")?)],
    })
}

/// The crate's directory in cargo's package id:
/// `path+file:///…/crates/knobs#floodwall-knobs@0.1.0`.
fn crate_of(package: &str) -> String {
    let path = package.split('#').next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}
