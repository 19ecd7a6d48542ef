//! Where the user-mode kernel and its modules are.
//!
//! ```text
//! PATH, ~/.local/share/floodwall ─▶ usr/bin/linux.uml ─▶ --version ─▶ usr/lib/uml/modules/VERSION
//! ```

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::GuestError;

/// The kernel's name in Debian's package `user-mode-linux`.
const KERNEL: &str = "linux.uml";
/// Where the package has the modules, beside `bin/linux.uml`.
const MODULES: &str = "lib/uml/modules";
/// Where an ordinary user unpacks the package, below the home directory.
const UNPACKED: &str = ".local/share/floodwall/usr/bin";

/// A user-mode kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uml {
    /// The program.
    pub kernel: PathBuf,
    /// Its version: `6.1.176`.
    pub version: String,
    /// The directory with `kernel/` in it; absent if this kernel has no modules beside it.
    pub modules: Option<PathBuf>,
}

impl Uml {
    /// The kernel in one of the directories of `path` (as `PATH` has them) or where `home`'s user
    /// unpacked it.
    ///
    /// # Errors
    /// [`GuestError::NoUml`] with how to get it; as [`Self::at`].
    pub fn find(path: Option<&OsStr>, home: Option<&Path>) -> Result<Self, GuestError> {
        let own = home.map(|home| home.join(UNPACKED));
        let dirs = path.map(std::env::split_paths).into_iter().flatten().chain(own);
        let found = dirs.map(|dir| dir.join(KERNEL)).find(|kernel| kernel.is_file());
        Self::at(&found.ok_or(GuestError::NoUml)?)
    }

    /// The kernel `program`, a file.
    ///
    /// # Errors
    /// [`GuestError::NoKernel`] if it can't be run or is no user-mode kernel.
    pub fn at(program: &Path) -> Result<Self, GuestError> {
        let refused = |why: String| GuestError::NoKernel { path: program.into(), why };
        let kernel = std::fs::canonicalize(program).map_err(|e| refused(e.to_string()))?;
        // linux.uml prints its release and ends; another program may do anything but print one.
        let said =
            Command::new(&kernel).arg("--version").stdin(std::process::Stdio::null()).output();
        let said = said.map_err(|e| refused(e.to_string()))?;
        let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        if !version.starts_with(|c: char| c.is_ascii_digit())
            || version.contains(char::is_whitespace)
        {
            return Err(refused("it is no user-mode kernel: '--version' prints no release".into()));
        }
        let prefix = kernel.parent().and_then(Path::parent);
        let modules = prefix.map(|prefix| prefix.join(MODULES).join(&version));
        Ok(Self { kernel, version, modules: modules.filter(|dir| dir.join("kernel").is_dir()) })
    }
}

#[cfg(test)]
mod tests {
    use floodwall_testing::process::script;

    use super::*;

    fn program(dir: &Path, says: &str) -> PathBuf {
        let path = dir.join(KERNEL);
        script(&path, &format!("#!/bin/sh\necho '{says}'\n")).unwrap();
        path
    }

    #[test]
    fn the_kernel_of_the_path_goes_before_the_users_own_and_another_program_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (system, home) = (root.join("usr"), root.join("home"));
        std::fs::create_dir_all(system.join("bin")).unwrap();
        std::fs::create_dir_all(home.join(UNPACKED)).unwrap();
        std::fs::create_dir_all(system.join("lib/uml/modules/6.1.176/kernel")).unwrap();
        let path = std::env::join_paths([root.join("nothing"), system.join("bin")]).unwrap();
        assert!(matches!(Uml::find(Some(&path), Some(&home)), Err(GuestError::NoUml)));

        program(&home.join(UNPACKED), "6.12.3");
        let find = || Uml::find(Some(&path), Some(&home)).unwrap();
        let own = find();
        assert_eq!((own.version.as_str(), own.modules), ("6.12.3", None));
        let kernel = program(&system.join("bin"), "6.1.176");
        let found = find();
        assert_eq!(found.kernel, kernel);
        assert_eq!(found.modules, Some(system.join("lib/uml/modules/6.1.176")));

        let path = program(dir.path(), "grep (GNU grep) 3.8");
        let said = Uml::at(&path).unwrap_err().to_string();
        assert!(said.contains("linux.uml") && said.contains("no user-mode kernel"), "{said}");
        let said = Uml::at(Path::new("/dev/null/vmlinuz")).unwrap_err().to_string();
        assert!(said.contains("/dev/null/vmlinuz"), "{said}");
    }
}
