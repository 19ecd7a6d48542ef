//! The directory of a guard's lock and sockets: `/run/floodwall`, mode 0755, owned by this user,
//! unless the configuration names another.

use std::fs::{self, DirBuilder, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use crate::config::DIRECTORY;
use crate::error::{DaemonError, Doing};

const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// The directory of a file.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a user other than this one and root may write there, or owns it. A directory in which
/// each may only remove his own files (`/tmp`) is safe.
pub(crate) fn is_exposed(meta: &Metadata) -> bool {
    let us = rustix::process::geteuid().as_raw();
    let is_safe = meta.is_dir() && meta.mode() & STICKY != 0;
    meta.uid() != us && meta.uid() != 0 || meta.mode() & OTHERS_WRITE != 0 && !is_safe
}

/// Refuses the directory of a path if it is not there, unless it is our own, which is made when it
/// is needed.
///
/// # Errors
/// [`DaemonError::Usage`] with what to do.
pub(crate) fn check(path: &Path) -> Result<(), DaemonError> {
    let directory = directory_of(path);
    if directory == Path::new(DIRECTORY) || directory.is_dir() {
        return Ok(());
    }
    let (directory, path) = (directory.display(), path.display());
    let why = format!(
        "there is no directory '{directory}' for '{path}'; make it first, or name a socket \
         elsewhere"
    );
    Err(DaemonError::Usage(why))
}

/// Makes our own directory if it is not there, and refuses one in which others could put something
/// else into the path's place.
pub(crate) fn prepare(path: &Path) -> Result<(), DaemonError> {
    check(path)?;
    let directory = directory_of(path);
    let made = if directory == Path::new(DIRECTORY) {
        DirBuilder::new().mode(0o755).create(directory)
    } else {
        Ok(())
    };
    match made {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        Err(e)
            if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
        {
            let why = format!(
                "can't make '{}': {e}; run as root, or name a --socket elsewhere",
                directory.display()
            );
            return Err(DaemonError::Missing(why));
        }
        Err(e) => return Err(e).doing(|| format!("can't make '{}'", directory.display())),
    }
    let meta =
        fs::metadata(directory).doing(|| format!("can't look at '{}'", directory.display()))?;
    if is_exposed(&meta) {
        return Err(DaemonError::Failed(format!(
            "'{}' belongs to user {} and has mode {:o}: others could put something else into it; \
             remove it, or name a socket elsewhere",
            directory.display(),
            meta.uid(),
            meta.mode() & 0o7777
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{self, Lock};
    use crate::socket::listener::Socket;

    #[test]
    fn somebody_elses_directory_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let path = missing.join("x.sock");
        let errors = [
            check(&path).unwrap_err(),
            Lock::take(&lock::path(DIRECTORY.as_ref(), Some(&path)), &path).unwrap_err(),
            Socket::bind(&path).err().unwrap(),
        ];
        for error in errors {
            let said = error.to_string();
            assert!(
                said.contains(&format!("there is no directory '{}'", missing.display())),
                "{said}"
            );
            assert!(error.is_wrong_use());
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        check(&Path::new(DIRECTORY).join("guard.sock")).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let said = Socket::bind(&open.join("guard.sock")).err().unwrap().to_string();
        assert!(said.contains("others could put something else into it"), "{said}");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
        Socket::bind(&open.join("guard.sock")).unwrap();
    }
}
