//! The scenarios that come with Floodwall, as the same TOML that users write.

use super::{Scenario, ScenarioError, parse};

const BUILTIN: &[(&str, &str)] = &[
    ("copy-vs-database", include_str!("builtin/copy-vs-database.toml")),
    ("copy-vs-database-2010", include_str!("builtin/copy-vs-database-2010.toml")),
    ("backup-vs-wal", include_str!("builtin/backup-vs-wal.toml")),
    ("unpack-vs-reads", include_str!("builtin/unpack-vs-reads.toml")),
    ("load-vs-scan", include_str!("builtin/load-vs-scan.toml")),
    ("oltp-vs-copies", include_str!("builtin/oltp-vs-copies.toml")),
];

/// Names of the built-in scenarios; the first is the default.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|(name, _)| *name)
}

/// The TOML text of a built-in scenario: a start for one's own.
#[must_use]
pub fn builtin_text(name: &str) -> Option<&'static str> {
    BUILTIN.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// A built-in scenario; `None` if there is none of that name.
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
    fn the_2010_scenario_is_the_published_one() {
        let s = builtin("copy-vs-database-2010").unwrap().unwrap();
        let v = &s.victims[0];
        assert_eq!(v.kind, VictimKind::Commit { sync: SyncMethod::Fsync, direct: false });
        assert_eq!((v.threads, v.block, v.files, v.size), (10, Bytes::kib(16), 1, Bytes::gib(10)));
        assert_eq!(s.timing.measure.as_secs(), 30);
        assert_eq!((s.floods[0].block, s.floods[0].size), (Bytes(1024), Some(Bytes(20_977_328_128))));
    }
}
