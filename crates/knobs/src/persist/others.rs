//! Kept settings beside other managers' files: whose line wins at the next boot.

use floodwall_model::managers::{Claim, Standing, cell};

use super::rules::PATH as RULES_PATH;
use super::sysctl::PATH as SYSCTL_PATH;

/// Other managers that set the same knobs as our files: those that overrule them, and those that
/// they overrule, for people. The claims are read once the files are there, so that the answer is
/// true of the next boot.
#[must_use]
pub fn others(claims: &[Claim]) -> Vec<String> {
    let ours = |source: &str| [SYSCTL_PATH, RULES_PATH].iter().any(|path| source.starts_with(path));
    let is_same = |one: &Claim, other: &Claim| {
        one.place == other.place && cell(&one.knob) == cell(&other.knob)
    };
    let mut lines = Vec::new();
    for claim in claims {
        let by = match &claim.standing {
            Standing::Overridden { by } => by,
            Standing::Uncertain { why } => {
                let is_kept = |other: &Claim| {
                    ours(&other.file) && other.standing == Standing::Wins && is_same(other, claim)
                };
                if let Some(kept) = claims.iter().find(|other| is_kept(other)) {
                    let (label, settle) = (kept.label(), &claim.settle);
                    lines.push(format!(
                        "warning: {label} may not stay: {claim} ({why}); to settle it: {settle}"
                    ));
                }
                continue;
            }
            Standing::Wins => continue,
        };
        match (ours(&claim.file), ours(by)) {
            (true, false) => {
                let winner =
                    claims.iter().find(|other| other.source() == *by && is_same(other, claim));
                let (who, settle) = match winner {
                    Some(winner) => {
                        (winner.to_string(), format!("; to settle it: {}", winner.settle))
                    }
                    None => (by.clone(), String::new()),
                };
                lines.push(format!("warning: {} will not stay: {who}{settle}", claim.label()));
            }
            (false, true) => lines.push(format!("note: overrules {claim}")),
            _ => {}
        }
    }
    // Two lines of Floodwall may write one file.
    lines.dedup();
    lines
}
