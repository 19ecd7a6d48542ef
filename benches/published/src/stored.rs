//! JSON files of measurements.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A stored file; `None` without one.
///
/// # Errors
/// A file that can't be read or understood.
pub fn read<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Option<T>> {
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map(Some).with_context(|| {
            format!("'{}' was changed or cut; remove it to run it again", path.display())
        }),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| format!("can't read '{}'", path.display())),
    }
}

/// All files of a directory, by their names without `.json`.
///
/// # Errors
/// A directory or a file that can't be read or understood.
pub fn read_all<T: DeserializeOwned>(directory: &Path) -> anyhow::Result<BTreeMap<String, T>> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("can't read '{}'", directory.display()))?;
    let mut all = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            all.extend(read(&path)?.map(|stored| (name, stored)));
        }
    }
    Ok(all)
}

/// Writes a file whole or not at all, in one line.
///
/// # Errors
/// A file that can't be written.
pub fn write<T: Serialize>(path: &Path, what: &T) -> anyhow::Result<()> {
    replace(path, &serde_json::to_string(what)?)
}

/// The same, indented.
///
/// # Errors
/// A file that can't be written.
pub fn write_pretty<T: Serialize>(path: &Path, what: &T) -> anyhow::Result<()> {
    replace(path, &serde_json::to_string_pretty(what)?)
}

fn replace(path: &Path, json: &str) -> anyhow::Result<()> {
    let beside = path.with_extension("new");
    std::fs::create_dir_all(path.parent().unwrap_or(path))
        .and_then(|()| std::fs::write(&beside, format!("{json}\n")))
        .and_then(|()| std::fs::rename(&beside, path))
        .with_context(|| format!("can't write '{}'", path.display()))
}
