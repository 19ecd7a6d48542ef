//! Stored files.

use std::path::Path;

use anyhow::Context;
use serde::Serialize;

/// A stored file; `None` without one.
pub(crate) fn read<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<Option<T>> {
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map(Some).with_context(|| {
            format!("'{}' was changed or cut; remove it to run it again", path.display())
        }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| format!("can't read '{}'", path.display())),
    }
}

pub(crate) fn write<T: Serialize>(path: &Path, what: &T) -> anyhow::Result<()> {
    let text = serde_json::to_string(what)? + "\n";
    std::fs::write(path, text).with_context(|| format!("can't write '{}'", path.display()))
}
