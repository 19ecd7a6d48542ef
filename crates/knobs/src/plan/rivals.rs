//! Rivals of a plan: claims of other managers on the cells that it changes.
//!
//! ```text
//! plan + host::managers
//!   → claims that are or may be applied, say something else, and have the last word
//! ```
//!
//! Pure. A claim that another one overrides, or that sets what the plan sets, is no rival.

use floodwall_model::DeviceId;
use floodwall_model::managers::{Claim, Managers, Standing};
use serde::Serialize;

use crate::plan::Plan;
use crate::plan::entry::Entry;

/// A claim against one change of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rival<'a> {
    /// The change, as people write its knob.
    pub setting: String,
    /// The other manager's claim.
    pub claim: &'a Claim,
}

/// The rivals of a plan, change by change.
#[must_use]
pub fn rivals<'a>(plan: &Plan, managers: &'a Managers) -> Vec<Rival<'a>> {
    let of_entry = |entry: &Entry| -> Vec<Rival<'a>> {
        let Some(device) = place(entry) else { return Vec::new() };
        managers
            .claims
            .iter()
            .filter(|claim| {
                matches!(claim.standing, Standing::Wins | Standing::Uncertain { .. })
                    && floodwall_model::managers::cell(&claim.knob)
                        == floodwall_model::managers::cell(entry.knob.name)
                    && claim.place.is(device)
                    && !agrees(entry, claim)
            })
            .map(|claim| Rival { setting: entry.label(), claim })
            .collect()
    };
    plan.entries.iter().filter(|entry| entry.new.is_some()).flat_map(of_entry).collect()
}

/// The disk that an entry belongs to, `Some(None)` for the machine; `None` for control groups and
/// mounts without a disk, which no other manager sets.
fn place(entry: &Entry) -> Option<Option<DeviceId>> {
    match &entry.target {
        crate::Target::Machine => Some(None),
        crate::Target::Device(device) => device.number.parse().ok().map(Some),
        crate::Target::Group { .. } | crate::Target::Process(_) | crate::Target::Victims => None,
    }
}

/// Whether a claim sets what the plan does.
fn agrees(entry: &Entry, claim: &Claim) -> bool {
    let Some(new) = &entry.new else { return false };
    let file = |path: &str| path.rsplit(['/', '.']).next().unwrap_or_default().to_owned();
    file(&new.path) == file(&claim.knob) && claim.value.as_deref() == Some(new.value.as_str())
}

#[cfg(test)]
mod tests {
    use floodwall_model::managers::{Kind, Place};

    use super::*;
    use crate::plan::change::Change;
    use crate::plan::plan;
    use crate::testing::{files_of, machine};

    fn claim(knob: &str, value: &str, place: Place, standing: Standing) -> Claim {
        Claim {
            by: Kind::Tuned,
            who: "TuneD's profile x".into(),
            file: "/x".into(),
            line: 1,
            knob: knob.into(),
            place,
            value: Some(value.into()),
            written: value.into(),
            when: "when it starts".into(),
            standing,
            settle: "tuned-adm off".into(),
        }
    }

    fn against(changes: &[&str], claims: Vec<Claim>) -> Vec<String> {
        let (_dir, files) = files_of(&machine());
        let changes: Vec<Change> =
            changes.iter().map(|text| Change::parse(files.root(), None, text).unwrap()).collect();
        let managers = Managers { claims, ..Managers::default() };
        let plan = plan(&changes, &files).unwrap();
        let found = rivals(&plan, &managers);
        found
            .iter()
            .map(|rival| format!("{}: {}={}", rival.setting, rival.claim.label(), rival.claim.knob))
            .collect()
    }

    #[test]
    fn either_name_of_a_limit_fights_and_the_same_value_does_not() {
        let ratio = |value| claim("vm.dirty_ratio", value, Place::Machine, Standing::Wins);
        assert_eq!(
            against(&["vm.dirty_bytes=64MiB"], vec![ratio("40")]),
            ["vm.dirty_bytes: vm.dirty_ratio=vm.dirty_ratio"]
        );
        assert_eq!(against(&["vm.dirty_ratio=40"], vec![ratio("40")]), [""; 0]);
        assert_eq!(against(&["vm.dirty_ratio=30"], vec![ratio("40")]).len(), 1);
        assert_eq!(against(&["vm.dirty_background_ratio=3"], vec![ratio("40")]), [""; 0]);
    }

    #[test]
    fn a_device_is_fought_for_by_its_own_claims() {
        let on = |minor, standing| {
            let place = Place::Device { name: "sda".into(), id: DeviceId { major: 8, minor } };
            claim("scheduler", "none", place, standing)
        };
        let asked = ["sda.scheduler=bfq"];
        assert_eq!(against(&asked, vec![on(0, Standing::Wins)]).len(), 1);
        assert_eq!(against(&asked, vec![on(16, Standing::Wins)]), [""; 0]);
        assert_eq!(against(&asked, vec![on(0, Standing::Overridden { by: "y".into() })]), [""; 0]);
        assert_eq!(against(&asked, vec![on(0, Standing::Uncertain { why: "y".into() })]).len(), 1);
    }
}
