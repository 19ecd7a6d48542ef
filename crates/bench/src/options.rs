//! The options of the host runner.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use floodwall_load::User;

/// Why there are no groups of victims and floods where the user wants none.
pub(crate) const SAME_GROUP: &str = "--same-group keeps victims and floods in one group";

/// How a host runner is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Measure also on filesystems that leave writeback to another one.
    pub force: bool,
    /// Makes offsets and data repeatable.
    pub seed: u64,
    /// When the program began: the run's time axis.
    pub origin: Instant,
    /// Set to end the run.
    pub stop: Arc<AtomicBool>,
    /// The user that runs commands; the caller if absent.
    pub user: Option<User>,
    /// The program, with its arguments, that floods as a separate process
    /// ([`floodwall_load::apart::serve`]). Without it, floods are threads of this process and in
    /// its control group.
    pub flood_command: Vec<PathBuf>,
    /// The program, with its arguments, that makes the filesystem of its input stable
    /// ([`crate::drain::serve`]). Without it a thread of this process does, and the process can't
    /// end before that call returns.
    pub sync_command: Vec<PathBuf>,
    /// Leave victims and floods in one control group.
    pub same_group: bool,
}

impl Options {
    /// Nothing forced, loads as threads of the caller.
    #[must_use]
    pub fn new(origin: Instant, stop: Arc<AtomicBool>) -> Self {
        Self {
            force: false,
            seed: 0,
            origin,
            stop,
            user: None,
            flood_command: Vec::new(),
            sync_command: Vec::new(),
            same_group: true,
        }
    }
}
