//! Whether a disk is good enough for a program: the same writes alone, beside a flood, and beside a
//! flood with a guard.
//!
//! ```text
//! latencies of each run, limit ─▶ Grade ─┐
//!                                        ├▶ Fitness ─▶ sentence ─┬▶ text
//! runs that were left out ───────────────┘   └▶ what to do next ─┴▶ JSON, JUnit, Nagios
//! ```

mod grade;
mod json;
mod junit;
mod nagios;
mod text;
mod verdict;

use std::time::Duration;

use floodwall_model::status::Missing;
use floodwall_model::{Bytes, LatencyCounts};

use crate::numbers::whole;

pub use grade::Grade;
pub use json::{SCHEMA, json};
pub use junit::junit;
pub use nagios::{UNKNOWN, nagios, nagios_failed};
pub use text::text;
pub use verdict::{Fitness, Verdict, verdict};

/// A check and its runs.
#[derive(Clone, Debug)]
pub struct Check {
    /// The writes and the limit.
    pub goal: Goal,
    /// The directory that was named.
    pub directory: String,
    /// Its filesystem's type.
    pub filesystem: String,
    /// The disk below it, by the kernel's name; `None` without one.
    pub device: Option<String>,
    /// The runs, in order: alone, beside a flood, beside a flood with a guard.
    pub runs: Vec<Run>,
    /// Values that could not be read, and why.
    pub missing: Vec<Missing>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// How long it all took, in seconds.
    pub seconds: f64,
}

/// The writes that stand for a program, and how long they may take.
#[derive(Clone, Debug)]
pub struct Goal {
    /// The program: `etcd`.
    pub program: String,
    /// Into what it writes.
    pub writes: Writes,
    /// Bytes of each append, or of a page.
    pub block: Bytes,
    /// The call that makes them stable: `fdatasync`.
    pub call: &'static str,
    /// The time that counts.
    pub counted: Counted,
    /// 99 of 100 must take less.
    pub limit: Duration,
    /// The page that publishes the limit; `None` if the user gave it.
    pub source: Option<&'static str>,
}

/// Into what a program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// A log that grows with each append.
    GrowingLog,
    /// A log in a file that is full beforehand, so that no append changes the file's metadata.
    FullLog,
    /// Pages of a database by way of a rollback journal.
    Journal,
}

/// The time that is held against the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The sync call's alone.
    Sync,
    /// That of the writes and their syncs.
    Commit,
}

/// The load beside the program during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// A flood.
    Flood,
    /// A flood, and a guard that steers the disk.
    GuardedFlood,
}

impl Beside {
    /// As tables and sentences call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "alone",
            Self::Flood => "beside a flood",
            Self::GuardedFlood => "beside a flood, guarded",
        }
    }

    /// As programs read it.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Nothing => "alone",
            Self::Flood => "flood",
            Self::GuardedFlood => "guarded",
        }
    }
}

/// A run, or why it was left out.
#[derive(Clone, Debug)]
pub struct Run {
    /// The load beside it.
    pub beside: Beside,
    /// The figures, or why there are none.
    pub measured: Result<Measured, String>,
}

/// The figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Length of the measured part in seconds.
    pub seconds: f64,
    /// Times of the sync calls.
    pub sync: LatencyCounts,
    /// Times of the writes, each with its sync.
    pub commit: LatencyCounts,
    /// Bytes a second that the flood wrote; `None` without a flood.
    pub flood_bytes_per_s: Option<f64>,
    /// The flood was too small for the kernel to write it back: the limit from which on it would
    /// have, in bytes.
    pub flood_stays_below: Option<Bytes>,
}

impl Goal {
    /// The times that are held against the limit.
    #[must_use]
    pub fn counted<'a>(&self, measured: &'a Measured) -> &'a LatencyCounts {
        match self.counted {
            Counted::Sync => &measured.sync,
            Counted::Commit => &measured.commit,
        }
    }

    /// The name of one of them: `fdatasync`, `commit`.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        match self.counted {
            Counted::Sync => self.call,
            Counted::Commit => "commit",
        }
    }

    /// The writes in words.
    #[must_use]
    pub fn load(&self) -> String {
        let block = if self.block.0 < 10_000 && !self.block.0.is_multiple_of(1024) {
            format!("{} bytes", whole(self.block.0))
        } else {
            self.block.to_string()
        };
        match self.writes {
            Writes::GrowingLog | Writes::FullLog => {
                format!("appends of {block}, {} after each", self.call)
            }
            Writes::Journal => format!(
                "commits of a page of {block} through a rollback journal, four {}s each",
                self.call
            ),
        }
    }

    /// Whether a run kept within the limit.
    #[must_use]
    pub fn grade(&self, measured: &Measured) -> Grade {
        grade::grade(self.counted(measured), self.limit)
    }
}

impl Check {
    /// The grade of a run; `None` if it was left out.
    #[must_use]
    pub fn grade_of(&self, beside: Beside) -> Option<Grade> {
        Some(self.goal.grade(self.measured(beside)?))
    }

    /// The figures of a run; `None` if it was left out.
    #[must_use]
    pub fn measured(&self, beside: Beside) -> Option<&Measured> {
        let run = self.runs.iter().find(|run| run.beside == beside)?;
        run.measured.as_ref().ok()
    }
}

#[cfg(test)]
mod tests;
