//! Faults of a machine's write path: one check for each possible fault, each a pure function of the
//! facts that were read.
//!
//! ```text
//! Status ────────┐
//! JournalFacts ──┼─ Facts ─ CHECKS, one after the other ─▶ Finding … (the worst first)
//! Managers ──────┤              │
//! DiskUser … ────┘              │
//!                               └─ id, title, page (docs/findings/FW0xx.md) ─▶ floodwall explain
//! ```
//!
//! A check finds something only if its inputs were read. It concludes nothing from absent or
//! unreadable values. Its evidence holds the numbers. Sizes are bytes, times seconds, rates bytes a
//! second.

mod cache;
mod control;
mod diagnosis;
mod facts;
mod filesystem;
mod found;
mod groups;
mod journal;
mod kernel;
mod limits;
mod others;
mod priority;
mod queue;
mod remedy;
mod server;
mod share;
mod starvation;
mod table;
#[cfg(test)]
pub(crate) mod testing;
mod times;
mod unflooded;
mod view;

use floodwall_model::finding::Finding;

pub use diagnosis::{About, Look, diagnose, drain_of, wait_of};
pub use facts::{ChangeFacts, ChangeState, DiskUser, Facts, JournalFacts, KnobFacts};
pub use groups::victim_in;
pub use table::{CHECKS, Check};

/// Runs every check; the worst findings come first, those of one severity in the order of their
/// identifiers.
#[must_use]
pub fn look(facts: Facts<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS.iter().filter_map(|check| check.look(facts)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// A check by its identifier, in either case.
#[must_use]
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id.eq_ignore_ascii_case(id))
}

/// Up to three identifiers that a mistyped one may have meant, the nearest first. Empty for what
/// does not look like one.
#[must_use]
pub fn nearest(id: &str) -> Vec<&'static str> {
    let upper = id.to_ascii_uppercase();
    let digits = upper.strip_prefix("FW").unwrap_or(&upper);
    let Ok(number) = digits.trim_start_matches(['-', '_', ' ']).parse::<i64>() else {
        return Vec::new();
    };
    let distance = |check: &Check| {
        check.id.get(2..).and_then(|n| n.parse::<i64>().ok()).map(|n| (n - number).abs())
    };
    let mut near: Vec<&Check> = CHECKS.iter().collect();
    near.sort_by_key(|check| distance(check).unwrap_or(i64::MAX));
    // `FW7` means FW007 and nothing else.
    let exact = near.first().is_some_and(|check| distance(check) == Some(0));
    near.into_iter().take(if exact { 1 } else { 3 }).map(|check| check.id).collect()
}

#[cfg(test)]
mod tests {
    use floodwall_model::finding::Severity;

    use super::*;

    #[test]
    fn identifiers_are_found_and_mistyped_ones_answered() {
        assert_eq!(find("fw001").map(|check| check.id), Some("FW001"));
        assert!(find("FW000").is_none() && find("vm.dirty_bytes").is_none());
        assert_eq!(nearest("FW7"), ["FW007"]);
        assert_eq!(nearest("12"), ["FW012"]);
        assert_eq!(nearest("FW000").first(), Some(&"FW001"));
        let last = CHECKS.last().unwrap().id;
        assert_eq!(nearest("FW999").first(), Some(&last));
        assert!(nearest("scheduler").is_empty() && nearest("").is_empty());
    }

    #[test]
    fn a_healthy_machine_has_no_findings() {
        let machine = testing::Machine::healthy();
        assert_eq!(look(machine.facts()), []);
    }

    #[test]
    fn the_worst_comes_first() {
        let mut machine = testing::Machine::healthy();
        machine.status.machine.psi_io_some_avg10_percent =
            floodwall_model::Reading::Absent("off".into());
        machine.knobs(0, 0);
        let shown: Vec<_> = look(machine.facts()).into_iter().map(|f| (f.id, f.severity)).collect();
        assert_eq!(shown, [("FW004", Severity::Critical), ("FW035", Severity::Note)]);
    }
}
