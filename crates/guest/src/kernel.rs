//! A guest's kernel: a user-mode kernel, or an image that QEMU boots.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::GuestError;
use crate::find::Uml;
use crate::image::Image;

/// The program that boots images. Only the headers of x86's images are understood.
const QEMU: &str = "qemu-system-x86_64";
/// How long a guest may take until its first process answers. User-mode Linux takes one second; a
/// busy host more.
const BOOT: Duration = Duration::from_secs(60);
/// The same with an emulated processor.
const BOOT_EMULATED: Duration = Duration::from_secs(300);

/// A kernel that can be booted.
#[derive(Clone, Debug)]
pub enum Kernel {
    /// A program of the host.
    Uml {
        /// The kernel.
        uml: Uml,
        /// A directory on a tmpfs without noexec: the guest's RAM is a nameless file in it.
        memory_dir: PathBuf,
    },
    /// A virtual machine.
    Image {
        /// The kernel.
        image: Image,
        /// The program that boots it.
        qemu: PathBuf,
        /// Whether its processor is emulated, for want of a KVM that works.
        is_emulated: bool,
    },
}

impl Kernel {
    /// The image `image`, emulated, and QEMU in one of the directories of `path` (as `PATH` has
    /// them).
    ///
    /// # Errors
    /// [`GuestError::NoQemu`].
    pub fn image(image: Image, path: Option<&OsStr>) -> Result<Self, GuestError> {
        let mut dirs = path.map(std::env::split_paths).into_iter().flatten();
        let qemu = dirs.find_map(|dir| Some(dir.join(QEMU)).filter(|qemu| qemu.is_file()));
        let qemu = qemu.ok_or(GuestError::NoQemu { image: image.file.clone() })?;
        Ok(Self::Image { image, qemu, is_emulated: true })
    }

    /// The kernel's file.
    #[must_use]
    pub fn file(&self) -> &Path {
        match self {
            Self::Uml { uml, .. } => &uml.kernel,
            Self::Image { image, .. } => &image.file,
        }
    }

    /// Its release, as `uname -r` says it.
    #[must_use]
    pub fn release(&self) -> &str {
        match self {
            Self::Uml { uml, .. } => &uml.version,
            Self::Image { image, .. } => &image.release,
        }
    }

    /// The directory of its modules, with `kernel/` in it.
    #[must_use]
    pub fn modules(&self) -> Option<&Path> {
        match self {
            Self::Uml { uml, .. } => uml.modules.as_deref(),
            Self::Image { image, .. } => image.modules.as_deref(),
        }
    }

    /// Whether its processor is emulated.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        matches!(self, Self::Image { is_emulated: true, .. })
    }

    /// Emulates the processor, or leaves it to KVM. A user-mode kernel needs neither.
    pub fn emulate(&mut self, yes: bool) {
        if let Self::Image { is_emulated, .. } = self {
            *is_emulated = yes;
        }
    }

    /// How long it may take to boot.
    pub(crate) fn boot_limit(&self) -> Duration {
        if self.is_emulated() { BOOT_EMULATED } else { BOOT }
    }
}
