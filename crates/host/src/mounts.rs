//! Mounted filesystems: /proc/self/mountinfo, the mount that covers a path, and the filesystems
//! without separate writeback.

use std::path::{Path, PathBuf};

use floodwall_model::{DeviceId, Reading};
use procfs_core::process::MountInfo;

use crate::root::{SysRoot, not_understood};
use crate::text::unescape_octal;

/// The file that everything here comes from.
pub const MOUNTINFO: &str = "/proc/self/mountinfo";

/// One mounted filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The kernel's number of the mount.
    pub id: i32,
    /// The mount that this one is on.
    pub parent: i32,
    /// `st_dev` of its files; major 0 where the filesystem has no block device, or several.
    pub device: DeviceId,
    /// The directory of the filesystem that is mounted here.
    pub root: String,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// Its type (`ext4`, `fuse.sshfs`).
    pub fs_type: String,
    /// The device, server path or name given to mount.
    pub source: Option<String>,
    /// The mount's and the filesystem's options, each once, `rw` or `ro` first, then in the order
    /// of the alphabet.
    pub options: Vec<String>,
    /// Whether the mount or the filesystem is read-only.
    pub read_only: bool,
}

/// Whether the kernel charges a filesystem's writeback to control groups (`SB_I_CGROUPWB`;
/// Documentation/admin-guide/cgroup-v2.rst, "Writeback").
#[must_use]
pub fn charges_writeback(fs_type: &str) -> bool {
    matches!(fs_type, "ext2" | "ext3" | "ext4" | "btrfs" | "f2fs" | "xfs")
}

/// Every mount of this process's namespace, in the order in which they were made visible.
pub fn read_mounts(root: &SysRoot) -> Reading<Vec<Mount>> {
    root.read(MOUNTINFO).and_then(|text| {
        let mounts = parse(&text);
        if mounts.is_empty() { not_understood(MOUNTINFO, &text) } else { Reading::Value(mounts) }
    })
}

/// The mounts that a mountinfo file lists.
#[must_use]
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

/// A line that is not understood is left out: a new kernel's field for one mount should not hide
/// the others.
fn parse_line(line: &str) -> Option<Mount> {
    let info = MountInfo::from_line(line).ok()?;
    let flat = |options: std::collections::HashMap<String, Option<String>>| {
        options.into_iter().map(|(name, value)| match value {
            Some(value) => format!("{name}={}", unescape_octal(&value)),
            None => name,
        })
    };
    let read_only = info.mount_options.contains_key("ro") || info.super_options.contains_key("ro");
    let mut options: Vec<String> = flat(info.mount_options)
        .chain(flat(info.super_options))
        .filter(|o| o != "rw" && o != "ro")
        .collect();
    options.sort_unstable();
    options.dedup();
    options.insert(0, if read_only { "ro" } else { "rw" }.to_owned());
    Some(Mount {
        id: info.mnt_id,
        parent: info.pid,
        device: info.majmin.parse().ok()?,
        root: unescape_octal(&info.root),
        mountpoint: PathBuf::from(unescape_octal(&info.mount_point.to_string_lossy())),
        fs_type: info.fs_type,
        source: info.mount_source.map(|s| unescape_octal(&s)),
        options,
        read_only,
    })
}

/// The mount that a lookup of an absolute path without symbolic links ends in.
///
/// Walks the tree of mounts as the kernel does, so a mount that a later one covers is not found.
/// `None` if no mount covers the path (inside a chroot whose root is not a mount point).
#[must_use]
pub fn covering<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let is_top = |m: &Mount| m.parent == m.id || !mounts.iter().any(|other| other.id == m.parent);
    let mut current = mounts.iter().find(|m| is_top(m) && m.mountpoint == Path::new("/"))?;
    // Each step goes to a child; more steps than mounts would be a cycle in a damaged file.
    for _ in 0..mounts.len() {
        let child = mounts
            .iter()
            .filter(|m| {
                m.parent == current.id && m.id != current.id && path.starts_with(&m.mountpoint)
            })
            .min_by_key(|m| m.mountpoint.as_os_str().len());
        match child {
            Some(child) => current = child,
            None => break,
        }
    }
    Some(current)
}

/// The reason why a filesystem's dirty pages are not written back to a separate device or server;
/// `None` if they are.
#[must_use]
pub(crate) fn without_own_writeback(mount: &Mount) -> Option<&'static str> {
    let fs_type = mount.fs_type.as_str();
    let has = |option: &str| mount.options.iter().any(|o| o == option);
    match fs_type {
        "tmpfs" | "ramfs" | "rootfs" | "hugetlbfs" | "shm" => {
            Some("it lives in memory: nothing is ever written back to a device")
        }
        "overlay" | "aufs" | "unionfs" | "ecryptfs" => Some(
            "it is stacked on other directories: dirty pages belong to the filesystem below its \
             upper one",
        ),
        "zfs" => Some(
            "it keeps dirty data in its own cache, not in the page cache: the kernel's dirty \
             limits do not apply",
        ),
        "squashfs" | "erofs" | "iso9660" | "cramfs" | "romfs" => Some("it can't be written"),
        "9p" if !["cache=loose", "cache=fscache", "cache=mmap"].iter().any(|o| has(o)) => {
            Some("without a cache= option, 9p passes every write straight to its server")
        }
        "fuse" | "virtiofs" => Some(FUSE),
        _ if fs_type.starts_with("fuse.") => Some(FUSE),
        _ if has("dax") || has("dax=always") => {
            Some("it is mounted with dax: writes bypass the page cache")
        }
        _ if is_kernel_interface(fs_type) => {
            Some("it is an interface of the kernel and stores no files")
        }
        _ => None,
    }
}

