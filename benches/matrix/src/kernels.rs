//! The kernels: Debian's packages, fetched by apt into a separate cache, outside the repository.
//!
//! ```text
//! suite ─▶ apt-get update (signatures) ─▶ metapackage ─▶ packages
//!       ─▶ apt-get download (checksums) ─▶ dpkg-deb -x
//! ```
//!
//! apt gets a separate directory for each kernel: it neither needs root nor sees or changes this
//! machine's lists. Without a network it uses what it has fetched before.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Debian's servers.
const SERVER: &str = "http://deb.debian.org";
/// Debian's own keys, which its lists are signed with.
const KEYS: &str = "/usr/share/keyrings";
/// Packages of a kernel; what else they depend on builds initial ramdisks.
const PARTS: [&str; 3] = ["linux-image-", "linux-binary-", "linux-modules-"];

/// Where a kernel comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// The name on the command line and in the tables.
    pub(crate) name: &'static str,
    /// Archives and suites.
    suites: &'static [(&'static str, &'static str)],
    /// The package that depends on the newest kernel of the suites.
    package: &'static str,
}

/// Every kernel of the matrix, the oldest first.
pub(crate) const SOURCES: [Source; 4] = [
    Source {
        name: "5.10",
        // Its security suite lists kernels that its archive no longer has.
        suites: &[("debian", "bullseye")],
        package: "linux-image-cloud-amd64",
    },
    Source {
        name: "6.1",
        suites: &[("debian", "bookworm"), ("debian-security", "bookworm-security")],
        package: "linux-image-cloud-amd64",
    },
    Source {
        name: "6.12",
        suites: &[("debian", "trixie"), ("debian-security", "trixie-security")],
        package: "linux-image-cloud-amd64",
    },
    Source {
        name: "7",
        suites: &[("debian", "trixie-backports")],
        package: "linux-image-cloud-amd64",
    },
];

/// A kernel that can be booted.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// The image.
    pub(crate) image: PathBuf,
    /// The directory with `kernel/` in it.
    pub(crate) modules: PathBuf,
}

/// Fetches a kernel and unpacks it.
///
/// # Errors
/// Why it can't be had.
pub(crate) fn fetch(source: &Source, cache: &Path) -> anyhow::Result<Kernel> {
    let apt = Apt::prepare(source, cache)?;
    if let Err(error) = apt.run("apt-get", &["-qq", "update"]) {
        eprintln!("{}: Debian's lists are as they were fetched last: {error:#}", source.name);
    }
    let mut packages = Vec::new();
    apt.add_parts(source.package, &mut packages)?;
    let unpacked = apt.unpacked(&packages)?;
    let entries = |dir: &str| {
        let entries = std::fs::read_dir(unpacked.join(dir)).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let modules = ["lib/modules", "usr/lib/modules"].into_iter().flat_map(entries).next();
    let modules = modules.with_context(|| format!("'{}' has no modules", unpacked.display()))?;
    // Newer packages have the image beside the modules.
    let mut images = entries("boot").chain([modules.join("vmlinuz")]);
    let is_image = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
            && path.is_file()
    };
    let image =
        images.find(is_image).with_context(|| format!("'{}' has no kernel", unpacked.display()))?;
    Ok(Kernel { image, modules })
}

/// apt with a separate directory.
struct Apt {
    dir: PathBuf,
}

impl Apt {
    fn prepare(source: &Source, cache: &Path) -> anyhow::Result<Self> {
        let dir = cache.join("kernels").join(source.name);
        for below in ["lists/partial", "archives/partial", "etc/apt.conf.d", "etc/preferences.d"] {
            let path = dir.join(below);
            std::fs::create_dir_all(&path)
                .with_context(|| format!("can't make '{}'", path.display()))?;
        }
        let suites = source
            .suites
            .iter()
            .map(|(archive, suite)| format!("deb {SERVER}/{archive} {suite} main\n"));
        std::fs::write(dir.join("etc/sources.list"), suites.collect::<String>())?;
        std::fs::write(dir.join("status"), "")?;
        let here = dir.to_str().context("the cache's path is no UTF-8")?;
        let conf = format!(
            "Dir::State \"{here}\";\nDir::State::Lists \"{here}/lists\";\n\
             Dir::State::status \"{here}/status\";\n\
             Dir::Cache \"{here}\";\nDir::Etc \"{here}/etc\";\nDir::Etc::TrustedParts \"{KEYS}\";\n\
             Acquire::Languages \"none\";\nAPT::Architecture \"amd64\";\n\
             APT::Architectures {{ \"amd64\"; }};\n\
             APT::Sandbox::User \"\";\nAPT::Update::Error-Mode \"any\";\n"
        );
        std::fs::write(dir.join("apt.conf"), conf)?;
        Ok(Self { dir })
    }

