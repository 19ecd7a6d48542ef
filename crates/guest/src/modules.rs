//! Kernel modules by name, with their dependencies, without `depmod`.
//!
//! ```text
//! kernel/**/NAME.ko, .ko.xz, .ko.zst, .ko.gz ─▶ .modinfo: depends=a,b
//!   ─▶ a, b first ─▶ init_module(2)
//! modules.builtin ─▶ names that the kernel has without a module
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;

/// Where `modprobe` looks for modules, by release.
const MODPROBE: &str = "/lib/modules";

/// How modules may be packed, and what unpacks them (kernel/module/Kconfig, `MODULE_COMPRESS`).
const PACKED: [(&str, &str); 3] = [(".xz", "xz"), (".zst", "zstd"), (".gz", "gzip")];

/// Why a module can't be had.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// It is neither a file nor built in.
    #[error("there is no module '{0}'")]
    Absent(String),
    /// Its file can't be read or unpacked.
    #[error("can't read the module '{path}': {why}", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What failed.
        why: String,
    },
    /// The kernel does not take it.
    #[error("can't load the module '{path}': {why}", path = .path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        why: String,
    },
}

/// The modules below one directory.
#[derive(Debug, Default)]
pub struct Modules {
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
}

impl Modules {
    /// Lists `dir` and all below it.
    ///
    /// # Errors
    /// A directory that can't be read.
    pub fn below(dir: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        let mut left = vec![dir.to_owned()];
        while let Some(dir) = left.pop() {
            for entry in std::fs::read_dir(&dir)? {
                let entry = entry?;
                let path = entry.path();
                if entry.file_type()?.is_dir() {
                    left.push(path);
                } else if let Some(name) =
                    path.file_name().and_then(|name| module_name(name.to_str()?))
                {
                    files.insert(name, path);
                }
            }
        }
        // A kernel without the list may have built in a driver that is not a module here.
        let list = std::fs::read_to_string(dir.join("modules.builtin")).unwrap_or_default();
        let built_in =
            list.lines().filter_map(|line| module_name(Path::new(line).file_name()?.to_str()?));
        Ok(Self { files, built_in: built_in.collect() })
    }

    /// Loads `name` after its dependencies. A module that is loaded already is left alone.
    ///
    /// # Errors
    /// [`ModuleError`]. A kernel without a list of its built-in drivers may have one that is absent
    /// here.
    pub fn load(&self, name: &str) -> Result<(), ModuleError> {
        self.order(name)?.into_iter().try_for_each(insert)
    }

    /// The files of `name` and of all that it depends on, in the order in which they can be loaded.
    /// None, if the kernel has it built in.
    ///
    /// # Errors
    /// A module that is absent, or can't be read.
    pub fn order(&self, name: &str) -> Result<Vec<&Path>, ModuleError> {
        let mut order = Vec::new();
        self.add(&as_the_kernel_spells(name), &mut order)?;
        Ok(order)
    }

    fn add<'a>(&'a self, name: &str, order: &mut Vec<&'a Path>) -> Result<(), ModuleError> {
        if self.built_in.contains(name) {
            return Ok(());
        }
        let path = self.files.get(name).ok_or_else(|| ModuleError::Absent(name.to_owned()))?;
        if order.contains(&path.as_path()) {
            return Ok(());
        }
        for needed in depends(&contents(path)?) {
            self.add(&needed, order)?;
        }
        order.push(path);
        Ok(())
    }
}

/// Loads one module. One that is loaded already is left alone.
///
/// # Errors
/// [`ModuleError`].
pub(crate) fn insert(path: &Path) -> Result<(), ModuleError> {
    match rustix::system::init_module(&contents(path)?, c"") {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(e) => {
            Err(ModuleError::Refused { path: path.into(), why: io::Error::from(e).to_string() })
        }
    }
}

/// A module's bytes, unpacked.
///
/// # Errors
/// [`ModuleError::Unreadable`].
pub(crate) fn contents(path: &Path) -> Result<Vec<u8>, ModuleError> {
    let unreadable = |why: String| ModuleError::Unreadable { path: path.into(), why };
    let name = path.to_string_lossy();
    let Some((_, unpacker)) = PACKED.iter().find(|(suffix, _)| name.ends_with(suffix)) else {
        return std::fs::read(path).map_err(|e| unreadable(e.to_string()));
    };
    // A Ctrl-C of the terminal is floodwall's.
    let output = Command::new(unpacker).arg("-dc").arg("--").arg(path).process_group(0).output();
    let output = output.map_err(|e| unreadable(format!("{unpacker}: {e}")))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(unreadable(floodwall_model::printable::printable(said.trim()).into_owned()))
}

