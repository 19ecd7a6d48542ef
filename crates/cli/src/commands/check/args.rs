//! The command line of `floodwall check`, and the scenario that follows from it.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgGroup;
use floodwall_model::scenario::{parse_flood, parse_victim};
use floodwall_model::units::{Bytes, UnitError, human_duration, parse_duration};
use floodwall_model::{PhaseKind, Scenario, Timing};
use floodwall_report::check::{Goal, Writes};

use super::presets::{Preset, Program, Sync};
use crate::exit::UsageError;
use crate::progress::Show;

/// Longest warm-up while no flood runs, or the page cache is full.
const WARMUP: Duration = Duration::from_secs(4);
/// What a device's own cache may hold: a flood writes past it before it is measured.
const DEVICE_CACHE: Bytes = Bytes::mib(512);

/// The size of the log, or of the database: that of the well-known fio job for etcd. At its end a
/// log begins anew.
const SIZE: Bytes = Bytes::mib(22);

/// Is this disk good enough for a program, alone and beside a flood?
///
/// Writes as the program writes what its commits wait for: alone, then beside a flood, then, as
/// root and if that was too slow, beside a flood with a guard. 99 of 100 writes must be made stable
/// within the limit. Writes only below a scratch directory that it makes in DIR and removes at the
/// end; needs no privilege. Takes about a minute, and at most two (--timeout).
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall check etcd /var/lib/etcd
  floodwall check etcd --alone /var/lib/etcd
  floodwall check postgresql --p99 20ms /var/lib/postgresql
  floodwall check any --p99 5ms --block 16KiB --sync fsync /srv
  floodwall check etcd --json --junit check.xml /var/lib/etcd
  floodwall check etcd --nagios /var/lib/etcd

Exit status: 0 good enough; 1 not good enough, alone or beside a flood, or failed or interrupted; \
2 wrong usage; 3 measured but not conclusive; 4 a privilege or kernel feature is missing, such as \
the permission to write in DIR. With --nagios: 0 good enough; 1 not beside a flood; 2 not even \
alone; 3 unknown.")]
#[command(group(ArgGroup::new("format").args(["json", "nagios"])))]
pub(crate) struct CheckArgs {
    /// The program
    #[arg(value_enum, value_name = "PROGRAM")]
    program: Program,
    /// Directory on the disk to check
    #[arg(value_name = "DIR")]
    pub(super) dir: PathBuf,
    /// 99 of 100 must take less, in place of what the program's project publishes
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    p99: Option<Duration>,
    /// Bytes of each append or page, in place of the program's
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    block: Option<Bytes>,
    /// The call that makes them stable, in place of the program's
    #[arg(long, value_enum, value_name = "CALL")]
    sync: Option<Sync>,
    /// Leave the flood out
    #[arg(long)]
    alone: bool,
    /// Measured part of each run
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub(super) measure: Duration,
    /// How long the check may take; what is not measured by then is left out. 2m if not given, more
    /// with a longer --measure
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) timeout: Option<Duration>,
    /// The most space that the check may take in DIR; the flood shrinks to fit
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(super) size: Option<Bytes>,
    /// Measure on filesystems without separate writeback (overlay, ZFS, FUSE …) too, but not in
    /// memory
    #[arg(long)]
    pub(super) force: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    pub(super) json: bool,
    /// Print one line for Nagios and its kin, and end with their exit status
    #[arg(long)]
    pub(super) nagios: bool,
    /// Write a JUnit report to a file
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    /// Write the raw data of the runs without a guard to a file, as bench does
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// What to show on stderr while it runs
    #[arg(long, value_enum, default_value = "bar", value_name = "WHEN")]
    pub(super) progress: Show,
}

fn bytes(text: &str) -> Result<Bytes, UnitError> {
    text.parse()
}

