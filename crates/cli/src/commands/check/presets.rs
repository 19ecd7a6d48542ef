//! The programs that a disk is checked for: how each writes what a commit waits for, and the limit
//! that its project publishes. docs/check.md has the sources.

use std::time::Duration;

use floodwall_report::check::{Counted, Writes};

/// How a program writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preset {
    /// Into what.
    pub(super) writes: Writes,
    /// Bytes of each append, or of a page.
    pub(super) block: u64,
    /// The call that makes them stable.
    pub(super) sync: Sync,
    /// The time that the limit is for.
    pub(super) counted: Counted,
    /// The published limit, with the page that publishes it.
    pub(super) limit: Option<(Duration, &'static str)>,
}

/// The programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Program {
    /// The log of etcd: appends of 2,300 bytes; p99 of fdatasync under 10 ms.
    Etcd,
    /// The transaction log of ZooKeeper: appends of 1 KiB; p99 of fdatasync under 1 s, beyond which
    /// ZooKeeper warns.
    Zookeeper,
    /// The WAL of PostgreSQL: pages of 8 KiB in recycled files, fdatasync; needs --p99.
    Postgresql,
    /// The redo log of InnoDB: blocks of 512 bytes in files of fixed size, fsync; needs --p99.
    Mysql,
    /// The doublewrite buffer of InnoDB: batches of 64 pages (1 MiB), fsync; no commit waits for
    /// them, but the flushing of pages does; needs --p99.
    MysqlDoublewrite,
    /// The WAL of SQLite: frames of one page (4,120 bytes), fdatasync; needs --p99.
    Sqlite,
    /// A commit of SQLite with its rollback journal: one page changed, four fdatasync; needs --p99.
    SqliteJournal,
    /// The metadata log of Kafka's controllers (KRaft): appends of 1 KiB, fsync; needs --p99.
    Kafka,
    /// Any program: appends of --block, fdatasync or --sync after each; needs --p99.
    Any,
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
            Self::Zookeeper => "zookeeper",
            Self::Postgresql => "postgresql",
            Self::Mysql => "mysql",
            Self::MysqlDoublewrite => "mysql-doublewrite",
            Self::Sqlite => "sqlite",
            Self::SqliteJournal => "sqlite-journal",
            Self::Kafka => "kafka",
            Self::Any => "any",
        }
    }

    /// How it writes.
    pub(super) fn preset(self) -> Preset {
        // A log in a file that is full beforehand, and a limit that only the user knows.
        let log = |block, sync| Preset {
            writes: Writes::FullLog,
            block,
            sync,
            counted: Counted::Commit,
            limit: None,
        };
        match self {
            Self::Etcd => Preset {
                writes: Writes::GrowingLog,
                block: 2300,
                sync: Sync::Fdatasync,
                counted: Counted::Sync,
                limit: Some((Duration::from_millis(10), "https://etcd.io/docs/latest/faq/")),
            },
            Self::Zookeeper => Preset {
                writes: Writes::GrowingLog,
                block: 1024,
                sync: Sync::Fdatasync,
                counted: Counted::Sync,
                limit: Some((
                    Duration::from_secs(1),
                    "https://zookeeper.apache.org/doc/current/zookeeperAdmin.html \
                     (fsync.warningthresholdms)",
                )),
            },
            Self::Postgresql => log(8 << 10, Sync::Fdatasync),
            Self::Mysql => log(512, Sync::Fsync),
            Self::MysqlDoublewrite => log(1 << 20, Sync::Fsync),
            Self::Sqlite => log(4120, Sync::Fdatasync),
            Self::SqliteJournal => {
                Preset { writes: Writes::Journal, ..log(4 << 10, Sync::Fdatasync) }
            }
            Self::Kafka => Preset { writes: Writes::GrowingLog, ..log(1 << 10, Sync::Fsync) },
            Self::Any => log(4 << 10, Sync::Fdatasync),
        }
    }
}
