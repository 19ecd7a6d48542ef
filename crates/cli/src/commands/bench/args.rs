//! What `floodwall bench` takes, and the scenario that follows from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{ArgGroup, Args};
use floodwall_bench::Options;
use floodwall_load::User;
use floodwall_model::scenario::{self, Flood, FloodKind, Pace, Scenario, Victim, VictimKind};
use floodwall_model::toml_text;
use floodwall_model::units::{Bytes, UnitError, human_duration, parse_duration};

use crate::exit::UsageError;
use crate::progress::Show;

/// The hidden command of a flood's process.
pub(crate) const FLOOD_COMMAND: &str = "flood-process";
/// The hidden command of the process that makes a filesystem stable.
pub(crate) const SYNC_COMMAND: &str = "sync-process";

/// Measure the damage: synchronous I/O alone, a flood alone, both together.
///
/// Writes only below a scratch directory that it makes in DIR and removes at the end. Phases are
/// run in several interleaved rounds; every figure of two rounds or more comes with a 95 %
/// interval.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  floodwall bench --quick /var/lib/postgresql
  floodwall bench --scenario copy-vs-database-2010 --out result.json /srv
  floodwall bench --scenario copy-vs-database-open /srv
  floodwall bench --victim commit,threads=4,rate=500/s --flood seq /srv
  floodwall bench --victim commit,threads=10,block=16KiB \\
    --flood seq,streams=4 /data
  floodwall bench --victim-cmd 'pgbench -c 8 -T 600 bench' \\
    --flood-cmd 'cp /backup/big big' /data

Victims: commit, wal, journal, read, scan, mixed. Floods: seq, random, files, mmap, copy, or \
none. Both take the keys of a scenario file (`--show-scenario NAME` prints one): threads, \
block, size, files, sync, rate, engine, depth, access, direct, preallocated, read_percent; \
streams, block, size, rate, data, mode, file_size. A victim's rate is a number of \
operations a second, such as 500/s, or a share of what it does alone, such as 33%.")]
#[command(args_override_self = true)]
#[command(group(ArgGroup::new("format").args(["json", "markdown"])))]
pub(crate) struct BenchArgs {
    /// Directory on the device to measure.
    #[arg(default_value = ".", value_name = "DIR")]
    pub(crate) dir: PathBuf,

    #[command(flatten)]
    pub(crate) loads: ScenarioArgs,

    /// A stored result of the default setting on this device: flood_kept and burst_kept are taken
    /// against it.
    #[arg(long, value_name = "RESULT.json")]
    pub(crate) baseline: Option<PathBuf>,
    /// Print the result as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the result as Markdown.
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Write the JSON document to a file; when interrupted, what was measured until then.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write the latencies as an HdrHistogram interval log.
    #[arg(long, value_name = "FILE")]
    pub(crate) hlog: Option<PathBuf>,
    /// Write one line of CSV per second: operations, rates, dirty, writeback, limits, device,
    /// pressure.
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) timeline: Option<PathBuf>,
    /// What to show on stderr while it runs.
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub(crate) progress: Show,

    /// List the built-in scenarios and exit.
    #[arg(long)]
    pub(crate) list_scenarios: bool,
    /// Print a built-in scenario as a file to start from and exit.
    #[arg(long, value_name = "NAME")]
    pub(crate) show_scenario: Option<String>,
    /// Remove scratch directories that killed runs left in DIR and exit.
    #[arg(long)]
    pub(crate) clean: bool,
}

