//! Results to report, made by the binary itself in virtual time.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Runs `floodwall`; an error says what it said.
pub(crate) fn floodwall(args: &[&str]) -> Result<Output, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_floodwall"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    // 3 is an answer too: not conclusive.
    if !matches!(output.status.code(), Some(0 | 3)) {
        return Err(format!("{args:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(output)
}

/// A search on a simulated array, and a benchmark beside it.
pub(crate) struct Results {
    pub(crate) directory: tempfile::TempDir,
}

impl Results {
    pub(crate) fn make() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
        let results = Self { directory };
        let (tune, bench) = (results.path("tune.json"), results.path("bench.json"));
        floodwall(&[
            "tune",
            "--sim",
            "--device",
            "sata-ssd",
            "--time",
            "3m",
            "--seed",
            "1",
            "--progress",
            "never",
            "--out",
            &text(&tune),
        ])?;
        floodwall(&[
            "sim",
            "--device",
            "hdd-7200",
            "--rounds",
            "2",
            "--measure",
            "4s",
            "--out",
            &text(&bench),
        ])?;
        Ok(results)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A report of one of them.
    pub(crate) fn report(&self, name: &str) -> Result<PathBuf, String> {
        let html = self.path(&format!("{name}.html"));
        floodwall(&["report", &text(&self.path(&format!("{name}.json"))), "--out", &text(&html)])?;
        Ok(html)
    }
}

pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
