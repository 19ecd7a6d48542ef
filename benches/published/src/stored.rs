//! Files with what was measured.

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
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| format!("can't read '{}'", path.display())),
    }
}

/// Stores one, and makes its directory if it is missing.
///
/// # Errors
/// A file that can't be written.
pub fn write<T: Serialize>(path: &Path, what: &T) -> anyhow::Result<()> {
    let text = serde_json::to_string(what)? + "\n";
    std::fs::create_dir_all(path.parent().unwrap_or(path))
        .and_then(|()| std::fs::write(path, text))
        .with_context(|| format!("can't write '{}'", path.display()))
}
