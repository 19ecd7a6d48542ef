//! A kernel's image, such as /boot/vmlinuz-6.1.0-56-amd64, with the modules of its release.
//!
//! ```text
//! 0x202 "HdrS" · 0x20e offset of the version's text      Documentation/arch/x86/boot.rst
//! …/boot/vmlinuz-RELEASE ─▶ …/lib/modules/RELEASE, …/usr/lib/modules/RELEASE, and so on up to /
//! ```

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::GuestError;

/// What says that a file is an image for x86, and where.
const MAGIC: (usize, &[u8]) = (0x202, b"HdrS");
/// Where the text's offset is. It counts from the end of the boot sector.
const VERSION: usize = 0x20e;
const BOOT_SECTOR: usize = 0x200;
/// The text's offset has 16 bits; no release is longer than 64 bytes (`__NEW_UTS_LEN`).
const HEAD: u64 = 0x200 + 0x1_0000 + 64;
/// Where packages have modules, below the directory that the package is unpacked in.
const MODULES: [&str; 2] = ["lib/modules", "usr/lib/modules"];

/// A kernel's image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The file.
    pub file: PathBuf,
    /// Its release: `6.1.0-56-amd64`.
    pub release: String,
    /// The directory of its modules; absent for a kernel that has everything built in.
    pub modules: Option<PathBuf>,
}

impl Image {
    /// The image in `file`; `None` for a file of another kind.
    ///
    /// # Errors
    /// [`GuestError::NoKernel`] for a file that can't be read.
    pub fn at(file: &Path) -> Result<Option<Self>, GuestError> {
        let refused = |e: io::Error| {
            let hint = match e.kind() {
                io::ErrorKind::PermissionDenied => " (a copy that you may read will do)",
                _ => "",
            };
            GuestError::NoKernel { path: file.into(), why: format!("{e}{hint}") }
        };
        let file = std::fs::canonicalize(file).map_err(refused)?;
        if !file.is_file() {
            return Ok(None);
        }
        let mut head = Vec::new();
        File::open(&file).map_err(refused)?.take(HEAD).read_to_end(&mut head).map_err(refused)?;
        let Some(release) = release(&head) else { return Ok(None) };
        let modules = modules_of(&file, &release);
        Ok(Some(Self { file, release, modules }))
    }
}

/// The release in an image's header.
fn release(image: &[u8]) -> Option<String> {
    let (at, magic) = MAGIC;
    if !image.get(at..)?.starts_with(magic) {
        return None;
    }
    let offset = u16::from_le_bytes(image.get(VERSION..VERSION + 2)?.try_into().ok()?);
    let text = image.get(BOOT_SECTOR + usize::from(offset)..)?;
    let text = text.split(|byte| *byte == 0 || *byte == b' ').next()?;
    let is_release =
        !text.is_empty() && text.iter().all(u8::is_ascii_graphic) && !text.contains(&b'/');
    is_release.then(|| String::from_utf8_lossy(text).into_owned())
}

/// The modules of an image's release: it lies among them, or they are below one of its ancestors.
fn modules_of(file: &Path, release: &str) -> Option<PathBuf> {
    let around = file.parent().filter(|dir| dir.ends_with(release)).map(Path::to_owned);
    let ancestors = file.ancestors().skip(1);
    let below = ancestors.flat_map(|dir| MODULES.map(|modules| dir.join(modules).join(release)));
    around.into_iter().chain(below).find(|dir| dir.join("kernel").is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(version: &str) -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
        bytes[0x300..0x300 + version.len()].copy_from_slice(version.as_bytes());
        bytes
    }

    #[test]
    fn an_image_tells_its_release_and_anything_else_is_none() {
        let text = "6.1.0-56-amd64 (debian-kernel@lists.debian.org) #1 SMP";
        assert_eq!(release(&image(text)).as_deref(), Some("6.1.0-56-amd64"));
        assert_eq!(release(b"\x7fELF"), None);
        assert_eq!(release(&image("../../etc (x)")), None);
        assert_eq!(release(&image("")), None);
        assert_eq!(release(&image(text)[..0x250]), None, "cut");
    }

    #[test]
    fn modules_are_beside_the_image_or_in_the_package_that_it_came_in() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let modules = root.join("package/usr/lib/modules/6.12.3");
        std::fs::create_dir_all(modules.join("kernel")).unwrap();
        std::fs::create_dir_all(root.join("package/boot")).unwrap();
        for place in ["package/boot/vmlinuz-6.12.3", "package/usr/lib/modules/6.12.3/vmlinuz"] {
            let file = root.join(place);
            std::fs::write(&file, image("6.12.3 (x)")).unwrap();
            let found = Image::at(&file).unwrap().unwrap();
            assert_eq!(found.modules.as_ref(), Some(&modules), "{place}");
        }
        let alone = root.join("bzImage");
        std::fs::write(&alone, image("6.13.0-rc2-nobody-has-this (x)")).unwrap();
        assert_eq!(Image::at(&alone).unwrap().unwrap().modules, None);
        std::fs::write(&alone, "#!/bin/sh\n").unwrap();
        assert_eq!(Image::at(&alone).unwrap(), None);
        let said = Image::at(&root.join("nothing")).unwrap_err().to_string();
        assert!(said.contains("nothing") && said.contains("No such file"), "{said}");
    }
}