/// The scenario, its size and its length: the same options for every command that measures.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("pace").args(["quick", "thorough"])))]
pub(crate) struct ScenarioArgs {
    /// About one minute: 3 rounds of 4 s phases. Intervals are wide, and hold less often than 95 %
    /// (about 90 %) on a device that keeps a state for longer than 4 s.
    #[arg(long)]
    quick: bool,
    /// About twenty minutes: 10 rounds of 20 s phases.
    #[arg(long)]
    thorough: bool,
    /// A built-in scenario or a scenario file.
    #[arg(long, value_name = "NAME|FILE.toml")]
    scenario: Option<String>,
    /// A victim of your own instead of the scenario's; may be repeated; `none` for none.
    #[arg(long, value_name = "KIND[,KEY=VALUE…]")]
    victim: Vec<String>,
    /// A shell command as victim: its own process group, ended with the phase. Runs as the caller,
    /// or as --user.
    #[arg(long, value_name = "COMMAND")]
    victim_cmd: Vec<String>,
    /// A flood of your own instead of the scenario's; may be repeated; `none` for none.
    #[arg(long, value_name = "KIND[,KEY=VALUE…]")]
    flood: Vec<String>,
    /// A shell command as flood: its own process group, ended with the phase. Runs as the caller,
    /// or as --user.
    #[arg(long, value_name = "COMMAND")]
    flood_cmd: Vec<String>,
    /// Run the scenario's commands as this user, in a scratch directory of that user, without a
    /// terminal. Of the environment they get PATH, LANG, LC_*, TERM, TZ and FLOODWALL_*, and HOME,
    /// USER, LOGNAME and SHELL of that user. Without this option they run as the caller: under sudo
    /// as root. Needs root.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Number of rounds.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Measured part of each phase.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    measure: Option<Duration>,
    /// Leave the burst phase out.
    #[arg(long)]
    no_burst: bool,
    /// The most space that the run may take in DIR; floods and files shrink to fit.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) size: Option<Bytes>,
    /// Makes offsets and data repeatable.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Measure on filesystems without separate writeback (tmpfs, overlay …) too.
    #[arg(long)]
    pub(crate) force: bool,
    /// Keep victims and floods in one control group. By default each has its own, on cgroup v2, as
    /// root or in a scope that systemd delegates.
    #[arg(long)]
    pub(crate) same_group: bool,
}

fn duration(text: &str) -> Result<Duration, UnitError> {
    parse_duration(text)
}

fn bytes(text: &str) -> Result<Bytes, UnitError> {
    text.parse()
}

impl ScenarioArgs {
    /// The scenario that was asked for, and what the user should know of it.
    pub(crate) fn scenario(&self) -> anyhow::Result<(Scenario, Vec<String>)> {
        let mut scenario = match &self.scenario {
            Some(name) => named_scenario(name, Path::new(""))?,
            None => {
                let first = scenario::builtin_names().next().unwrap_or_default();
                named_scenario(first, Path::new(""))?
            }
        };
        if let Some(victims) = self.victims()? {
            scenario.victims = victims;
            scenario.name = "custom".into();
            scenario.description = "as given on the command line".into();
            scenario.source = None;
        }
        if let Some(floods) = self.floods()? {
            scenario.floods = floods;
            scenario.name = "custom".into();
            scenario.description = "as given on the command line".into();
            scenario.source = None;
        }
        scenario::name_apart(&mut scenario);
        if self.no_burst {
            scenario.burst = None;
        }
        if scenario.victims.is_empty() && scenario.floods.is_empty() {
            return Err(UsageError(
                "neither a victim nor a flood is left; give at least one".into(),
            )
            .into());
        }
        let pace = if self.quick {
            Some(Pace::Quick)
        } else if self.thorough {
            Some(Pace::Thorough)
        } else {
            None
        };
        let warnings = pace.map_or_else(Vec::new, |p| p.apply(&mut scenario));
        if let Some(rounds) = self.rounds {
            scenario.timing.rounds = rounds;
        }
        if let Some(measure) = self.measure {
            if measure.is_zero() || measure.subsec_nanos() > 0 {
                let shown = human_duration(measure);
                let why =
                    "phases are measured in windows of one second; give whole seconds, at least 1s";
                return Err(UsageError(format!("--measure is {shown}: {why}")).into());
            }
            scenario.timing.measure = measure;
        }
        if let Some(problem) = scenario.timing.problem() {
            return Err(UsageError(problem).into());
        }
        Ok((scenario, warnings))
    }

    /// Whether a user for commands is named.
    pub(crate) fn names_user(&self) -> bool {
        self.user.is_some()
    }

    /// The user that runs the commands of a scenario; the caller if absent.
    ///
    /// # Errors
    /// [`UsageError`] if the scenario has none; [`floodwall_load::UserError`].
    pub(crate) fn user(&self, scenario: &Scenario) -> anyhow::Result<Option<User>> {
        let Some(name) = &self.user else { return Ok(None) };
        let has_command =
            scenario.victims.iter().any(|v| matches!(v.kind, VictimKind::Command { .. }))
                || scenario.floods.iter().any(|f| matches!(f.kind, FloodKind::Command { .. }));
        if !has_command {
            let why = "--user is for commands, and this scenario has none; give --victim-cmd or \
                --flood-cmd";
            return Err(UsageError(why.into()).into());
        }
        Ok(Some(User::named(name)?))
    }

    /// How the host runner is opened for it.
    pub(crate) fn options(
        &self,
        user: Option<User>,
        origin: Instant,
        stop: &Arc<AtomicBool>,
    ) -> Options {
        Options {
            force: self.force,
            seed: self.seed,
            origin,
            stop: Arc::clone(stop),
            user,
            // This very program, whatever has become of its file.
            flood_command: vec!["/proc/self/exe".into(), FLOOD_COMMAND.into()],
            sync_command: vec!["/proc/self/exe".into(), SYNC_COMMAND.into()],
            same_group: self.same_group,
        }
    }

