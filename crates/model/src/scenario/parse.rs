//! Scenario files: TOML in, a checked [`Scenario`] or a message with line and remedy out.

use std::time::Duration;

use serde::Deserialize;

use super::error::ScenarioError;
use super::loads::{RawFlood, RawVictim, WithUnit};
use super::{Scenario, Timing};
use crate::toml_text::place_and_message;
use crate::units::Bytes;

/// Reads a scenario file.
///
/// # Errors
/// [`ScenarioError::Syntax`] with the line for malformed TOML, unknown keys (with the nearest known
/// key) and values that the key does not take.
///
/// [`ScenarioError::Invalid`] for combinations that can't be run.
pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    let raw: RawScenario = toml::from_str(text).map_err(|e| syntax_error(text, &e))?;
    raw.check()
}

fn syntax_error(text: &str, error: &toml::de::Error) -> ScenarioError {
    let (line, message) = place_and_message(text, error);
    ScenarioError::Syntax { line, message }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    name: String,
    #[serde(default)]
    description: String,
    source: Option<String>,
    #[serde(default, rename = "victim")]
    victims: Vec<RawVictim>,
    #[serde(default, rename = "flood")]
    floods: Vec<RawFlood>,
    burst: Option<WithUnit<Bytes>>,
    #[serde(default)]
    timing: RawTiming,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTiming {
    rounds: Option<u32>,
    measure: Option<WithUnit<Duration>>,
    warmup_max: Option<WithUnit<Duration>>,
    settle: Option<WithUnit<Duration>>,
    device_cache: Option<WithUnit<Bytes>>,
}

impl RawScenario {
    fn check(self) -> Result<Scenario, ScenarioError> {
        let invalid =
            |place: &str, message: String| ScenarioError::Invalid { place: place.into(), message };
        let mut victims = Vec::new();
        for (i, raw) in self.victims.into_iter().enumerate() {
            victims.push(raw.check(&format!("victim {}", i + 1))?);
        }
        let mut floods = Vec::new();
        for (i, raw) in self.floods.into_iter().enumerate() {
            floods.push(raw.check(&format!("flood {}", i + 1))?);
        }
        if victims.is_empty() && floods.is_empty() {
            return Err(invalid(
                "scenario",
                "has neither a [[victim]] nor a [[flood]]; give at least one".into(),
            ));
        }
        let timing = Timing {
            rounds: self.timing.rounds.unwrap_or(DEFAULT_ROUNDS),
            measure: self.timing.measure.map_or(DEFAULT_MEASURE, |d| d.0),
            warmup_max: self.timing.warmup_max.map_or(DEFAULT_WARMUP_MAX, |d| d.0),
            settle: self.timing.settle.map_or(DEFAULT_SETTLE, |d| d.0),
            device_cache: self.timing.device_cache.map_or(DEFAULT_DEVICE_CACHE, |b| b.0),
        };
        if let Some(problem) = timing.problem() {
            return Err(invalid("timing", problem));
        }
        let mut scenario = Scenario {
            name: self.name,
            description: self.description,
            source: self.source,
            victims,
            floods,
            burst: self.burst.map(|b| b.0),
            timing,
            phases: Vec::new(),
        };
        name_apart(&mut scenario);
        Ok(scenario)
    }
}

/// Rounds when none are given: the fewest from which an interval can be drawn that means anything.
pub(super) const DEFAULT_ROUNDS: u32 = 5;
const DEFAULT_MEASURE: Duration = Duration::from_secs(12);
const DEFAULT_WARMUP_MAX: Duration = Duration::from_secs(6);
const DEFAULT_SETTLE: Duration = Duration::from_secs(2);
/// Past the write caches of most controllers (512 MiB to 2 GiB protected) and drives (64 to 256
/// MiB).
const DEFAULT_DEVICE_CACHE: Bytes = Bytes::gib(1);

/// Tells victims and floods of one name apart: the second `commit` becomes `commit-2`, and so on.
pub fn name_apart(scenario: &mut Scenario) {
    let mut taken: Vec<String> = Vec::new();
    let names = scenario
        .victims
        .iter_mut()
        .map(|v| &mut v.name)
        .chain(scenario.floods.iter_mut().map(|f| &mut f.name));
    for name in names {
        let mut candidate = name.clone();
        let mut n = 2;
        while taken.contains(&candidate) {
            candidate = format!("{name}-{n}");
            n += 1;
        }
        taken.push(candidate.clone());
        *name = candidate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{FloodKind, SyncMethod, VictimKind, WriteMode};

    fn error(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_full_file_is_read_as_written() {
        let s = parse(
            "name = \"x\"\nburst = \"512MiB\"\n[timing]\nrounds = 3\nmeasure = \"30s\"\n\
             [[victim]]\nkind = \"commit\"\nthreads = 10\nsync = \"fdatasync\"\nrate = \"500/s\"\n\
             [[flood]]\nkind = \"files\"\nfile_size = \"4KiB\"\ndata = \"zero\"\n",
        )
        .unwrap();
        assert_eq!(s.timing.rounds, 3);
        assert_eq!(s.timing.measure, Duration::from_secs(30));
        assert_eq!(
            s.victims[0].kind,
            VictimKind::Commit { sync: SyncMethod::Fdatasync, direct: false }
        );
        assert_eq!(s.victims[0].rate, Some(500.0));
        assert_eq!(s.floods[0].kind, FloodKind::Files { file: Bytes(4096) });
        assert_eq!(s.burst, Some(Bytes::mib(512)));
    }

    #[test]
    fn a_victims_rate_needs_no_unit() {
        let rate = |text: &str| {
            let victim = format!("name = \"x\"\n[[victim]]\nkind = \"commit\"\nrate = {text}\n");
            parse(&victim).map(|s| s.victims[0].rate).map_err(|e| e.to_string())
        };
        for text in ["500", "500.0", "\"500/s\"", "\"500 /s\""] {
            assert_eq!(rate(text), Ok(Some(500.0)), "{text}");
        }
        for text in ["0", "-1", "\"500\"", "\"500/min\"", "true"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_victims_rate_can_be_a_share_of_what_it_does_alone() {
        let victim = |rate: &str| {
            parse(&format!("name = \"x\"\n[[victim]]\nkind = \"commit\"\nrate = \"{rate}\"\n"))
        };
        let share = victim("33 %").unwrap();
        assert_eq!((share.victims[0].rate, share.victims[0].rate_percent), (None, Some(33.0)));
        for text in ["0%", "101%", "-5%", "nan%"] {
            assert!(victim(text).unwrap_err().to_string().contains("above 0%"), "{text}");
        }
        let command = error("name = \"x\"\n[[victim]]\ncommand = \"true\"\nrate = \"50%\"\n");
        assert!(command.contains("a command has a rate of its own"), "{command}");
    }

    #[test]
    fn a_floods_mode_is_read_where_it_means_something() {
        let flood =
            |text: &str| format!("name = \"x\"\n[[victim]]\nkind = \"read\"\n[[flood]]\n{text}\n");
        let mode = |text: &str| parse(&flood(text)).unwrap().floods[0].mode;
        assert_eq!(mode("kind = \"seq\""), WriteMode::Buffered);
        for name in ["buffered", "dontcache", "direct", "dsync", "sync_file_range"] {
            assert_eq!(mode(&format!("kind = \"copy\"\nmode = \"{name}\"")).name(), name);
        }
        for (text, part) in [
            ("kind = \"random\"\nmode = \"sync_file_range\"", "it belongs to seq and copy"),
            ("kind = \"mmap\"\nmode = \"direct\"", "'mode' means nothing to a mmap flood"),
            ("kind = \"seq\"\nmode = \"direct\"\nblock = \"1000B\"", "not a multiple of 512 B"),
            ("kind = \"seq\"\nmode = \"dontcach\"", "did you mean 'dontcache'?"),
        ] {
            let message = error(&flood(text));
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest_known_one() {
        assert_eq!(
            error("name = \"x\"\n[[victim]]\nkind = \"commit\"\nthread = 3\n"),
            "line 4: unknown key 'thread'; did you mean 'threads'?"
        );
        assert_eq!(
            error("name = \"x\"\n[[victim]]\nkind = \"comit\"\n"),
            "line 3: unknown value 'comit'; did you mean 'commit'?"
        );
    }

    #[test]
    fn a_size_without_a_unit_is_refused_at_its_line() {
        let message = error("name = \"x\"\n[[victim]]\nkind = \"commit\"\nblock = 4096\n");
        assert!(message.starts_with("line 4: '4096' needs a unit"), "{message}");
    }

    #[test]
    fn what_can_not_run_is_refused_with_the_remedy() {
        for (text, part) in [
            ("kind = \"commit\"\nthreads = 0", "threads = 0 does nothing"),
            ("kind = \"commit\"\nblock = \"4MiB\"\nsize = \"1MiB\"", "larger than a file"),
            ("kind = \"read\"\nblock = \"1000B\"", "not a multiple of 512"),
            ("kind = \"read\"\nsync = \"fsync\"", "'sync' means nothing to a read victim"),
            ("kind = \"commit\"\ndepth = 4", "needs engine = \"io_uring\""),
            ("kind = \"commit\"\nrate = \"0/s\"", "rate must be above zero"),
            ("kind = \"mixed\"\nread_percent = 101", "over 100"),
            ("kind = \"journal\"\nthreads = 2", "has one writer and one file"),
            ("kind = \"journal\"\nengine = \"io_uring\"", "has one writer and one file"),
            ("kind = \"journal\"\nsync = \"o_dsync\"", "syncs with fsync or fdatasync"),
            ("kind = \"journal\"\nblock = \"4KiB\"\nsize = \"4KiB\"", "at least two blocks"),
            ("threads = 1", "has no kind"),
            ("kind = \"read\"\nname = \"../x\"", "name '../x' is not one"),
        ] {
            let message = error(&format!("name = \"x\"\n[[victim]]\n{text}\n"));
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn what_can_not_be_timed_is_refused_with_the_remedy() {
        let with = |timing: &str| {
            format!("name = \"x\"\n[[victim]]\nkind = \"commit\"\n[timing]\n{timing}\n")
        };
        for (timing, part) in [
            ("rounds = 0", "rounds = 0 measures nothing"),
            ("rounds = 101", "rounds = 101 is over 100"),
            ("measure = \"500ms\"", "measure = 500 ms is not a whole number of seconds"),
            ("measure = \"1900ms\"", "measure = 1.90 s is not a whole number of seconds"),
            ("measure = \"0s\"", "measure = 0 s is not a whole number of seconds"),
        ] {
            let message = error(&with(timing));
            assert!(message.starts_with("timing: ") && message.contains(part), "{message}");
        }
        let longest = parse(&with("rounds = 100\nmeasure = \"24h\"")).unwrap().timing;
        assert_eq!((longest.rounds, longest.measure), (100, Duration::from_secs(86_400)));
    }

    #[test]
    fn a_command_needs_no_kind() {
        let s = parse("name = \"x\"\n[[victim]]\ncommand = \"pgbench\"\n").unwrap();
        assert_eq!(s.victims[0].kind, VictimKind::Command { command: "pgbench".into() });
        assert!(error("name = \"x\"\n[[victim]]\ncommand = \" \"\n").contains("has no command"));
    }

    #[test]
    fn equal_names_are_told_apart() {
        let s = parse("name = \"x\"\n[[victim]]\nkind = \"read\"\n[[victim]]\nkind = \"read\"\n")
            .unwrap();
        assert_eq!(s.victims[1].name, "read-2");
    }

    #[test]
    fn nothing_to_do_is_an_error() {
        assert!(error("name = \"x\"\n").contains("neither"));
    }
}
