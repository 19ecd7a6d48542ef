//! The sizes that a scenario leaves open, settled for a machine.

use floodwall_model::scenario::FloodKind;
use floodwall_model::{Bytes, Scenario};

use super::SimRunner;
use crate::error::SimError;
use crate::limits::PAGE_SIZE;
use crate::machine::Machine;

/// What a flood without a size gets at least.
const SMALLEST_FLOOD: u64 = 1 << 30;

impl SimRunner {
    /// A scenario with all its sizes settled, if it fits on the device.
    pub(crate) fn fit_to(
        &self,
        scenario: &Scenario,
        machine: &Machine,
    ) -> Result<Scenario, SimError> {
        let fitted = self.fit(scenario, machine);
        let needed = needed_by(&fitted);
        let capacity = self.options.capacity();
        if needed > capacity {
            return Err(SimError::Space { scenario: scenario.name.clone(), needed, capacity });
        }
        Ok(fitted)
    }

    /// Settles the sizes that a scenario leaves open, as a real run does. Floods get one and a half
    /// times the hard dirty limit, a burst at most an eighth of RAM. A flood is also twice as large
    /// as the device's caches. A smaller file would be rewritten in a protected cache over and over
    /// and never reach the medium.
    pub(super) fn fit(&self, scenario: &Scenario, machine: &Machine) -> Scenario {
        let mut fitted = scenario.clone();
        let limit = machine.throttle.thresholds(&machine.memory).dirty * PAGE_SIZE;
        let cached = 2 * machine.block.device_cache_bytes();
        let wanted = (limit + limit / 2).max(cached).next_multiple_of(1 << 20).max(SMALLEST_FLOOD);
        for flood in &mut fitted.floods {
            let copies = if flood.kind == FloodKind::Copy { 2 } else { 1 };
            flood.size.get_or_insert(Bytes(wanted * copies));
        }
        fitted.burst = fitted.burst.map(|b| b.min(Bytes(self.options.ram.0 / 8)));
        fitted
    }
}

/// What a scenario with settled sizes takes on the device.
fn needed_by(scenario: &Scenario) -> Bytes {
    let victims: u64 = scenario.victims.iter().map(|v| v.size.0).sum();
    let floods: u64 = scenario.floods.iter().filter_map(|f| f.size).map(|s| s.0).sum();
    Bytes(victims + floods + scenario.burst.map_or(0, |b| b.0))
}

#[cfg(test)]
mod tests {
    use floodwall_device::{DeviceSpec, preset_text};

    use super::*;
    use crate::options::SimOptions;

    /// What a flood gets on the array of 2010 with another protected cache, under a low limit.
    fn flood(cache: &str) -> Bytes {
        let text = preset_text("raid10-bbwc-2010").unwrap();
        let text = text.replace("size = \"512MiB\"", &format!("size = \"{cache}\""));
        let runner = SimRunner::new(SimOptions::new(DeviceSpec::parse(&text).unwrap()));
        let scenario = floodwall_model::scenario::builtin("copy-vs-database").unwrap().unwrap();
        let low = [("vm.dirty_bytes".to_owned(), "67108864".to_owned())].into_iter().collect();
        let (machine, _) = runner.build(&low, 0).unwrap();
        runner.fit(&scenario, &machine).floods[0].size.unwrap()
    }

    #[test]
    fn a_flood_is_larger_than_the_cache_that_would_absorb_it() {
        assert_eq!(flood("512MiB"), Bytes::gib(1));
        assert_eq!(flood("2GiB"), Bytes::gib(4));
    }
}
