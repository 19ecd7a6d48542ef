//! Failures of a load, each with a remedy.

use std::io;
use std::path::{Path, PathBuf};

use floodwall_model::Bytes;
use rustix::io::Errno;

use crate::dir::TreeError;

/// The operation that makes a file.
pub(crate) const CREATE: &str = "create";
/// The operation that makes a directory.
pub(crate) const MAKE_DIRECTORY: &str = "make directory";

/// Why a load could not be prepared, started or kept running.
///
/// Cloneable, so that a failure can be read while the load still winds down.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A system call on a file failed.
    #[error("can't {operation} {path}: {errno}{}", advice(operation, *.errno))]
    Io {
        /// The operation, as a verb: `write`, `fsync`, …
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A file turned out shorter than it was made.
    #[error(
        "can't read {path} at {offset}: the file ends there; something else shortened it while the \
         load ran"
    )]
    Shortened {
        /// Which file.
        path: PathBuf,
        /// Where the read began, in bytes.
        offset: u64,
    },
    /// A block does not fit the filesystem's alignment for direct I/O.
    #[error(
        "block {block} is not aligned for direct I/O on this filesystem: needs a multiple of \
         {align} B ({path}); use one, or buffered access"
    )]
    Misaligned {
        /// The block that was asked for.
        block: Bytes,
        /// What the filesystem needs, in bytes.
        align: u64,
        /// Where.
        path: PathBuf,
    },
    /// The filesystem has no direct I/O.
    #[error(
        "direct I/O is not supported on the filesystem of {path}; use access = \"evict\" (reads) \
         or direct = false (commits)"
    )]
    NoDirect {
        /// Where.
        path: PathBuf,
    },
    /// The kernel or the filesystem can't drop pages behind a write.
    #[error(
        "mode = dontcache is not supported here ({path}): it needs Linux 6.14 and a filesystem \
         that has it (xfs, ext4, btrfs …); modes buffered, direct, dsync and sync_file_range work"
    )]
    NoDontCache {
        /// Where.
        path: PathBuf,
    },
    /// The kernel refuses io_uring.
    #[error(
        "io_uring is not available here ({errno}): the kernel lacks it or a policy forbids it \
         (kernel.io_uring_disabled, seccomp); engine = \"psync\" works"
    )]
    NoUring {
        /// The kernel's answer to io_uring_setup(2).
        errno: Errno,
    },
    /// A ring that worked does not any more.
    #[error("io_uring failed while it ran: {errno}; engine = \"psync\" does without it")]
    Ring {
        /// The kernel's answer to io_uring_enter(2).
        errno: Errno,
    },
    /// The space is too small for its files.
    #[error("{name}: {space} can't hold {what}; make size larger or block smaller")]
    TooSmall {
        /// Which victim or flood.
        name: String,
        /// The space that it may use.
        space: Bytes,
        /// The things that have to fit.
        what: String,
    },
    /// A flood without a size reached this crate.
    #[error("flood '{name}' has no size yet; settle it before preparing the flood")]
    NoSize {
        /// Which flood.
        name: String,
    },
    /// A thread could not be started.
    #[error(
        "can't start a thread: {errno}; lower threads or streams, or raise the limit (ulimit -u)"
    )]
    Thread {
        /// The kernel's answer.
        errno: Errno,
    },
    /// A thread panicked: a fault of this program.
    #[error("a load thread panicked; please report this as a fault of floodwall")]
    Panicked,
    /// A command that is a load could not be started.
    #[error(
        "can't start command '{command}': {errno}; /bin/sh must exist and the scratch directory be \
         accessible"
    )]
    Spawn {
        /// The command.
        command: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A command that is a load failed.
    #[error("command '{command}' {outcome}{}; run it by hand to see why", said(.last_line))]
    Command {
        /// The command.
        command: String,
        /// `exited with status 3`, `was killed by signal 9`, …
        outcome: String,
        /// The last line that it wrote to standard error, or else to standard output.
        last_line: Option<String>,
    },
    /// Processes of a command outlived SIGKILL.
    #[error(
        "processes of command '{command}' are still there {seconds} s after SIGKILL: {pids}; they \
         wait for I/O in the kernel"
    )]
    Survivors {
        /// The command.
        command: String,
        /// How long was waited.
        seconds: u64,
        /// Their process ids.
        pids: String,
    },
    /// /proc does not say how much I/O a command does.
    #[error(
        "can't count the I/O of command '{command}': {path}: {errno}; run as the command's user or \
         root, on a kernel with TASK_IO_ACCOUNTING"
    )]
    NoAccounting {
        /// The command.
        command: String,
        /// Which file.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A job made more requests than are kept.
    #[error(
        "a job keeps {most} requests at most, and made more; keep those of a millisecond together, \
         or end it earlier"
    )]
    TooManyKept {
        /// The limit.
        most: usize,
    },
    /// A flood in a separate process failed.
    #[error("a flood's process: {what}")]
    Apart {
        /// What the process said of it, or how it ended.
        what: String,
    },
    /// Files could not be removed.
    #[error("can't remove {0}")]
    Remove(#[from] TreeError),
    /// The caller's stop flag was raised.
    #[error("interrupted")]
    Interrupted,
}

