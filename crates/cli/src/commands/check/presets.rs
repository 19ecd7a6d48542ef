//! The programs that a disk is checked for: how each writes its log, and the limit that its project
//! publishes. docs/check.md has the sources.

use std::time::Duration;

use floodwall_report::check::Counted;

/// A program's log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preset {
    /// Its victim in the form of `bench --victim`, without block and sync.
    pub(super) victim: &'static str,
    /// Bytes of each append.
    pub(super) block: u64,
    /// The call after each append.
    pub(super) sync: Sync,
    /// Which time the limit is for.
    pub(super) counted: Counted,
    /// The published limit with the page that publishes it.
    pub(super) limit: Option<(Duration, &'static str)>,
}

/// The programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Program {
    /// etcd's log: 2,300-byte appends, fdatasync under 10 ms.
    Etcd,
}

/// A call that makes an append stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Sync {
    /// fdatasync(2).
    Fdatasync,
    /// fsync(2).
    Fsync,
}

impl Sync {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fdatasync => "fdatasync",
            Self::Fsync => "fsync",
        }
    }
}

impl Program {
    /// As it is written on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
        }
    }

    /// How it writes.
    pub(super) fn preset(self) -> Preset {
        match self {
            Self::Etcd => Preset {
                // The size of the well-known fio job, in which the file grows.
                victim: "wal,size=22MiB,preallocated=false",
                block: 2300,
                sync: Sync::Fdatasync,
                counted: Counted::Sync,
                limit: Some((
                    Duration::from_millis(10),
                    "https://etcd.io/docs/v3.6/op-guide/hardware/",
                )),
            },
        }
    }
}
