//! Rates that are shares of what victims do alone: measured once, before everything else.

use super::Scenario;
use crate::counts::count;
use crate::runner::{Runner, RunnerError, Watch};
use crate::setting::Setting;
use crate::trial::PhaseKind;

/// Why a scenario can't be run yet: a victim's rate is still a share of its rate alone.
#[must_use]
pub fn unsettled_rate(scenario: &Scenario) -> Option<String> {
    let victim = scenario.victims.iter().find(|victim| victim.rate_percent.is_some())?;
    let name = &victim.name;
    Some(format!(
        "victim '{name}': nobody has measured what it does alone; give its rate per second, such \
         as 500/s"
    ))
}

/// Runs the victims of a scenario alone in a closed loop, if the rate of any is a percentage
/// ([`super::Victim::rate_percent`]), and makes operations a second of it.
///
/// Victims with a rate in operations a second have it meanwhile. Returns a line for people for each
/// rate that was settled.
///
/// # Errors
/// [`RunnerError`] of the trial, or because a victim did nothing alone. The scenario is as it was.
pub fn settle_rates(
    runner: &mut dyn Runner,
    scenario: &mut Scenario,
    setting: &Setting,
    watch: &mut dyn Watch,
) -> Result<Vec<String>, RunnerError> {
    if unsettled_rate(scenario).is_none() {
        return Ok(Vec::new());
    }
    let mut alone = Scenario { phases: vec![PhaseKind::Victim], ..scenario.clone() };
    alone.victims.iter_mut().for_each(|victim| victim.rate_percent = None);
    let trial = runner.run(&alone, setting, 1, watch)?;
    let phase = trial.phases.first();
    let mut settled = scenario.victims.clone();
    let mut lines = Vec::new();
    for (i, victim) in settled.iter_mut().enumerate() {
        let Some(percent) = victim.rate_percent.take() else { continue };
        let load = phase.and_then(|phase| Some((phase.victims.get(i)?.ops, phase.seconds)));
        let per_s = load.map_or(0.0, |(ops, seconds)| ops as f64 / seconds.max(1e-9));
        // Two decimals: a scenario file repeats it exactly. A rate is never zero.
        let rate = (per_s * percent).round().max(1.0) / 100.0;
        if per_s <= 0.0 {
            let why = format!(
                "victim '{}' did nothing alone, so {percent} % of that is no rate; give its rate \
                 per second",
                victim.name
            );
            return Err(RunnerError { source: why.into(), partial: None, interrupted: false });
        }
        lines.push(format!(
            "victim '{}' asks for {rate}/s, {percent} % of the {}/s that it does alone",
            victim.name,
            count(per_s)
        ));
        victim.rate = Some(rate);
    }
    scenario.victims = settled;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{parse_flood, parse_victim};
    use crate::trial::{LoadTotals, Phase, Trial, Warmup};

    /// Each victim does so many operations in two seconds alone.
    struct Fixed(Vec<u64>);

    impl Runner for Fixed {
        fn run(
            &mut self,
            scenario: &Scenario,
            setting: &Setting,
            round: u32,
            _watch: &mut dyn Watch,
        ) -> Result<Trial, RunnerError> {
            assert_eq!(scenario.phases, [PhaseKind::Victim]);
            assert_eq!(unsettled_rate(scenario), None, "it would be run as a closed loop");
            let victims =
                self.0.iter().map(|ops| LoadTotals { ops: *ops, ..LoadTotals::default() });
            let phase = Phase {
                kind: PhaseKind::Victim,
                start_s: 0.0,
                seconds: 2.0,
                warmup: Warmup::default(),
                intervals: Vec::new(),
                overrun: Default::default(),
                victims: victims.collect(),
                floods: Vec::new(),
                burst: None,
                cut_short: None,
            };
            Ok(Trial { setting: setting.clone(), round, phases: vec![phase] })
        }
    }

    fn scenario(victims: &[&str]) -> Scenario {
        let mut scenario = crate::scenario::builtin("copy-vs-database").unwrap().unwrap();
        scenario.victims = victims.iter().map(|spec| parse_victim(spec).unwrap()).collect();
        scenario.floods = vec![parse_flood("seq").unwrap()];
        scenario
    }

    #[test]
    fn a_share_becomes_that_share_of_what_the_victim_does_alone() {
        let mut s = scenario(&["commit,rate=33%", "read,rate=20/s", "scan"]);
        let told =
            settle_rates(&mut Fixed(vec![2_001, 40, 7]), &mut s, &Setting::default(), &mut ());
        assert_eq!(
            told.unwrap(),
            ["victim 'commit' asks for 330.17/s, 33 % of the 1,000/s that it does alone"]
        );
        let rates: Vec<Option<f64>> = s.victims.iter().map(|v| v.rate).collect();
        assert_eq!(rates, [Some(330.17), Some(20.0), None]);
        assert_eq!(unsettled_rate(&s), None);
        assert!(s.phases.is_empty());
    }

    #[test]
    fn nothing_is_run_without_a_share_and_a_victim_that_does_nothing_has_none() {
        struct Never;
        impl Runner for Never {
            fn run(
                &mut self,
                _: &Scenario,
                _: &Setting,
                _: u32,
                _: &mut dyn Watch,
            ) -> Result<Trial, RunnerError> {
                panic!("nothing is to be measured")
            }
        }
        let mut s = scenario(&["commit,rate=5"]);
        assert!(settle_rates(&mut Never, &mut s, &Setting::default(), &mut ()).unwrap().is_empty());
        let mut s = scenario(&["commit,rate=50%"]);
        let before = s.clone();
        let error =
            settle_rates(&mut Fixed(vec![0]), &mut s, &Setting::default(), &mut ()).unwrap_err();
        assert!(error.to_string().contains("did nothing alone"), "{error}");
        assert_eq!(s, before);
    }
}
