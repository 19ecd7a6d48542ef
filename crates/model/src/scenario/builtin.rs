//! The scenarios that come with Floodwall, as the same TOML that users write.

use std::sync::LazyLock;

use super::{Scenario, ScenarioError, parse};

const BUILTIN: &[(&str, &str)] = &[
    ("copy-vs-database", include_str!("builtin/copy-vs-database.toml")),
    ("copy-vs-database-2010", include_str!("builtin/copy-vs-database-2010.toml")),
    ("backup-vs-wal", include_str!("builtin/backup-vs-wal.toml")),
    ("unpack-vs-reads", include_str!("builtin/unpack-vs-reads.toml")),
    ("load-vs-scan", include_str!("builtin/load-vs-scan.toml")),
    ("oltp-vs-copies", include_str!("builtin/oltp-vs-copies.toml")),
];

/// Behind the name of a scenario: its victims in an open loop, as programs are that do not take all
/// that a disk gives.
const OPEN: &str = "-open";

/// All of them, each by its name: those above, then their twins.
static ALL: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let closed = BUILTIN.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    closed
        .chain(BUILTIN.iter().map(|(name, text)| (format!("{name}{OPEN}"), open_loop(text))))
        .collect()
});

/// Names of the built-in scenarios; the first is the default.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| name.as_str())
}

/// The TOML text of a built-in scenario: a start for one's own.
#[must_use]
pub fn builtin_text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(n, _)| *n == name).map(|(_, text)| text.as_str())
}

/// The same scenario with victims at a third of their rate alone. A text begins with its name and
/// its description.
fn open_loop(text: &str) -> String {
    let line = |(i, line): (usize, &str)| match (i, line.strip_suffix('"')) {
        (0, Some(name)) => format!("{name}{OPEN}\"\n"),
        (1, Some(description)) => format!("{description}, at a third of its rate alone\"\n"),
        _ if line == "[[victim]]" => format!("{line}\nrate = \"33%\"\n"),
        _ => format!("{line}\n"),
    };
    text.lines().enumerate().map(line).collect()
}

/// A built-in scenario; `None` for an unknown name.
///
/// # Errors
/// Never for the texts that ship: a test reads them all.
#[must_use]
pub fn builtin(name: &str) -> Option<Result<Scenario, ScenarioError>> {
    builtin_text(name).map(parse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{SyncMethod, VictimKind};
    use crate::units::Bytes;

    #[test]
    fn every_builtin_scenario_reads_and_is_named_like_its_file() {
        for name in builtin_names() {
            let scenario = builtin(name).unwrap().unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(scenario.name, name);
            assert!(!scenario.description.is_empty(), "{name}");
        }
    }

    #[test]
    fn every_scenario_has_a_twin_whose_victims_have_a_rate() {
        for (name, _) in BUILTIN {
            let closed = builtin(name).unwrap().unwrap();
            let mut open = builtin(&format!("{name}-open")).unwrap().unwrap();
            for (open, closed) in open.victims.iter_mut().zip(&closed.victims) {
                assert_eq!(
                    (closed.rate_percent, open.rate_percent.take()),
                    (None, Some(33.0)),
                    "{name}"
                );
            }
            assert!(open.description.ends_with(", at a third of its rate alone"), "{name}");
            (open.name, open.description) = (closed.name.clone(), closed.description.clone());
            assert_eq!(open, closed);
        }
    }

    #[test]
    fn phases_follow_from_who_is_there_and_what_is_wanted() {
        use crate::trial::PhaseKind as K;
        let full = builtin("copy-vs-database").unwrap().unwrap();
        assert_eq!(full.phase_kinds(), [K::Victim, K::Flood, K::Both, K::Burst]);
        let alone = Scenario { floods: Vec::new(), burst: None, ..full.clone() };
        assert_eq!(alone.phase_kinds(), [K::Victim]);
        let flood = Scenario { victims: Vec::new(), ..full.clone() };
        assert_eq!(flood.phase_kinds(), [K::Flood, K::Burst]);
        let some = Scenario { phases: vec![K::Burst, K::Both], ..full };
        assert_eq!(some.phase_kinds(), [K::Both, K::Burst]);
    }

    #[test]
    fn each_round_begins_one_phase_later() {
        use crate::trial::PhaseKind as K;
        let full = builtin("copy-vs-database").unwrap().unwrap();
        let round = |n| full.phases_of_round(n);
        assert_eq!(round(1), [K::Victim, K::Flood, K::Both, K::Burst]);
        assert_eq!(round(2), [K::Flood, K::Both, K::Burst, K::Victim]);
        assert_eq!(round(4), [K::Burst, K::Victim, K::Flood, K::Both]);
        assert_eq!(round(5), round(1));
        let nothing = Scenario { victims: Vec::new(), floods: Vec::new(), burst: None, ..full };
        assert_eq!(nothing.phases_of_round(2), []);
    }

    #[test]
    fn the_2010_scenario_is_the_published_one() {
        let s = builtin("copy-vs-database-2010").unwrap().unwrap();
        let v = &s.victims[0];
        assert_eq!(v.kind, VictimKind::Commit { sync: SyncMethod::Fsync, direct: false });
        assert_eq!((v.threads, v.block, v.files, v.size), (10, Bytes::kib(16), 1, Bytes::gib(10)));
        assert_eq!(s.timing.measure.as_secs(), 30);
        assert_eq!(
            (s.floods[0].block, s.floods[0].size),
            (Bytes(1024), Some(Bytes(20_977_328_128)))
        );
    }
}
