//! Errors of a guest, and the remedy for each.

use std::io;
use std::path::PathBuf;

use floodwall_model::Bytes;

/// The least RAM that boots, makes an xfs filesystem and leaves something for a device's contents.
pub(crate) const LEAST: Bytes = Bytes::mib(512);

/// Why a guest did not run its command to the end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// There is no user-mode kernel.
    #[error(
        "there is no user-mode kernel (linux.uml); as root: apt-get install user-mode-linux; \
         without root: \
         mkdir -p ~/.local/share/floodwall && cd ~/.local/share/floodwall && apt-get download \
         user-mode-linux \
         && dpkg -x user-mode-linux_*.deb ."
    )]
    NoUml,
    /// The named file is no kernel.
    #[error(
        "'{path}' can't be the guest's kernel: {why}; name a user-mode kernel, such as \
         /usr/bin/linux.uml, or an \
         image, such as /boot/vmlinuz-6.1.0-56-amd64",
        path = .path.display()
    )]
    NoKernel {
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// There is no QEMU.
    #[error(
        "'{image}' is a kernel's image, and there is no qemu-system-x86_64 to boot it; as root: \
         apt-get install \
         qemu-system-x86",
        image = .image.display()
    )]
    NoQemu {
        /// The image.
        image: PathBuf,
    },
    /// A program's path does not fit into a kernel's command line.
    #[error(
        "'{program}' can't be a guest's first process: its path is longer than 1024 bytes, is no \
         UTF-8, or has a space \
         or a quotation mark; run floodwall from another place",
        program = .program.display()
    )]
    Place {
        /// The program.
        program: PathBuf,
    },
    /// What an image needs before it can reach the host's files could not be put together.
    #[error("can't make the guest's first root filesystem: {why}")]
    FirstRoot {
        /// What failed.
        why: String,
    },
    /// The kernel has no modules of its version.
    #[error(
        "'{kernel}' has no modules of its version {version}, and the lab needs 'fuse' and 'loop'; \
         install the \
         kernel and its modules from the same package (user-mode-linux)",
        kernel = .kernel.display()
    )]
    NoModules {
        /// The kernel.
        kernel: PathBuf,
        /// Its version.
        version: String,
    },
    /// No directory can hold the guest's memory.
    #[error(
        "the guest's memory needs a tmpfs that is mounted without noexec, and {why}; mount one, or \
         name one in TMPDIR"
    )]
    MemoryDir {
        /// The reason for each directory that was tried.
        why: String,
    },
    /// There is less memory than asked for, or than a guest needs.
    #[error(
        "the guest needs {asked} of memory, and only {available} are free {place}; free some{less}",
        less = if *asked > LEAST { ", or give it less with --ram" } else { "" }
    )]
    Memory {
        /// The requested RAM.
        asked: Bytes,
        /// Where its memory would be: `in RAM`.
        place: String,
        /// The free memory there.
        available: Bytes,
    },
    /// Less memory was asked for than a guest needs.
    #[error("{asked} of memory are too few for a guest; give it at least {} with --ram", LEAST)]
    Small {
        /// The requested RAM.
        asked: Bytes,
    },
    /// A program could not be started.
    #[error("can't start '{program}': {error}", program = .program.display())]
    Start {
        /// Which.
        program: PathBuf,
        /// The answer of the kernel.
        error: io::Error,
    },
    /// Something of the host failed.
    #[error("can't {what}: {error}")]
    Io {
        /// The action that failed.
        what: &'static str,
        /// The answer of the kernel.
        error: io::Error,
    },
    /// The guest's first process could not do its work.
    #[error("the guest could not run the command: {0}")]
    Inside(String),
    /// The kernel ended, or went silent, before the command had ended.
    #[error("the guest {how}; its last lines were:\n{console}")]
    Died {
        /// The observed failure.
        how: &'static str,
        /// The last lines of its console.
        console: String,
    },
    /// The kernel can't run on this processor.
    #[error(
        "this user-mode kernel can't run on this processor, which has more registers (AMX) than it \
         knows; boot an image instead: --kernel /boot/vmlinuz, with qemu-system-x86"
    )]
    Processor,
    /// A signal stopped the guest before its command had ended.
    #[error("interrupted")]
    Interrupted,
    /// The hidden command was called by hand.
    #[error("this command is not for people; see 'floodwall lab run --help'")]
    NotForPeople,
}

impl GuestError {
    /// Whether something is missing on this machine: the exit status says so.
    #[must_use]
    pub fn is_missing_requirement(&self) -> bool {
        use GuestError::{FirstRoot, Memory, MemoryDir, NoModules, NoQemu, NoUml, Processor};
        let is_kernel =
            matches!(self, NoUml | NoQemu { .. } | NoModules { .. } | Processor | FirstRoot { .. });
        is_kernel || matches!(self, MemoryDir { .. } | Memory { .. })
    }

    /// Whether the caller asked for something impossible.
    #[must_use]
    pub fn is_wrong_use(&self) -> bool {
        matches!(
            self,
            Self::NoKernel { .. } | Self::Small { .. } | Self::Place { .. } | Self::NotForPeople
        )
    }
}
