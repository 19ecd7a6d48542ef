//! A sweep for tests, beside the scenario `./tiny.toml`: seconds of everything.

use super::file;
use super::plan::Sweep;

pub(super) fn parse(text: &str) -> Result<Sweep, String> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tiny.toml"), include_str!("tiny.toml")).unwrap();
    file::parse(text, dir.path())
}

pub(super) fn sweep(text: &str) -> Sweep {
    parse(text).unwrap_or_else(|e| panic!("{e}"))
}
