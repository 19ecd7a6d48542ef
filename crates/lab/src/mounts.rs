//! The table of mounts.
//!
//! A mount is always looked up in `/proc/self/mountinfo` (proc_pid_mountinfo(5)), never by its
//! path: a path below a dead mount can block.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::error::LabError;

/// One line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// `MAJOR:MINOR`; an anonymous number for btrfs and FUSE.
    pub(crate) dev: String,
    pub(crate) dir: PathBuf,
    pub(crate) fs_type: String,
    pub(crate) source: PathBuf,
}

/// All mounts, in the order in which they were made.
///
/// # Errors
/// When /proc is not there.
pub(crate) fn all() -> Result<Vec<Mount>, LabError> {
    let path = Path::new("/proc/self/mountinfo");
    let text = fs::read(path).map_err(|e| LabError::io("read", path, e))?;
    Ok(read(&text).collect())
}

/// The mounts in a mountinfo's text.
pub(crate) fn read(text: &[u8]) -> impl Iterator<Item = Mount> {
    text.split(|b| *b == b'\n').filter_map(parse)
}

/// `ID PARENT MAJ:MIN ROOT DIR OPTIONS [TAG…] - TYPE SOURCE SUPER`
fn parse(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let dash = fields.iter().skip(6).position(|f| *f == b"-")? + 6;
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    Some(Mount {
        dev: text(fields[2]),
        dir: unescape(fields[4]),
        fs_type: text(fields.get(dash + 1)?),
        source: unescape(fields.get(dash + 2)?),
    })
}

/// Space, tab, newline and backslash are written as `\040` and so on.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal =
            after.get(..3).filter(|d| byte == b'\\' && d.iter().all(|c| (b'0'..=b'7').contains(c)));
        match octal {
            Some(digits) => {
                out.push(
                    digits.iter().fold(0u8, |acc, c| acc.wrapping_mul(8).wrapping_add(c - b'0')),
                );
                rest = &after[3..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(out).into()
}

/// The mounts of a block device, the last made first. btrfs is known by its source: its device
/// number is anonymous.
pub(crate) fn of_device(device: &Path, dev: Option<&str>) -> Result<Vec<Mount>, LabError> {
    Ok(all()?
        .into_iter()
        .rev()
        .filter(|m| m.source == device || Some(m.dev.as_str()) == dev)
        .collect())
}

/// The last mount on a directory, if there is one.
pub(crate) fn on(dir: &Path) -> Result<Option<Mount>, LabError> {
    Ok(all()?.into_iter().rfind(|m| m.dir == dir))
}

/// Whether a filesystem can be mounted on a directory.
///
/// # Errors
/// [`LabError::MountPoint`] with the reason.
pub(crate) fn check_mount_point(dir: &Path) -> Result<PathBuf, LabError> {
    let refused = |why| LabError::MountPoint { dir: dir.into(), why };
    let real = match fs::canonicalize(dir) {
        Ok(real) => real,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(refused("there is no such directory; make it first"));
        }
        Err(e) => return Err(LabError::io("look at", dir, e)),
    };
    if !real.is_dir() {
        return Err(refused("it is not a directory; name one"));
    }
    if on(&real)?.is_some() {
        return Err(refused("something is mounted there; choose another directory, or unmount it"));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_lines_are_read_with_and_without_tags() {
        let plain = b"36 35 98:0 /mnt1 /mnt2 rw,noatime - ext3 /dev/root rw,errors=continue";
        let tagged =
            b"37 35 0:54 / /run/a\\040b rw master:1 shared:2 - fuse.floodwall-lab lab:x rw";
        assert_eq!(
            parse(tagged),
            Some(Mount {
                dev: "0:54".into(),
                dir: "/run/a b".into(),
                fs_type: "fuse.floodwall-lab".into(),
                source: "lab:x".into(),
            })
        );
        assert_eq!(parse(plain).map(|m| (m.dev, m.fs_type)), Some(("98:0".into(), "ext3".into())));
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"36 35 98:0 / /mnt rw"), None);
    }

    #[test]
    fn a_mount_point_must_be_a_directory_without_a_mount() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check_mount_point(dir.path()).is_ok());
        let absent = check_mount_point(&dir.path().join("no")).unwrap_err().to_string();
        assert!(absent.ends_with("there is no such directory; make it first"), "{absent}");
        let taken = check_mount_point(Path::new("/proc")).unwrap_err().to_string();
        assert!(taken.contains("something is mounted there"), "{taken}");
    }
}