    fn victims(&self) -> anyhow::Result<Option<Vec<Victim>>> {
        if self.victim.is_empty() && self.victim_cmd.is_empty() {
            return Ok(None);
        }
        let mut victims = Vec::new();
        for spec in self.victim.iter().filter(|s| *s != "none") {
            victims.push(scenario::parse_victim(spec)?);
        }
        for command in &self.victim_cmd {
            victims.push(scenario::command_victim(command)?);
        }
        Ok(Some(victims))
    }

    fn floods(&self) -> anyhow::Result<Option<Vec<Flood>>> {
        if self.flood.is_empty() && self.flood_cmd.is_empty() {
            return Ok(None);
        }
        let mut floods = Vec::new();
        for spec in self.flood.iter().filter(|s| *s != "none") {
            floods.push(scenario::parse_flood(spec)?);
        }
        for command in &self.flood_cmd {
            floods.push(scenario::command_flood(command)?);
        }
        Ok(Some(floods))
    }
}

/// A built-in scenario by name, or a file by its path below a directory.
pub(crate) fn named_scenario(name: &str, directory: &Path) -> anyhow::Result<Scenario> {
    if let Some(builtin) = scenario::builtin(name) {
        return Ok(builtin?);
    }
    let path = directory.join(name);
    if !name.contains(['/', '.']) && !path.exists() {
        let hint = toml_text::nearest(name, scenario::builtin_names())
            .map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
        return Err(UsageError(format!(
            "there is no scenario '{name}'{hint} (floodwall bench --list-scenarios names them)"
        ))
        .into());
    }
    let text = std::fs::read_to_string(path)
        .map_err(|e| UsageError(format!("can't read the scenario file '{name}': {e}")))?;
    scenario::parse(&text).with_context(|| format!("'{name}' is not a scenario"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn scenario(args: &[&str]) -> anyhow::Result<(Scenario, Vec<String>)> {
        Only::try_parse_from(std::iter::once("bench").chain(args.iter().copied()))?
            .bench
            .loads
            .scenario()
    }

    #[test]
    fn the_first_builtin_scenario_is_the_default() {
        assert_eq!(scenario(&[]).unwrap().0.name, "copy-vs-database");
    }

    #[test]
    fn victims_and_floods_replace_the_scenarios() {
        let (s, _) =
            scenario(&["--victim", "read,threads=2", "--flood", "none", "--rounds", "7"]).unwrap();
        assert_eq!((s.victims.len(), s.floods.len(), s.timing.rounds), (1, 0, 7));
        assert_eq!(s.name, "custom");
        let (s, _) = scenario(&["--flood-cmd", "cp a b", "--flood", "seq"]).unwrap();
        assert_eq!(s.floods.len(), 2);
        assert_eq!(s.victims[0].name, "commit");
    }

    #[test]
    fn a_user_is_for_commands_and_must_exist() {
        let said = |args: &[&str]| {
            let only =
                Only::try_parse_from(std::iter::once("bench").chain(args.iter().copied())).unwrap();
            let loads = only.bench.loads;
            loads.user(&loads.scenario().unwrap().0).unwrap_err().to_string()
        };
        assert!(
            said(&["--user", "root"])
                .starts_with("--user is for commands, and this scenario has none")
        );
        let unknown = said(&["--flood-cmd", "true", "--user", "floodwall-no-such-user"]);
        assert!(unknown.starts_with("unknown user 'floodwall-no-such-user'"), "{unknown}");
    }

    #[test]
    fn mistakes_say_what_to_do() {
        for (args, part) in [
            (&["--scenario", "copy-vs-databse"][..], "did you mean 'copy-vs-database'"),
            (&["--scenario", "./nowhere.toml"], "can't read the scenario file './nowhere.toml'"),
            (&["--victim", "none", "--flood", "none"], "neither a victim nor a flood"),
            (&["--rounds", "0"], "at least 1"),
            (&["--measure", "10ms"], "at least 1s"),
            (
                &["--measure", "1900ms"],
                "--measure is 1.90 s: phases are measured in windows of one second",
            ),
            (&["--size", "5"], "needs a unit"),
            (&["--quick", "--thorough"], "cannot be used with"),
        ] {
            let message = format!("{:#}", scenario(args).unwrap_err());
            assert!(message.contains(part), "{message}");
        }
    }
}
