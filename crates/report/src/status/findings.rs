//! Findings as a short list: identifier, severity, title, evidence, remedy.

use floodwall_model::finding::{Finding, Severity};

use super::style::Style;
use super::table::paragraph;

/// Where evidence and remedy begin.
const INDENT: usize = 18;
/// Evidence for more subjects than this is counted, not shown; `--json` has all of it.
const SHOWN_SUBJECTS: usize = 3;
/// A remedy for many devices is cut where it grows longer than this; `--json` has all of it.
const SHOWN_REMEDY: usize = 300;

/// The list; one line if there is nothing.
pub(super) fn findings(findings: &[Finding], style: Style) -> Vec<String> {
    if findings.is_empty() {
        return vec!["findings: none".to_owned()];
    }
    let mut lines = vec!["findings".to_owned()];
    for finding in findings {
        let head = format!("  {:<6}{:<10}", finding.id, finding.severity);
        let titled = paragraph(&head, INDENT, finding.title, style.prose());
        lines.extend(titled.into_iter().map(|line| coloured(&line, finding.severity, style)));
        for evidence in finding.evidence.iter().take(SHOWN_SUBJECTS) {
            lines.extend(paragraph("", INDENT, evidence, style.prose()));
        }
        let more = finding.evidence.len().saturating_sub(SHOWN_SUBJECTS);
        if more > 0 {
            lines.extend(paragraph("", INDENT, &format!("and {more} more"), style.prose()));
        }
        // Several findings may have one remedy: it is said once.
        let mut earlier = findings.iter().take_while(|other| other.id != finding.id);
        let remedy = match earlier.find(|other| other.remedy == finding.remedy) {
            Some(same) => format!("the same as for {}", same.id),
            None => shortened(&finding.remedy),
        };
        lines.extend(paragraph("            try:", INDENT, &remedy, style.prose()));
    }
    if let Some(first) = findings.first() {
        lines.push(format!(
            "  floodwall explain {} tells what it means and when to ignore it",
            first.id
        ));
    }
    lines
}

/// A remedy that a screen can hold.
fn shortened(remedy: &str) -> String {
    let Some((end, _)) = remedy.char_indices().nth(SHOWN_REMEDY) else { return remedy.to_owned() };
    let kept = remedy.get(..end).unwrap_or(remedy);
    let kept = kept.rsplit_once(' ').map_or(kept, |(words, _)| words);
    format!("{kept} … (all of it: --json)")
}

/// Only the severity has a colour.
fn coloured(line: &str, severity: Severity, style: Style) -> String {
    let code = match severity {
        Severity::Critical => 31,
        Severity::Warning => 33,
        Severity::Note => return line.to_owned(),
    };
    if !style.color {
        return line.to_owned();
    }
    let word = severity.to_string();
    line.replacen(&word, &format!("\u{1b}[{code}m{word}\u{1b}[0m"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(id: &'static str, subjects: usize, severity: Severity) -> Finding {
        Finding {
            id,
            severity,
            title: "a full queue takes long to work off",
            subjects: (0..subjects).map(|n| format!("sd{n}")).collect(),
            evidence: (0..subjects)
                .map(|n| format!("sd{n}: 256 requests of 4 MiB are 1 GiB, 6.83 s"))
                .collect(),
            cost_s: Some(6.83),
            cost_bytes: Some(1 << 30),
            remedy: format!("floodwall apply{}", " sda.nr_requests=64".repeat(subjects)),
        }
    }

    #[test]
    fn a_short_list() {
        let style = Style { color: false, width: 80 };
        let all = [
            finding("FW018", 1, Severity::Warning),
            finding("FW019", 40, Severity::Note),
            finding("FW020", 1, Severity::Note),
        ];
        insta::assert_snapshot!(findings(&all, style).join("\n"), @"
        findings
          FW018 warning   a full queue takes long to work off
                          sd0: 256 requests of 4 MiB are 1 GiB, 6.83 s
                    try:  floodwall apply sda.nr_requests=64
          FW019 note      a full queue takes long to work off
                          sd0: 256 requests of 4 MiB are 1 GiB, 6.83 s
                          sd1: 256 requests of 4 MiB are 1 GiB, 6.83 s
                          sd2: 256 requests of 4 MiB are 1 GiB, 6.83 s
                          and 37 more
                    try:  floodwall apply sda.nr_requests=64 sda.nr_requests=64
                          sda.nr_requests=64 sda.nr_requests=64 sda.nr_requests=64
                          sda.nr_requests=64 sda.nr_requests=64 sda.nr_requests=64
                          sda.nr_requests=64 sda.nr_requests=64 sda.nr_requests=64
                          sda.nr_requests=64 sda.nr_requests=64 sda.nr_requests=64 …
                          (all of it: --json)
          FW020 note      a full queue takes long to work off
                          sd0: 256 requests of 4 MiB are 1 GiB, 6.83 s
                    try:  the same as for FW018
          floodwall explain FW018 tells what it means and when to ignore it
        ");
        assert_eq!(findings(&[], style), ["findings: none"]);
    }

    #[test]
    fn the_severity_alone_is_coloured() {
        let style = Style { color: true, width: 80 };
        let lines = findings(&[finding("FW018", 1, Severity::Critical)], style);
        assert_eq!(
            lines[1],
            "  FW018 \u{1b}[31mcritical\u{1b}[0m  a full queue takes long to work off"
        );
        assert!(!lines[2..].iter().any(|line| line.contains('\u{1b}')));
    }
}
