//! Files of measurements, in JSON, and how they and the documents are written.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Of a new file, less what the umask takes.
const NEW_FILE_MODE: u32 = 0o666;

/// A stored file; `None` without one.
///
/// # Errors
/// A file that can't be read or understood.
pub fn read<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Option<T>> {
    match fs::read_to_string(path) {
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
    let entries =
        fs::read_dir(directory).with_context(|| format!("can't read '{}'", directory.display()))?;
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
    write_text(path, &(serde_json::to_string(what)? + "\n"))
}

/// The same, indented.
///
/// # Errors
/// A file that can't be written.
pub fn write_pretty<T: Serialize>(path: &Path, what: &T) -> anyhow::Result<()> {
    write_text(path, &(serde_json::to_string_pretty(what)? + "\n"))
}

/// The same of a text as it is.
///
/// # Errors
/// A file that can't be written.
pub fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    replace(path, text).with_context(|| format!("can't write '{}'", path.display()))
}

/// The temporary file goes with its handle, unless it becomes the file.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mode = fs::Permissions::from_mode(NEW_FILE_MODE);
    let mut temporary = tempfile::Builder::new().permissions(mode).tempfile_in(directory)?;
    temporary.write_all(text.as_bytes())?;
    temporary.as_file().sync_all()?;
    temporary.persist(path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/x.json");
        write(&path, &[1, 2]).unwrap();
        write(&path, &[3]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "[3]\n");
        // A directory of this name can't be replaced: nothing is left beside it.
        let taken = dir.path().join("below/taken.json");
        fs::create_dir_all(&taken).unwrap();
        assert!(write(&taken, &[1]).is_err());
        assert_eq!(fs::read_dir(dir.path().join("below")).unwrap().count(), 2);
    }
}
