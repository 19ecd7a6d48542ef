//! A guest's kernel: a user-mode kernel, or an image that QEMU boots.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::Access;

use crate::error::GuestError;
use crate::find::Uml;
use crate::image::Image;

/// Programs that boot images of this machine's architecture. Only the headers of x86's images are understood.
const QEMU: &str = "qemu-system-x86_64";

/// Where the host's kernel runs virtual machines.
pub(crate) const KVM: &str = "/dev/kvm";
/// How long a guest may take until its first process answers. User-mode Linux takes one second; a busy host more.
const BOOT: Duration = Duration::from_secs(60);
/// The same with an emulated processor.
const BOOT_EMULATED: Duration = Duration::from_secs(300);
/// How long its console may be silent with KVM: a /dev/kvm below another hypervisor may exist and never boot anything.
const FIRST_WORDS_WITH_KVM: Duration = Duration::from_secs(5);

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
        /// How its processor is had.
        kvm: Kvm,
    },
}

/// Whether KVM runs guests here. Clones share what the first guest finds out.
#[derive(Clone, Debug)]
pub struct Kvm(Arc<AtomicBool>);

impl Kvm {
    /// KVM, if this process may use it.
    #[must_use]
    pub fn of_the_host() -> Self {
        let may = rustix::fs::access(KVM, Access::READ_OK | Access::WRITE_OK).is_ok();
        Self(Arc::new(AtomicBool::new(may)))
    }

    /// Whether no guest has failed with it.
    pub(crate) fn may_work(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Kernel {
    /// The image `image`, and QEMU in one of the directories of `path` (as `PATH` has them).
    ///
    /// # Errors
    /// [`GuestError::NoQemu`].
    pub fn image(image: Image, path: Option<&OsStr>) -> Result<Self, GuestError> {
        let mut dirs = path.map(std::env::split_paths).into_iter().flatten();
        let qemu = dirs.find_map(|dir| Some(dir.join(QEMU)).filter(|qemu| qemu.is_file()));
        let qemu = qemu.ok_or(GuestError::NoQemu { image: image.file.clone() })?;
        Ok(Self::Image { image, qemu, kvm: Kvm::of_the_host() })
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
        matches!(self, Self::Image { kvm, .. } if !kvm.may_work())
    }

    /// Emulates the processor from now on. False if that changes nothing.
    pub(crate) fn give_up_kvm(&self) -> bool {
        matches!(self, Self::Image { kvm, .. } if kvm.0.swap(false, Ordering::Relaxed))
    }

    /// How long it may take until its console says something, which then is [`Self::boot_limit`]'s matter.
    pub(crate) fn first_words_limit(&self) -> Duration {
        match self {
            Self::Image { .. } if !self.is_emulated() => FIRST_WORDS_WITH_KVM,
            _ => self.boot_limit(),
        }
    }

    /// How long it may take to boot.
    pub(crate) fn boot_limit(&self) -> Duration {
        match self {
            Self::Uml { .. } => BOOT,
            Self::Image { .. } if self.is_emulated() => BOOT_EMULATED,
            Self::Image { .. } => BOOT,
        }
    }
}
