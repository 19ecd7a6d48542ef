//! Other managers that set the same knobs, and what to do about them.
//!
//! ```text
//! host::managers (their files), knobs::rivals (who has the last word on what the plan changes)
//!   ─▶ lines under the difference | JSON
//! ```

use std::fmt::Write;

use floodwall_host::managers;
use floodwall_knobs::Plan;
use floodwall_knobs::rivals::{Rival, rivals};
use floodwall_model::Managers;
use floodwall_model::managers::Standing;
use serde_json::{Value, json};

use super::Place;
use crate::output::notice;

/// The other managers of a machine, and the names of other floodwalls.
pub(super) struct Others(Managers, Vec<String>);

impl Others {
    /// Looks for all of them, and for a second floodwall.
    pub(super) fn read(place: &Place) -> Self {
        Self(
            managers::read(&place.root),
            managers::floodwalls(&place.root, Some(std::process::id())),
        )
    }

    /// Lines under a difference: for each change that another manager will fight, its name, when,
    /// and how to settle it.
    pub(super) fn lines(&self, plan: &Plan) -> String {
        self.lines_if(plan, |_| true)
    }

    /// The same without guards: the one that holds the knobs is asked to leave them alone.
    pub(super) fn lines_without_guards(&self, plan: &Plan) -> String {
        self.lines_if(plan, |name| !name.ends_with(managers::STEERS))
    }

    fn lines_if(&self, plan: &Plan, is_told: fn(&str) -> bool) -> String {
        let mut text = String::new();
        for Rival { setting, claim } in rivals(plan, &self.0) {
            let _ = match &claim.standing {
                Standing::Uncertain { why } => {
                    write!(text, "{setting} may be set by others too: {claim} ({why})")
                }
                _ => write!(text, "{setting} is set by others too: {claim}"),
            };
            let _ = writeln!(text, "\n  to settle it: {}", claim.settle);
        }
        if !plan.is_empty() {
            for other in self.1.iter().filter(|name| is_told(name)) {
                let _ = writeln!(text, "{other}: stop it first, or it may set its own values");
            }
        }
        text
    }

    /// The same for programs.
    pub(super) fn document(&self, plan: &Plan) -> Value {
        json!({
            "claims": rivals(plan, &self.0),
            "floodwalls": self.1,
            "unread": self.0.unread,
        })
    }

    /// Says on stderr what could not be looked at.
    pub(super) fn tell_unread(&self) {
        for missing in &self.0.unread {
            let (what, why) = (&missing.what, &missing.why);
            notice(&format!(
                "note: {what} may set these knobs too and could not be looked at ({why})"
            ));
        }
    }
}
