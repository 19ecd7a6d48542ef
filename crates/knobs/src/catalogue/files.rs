//! Files of /proc and /sys, read and written whole: those of a machine or of a captured tree
//! ([`KernelFiles`](crate::KernelFiles)), or a kernel in memory that tests can kill at any write.

use std::io;
use std::os::fd::OwnedFd;

use floodwall_host::SysRoot;
use floodwall_model::Reading;
use rustix::io::Errno;

/// Where cgroup v2 is mounted by convention.
pub(crate) const CGROUPS: &str = "/sys/fs/cgroup";

/// Files of /proc and /sys, read and written whole.
pub trait Files {
    /// A whole file.
    ///
    /// # Errors
    /// The kernel's error number, unchanged: some files mean something by it.
    fn read(&self, path: &str) -> rustix::io::Result<String>;

    /// The names in a directory, sorted; empty if it is not there.
    fn list(&self, path: &str) -> Vec<String>;

    /// A symbolic link's target; includes the magic links of /proc.
    ///
    /// # Errors
    /// The kernel's error number, unchanged.
    fn link(&self, path: &str) -> rustix::io::Result<String>;

    /// Writes one value.
    ///
    /// # Errors
    /// The kernel's error number, unchanged.
    fn write(&self, path: &str, value: &str) -> rustix::io::Result<()>;

    /// Whether a write would be let through as far as permissions go. Changes nothing.
    ///
    /// # Errors
    /// The kernel's error number.
    fn may_write(&self, path: &str) -> rustix::io::Result<()>;

    /// Size of a page in bytes.
    fn page_bytes(&self) -> u64;

    /// The tree in which plans look for userspace block servers that a lower limit could hang;
    /// `None` if they are not to look.
    fn servers_root(&self) -> Option<&SysRoot> {
        None
    }
}

/// A one-line file, or the reason why it can't be read.
pub(crate) fn read_line(files: &dyn Files, path: &str) -> Reading<String> {
    match files.read(path) {
        Ok(text) => Reading::Value(text.trim().to_owned()),
        Err(error) => missing(path, error),
    }
}

/// A file that holds one whole number.
pub(crate) fn read_number(files: &dyn Files, path: &str) -> Reading<u64> {
    read_line(files, path).and_then(|text| match text.parse() {
        Ok(number) => Reading::Value(number),
        Err(_) => Reading::Unreadable(format!("{path}: not a number")),
    })
}

/// Why a file gave nothing: absent if it is not there, unreadable for every other reason.
pub(crate) fn missing<T>(path: &str, error: Errno) -> Reading<T> {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NODEV | Errno::NXIO => {
            Reading::Absent(format!("{path} does not exist"))
        }
        Errno::ACCESS | Errno::PERM => {
            Reading::Unreadable(format!("{path}: permission denied; run as root"))
        }
        other => Reading::Unreadable(format!("{path}: {}", io::Error::from(other))),
    }
}

/// Kernel files take a value in one write(2); a second one would be a second value.
pub(crate) fn write_once(file: &OwnedFd, text: &str) -> rustix::io::Result<()> {
    loop {
        match rustix::io::write(file, text.as_bytes()) {
            Ok(n) if n == text.len() => return Ok(()),
            Ok(_) => return Err(Errno::IO),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
}
