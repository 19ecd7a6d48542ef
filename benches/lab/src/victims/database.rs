//! A victim as a trial uses it.

use std::time::Duration;

use serde_json::Value;

use super::summary::Measured;

/// A database that can be asked to commit.
pub(super) trait Database {
    /// Commits for so long.
    fn run(&mut self, time: Duration) -> anyhow::Result<Measured>;
    /// The process that serves it, if there is one before it is asked to commit.
    fn process(&self) -> Option<u32> {
        None
    }
    /// The command, in words, that loads lines of its standard input into a table of the database;
    /// `FLOOD` in them stands for the table's name.
    fn load(&self) -> Vec<String>;
    /// Its version and settings, for the record.
    fn about(&mut self) -> anyhow::Result<Value>;
}
