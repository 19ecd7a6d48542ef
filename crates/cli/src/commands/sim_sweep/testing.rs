//! A sweep for tests, beside the scenario `./tiny.toml`: seconds of everything.

use super::file;
use super::plan::Sweep;

const TINY: &str = r#"
name = "tiny"
burst = "1MiB"
[[victim]]
kind = "commit"
block = "4KiB"
size = "1MiB"
[[flood]]
kind = "seq"
size = "64MiB"
[timing]
rounds = 2
measure = "2s"
warmup_max = "1s"
settle = "10ms"
device_cache = "1B"
"#;

pub(super) fn parse(text: &str) -> Result<Sweep, String> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tiny.toml"), TINY).unwrap();
    file::parse(text, dir.path())
}

pub(super) fn sweep(text: &str) -> Sweep {
    parse(text).unwrap_or_else(|e| panic!("{e}"))
}
