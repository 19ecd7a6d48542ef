//! What a check finds, before it has its identifier and title.

use floodwall_model::finding::{Finding, Severity};

/// The result of a check, before it has its identifier and title.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
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
    pub(super) fn nothing() -> Self {
        Self { about: Vec::new(), cost_s: None, cost_bytes: None, remedy: String::new() }
    }

    /// Something about the machine as a whole.
    pub(super) fn here(
        severity: Severity,
        evidence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let about = About { severity, subject: None, evidence: evidence.into(), weight: 0.0 };
        Self { about: vec![about], remedy: remedy.into(), ..Self::nothing() }
    }

    /// One more subject.
    pub(super) fn add(
        &mut self,
        severity: Severity,
        subject: impl Into<String>,
        evidence: impl Into<String>,
    ) {
        let (subject, evidence) = (Some(subject.into()), evidence.into());
        self.about.push(About { severity, subject, evidence, weight: 0.0 });
    }

    /// The cost of the last subject, in seconds; the largest counts for the finding.
    pub(super) fn cost_s(&mut self, seconds: f64) {
        self.cost_s = Some(self.cost_s.map_or(seconds, |other| other.max(seconds)));
        if let Some(last) = self.about.last_mut() {
            last.weight = seconds;
        }
    }

    /// How much data it is about; the largest counts.
    pub(super) fn cost_bytes(&mut self, bytes: u64) {
        self.cost_bytes = self.cost_bytes.max(Some(bytes));
    }

    /// The worst that was found.
    pub(super) fn severity(&self) -> Severity {
        self.about.iter().map(|about| about.severity).max().unwrap_or(Severity::Note)
    }

    /// Whether a subject is named already.
    pub(super) fn names(&self, subject: &str) -> bool {
        self.about.iter().any(|about| about.subject.as_deref() == Some(subject))
    }

    /// A finding, if there was any subject.
    pub(super) fn remedied_by(mut self, remedy: impl Into<String>) -> Option<Self> {
        self.remedy = remedy.into();
        (!self.about.is_empty()).then_some(self)
    }

    /// With its identifier and title; the worst subject comes first.
    pub(super) fn named(
        mut self,
        id: &'static str,
        title: &'static str,
        worst: Severity,
    ) -> Finding {
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
}
