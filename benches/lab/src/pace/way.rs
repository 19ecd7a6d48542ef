//! Ways to copy a file.

use std::path::Path;

use clap::ValueEnum;

/// A disk, an array with a battery-backed cache, a worn SSD, a cloud volume and a stick.
pub(super) const DEVICES: [&str; 5] =
    ["hdd-7200", "raid10-bbwc-2010", "sata-ssd-worn", "cloud-gp3", "usb-stick"];

/// A way to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// cp, then sync of the filesystem.
    Cp,
    /// The same at idle I/O priority.
    Ionice,
    /// dd past the page cache.
    Direct,
    /// rsync at a guessed rate, then sync.
    Bwlimit,
    /// The copy of floodwall itself.
    PaceCp,
    /// cp, paced.
    Pace,
}

impl Way {
    pub(super) const ALL: [Self; 6] =
        [Self::Cp, Self::Ionice, Self::Direct, Self::Bwlimit, Self::PaceCp, Self::Pace];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cp => "cp",
            Self::Ionice => "ionice",
            Self::Direct => "direct",
            Self::Bwlimit => "bwlimit",
            Self::PaceCp => "pace-cp",
            Self::Pace => "pace",
        }
    }

    /// As the document's table calls it.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Cp => "`cp`, then `sync`",
            Self::Ionice => "`ionice -c3 cp`, then `sync`",
            Self::Direct => "`dd bs=1M oflag=direct`",
            Self::Bwlimit => "`rsync --bwlimit=20M`, then `sync`",
            Self::PaceCp => "`floodwall pace cp`",
            Self::Pace => "`floodwall pace -- cp`",
        }
    }

    /// The shell command that copies to a file in the current directory.
    pub(super) fn command(self, floodwall: &Path, source: &Path) -> String {
        let (floodwall, source) = (floodwall.display(), source.display());
        let sync = "sync -f copy";
        match self {
            Self::Cp => format!("cp {source} copy && {sync}"),
            Self::Ionice => format!("ionice -c3 cp {source} copy && {sync}"),
            Self::Direct => format!("dd if={source} of=copy bs=1M oflag=direct status=none"),
            Self::Bwlimit => {
                let rsync = "rsync --inplace --whole-file --ignore-times --bwlimit=20M";
                format!("{rsync} {source} copy && {sync}")
            }
            Self::PaceCp => format!("{floodwall} pace --quiet cp {source} copy"),
            Self::Pace => format!("{floodwall} pace --quiet -- cp {source} copy && {sync}"),
        }
    }
}
