//! Other managers that set the same knobs, and what to do about them.
//!
//! ```text
//! host::managers (their files), knobs::rivals (who has the last word on what the plan changes) ─▶ lines under the difference | JSON
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

/// The other managers of a machine.
pub(super) struct Others(Managers);

impl Others {
    /// Looks for all of them, and for a second floodwall.
    pub(super) fn read(place: &Place) -> Self {
        let mut found = managers::read(&place.root);
        found.present.extend(managers::floodwalls(&place.root, Some(std::process::id())));
        Self(found)
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
            let _ = write!(text, "{setting} is set by others too: {claim}");
            if let Standing::Uncertain { why } = &claim.standing {
                let _ = write!(text, ", perhaps ({why})");
            }
            let _ = writeln!(text, "\n  to settle it: {}", claim.settle);
        }
        if !plan.is_empty() {
            for other in self.floodwalls().filter(|name| is_told(name)) {
                let _ = writeln!(text, "{other}: stop it first, or it may set its own values");
            }
        }
        text
    }

    /// The same for programs.
    pub(super) fn document(&self, plan: &Plan) -> Value {
        json!({
            "claims": rivals(plan, &self.0),
            "floodwalls": self.floodwalls().collect::<Vec<_>>(),
            "unread": self.0.unread,
        })
    }

    /// Says on stderr what could not be looked at.
    pub(super) fn tell_unread(&self) {
        for missing in &self.0.unread {
            let (what, why) = (&missing.what, &missing.why);
            notice(&format!("note: {what} may set these knobs too and could not be looked at ({why})"));
        }
    }

    fn floodwalls(&self) -> impl Iterator<Item = &str> {
        let ours = |manager: &&floodwall_model::managers::Manager| {
            manager.kind == floodwall_model::managers::Kind::Floodwall
        };
        self.0.present.iter().filter(ours).map(|manager| manager.name.as_str())
    }
}
