//! Which filesystems there are, and what differs between them in figures.

use std::fmt;
use std::str::FromStr;

use floodwall_device::Nanos;

/// A filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FsKind {
    /// xfs.
    Xfs,
    /// ext4.
    Ext4,
    /// ext3 with `data=ordered`, as distributions mounted it.
    Ext3,
    /// ext3 with `data=writeback`, the default of unpatched kernels from 2.6.30 to 2.6.35.
    Ext3Writeback,
    /// btrfs.
    Btrfs,
    /// None: the block device itself.
    Raw,
    /// An NFS mount; the device is a link with a server behind it.
    Nfs {
        /// Whether the export is `async`: COMMIT is answered before anything is stable.
        server_async: bool,
    },
}

const NAMES: &[(&str, FsKind)] = &[
    ("xfs", FsKind::Xfs),
    ("ext4", FsKind::Ext4),
    ("ext3", FsKind::Ext3),
    ("ext3-writeback", FsKind::Ext3Writeback),
    ("btrfs", FsKind::Btrfs),
    ("raw", FsKind::Raw),
    ("nfs", FsKind::Nfs { server_async: false }),
    ("nfs-async", FsKind::Nfs { server_async: true }),
];

/// No such filesystem here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no filesystem that the model has; use xfs, ext4, ext3, ext3-writeback, btrfs, raw, \
     nfs or nfs-async"
)]
pub struct UnknownFs(pub String);

impl FromStr for FsKind {
    type Err = UnknownFs;

    fn from_str(text: &str) -> Result<Self, UnknownFs> {
        NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, kind)| *kind)
            .ok_or_else(|| UnknownFs(text.into()))
    }
}

impl fmt::Display for FsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(NAMES.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name))
    }
}

impl FsKind {
    /// What the tick of a file's times is: ext3 keeps whole seconds, the others what the kernel's
    /// coarse clock shows.
    pub(super) fn time_granule(self, hz: u32) -> Nanos {
        match self {
            Self::Ext3 | Self::Ext3Writeback => Nanos::from_secs(1),
            _ => Nanos(1_000_000_000 / u64::from(hz.max(1))),
        }
    }

    /// The interval of commits that no process asks for.
    pub(super) fn commit_interval(self) -> Option<Nanos> {
        match self {
            Self::Ext3 | Self::Ext3Writeback | Self::Ext4 => Some(Nanos::from_secs(5)),
            Self::Xfs | Self::Btrfs => Some(Nanos::from_secs(30)),
            Self::Raw | Self::Nfs { .. } => None,
        }
    }

    /// Places where directories start: xfs' allocation groups, ext's groups of a directory, else
    /// nothing.
    pub(super) fn areas(self) -> u64 {
        match self {
            // mkfs.xfs: 4 on a single disk, 16 and more on arrays.
            Self::Xfs => 4,
            Self::Ext4 | Self::Ext3 | Self::Ext3Writeback => 8,
            Self::Btrfs | Self::Raw | Self::Nfs { .. } => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for (name, kind) in NAMES {
            assert_eq!((name.parse(), kind.to_string()), (Ok(*kind), (*name).to_owned()));
        }
        assert!("zfs".parse::<FsKind>().unwrap_err().to_string().contains("use xfs, ext4"));
    }
}
