//! Findings of others on disks of the same model: a line of `status`, and a setting that `tune`
//! tries.

use floodwall_host::{SysRoot, block};
use floodwall_hwdb::{Database, Entry, INSTALLED};
use floodwall_model::status::{Device, Status};
use floodwall_model::{DeviceId, Scenario};
use floodwall_tune::contest::Contender;

use crate::output::notice;

/// The entries of a machine.
pub(crate) struct FirstGuess {
    root: SysRoot,
    database: Database,
}

impl FirstGuess {
    /// Reads the installed file, or the shipped entries. Entries that are wrong are named on
    /// stderr.
    pub(crate) fn read(root: &SysRoot) -> Self {
        let (database, problems) = Database::installed(&root.read(INSTALLED));
        for problem in problems {
            notice(&format!("warning: '{INSTALLED}': {problem}"));
        }
        Self { root: root.clone(), database }
    }

    /// The entry of a disk.
    fn of(&self, id: DeviceId) -> Option<&Entry> {
        let device = block::read_device(&self.root, id).into_value()?;
        let firmware = block::read_firmware(&self.root, id).into_value().unwrap_or_default();
        self.database.find(device.model.value()?, &firmware, *device.size_bytes.value()?)
    }

    /// A line for each disk on which others have found something.
    pub(crate) fn lines(&self, status: &Status) -> Vec<String> {
        let disks = |device: &Device| -> Vec<(DeviceId, String)> {
            if device.leaves.is_empty() {
                return vec![(device.id, device.name.clone())];
            }
            device.leaves.iter().map(|leaf| (leaf.id, leaf.name.clone())).collect()
        };
        let mut all: Vec<(DeviceId, String)> = status.devices.iter().flat_map(disks).collect();
        all.sort();
        all.dedup();
        all.iter().filter_map(|(id, name)| self.of(*id)?.sentence(name)).collect()
    }

    /// The setting that others found best for the scenario's kind of victim.
    pub(crate) fn contender(&self, id: DeviceId, scenario: &Scenario) -> Option<Contender> {
        let kinds: Vec<&str> = scenario.victims.iter().map(|v| v.kind.name()).collect();
        let (first, others) = kinds.split_first()?;
        let entry = self.of(id).filter(|_| others.iter().all(|kind| kind == first))?;
        let setting = entry.settings.get(*first)?.clone();
        let from = if entry.is_modelled() { "the disk's model" } else { "others with this disk" };
        Some(Contender { name: format!("of {from}"), setting })
    }
}