impl LoadError {
    /// A failed system call on a file.
    pub(crate) fn io(
        operation: &'static str,
        path: impl AsRef<Path>,
        error: impl Into<AnyError>,
    ) -> Self {
        Self::Io { operation, path: path.as_ref().to_owned(), errno: error.into().0 }
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

/// What to do about an error of the filesystem or the device.
fn advice(operation: &str, errno: Errno) -> &'static str {
    match errno {
        // The kernel has one answer for both; making a file rarely takes the last block, but often
        // the last inode.
        Errno::NOSPC if operation == CREATE || operation == MAKE_DIRECTORY => {
            "; the filesystem is out of inodes (df -i) or of space (df -h): free some, make size \
             smaller, or use fewer and larger files"
        }
        Errno::NOSPC => "; free space there, or make size smaller",
        Errno::DQUOT => "; raise the quota, or make size smaller",
        Errno::IO => "; the device reported an error: see the kernel's log (dmesg)",
        Errno::ROFS => {
            "; the filesystem is read-only: the kernel may have made it so after an error (dmesg)"
        }
        Errno::MFILE | Errno::NFILE => "; use fewer files, or raise the limit (ulimit -n)",
        Errno::ACCESS | Errno::PERM => "; choose a directory that you may write in",
        Errno::FBIG => {
            "; the filesystem's or this process's largest file (ulimit -f) is smaller: use more \
             files"
        }
        Errno::NOMEM => "; memory or address space (ulimit -v) ran out: make size smaller",
        _ => "",
    }
}

fn said(line: &Option<String>) -> String {
    line.as_ref().map_or_else(String::new, |line| format!(": {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_on_what_and_what_to_do() {
        let full = LoadError::io("write", "/mnt/x", Errno::NOSPC).to_string();
        assert!(full.starts_with("can't write /mnt/x: "), "{full}");
        assert!(full.ends_with("; free space there, or make size smaller"), "{full}");
        let full = LoadError::io(CREATE, "/mnt/x", Errno::NOSPC).to_string();
        assert!(full.contains("out of inodes (df -i) or of space (df -h)"), "{full}");
        let command = LoadError::Command {
            command: "pgbench".into(),
            outcome: "exited with status 1".into(),
            last_line: Some("no such database".into()),
        };
        assert_eq!(
            command.to_string(),
            "command 'pgbench' exited with status 1: no such database; run it by hand to see why"
        );
        let block = LoadError::Misaligned { block: Bytes(512), align: 4096, path: "/mnt".into() };
        assert!(block.to_string().starts_with(
            "block 512 B is not aligned for direct I/O on this filesystem: needs a multiple of \
             4096 B"
        ));
    }
}