/// Whether a mount option names or addresses a server or a user: nothing that a status or a
/// captured tree should tell others.
#[must_use]
pub(crate) fn is_private_option(option: &str) -> bool {
    const PRIVATE: [&str; 9] = [
        "addr=",
        "clientaddr=",
        "mountaddr=",
        "username=",
        "user=",
        "domain=",
        "password=",
        "mon_addr=",
        "secret=",
    ];
    PRIVATE.iter().any(|private| option.starts_with(private))
}

const FUSE: &str = "it is FUSE: writes go straight to its server process, or are held to 1 % of \
    the limits (fs/fuse/inode.c)";

/// Filesystems that show the kernel's state.
#[must_use]
pub(crate) fn is_kernel_interface(fs_type: &str) -> bool {
    matches!(
        fs_type,
        "autofs"
            | "bdev"
            | "binder"
            | "binfmt_misc"
            | "bpf"
            | "cgroup"
            | "cgroup2"
            | "configfs"
            | "debugfs"
            | "devpts"
            | "devtmpfs"
            | "efivarfs"
            | "fusectl"
            | "mqueue"
            | "nfsd"
            | "nsfs"
            | "pipefs"
            | "proc"
            | "pstore"
            | "resctrl"
            | "rpc_pipefs"
            | "securityfs"
            | "selinuxfs"
            | "smackfs"
            | "sockfs"
            | "sysfs"
            | "tracefs"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::tree;

    const TEXT: &str = "\
22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro
23 22 0:5 / /proc rw - proc proc rw
30 22 8:3 / /srv/a/b rw - xfs /dev/sda3 rw
31 22 8:17 / /srv/a ro,noatime master:3 propagate_from:1 - xfs /dev/sdb1 rw,attr2
32 31 8:18 / /srv/a rw - ext4 /dev/sdb2 rw
33 22 0:44 /exports/x\\040y /mnt/with\\040space rw,relatime - nfs4 server:/exports rw,vers=4.2
garbage
";

    fn mounts() -> Vec<Mount> {
        let (_dir, root) = tree(&[("proc/self/mountinfo", TEXT)]);
        read_mounts(&root).into_value().unwrap()
    }

    #[test]
    fn a_bad_line_hides_nothing_else() {
        let mounts = mounts();
        assert_eq!(mounts.len(), 6);
        assert_eq!(mounts[5].mountpoint, Path::new("/mnt/with space"));
        assert_eq!(mounts[5].source.as_deref(), Some("server:/exports"));
        assert_eq!(mounts[3].options, ["ro", "attr2", "noatime"]);
        assert!(mounts[3].read_only && !mounts[4].read_only);
    }

    #[test]
    fn the_lookup_goes_the_way_of_the_kernel() {
        let mounts = mounts();
        let at = |path: &str| covering(&mounts, Path::new(path)).unwrap().device.to_string();
        assert_eq!(at("/"), "8:2");
        assert_eq!(at("/srv"), "8:2");
        assert_eq!(at("/srv/abc"), "8:2");
        // The later of two mounts on one directory, and no mount that it hides.
        assert_eq!(at("/srv/a"), "8:18");
        assert_eq!(at("/srv/a/b/file"), "8:18");
    }

    #[test]
    fn a_cycle_in_a_damaged_file_ends() {
        let (_dir, root) = tree(&[(
            "proc/self/mountinfo",
            "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 3 8:2 / / rw - ext4 a rw\n\
             3 2 8:3 / / rw - ext4 b rw\n4 1 8:4 / / rw - ext4 c rw\n4 4 8:5 / / rw - x y rw\n",
        )]);
        let mounts = read_mounts(&root).into_value().unwrap();
        assert!(covering(&mounts, Path::new("/x")).is_some());
    }

    #[test]
    fn filesystems_without_writeback_are_known_with_their_reason() {
        let mut mount = mounts().remove(0);
        assert_eq!(without_own_writeback(&mount), None);
        mount.options.push("dax=always".into());
        assert!(without_own_writeback(&mount).is_some_and(|why| why.contains("dax")));
        mount.options.pop();
        for fs_type in ["tmpfs", "overlay", "proc", "fuse.sshfs", "zfs", "9p", "squashfs"] {
            mount.fs_type = fs_type.into();
            assert!(without_own_writeback(&mount).is_some(), "{fs_type}");
        }
        for fs_type in ["nfs4", "cifs", "btrfs", "xfs", "fuseblk"] {
            mount.fs_type = fs_type.into();
            assert!(without_own_writeback(&mount).is_none(), "{fs_type}");
        }
    }
}
