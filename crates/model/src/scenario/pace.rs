//! How much time a run may take: the `--quick`, default and `--thorough` presets.

use std::time::Duration;

use super::Scenario;
use crate::units::Bytes;

/// How long a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// About one minute: enough to see a disaster, not to compare two good settings.
    Quick,
    /// About twenty minutes: longer phases, more rounds, narrower intervals.
    Thorough,
}

/// Victim files of a quick run: written in seconds even on a disk of 60 MB/s.
const QUICK_VICTIM: Bytes = Bytes::mib(256);

impl Pace {
    /// Replaces a scenario's rounds and durations. A quick run also shrinks large victim files, and
    /// says so.
    ///
    /// Returns the changes beyond the timing, for the user.
    pub fn apply(self, scenario: &mut Scenario) -> Vec<String> {
        let t = &mut scenario.timing;
        match self {
            Self::Quick => {
                t.rounds = 3;
                t.measure = Duration::from_secs(4);
                t.warmup_max = Duration::from_secs(3);
                t.settle = Duration::from_millis(500);
                t.device_cache = t.device_cache.min(Bytes::mib(512));
            }
            Self::Thorough => {
                t.rounds = 10;
                t.measure = t.measure.max(Duration::from_secs(20));
                t.warmup_max = t.warmup_max.max(Duration::from_secs(15));
                t.settle = t.settle.max(Duration::from_secs(4));
                return Vec::new();
            }
        }
        let mut changed = Vec::new();
        for victim in &mut scenario.victims {
            let smallest = victim.block.0.saturating_mul(u64::from(victim.files));
            let shrunk = QUICK_VICTIM.max(Bytes(smallest));
            if victim.size > shrunk {
                changed.push(format!(
                    "--quick: the files of victim '{}' are {shrunk}, not {}; seeks are shorter \
                     than in a full run",
                    victim.name, victim.size
                ));
                victim.size = shrunk;
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{builtin, builtin_names};

    #[test]
    fn quick_fits_in_about_a_minute_and_the_default_in_about_five() {
        let mut s = builtin("copy-vs-database").unwrap().unwrap();
        let default = s.planned_seconds();
        assert!((240.0..=360.0).contains(&default), "{default}");
        Pace::Quick.apply(&mut s);
        let quick = s.planned_seconds();
        assert!((45.0..=75.0).contains(&quick), "{quick}");
    }

    #[test]
    fn quick_never_makes_a_file_smaller_than_a_block() {
        for name in builtin_names() {
            let mut s = builtin(name).unwrap().unwrap();
            Pace::Quick.apply(&mut s);
            for v in &s.victims {
                assert!(v.size.0 / u64::from(v.files) >= v.block.0, "{name}");
            }
        }
    }
}
