//! Trials that are kept, one JSON file each.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use published::origin::{self, Origin};
use serde_json::Value;

/// All trials in the directory `data`, in no order, and what they were measured with.
pub(crate) fn read_all(data: &Path) -> anyhow::Result<(Vec<Value>, Origin)> {
    let mut trials = Vec::new();
    for entry in std::fs::read_dir(data).with_context(|| format!("can't list '{}'", data.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            trials.push(read(&path)?);
        }
    }
    let origins: Vec<Origin> = trials.iter().map(origin::of_measurement).collect();
    Ok((trials, Origin::of_parts(&origins)))
}

/// The trial in a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read '{}'", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("'{}' is no measurement; remove it", path.display()))
}

/// Keeps a trial. Its file is there whole or not at all.
pub(crate) fn write(path: &Path, trial: &Value) -> anyhow::Result<()> {
    let failed = || format!("can't write '{}'", path.display());
    let mut file =
        tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("."))).with_context(failed)?;
    writeln!(file, "{trial}").with_context(failed)?;
    file.persist(path).with_context(failed)?;
    Ok(())
}