/// The module that a file's name stands for.
fn module_name(file: &str) -> Option<String> {
    let plain = PACKED.iter().find_map(|(suffix, _)| file.strip_suffix(suffix)).unwrap_or(file);
    plain.strip_suffix(".ko").map(as_the_kernel_spells)
}

/// Shows the modules in `dir` where `modprobe` looks for those of the kernel `release`. An existing
/// entry stays.
///
/// The kernel itself starts `modprobe` with an alias where it needs a module (kernel/kmod.c,
/// `request_module`): for a RAID level, a device-mapper target, a filesystem.
///
/// # Errors
/// The link could not be made; the directory lacks `modules.dep`.
pub(crate) fn show_to_modprobe(dir: &Path, release: &str) -> io::Result<()> {
    let place = Path::new(MODPROBE).join(release);
    if !std::fs::exists(&place)? {
        std::fs::create_dir_all(MODPROBE)?;
        std::os::unix::fs::symlink(dir, &place)?;
    }
    if std::fs::exists(place.join("modules.dep"))? {
        return Ok(());
    }
    let why = format!("'{}' has no modules.dep; depmod -b makes it", dir.display());
    Err(io::Error::new(io::ErrorKind::NotFound, why))
}

/// The kernel has underscores where file names have hyphens (scripts/Makefile.lib, `name-fix`).
fn as_the_kernel_spells(name: &str) -> String {
    name.replace('-', "_")
}

/// The names in the `depends=` entry of a module's `.modinfo` section: strings with NUL bytes
/// between them.
fn depends(module: &[u8]) -> Vec<String> {
    let entry = b"\0depends=";
    let Some(at) = module.windows(entry.len()).position(|window| window == entry) else {
        return Vec::new();
    };
    let names = module[at + entry.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(names);
    names.split(',').filter(|name| !name.is_empty()).map(as_the_kernel_spells).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_comes_after_all_that_it_depends_on_and_only_once() {
        let dir = tempfile::tempdir().unwrap();
        let module = |path: &str, depends: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, format!("\x7fELF\0license=GPL\0depends={depends}\0name=x\0"))
                .unwrap();
        };
        module("fs/nfs/nfsv4.ko", "nfs,sunrpc,dns_resolver");
        module("fs/nfs/nfs.ko", "lockd,sunrpc");
        module("fs/lockd/lockd.ko", "sunrpc");
        module("net/sunrpc/sunrpc.ko", "");
        module("net/dns_resolver/dns-resolver.ko", "");
        module("drivers/md/dm-thin-pool.ko", "dm-mod");
        module("fs/9p/9p.ko", "9pnet,netfs");
        module("net/9p/9pnet.ko", "");
        std::fs::write(dir.path().join("modules.builtin"), "kernel/fs/netfs/netfs.ko\n").unwrap();
        let packed =
            std::process::Command::new("gzip").arg(dir.path().join("net/9p/9pnet.ko")).status();
        assert!(packed.unwrap().success());
        let modules = Modules::below(dir.path()).unwrap();
        let order = |name: &str| {
            let order = modules.order(name)?;
            Ok::<_, ModuleError>(
                order.iter().map(|p| p.file_stem().unwrap().to_str().unwrap().to_owned()).collect(),
            )
        };
        let absent = |name: &str| ModuleError::Absent(name.into());
        let names: Vec<String> = order("nfsv4").unwrap();
        assert_eq!(names, ["sunrpc", "lockd", "nfs", "dns-resolver", "nfsv4"]);
        assert_eq!(order("9p").unwrap(), ["9pnet.ko", "9p"], "packed, and one that is built in");
        assert_eq!(order("netfs").unwrap(), Vec::<String>::new());
        assert_eq!(order("bfq"), Err::<Vec<String>, _>(absent("bfq")));
        assert_eq!(order("dm_thin_pool"), Err(absent("dm_mod")));
    }
}
