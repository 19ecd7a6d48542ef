//! The files of a scenario, for its victims and floods.

use floodwall_load::{Dir, PreparedFlood, PreparedVictim};
use floodwall_model::Scenario;

use crate::error::BenchError;
use crate::groups::{self, Groups};
use crate::options::Options;

/// A scenario whose files are written.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) scenario: Scenario,
    pub(super) victims: Vec<PreparedVictim>,
    pub(super) floods: Vec<PreparedFlood>,
}

impl Prepared {
    /// Writes the files, with different seeds for all victims and floods. `progress` gets the
    /// bytes of each step. With a tool in their place the victims get none.
    ///
    /// # Errors
    /// [`BenchError::Load`]. All refusals come before the first gigabyte is written.
    pub(super) fn write(
        scenario: &Scenario,
        dir: &Dir,
        options: &Options,
        groups: &Result<Groups, String>,
        progress: &mut dyn FnMut(u64),
        has_tool: bool,
    ) -> Result<Self, BenchError> {
        let (user, stop) = (options.user.as_ref(), &*options.stop);
        let own_victims = if has_tool { &[][..] } else { &scenario.victims };
        own_victims.iter().try_for_each(|victim| floodwall_load::check_victim(dir, victim))?;
        scenario.floods.iter().try_for_each(|flood| floodwall_load::check_flood(dir, flood))?;
        let (mut victims, mut floods) = (Vec::new(), Vec::new());
        for (i, victim) in own_victims.iter().enumerate() {
            let seed = options.seed.wrapping_add(i as u64);
            victims.push(floodwall_load::prepare_victim(dir, victim, user, seed, progress, stop)?);
        }
        for (i, flood) in scenario.floods.iter().enumerate() {
            let seed = options.seed.wrapping_add(1_000 + i as u64);
            let prepare = || floodwall_load::prepare_flood(dir, flood, user, seed, progress, stop);
            floods.push(groups::as_flood(groups, prepare)??);
        }
        Ok(Self { scenario: scenario.clone(), victims, floods })
    }

    /// Whether a scenario works on these files: other rates, durations and phases make no others.
    fn has_the_files_of(&self, scenario: &Scenario) -> bool {
        let (here, there) = (&self.scenario.victims, &scenario.victims);
        let mut pairs = here.iter().zip(there);
        here.len() == there.len()
            && pairs.all(|(a, b)| a.is_same_but_for_rate(b))
            && self.scenario.floods == scenario.floods
    }

    /// Takes over another scenario, if it works on these files.
    pub(super) fn take_over(&mut self, scenario: &Scenario) -> bool {
        let takes = self.has_the_files_of(scenario);
        if takes {
            for (prepared, victim) in self.victims.iter_mut().zip(&scenario.victims) {
                prepared.set_rate(victim.rate);
            }
            self.scenario = scenario.clone();
        }
        takes
    }
}
