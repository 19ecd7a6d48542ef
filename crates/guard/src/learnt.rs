//! What a guard has learnt of its devices: given to the caller, and taken in at the next start.

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::DeviceId;

use crate::config::Mode;
use crate::level::Level;
use crate::memory::{Aged, KnownLevel, KnownPace, Learnt, is_measurable};
use crate::{Device, Guard};

/// Knobs of the administrator's to which a level is relative.
const RELATIVE_TO: [&str; 3] = ["scheduler", "nr_requests", "max_sectors_kb"];

impl Device {
    /// The administrator's values to which a level is relative.
    fn own_queue(&self) -> BTreeMap<String, String> {
        let own = self.held.own();
        let of = |knob: &str| own.get(knob).map(|value| (knob.to_owned(), value.to_owned()));
        RELATIVE_TO.into_iter().filter_map(of).collect()
    }

    fn learnt(&self, now: Duration) -> Learnt {
        let mut learnt = Learnt::default();
        self.estimator.memory().export(now, &mut learnt);
        let (mode, own) = (self.machine.mode(), self.own_queue());
        [learnt.without_readers, learnt.with_readers] = self.machine.known(now).map(|known| {
            let (level, moment) = known?;
            let value = KnownLevel { level: level.to_string(), mode, own: own.clone() };
            Some(Aged::new(value, moment.age(now)))
        });
        learnt.pace = self.machine.paced(now).map(|(group, bytes_per_s, moment)| {
            Aged::new(KnownPace { group, bytes_per_s }, moment.age(now))
        });
        learnt
    }

    pub(crate) fn learn(&mut self, mode: Mode, now: Duration, learnt: &Learnt, since: Duration) {
        self.estimator.memory_mut().learn(now, learnt, since);
        let own = self.own_queue();
        let level = |known: &Aged<KnownLevel>| {
            let level: Level = known.value.level.parse().ok()?;
            let is_same = known.value.mode == mode && known.value.own == own;
            let has_all = level.knobs().all(|knob| self.held.own().get(knob).is_some());
            (is_same && has_all).then_some((level, known.moment(now, since)?))
        };
        let levels = [&learnt.without_readers, &learnt.with_readers];
        let levels = levels.map(|known| known.as_ref().and_then(level));
        let pace = learnt.pace.as_ref().filter(|pace| is_measurable(pace.value.bytes_per_s));
        let pace = pace.and_then(|pace| {
            Some((pace.value.group.clone(), pace.value.bytes_per_s, pace.moment(now, since)?))
        });
        self.machine.learn(mode, levels, pace);
    }
}

impl Guard {
    /// The values learnt of each device that is there.
    pub fn learnt(&self) -> impl Iterator<Item = (DeviceId, Learnt)> + '_ {
        let now = self.last_look.unwrap_or_default();
        self.devices
            .iter()
            .filter(|(_, device)| !device.absent)
            .map(move |(id, d)| (*id, d.learnt(now)))
    }

    /// Takes in what was learnt of a device earlier, so long ago. It counts until the device itself
    /// has shown better values. A device that was not seen yet learns it when it is.
    pub fn learn(&mut self, device: DeviceId, learnt: Learnt, since: Duration) {
        let now = self.last_look.unwrap_or_default();
        match self.devices.get_mut(&device) {
            Some(known) => known.learn(self.config.mode, now, &learnt, since),
            None => drop(self.learnt_before.insert(device, (learnt, since))),
        }
    }
}
