//! Devices that one unit holds together.

use std::collections::{BTreeMap, BTreeSet};

use floodwall_model::DeviceId;

/// Which devices belong together.
#[derive(Default)]
pub(super) struct Groups(BTreeMap<DeviceId, DeviceId>);

impl Groups {
    pub(super) fn add(&mut self, id: DeviceId) {
        self.0.entry(id).or_insert(id);
    }

    fn root(&self, id: DeviceId) -> DeviceId {
        let mut at = id;
        while let Some(next) = self.0.get(&at).filter(|next| **next != at) {
            at = *next;
        }
        at
    }

    /// The lower number stands for both.
    pub(super) fn join(&mut self, a: DeviceId, b: DeviceId) {
        self.add(a);
        self.add(b);
        let (a, b) = (self.root(a), self.root(b));
        self.0.insert(a.max(b), a.min(b));
    }

    pub(super) fn all(&self) -> Vec<BTreeSet<DeviceId>> {
        let mut groups: BTreeMap<DeviceId, BTreeSet<DeviceId>> = BTreeMap::new();
        for id in self.0.keys() {
            groups.entry(self.root(*id)).or_default().insert(*id);
        }
        groups.into_values().collect()
    }
}
