//! Options of a plant.

use std::collections::BTreeMap;
use std::path::PathBuf;

use floodwall_probe::SourceKind;

use crate::units::Which;

/// Options of a plant.
#[derive(Clone, Debug)]
pub struct Options {
    /// The journal's directory.
    pub journal: PathBuf,
    /// Which devices.
    pub devices: Which,
    /// Where the filesystems of named directories were mounted earlier
    /// ([`crate::mount_points`]).
    pub mounted: BTreeMap<String, PathBuf>,
    /// Devices that observations leave out: a name, a path below /dev or a number. A later device
    /// of that name counts, too.
    pub exclude: Vec<String>,
    /// The probe's source; `None`: the best that works.
    pub source: Option<SourceKind>,
    /// Nothing can be written, and no journal is kept.
    pub dry_run: bool,
    /// The purpose that the journal states.
    pub why: String,
    /// The socket at which this process can be asked to yield a knob, for the journal.
    pub socket: Option<PathBuf>,
}

impl Options {
    /// All devices, the best source, for real.
    #[must_use]
    pub fn new(journal: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        let (journal, why) = (journal.into(), why.into());
        Self {
            journal,
            devices: Which::All,
            mounted: BTreeMap::new(),
            exclude: Vec::new(),
            source: None,
            dry_run: false,
            why,
            socket: None,
        }
    }
}
