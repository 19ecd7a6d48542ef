//! What the run of one kernel told, kept in the repository: `data/NAME.json`.

use std::collections::BTreeMap;
use std::path::Path;

use published::origin::Origin;
use published::stored;
use serde::{Deserialize, Serialize};

use crate::said::{Outcome, Said};

/// A kernel's run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct KernelData {
    /// As on the command line.
    pub(crate) name: String,
    /// The release that booted; `None` if it never said.
    pub(crate) kernel: Option<String>,
    /// Why it was left out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) left_out: Option<String>,
    /// The sources that were checked.
    #[serde(default)]
    pub(crate) origin: Origin,
    /// In the order in which they ended.
    pub(crate) checks: Vec<CheckData>,
    /// Capabilities, and how each is there.
    pub(crate) has: BTreeMap<String, String>,
    /// The check that is running.
    #[serde(skip)]
    pub(crate) running: Option<String>,
}

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CheckData {
    pub(crate) check: String,
    pub(crate) outcome: Outcome,
}

impl KernelData {
    /// Takes a message of the guest; returns a line of progress.
    pub(crate) fn take(&mut self, said: Said) -> Option<String> {
        match said {
            Said::Kernel(release) => {
                let line = format!("Linux {release} has booted");
                self.kernel = Some(release);
                Some(line)
            }
            Said::Begun(check) => {
                let line = format!("  {check}");
                if !check.contains(':') {
                    self.running = Some(check);
                }
                Some(line)
            }
            Said::Ended { check, outcome, seconds } => {
                let (word, text) = outcome.words();
                let line = format!("{check} {word} in {seconds:.0} s: {text}");
                self.running = None;
                self.checks.push(CheckData { check, outcome });
                Some(line)
            }
            Said::Has { what, how } => {
                self.has.insert(what, how);
                None
            }
            Said::Done => None,
        }
    }

    /// The boot ended while a check ran, or before the first.
    pub(crate) fn cut_short(&mut self, outcome: Outcome) {
        let check = self.running.take().unwrap_or_else(|| "boot".to_owned());
        self.checks.push(CheckData { check, outcome });
    }

    /// Reads one; `None` if it is not there.
    ///
    /// # Errors
    /// A file that can't be read or understood.
    pub(crate) fn read(dir: &Path, name: &str) -> anyhow::Result<Option<Self>> {
        stored::read(&dir.join(format!("{name}.json")))
    }

    pub(crate) fn write(&self, dir: &Path) -> anyhow::Result<()> {
        stored::write_pretty(&dir.join(format!("{}.json", self.name)), self)
    }
}
