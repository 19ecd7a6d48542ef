//! One workload's runs, as they are kept.

use std::path::Path;
use std::process::Command;

use published::origin::Origin;
use serde::{Deserialize, Serialize};

use crate::compare::Round;
use crate::tools::Workload;

/// The repository's directory.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// What the figures depend on, beside the peers.
const INPUTS: [&str; 3] = ["engines", "lab", "device-presets"];

/// Everything that the table is computed from.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Stored {
    /// `disk` or `tmpfs`.
    pub(crate) place: String,
    /// What the disk is.
    pub(crate) device: String,
    pub(crate) workload: Workload,
    /// Measured by each tool in each round.
    pub(crate) seconds: u32,
    pub(crate) machine: Machine,
    /// The sources that it was measured with; empty if they were not there.
    pub(crate) origin: Origin,
    pub(crate) rounds: Vec<Round>,
}

/// The machine and the peers.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Machine {
    pub(crate) kernel: Option<String>,
    pub(crate) cpus: usize,
    pub(crate) fio: Option<String>,
    pub(crate) sysbench: Option<String>,
}

impl Machine {
    fn this() -> Self {
        let version = |program: &str| {
            let output = Command::new(program).arg("--version").output().ok()?;
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
                .filter(|v| !v.is_empty())
        };
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Self {
            kernel: kernel.map(|text| text.trim().to_owned()),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            fio: version("fio"),
            sysbench: version("sysbench"),
        }
    }
}

impl Stored {
    /// Runs that were just made on this machine.
    pub(crate) fn new(
        place: &str,
        device: &str,
        workload: Workload,
        seconds: u32,
        rounds: Vec<Round>,
    ) -> Self {
        let (place, device) = (place.to_owned(), device.to_owned());
        let origin = Origin::now(Path::new(ROOT), &INPUTS).unwrap_or_default();
        Self { place, device, workload, seconds, machine: Machine::this(), origin, rounds }
    }
}