impl CheckArgs {
    /// The program's name.
    pub(super) fn program(&self) -> &'static str {
        self.program.name()
    }

    /// How the program writes, as asked for.
    fn preset(&self) -> Preset {
        let preset = self.program.preset();
        Preset {
            block: self.block.map_or(preset.block, |block| block.0),
            sync: self.sync.unwrap_or(preset.sync),
            ..preset
        }
    }

    /// The writes and the limit.
    ///
    /// # Errors
    /// [`UsageError`] if there is no limit.
    pub(super) fn goal(&self) -> Result<Goal, UsageError> {
        let preset = self.preset();
        let published = if self.p99.is_none() { preset.limit } else { None };
        let program = self.program.name();
        let limit = match self.p99.or(published.map(|(limit, _)| limit)) {
            Some(Duration::ZERO) => {
                return Err(UsageError("--p99 0s: nothing takes less; write 10ms, say".into()));
            }
            Some(limit) => limit,
            None => {
                let whose = match self.program {
                    Program::Any => "a limit is missing".to_owned(),
                    _ => format!("no limit is published for {program}"),
                };
                return Err(UsageError(format!(
                    "{whose}; give the longest that 99 of 100 commits may take, such as --p99 20ms"
                )));
            }
        };
        Ok(Goal {
            program: program.to_owned(),
            writes: preset.writes,
            block: Bytes(preset.block),
            call: preset.sync.name(),
            counted: preset.counted,
            limit,
            source: published.map(|(_, source)| source),
        })
    }

    /// The runs alone and beside a flood, as one round.
    pub(super) fn scenario(&self) -> anyhow::Result<Scenario> {
        let Preset { writes, block, sync, .. } = self.preset();
        let (kind, longest) = match writes {
            Writes::GrowingLog => ("wal,name=log,preallocated=false", SIZE),
            Writes::FullLog => ("wal,name=log", SIZE),
            // A commit changes two pages.
            Writes::Journal => ("journal,name=database", Bytes(SIZE.0 / 2)),
        };
        let victim = format!("{kind},size={}B,block={block}B,sync={}", SIZE.0, sync.name());
        // The program's faults are refused by clap, so what is left is the block's.
        let victim = parse_victim(&victim)
            .map_err(|_| UsageError(format!("--block is out of range: write 1B to {longest}")))?;
        let floods = if self.alone { Vec::new() } else { vec![parse_flood("seq")?] };
        let scenario = Scenario {
            name: format!("check {}", self.program.name()),
            description: "one program beside a flood".into(),
            source: None,
            victims: vec![victim],
            floods,
            burst: None,
            timing: Timing {
                rounds: 1,
                measure: self.measure,
                warmup_max: WARMUP,
                settle: Duration::from_secs(1),
                device_cache: DEVICE_CACHE,
            },
            phases: vec![PhaseKind::Victim, PhaseKind::Both],
        };
        if scenario.timing.problem().is_some() {
            let why = format!(
                "--measure is {}: runs are measured in whole seconds; give at least 1s",
                human_duration(self.measure)
            );
            return Err(UsageError(why).into());
        }
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        check: CheckArgs,
    }

    fn args(words: &[&str]) -> CheckArgs {
        Only::try_parse_from([&["check"], words, &["/srv"]].concat()).unwrap().check
    }

    #[test]
    fn etcd_is_the_well_known_test() {
        let (goal, scenario) =
            (args(&["etcd"]).goal().unwrap(), args(&["etcd"]).scenario().unwrap());
        assert_eq!((goal.limit.as_millis(), goal.call, goal.block), (10, "fdatasync", Bytes(2300)));
        assert_eq!(scenario.victims[0].size, Bytes::mib(22));
        assert_eq!((scenario.floods.len(), scenario.phase_kinds().len()), (1, 2));
        let alone = args(&["etcd", "--alone"]).scenario().unwrap();
        assert_eq!(alone.phase_kinds(), [PhaseKind::Victim]);
    }

    #[test]
    fn every_program_has_a_limit_or_asks_for_one() {
        for program in <Program as clap::ValueEnum>::value_variants() {
            let name = program.name();
            let published = program.preset().limit.is_some();
            let goal = args(&[name]).goal();
            assert_eq!(goal.is_ok(), published, "{name}");
            if let Err(why) = goal {
                assert!(why.to_string().contains("--p99 20ms"), "{why}");
            }
            let goal = args(&[name, "--p99", "7ms"]).goal().unwrap();
            assert_eq!((goal.limit, goal.source), (Duration::from_millis(7), None));
            args(&[name]).scenario().unwrap();
        }
    }

    #[test]
    fn mistakes_say_what_to_do() {
        for (words, part) in [
            (&["any", "--block", "1GiB"][..], "write 1B to 22 MiB"),
            (&["sqlite-journal", "--block", "12MiB"], "write 1B to 11 MiB"),
            (&["etcd", "--measure", "10ms"], "give at least 1s"),
        ] {
            let said = args(words).scenario().unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
        assert!(args(&["any", "--p99", "0s"]).goal().is_err());
    }
}
