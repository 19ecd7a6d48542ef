//! Failures of a lab, each with a remedy.

use std::io;
use std::path::{Path, PathBuf};

use floodwall_device::SpecError;
use floodwall_model::Bytes;
use rustix::io::Errno;

/// Why a lab command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The caller is not root.
    #[error(
        "the lab needs root (it mounts and makes loop devices); run as root, or use 'floodwall \
         sim', which does without"
    )]
    NoRoot,
    /// The caller may not look at the labs.
    #[error("can't look into {path}, where lab devices are remembered: only root may; run as root")]
    Private {
        /// The state directory.
        path: PathBuf,
    },
    /// The kernel or the container has no FUSE.
    #[error(
        "the lab needs FUSE and {path} is missing; load the module 'fuse' or pass the device in, \
         or use 'floodwall sim', which does without"
    )]
    NoFuse {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The kernel or the container has no loop devices.
    #[error(
        "the lab needs loop devices and {path} is missing; load the module 'loop' or pass the \
         device in, or use 'floodwall sim', which does without"
    )]
    NoLoop {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Every loop device is taken and no more can be made.
    #[error(
        "no loop device is free and the kernel makes no more ({errno}); detach one ('losetup \
         --list', 'floodwall lab list')"
    )]
    NoFreeLoop {
        /// The kernel's answer.
        errno: Errno,
    },
    /// An elevator that this kernel has not.
    #[error("this kernel has no elevator '{name}' for a loop device; it offers {offered}")]
    Elevator {
        /// The wanted name.
        name: String,
        /// The names that exist.
        offered: String,
    },
    /// The program that makes the filesystem is not there.
    #[error("{program} is missing; install {package}")]
    NoMkfs {
        /// Its name.
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// The program that makes the filesystem failed.
    #[error("{program} failed on {device}: {said}")]
    MkfsFailed {
        /// Its name.
        program: String,
        /// The loop device.
        device: PathBuf,
        /// The last line that it wrote.
        said: String,
    },
    /// A lab of this name is there already.
    #[error("a lab device named '{name}' exists{}; choose another name, or 'floodwall lab down \
        {name}'", if *half_made { ", half made" } else { "" })]
    NameTaken {
        /// The name.
        name: String,
        /// Whether its server is gone or was never there.
        half_made: bool,
    },
    /// A name that can't be a directory's.
    #[error(
        "'{name}' can't name a lab device; use 1 to 32 letters, digits, '-', '_' and '.', \
         beginning with a letter or digit"
    )]
    BadName {
        /// The name.
        name: String,
    },
    /// No lab has this name.
    #[error("there is no lab device named '{name}'; {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The directory to mount on can't be used.
    #[error("can't mount on {dir}: {why}")]
    MountPoint {
        /// The directory.
        dir: PathBuf,
        /// The fault and the remedy.
        why: &'static str,
    },
    /// More memory was asked for than is free.
    #[error(
        "{asked} of memory were asked for and {available} are available{}; ask for less, and let \
         the rest spill to a file (--spill)", beside(.promised)
    )]
    Memory {
        /// The limit asked for.
        asked: Bytes,
        /// `MemAvailable` without what other labs may still take.
        available: Bytes,
        /// The bytes that other labs may still take.
        promised: Bytes,
    },
    /// The size can't be a device's.
    #[error("{} B can't be the size of a lab device: use a multiple of {} B", size.0, block.0)]
    Size {
        /// The wanted size.
        size: Bytes,
        /// The block size.
        block: Bytes,
    },
    /// The block size can't be a device's.
    #[error("blocks of {block} B are not supported; use 512 or 4096")]
    BlockSize {
        /// The wanted block size, in bytes.
        block: u32,
    },
    /// The filesystem does not fit.
    #[error(
        "{filesystem} needs {least} and the device has {size}; give it more (--size), or use \
         another filesystem"
    )]
    TooSmall {
        /// Its name.
        filesystem: &'static str,
        /// The least that it can be made on.
        least: Bytes,
        /// What the device has.
        size: Bytes,
    },
    /// There is no directory for the spill file.
    #[error("can't spill into {dir}: there is no such directory; make it first")]
    SpillDir {
        /// The directory.
        dir: PathBuf,
    },
    /// The model's cache can't be real here.
    #[error(
        "the preset's cache ({cache}) is larger than this machine's memory ({memory}): it could \
         never be filled; make it smaller"
    )]
    Cache {
        /// The model's cache.
        cache: Bytes,
        /// `MemTotal`.
        memory: Bytes,
    },
    /// The preset can't be read or built.
    #[error("preset: {0}")]
    Spec(#[from] SpecError),
    /// Something uses the device and it can't be taken away.
    #[error("{device} is still in use{}; end that and try again", holders(.pids))]
    Busy {
        /// The loop device or directory.
        device: PathBuf,
        /// Processes that have files open there, as far as can be seen.
        pids: Vec<i32>,
    },
    /// A power command in the wrong state.
    #[error("'{name}' {state}")]
    Power {
        /// Which lab.
        name: String,
        /// The state and the remedy.
        state: &'static str,
    },
    /// The server of a lab does not answer.
    #[error(
        "the server of '{name}' does not answer; 'floodwall lab down {name}' takes the device away"
    )]
    NoAnswer {
        /// Which lab.
        name: String,
    },
    /// The server of a lab could not do a request.
    #[error("the server of '{name}' says: {said}")]
    Server {
        /// Which lab.
        name: String,
        /// Its message.
        said: String,
    },
    /// A command to be run on a lab could not be started.
    #[error("can't run '{command}': \
        {error}{}", if error.kind() == io::ErrorKind::NotFound {
        "; name it in full if it is not in PATH" } else { "" })]
    Command {
        /// The command.
        command: String,
        /// Why not.
        error: io::Error,
    },
    /// A system call failed.
    #[error("can't {operation} {path}: {errno}")]
    Io {
        /// The operation, as a verb.
        operation: &'static str,
        /// The file or device.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The state directory holds something that this version did not write.
    #[error("can't read {path}: {why}; 'floodwall lab down' of its name takes the device away")]
    State {
        /// Which file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The caller's stop flag was raised.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// A failed system call.
    pub(crate) fn io(
        operation: &'static str,
        path: impl AsRef<Path>,
        error: impl Into<AnyError>,
    ) -> Self {
        Self::Io { operation, path: path.as_ref().to_owned(), errno: error.into().0 }
    }

    /// Whether this host lacks a privilege, a kernel feature, a program or memory that the lab
    /// needs (the command line's exit status 4). False for a failure or a wrong use.
    #[must_use]
    pub fn is_missing_requirement(&self) -> bool {
        matches!(
            self,
            Self::NoRoot
                | Self::Private { .. }
                | Self::NoFuse { .. }
                | Self::NoLoop { .. }
                | Self::NoFreeLoop { .. }
                | Self::NoMkfs { .. }
                | Self::Memory { .. }
        )
    }

    /// Whether the caller asked for something that can't be (the command line's exit status 2).
    #[must_use]
    pub fn is_wrong_use(&self) -> bool {
        matches!(
            self,
            Self::NameTaken { .. }
                | Self::BadName { .. }
                | Self::Unknown { .. }
                | Self::MountPoint { .. }
                | Self::Size { .. }
                | Self::BlockSize { .. }
                | Self::Elevator { .. }
                | Self::TooSmall { .. }
                | Self::SpillDir { .. }
                | Self::Cache { .. }
                | Self::Spec(_)
                | Self::Power { .. }
        )
    }
}

/// Either kind of error that a system call comes back with.
pub(crate) struct AnyError(Errno);

impl From<Errno> for AnyError {
    fn from(errno: Errno) -> Self {
        Self(errno)
    }
}

impl From<io::Error> for AnyError {
    fn from(error: io::Error) -> Self {
        Self(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

fn beside(bytes: &Bytes) -> String {
    if bytes.0 == 0 {
        String::new()
    } else {
        format!(" beside {bytes} that other lab devices may still take")
    }
}

fn holders(pids: &[i32]) -> String {
    match pids {
        [] => String::new(),
        [one] => format!(" by process {one}"),
        many => format!(
            " by processes {}",
            many.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_and_what_to_do() {
        let busy = LabError::Busy { device: "/dev/loop3".into(), pids: vec![7, 9] };
        assert_eq!(
            busy.to_string(),
            "/dev/loop3 is still in use by processes 7, 9; end that and try again"
        );
        let taken = LabError::NameTaken { name: "usb".into(), half_made: true };
        assert_eq!(
            taken.to_string(),
            "a lab device named 'usb' exists, half made; choose another name, or \
             'floodwall lab down usb'"
        );
        let memory = LabError::Memory {
            asked: Bytes::gib(4),
            available: Bytes::gib(1),
            promised: Bytes::gib(2),
        };
        assert_eq!(
            memory.to_string(),
            "4 GiB of memory were asked for and 1 GiB are available beside 2 GiB that other lab \
             devices may still take; \
             ask for less, and let the rest spill to a file (--spill)"
        );
        assert!(LabError::NoRoot.is_missing_requirement() && !LabError::NoRoot.is_wrong_use());
        assert!(taken.is_wrong_use() && !taken.is_missing_requirement());
    }
}