    fn run(&self, program: &str, args: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(program);
        // APT_CONFIG is read first; this machine's own configuration would be read after it.
        command.args(args).env("APT_CONFIG", self.dir.join("apt.conf")).current_dir(&self.dir);
        processes::child::said(&mut command)
    }

    /// Adds the packages of a kernel that `name` stands for, with their versions: the metapackage
    /// depends on them.
    fn add_parts(&self, name: &str, packages: &mut Vec<(String, String)>) -> anyhow::Result<()> {
        if packages.iter().any(|(known, _)| known == name) {
            return Ok(());
        }
        let shown = self.run("apt-cache", &["--no-all-versions", "show", name])?;
        let field =
            |field: &str| shown.lines().find_map(|line| line.strip_prefix(field)).map(str::trim);
        let version = field("Version:").with_context(|| format!("Debian has no package {name}"))?;
        packages.push((name.to_owned(), version.to_owned()));
        for part in parts(field("Depends:").unwrap_or_default()) {
            self.add_parts(part, packages)?;
        }
        Ok(())
    }

    /// The directory in which packages are unpacked. An existing directory is whole.
    fn unpacked(&self, packages: &[(String, String)]) -> anyhow::Result<PathBuf> {
        let (name, version) = packages.last().context("no package")?;
        let to = self.dir.join(format!("{name}_{version}"));
        if to.is_dir() {
            return Ok(to);
        }
        let dir = tempfile::tempdir_in(&self.dir)?;
        let names: Vec<&str> = packages.iter().map(|(name, _)| name.as_str()).collect();
        self.run("apt-get", &[&["-qq", "download"], names.as_slice()].concat())?;
        for (name, version) in packages {
            // apt writes a version's colon as %3a.
            let deb = self.dir.join(format!("{name}_{}_amd64.deb", version.replace(':', "%3a")));
            processes::child::said(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(dir.path()))?;
            std::fs::remove_file(&deb)?;
        }
        decompress(dir.path())?;
        std::fs::rename(dir.keep(), &to)?;
        Ok(to)
    }
}

/// Names of a kernel's packages in a field `Depends`.
fn parts(depends: &str) -> impl Iterator<Item = &str> {
    let names = depends.split(',').filter_map(|one| one.split_whitespace().next());
    names.filter(|name| PARTS.iter().any(|part| name.starts_with(part)))
}

/// Unpacks modules, which have to be looked into.
fn decompress(dir: &Path) -> anyhow::Result<()> {
    let mut left = vec![dir.to_owned()];
    let mut packed = Vec::new();
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() {
                left.push(path);
            } else if name.ends_with(".ko.xz") {
                packed.push(path);
            } else if name.contains(".ko.") {
                bail!("'{}' is packed in an unknown way", path.display());
            }
        }
    }
    for some in packed.chunks(500) {
        processes::child::said(Command::new("xz").arg("-d").args(some))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_own_packages_are_told_from_what_it_depends_on() {
        let old =
            "kmod, linux-base (>= 4.3~), initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool";
        assert_eq!(parts(old).count(), 0);
        let new = "linux-base-cloud-amd64 (= 7.3.4-1~bpo13+1), linux-image-7.3.4+deb13-cloud-amd64 \
            (= 7.3.4-1), \
                   linux-modules-cloud-amd64 (= 7.3.4-1~bpo13+1)";
        assert_eq!(
            parts(new).collect::<Vec<_>>(),
            ["linux-image-7.3.4+deb13-cloud-amd64", "linux-modules-cloud-amd64"]
        );
    }
}
