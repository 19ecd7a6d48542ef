//! Stored trials, one JSON file each, and the section of a document that follows from them.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use published::document::replace_section;
use published::origin::{self, Origin};
use serde_json::Value;

/// All trials in the directory `data`, in no order, and their origin.
pub(crate) fn read_all(data: &Path) -> anyhow::Result<(Vec<Value>, Origin)> {
    let mut trials = Vec::new();
    for entry in
        std::fs::read_dir(data).with_context(|| format!("can't list '{}'", data.display()))?
    {
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
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("can't read '{}'", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("'{}' is no measurement; remove it", path.display()))
}

/// Keeps a trial. Its file is there whole or not at all.
pub(crate) fn write(path: &Path, trial: &Value) -> anyhow::Result<()> {
    let failed = || format!("can't write '{}'", path.display());
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))
        .with_context(failed)?;
    writeln!(file, "{trial}").with_context(failed)?;
    file.persist(path).with_context(failed)?;
    Ok(())
}

/// Prints the section `name`, and writes it into the document `out` if one is given.
pub(crate) fn publish(
    (section, origin): (String, Origin),
    out: Option<&Path>,
    name: &str,
    command: &str,
) -> anyhow::Result<()> {
    print!("{section}");
    out.map_or(Ok(()), |out| {
        replace_section(out, name, command, &section, &origin, &origin::root()?)
    })
}
