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
mod filesystem;
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
mod testing;
mod times;
mod view;

use floodwall_model::finding::{Finding, Severity};
use floodwall_model::status::Status;

pub use groups::{DiskUser, victim_in};
pub use journal::{ChangeFacts, ChangeState, JournalFacts, KnobFacts};
pub use table::{CHECKS, Check};

use floodwall_model::Managers;

/// Everything that checks conclude from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The state of the write path.
    pub status: &'a Status,
    /// Floodwall's own changes here.
    pub journal: &'a JournalFacts,
    /// Other programs that set the same knobs.
    pub managers: &'a Managers,
    /// The processes that used disks during the window; empty without a probe.
    pub disk_users: &'a [DiskUser],
}

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

/// The result of a check, before it has its identifier and title.
#[derive(Clone, Debug, PartialEq)]
struct Found {
    about: Vec<About>,
    cost_s: Option<f64>,
    cost_bytes: Option<u64>,
    remedy: String,
}

/// One thing that a finding is about.
#[derive(Clone, Debug, PartialEq)]
struct About {
    severity: Severity,
    /// `None` for the machine as a whole.
    subject: Option<String>,
    evidence: String,
    /// Its cost, in seconds or bytes: the worst subject is named first.
    weight: f64,
}

impl Found {
    /// Nothing yet.
    fn nothing() -> Self {
        Self { about: Vec::new(), cost_s: None, cost_bytes: None, remedy: String::new() }
    }

    /// Something about the machine as a whole.
    fn here(severity: Severity, evidence: impl Into<String>, remedy: impl Into<String>) -> Self {
        let about = About { severity, subject: None, evidence: evidence.into(), weight: 0.0 };
        Self { about: vec![about], remedy: remedy.into(), ..Self::nothing() }
    }

    /// One more subject.
    fn add(&mut self, severity: Severity, subject: impl Into<String>, evidence: impl Into<String>) {
        let (subject, evidence) = (Some(subject.into()), evidence.into());
        self.about.push(About { severity, subject, evidence, weight: 0.0 });
    }

    /// The cost of the last subject, in seconds; the largest counts for the finding.
    fn cost_s(&mut self, seconds: f64) {
        self.cost_s = Some(self.cost_s.map_or(seconds, |other| other.max(seconds)));
        if let Some(last) = self.about.last_mut() {
            last.weight = seconds;
        }
    }

    /// How much data it is about; the largest counts.
    fn cost_bytes(&mut self, bytes: u64) {
        self.cost_bytes = self.cost_bytes.max(Some(bytes));
    }

    /// The worst that was found.
    fn severity(&self) -> Severity {
        self.about.iter().map(|about| about.severity).max().unwrap_or(Severity::Note)
    }

    /// Whether a subject is named already.
    fn names(&self, subject: &str) -> bool {
        self.about.iter().any(|about| about.subject.as_deref() == Some(subject))
    }

    /// A finding, if there was any subject.
    fn remedied_by(mut self, remedy: impl Into<String>) -> Option<Self> {
        self.remedy = remedy.into();
        (!self.about.is_empty()).then_some(self)
    }

    /// With its identifier and title; the worst subject comes first.
    fn named(mut self, id: &'static str, title: &'static str, worst: Severity) -> Finding {
        self.about.sort_by(|a, b| b.severity.cmp(&a.severity).then(b.weight.total_cmp(&a.weight)));
        Finding {
            id,
            severity: self.severity().min(worst),
            title,
            subjects: self.about.iter().filter_map(|about| about.subject.clone()).collect(),
            evidence: self.about.into_iter().map(|about| about.evidence).collect(),
            cost_s: self.cost_s,
            cost_bytes: self.cost_bytes,
            remedy: self.remedy,
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn of_several_subjects_the_worst_comes_first() {
        let mut found = Found::nothing();
        for (severity, subject, seconds) in [
            (Severity::Note, "a", 9.0),
            (Severity::Warning, "b", 2.0),
            (Severity::Warning, "c", 3.0),
        ] {
            found.add(severity, subject, subject);
            found.cost_s(seconds);
        }
        let finding = found.remedied_by("").unwrap().named("FW001", "", Severity::Critical);
        assert_eq!(finding.subjects, ["c", "b", "a"]);
        assert_eq!((finding.severity, finding.cost_s), (Severity::Warning, Some(9.0)));
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
