//! The command line of `floodwall check`, and the scenario that follows from it.

use std::path::PathBuf;
use std::time::Duration;

use floodwall_model::scenario::{parse_flood, parse_victim};
use floodwall_model::units::{Bytes, UnitError, parse_duration};
use floodwall_model::{PhaseKind, Scenario, Timing};
use floodwall_report::check::Goal;

use super::presets::{Preset, Program, Sync};
use crate::exit::UsageError;
use crate::progress::Show;

/// Longest warm-up while no flood runs, or the page cache is full.
const WARMUP: Duration = Duration::from_secs(4);
/// What a device's own cache may hold: a flood writes past it before it is measured.
const DEVICE_CACHE: Bytes = Bytes::mib(512);

/// Is this disk good enough for a program, alone and beside a flood?
///
/// Writes as the program writes its log: alone, then beside a flood, then, as root and where that
/// was too slow, with a guard. Writes only below a scratch directory that it makes in DIR and
/// removes at the end. Needs no privilege otherwise.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall check etcd /var/lib/etcd

Exit status: 0 good enough; 1 not good enough, or failed; 2 wrong usage; \
3 measured but not conclusive; 4 a privilege or kernel feature is missing.")]
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
    /// Leave the flood out
    #[arg(long)]
    pub(super) alone: bool,
    /// Measured part of each run
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    measure: Duration,
    /// The most space that the check may take in DIR; the flood shrinks to fit
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(super) size: Option<Bytes>,
    /// What to show on stderr while it runs
    #[arg(long, value_enum, default_value = "bar", value_name = "WHEN")]
    pub(super) progress: Show,
}

fn bytes(text: &str) -> Result<Bytes, UnitError> {
    text.parse()
}

impl CheckArgs {
    /// How the program writes, as asked for.
    fn preset(&self) -> Preset {
        self.program.preset()
    }

    /// What is checked.
    ///
    /// # Errors
    /// [`UsageError`] if there is no limit.
    pub(super) fn goal(&self) -> Result<Goal, UsageError> {
        let preset = self.preset();
        let published = self.p99.is_none().then_some(preset.limit).flatten();
        let limit = self.p99.or(published.map(|(limit, _)| limit)).filter(|limit| !limit.is_zero());
        let limit = limit.ok_or_else(|| {
            UsageError(format!(
                "{} has no published limit; give one, such as --p99 20ms",
                self.program.name()
            ))
        })?;
        Ok(Goal {
            program: self.program.name().to_owned(),
            block: Bytes(preset.block),
            call: preset.sync.name(),
            counted: preset.counted,
            limit,
            source: published.map(|(_, source)| source),
        })
    }

    /// The runs alone and beside a flood, as one round.
    pub(super) fn scenario(&self) -> anyhow::Result<Scenario> {
        let Preset { victim, block, sync, .. } = self.preset();
        let sync: Sync = sync;
        let victim = format!("{victim},name=log,block={block}B,sync={}", sync.name());
        let floods = if self.alone { Vec::new() } else { vec![parse_flood("seq")?] };
        let scenario = Scenario {
            name: format!("check {}", self.program.name()),
            description: "one log beside a flood".into(),
            source: None,
            victims: vec![parse_victim(&victim)?],
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
        match scenario.timing.problem() {
            Some(problem) => Err(UsageError(format!("--measure: {problem}")).into()),
            None => Ok(scenario),
        }
    }
}
