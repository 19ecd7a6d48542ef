//! Other managers of the same knobs: which disagree, and the values after the next boot.

use floodwall_model::finding::Severity;
use floodwall_model::managers::{Claim, Kind, Standing, cell};
use floodwall_model::printable::shell_word as word;
use floodwall_model::{Bytes, DeviceId, Managers, Reading};

use super::facts::ChangeState;
use super::facts::Facts;
use super::found::Found;

/// A knob in one place: its cell, and the device if it is not the machine's.
type Spot<'a> = (&'a str, Option<DeviceId>);

/// Every knob that a configuration sets here, each once, in the order of the claims.
fn spots(managers: &Managers) -> Vec<Spot<'_>> {
    let mut all: Vec<Spot<'_>> = Vec::new();
    for claim in &managers.claims {
        let spot = (cell(&claim.knob), claim.place.device());
        if !all.contains(&spot) {
            all.push(spot);
        }
    }
    all
}

/// Whether two claims want the same: the same name of the cell, and the same value. `None` if one's
/// value is not known.
fn agree(one: &Claim, other: &Claim) -> Option<bool> {
    Some(one.knob == other.knob && one.value.as_ref()? == other.value.as_ref()?)
}

/// `sysctl (/etc/sysctl.d/10-x.conf:3) sets vm.dirty_ratio=5 at boot`, without the time.
fn tell(claim: &Claim) -> String {
    let value = match &claim.value {
        Some(value) => format!("={value}"),
        None => format!(" ({})", claim.written),
    };
    format!("{} ({}) {} {}{value}", claim.who, claim.source(), claim.verb(), claim.label())
}

/// FW038: two managers that want different values of one knob.
pub(super) fn disagreement(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut remedies = Vec::new();
    for (knob, device) in spots(facts.managers) {
        let claims: Vec<&Claim> = facts.managers.about(knob, device).collect();
        let Some(at) = claims.iter().rposition(|claim| claim.value.is_some()) else { continue };
        let last = claims[at];
        let differs = |claim: &&&Claim| claim.by != last.by && agree(claim, last) == Some(false);
        let Some(against) = claims[..at].iter().rev().find(differs) else { continue };
        // A later line with an unknown value has the last word.
        if claims[at + 1..].iter().any(|claim| claim.standing == Standing::Wins) {
            continue;
        }
        let doubt = claims[at..].iter().find_map(|claim| match &claim.standing {
            Standing::Uncertain { why } => Some(why),
            _ => None,
        });
        let word = match doubt {
            Some(why) => format!("who has the last word can't be told ({why})"),
            None => "the latter has the last word at boot, whoever runs later has it after that"
                .to_owned(),
        };
        found.add(
            Severity::Warning,
            last.label(),
            format!("{}; {}; {word}", tell(against), tell(last)),
        );
        remedies.push(settle(against));
    }
    found.remedied_by(remedies.join(" && "))
}

/// How a claim is taken back: a command where the line is in a file of the administrator's own,
/// else what its manager's reader advises.
fn settle(claim: &Claim) -> String {
    let plain = matches!(claim.by, Kind::Sysctl | Kind::Udev | Kind::Tmpfiles)
        && claim.file.starts_with("/etc/");
    if plain {
        format!("sed -i '{}s/^/#/' {}", claim.line, word(&claim.file))
    } else {
        claim.settle.clone()
    }
}

/// A limit or time as it is in force: the name of its cell that counts, its value, and the kernel's
/// default.
struct InForce {
    knob: &'static str,
    value: i128,
    default: (&'static str, i128),
}

fn in_force(facts: Facts<'_>) -> Vec<InForce> {
    let knobs = &facts.status.machine.dirty_knobs;
    let unsigned = |reading: &Reading<u64>| reading.value().map(|value| i128::from(*value));
    let pair = |bytes: (&'static str, &Reading<u64>),
                ratio: (&'static str, &Reading<u64>),
                default: i128| {
        let (knob, value) = match (unsigned(bytes.1), unsigned(ratio.1)) {
            (Some(value), _) if value > 0 => (bytes.0, value),
            (Some(_), Some(value)) => (ratio.0, value),
            _ => return None,
        };
        Some(InForce { knob, value, default: (ratio.0, default) })
    };
    let single = |knob: &'static str, reading: &Reading<i64>, default: i128| {
        reading.value().map(|value| InForce {
            knob,
            value: i128::from(*value),
            default: (knob, default),
        })
    };
    [
        pair(
            ("vm.dirty_bytes", &knobs.hard_bytes),
            ("vm.dirty_ratio", &knobs.hard_ratio_percent),
            20,
        ),
        pair(
            ("vm.dirty_background_bytes", &knobs.background_bytes),
            ("vm.dirty_background_ratio", &knobs.background_ratio_percent),
            10,
        ),
        single("vm.dirty_expire_centisecs", &knobs.expire_centisecs, 3000),
        single("vm.dirty_writeback_centisecs", &knobs.writeback_centisecs, 500),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The next boot's value of a knob in force; `None` if it stays, or if that can't be told.
fn after_boot(
    managers: &Managers,
    knob: &str,
    value: &str,
    device: Option<DeviceId>,
    default: Option<String>,
) -> Option<String> {
    match managers.about(knob, device).last() {
        None => default,
        Some(claim) if matches!(claim.standing, Standing::Uncertain { .. }) => None,
        Some(claim) if claim.knob == knob && claim.value.as_deref() == Some(value) => None,
        Some(claim) => claim.value.as_ref().map(|_| tell(claim)),
    }
}

/// FW039: settings in force that the next boot forgets or replaces.
pub(super) fn lost_at_boot(facts: Facts<'_>) -> Option<Found> {
    // In a container the configuration is its own and the knobs are the host's.
    if facts.status.machine.container.value().is_some() {
        return None;
    }
    let mut found = Found::nothing();
    let mut settings = Vec::new();
    let unread = match facts.managers.unread.first() {
        Some(missing) => format!(" (as far as can be read: not {})", missing.what),
        None => String::new(),
    };
    for one in in_force(facts) {
        let (name, default) = one.default;
        let default = (one.knob != name || one.value != default).then(|| {
            format!("nothing sets it at boot{unread}, the kernel's default is {name}={default}")
        });
        let Some(after) =
            after_boot(facts.managers, one.knob, &one.value.to_string(), None, default)
        else {
            continue;
        };
        found.add(
            Severity::Note,
            one.knob,
            format!("{}={} is in force; {after}", one.knob, one.value),
        );
        settings.push(setting(one.knob, one.value));
    }
    let standing = facts
        .journal
        .changes
        .iter()
        .filter(|change| change.state == ChangeState::Standing && !change.for_a_time);
    for knob in standing
        .flat_map(|change| &change.knobs)
        .filter(|knob| knob.device.is_some() && knob.is_ours == Reading::Value(true))
    {
        let default = Some(format!("nothing sets it at boot{unread}"));
        let Some(after) = after_boot(facts.managers, &knob.knob, &knob.value, knob.device, default)
        else {
            continue;
        };
        if found.names(&knob.label) {
            continue;
        }
        found.add(
            Severity::Note,
            &knob.label,
            format!("{}={} is in force, set by floodwall; {after}", knob.label, knob.value),
        );
        settings.push(format!("{}={}", knob.label, knob.value));
    }
    found.remedied_by(format!("floodwall persist {}", settings.join(" ")))
}

/// As `floodwall apply` wants it: byte limits with a unit.
fn setting(knob: &str, value: i128) -> String {
    match u64::try_from(value) {
        Ok(bytes) if knob.ends_with("_bytes") => format!("{knob}={}", Bytes(bytes).as_argument()),
        _ => format!("{knob}={value}"),
    }
}

/// FW040: a configuration that sets both names of one limit; the later line undoes the earlier one.
pub(super) fn both_names(facts: Facts<'_>) -> Option<Found> {
    let mut found = Found::nothing();
    let mut remedies = Vec::new();
    for (knob, device) in spots(facts.managers) {
        // A zero is how the name that is not meant reads: the kernel refuses or ignores it.
        let claims: Vec<&Claim> = facts
            .managers
            .about(knob, device)
            .filter(|claim| claim.value.as_deref() != Some("0"))
            .collect();
        let Some((last, earlier)) = claims.split_last() else { continue };
        let Some(other) =
            earlier.iter().rev().find(|claim| claim.by == last.by && claim.knob != last.knob)
        else {
            continue;
        };
        found.add(
            Severity::Warning,
            last.label(),
            format!("{}; {}, which undoes it", tell(other), tell(last)),
        );
        remedies.push(settle(other));
    }
    found.remedied_by(remedies.join(" && "))
}

/// A line of sysctl.d that is in force, for tests.
#[cfg(test)]
pub(super) fn claim(knob: &str, value: &str) -> Claim {
    Claim {
        by: Kind::Sysctl,
        who: "sysctl".into(),
        file: "/etc/sysctl.d/50-limits.conf".into(),
        line: 3,
        knob: knob.into(),
        place: floodwall_model::managers::Place::Machine,
        value: Some(value.into()),
        written: value.into(),
        when: "at boot".into(),
        standing: Standing::Wins,
        settle: "edit line 3".into(),
    }
}

#[cfg(test)]
mod tests {
    use floodwall_model::status::Missing;

    use super::*;
    use crate::findings::testing::{Machine, found};
    use crate::findings::{ChangeFacts, KnobFacts};

    fn tuned(knob: &str, value: &str) -> Claim {
        Claim {
            by: Kind::Tuned,
            who: "TuneD's profile throughput-performance".into(),
            file: "/usr/lib/tuned/throughput-performance/tuned.conf".into(),
            settle: "tuned-adm off".into(),
            ..claim(knob, value)
        }
    }

    #[test]
    fn fw038_wants_two_managers_and_two_values() {
        let mut machine = Machine::healthy();
        machine.managers.claims.push(tuned("vm.dirty_bytes", "201326592"));
        assert_eq!(found(&machine, "FW038"), None);
        machine.managers.claims.push(tuned("vm.dirty_ratio", "40"));
        let one = found(&machine, "FW038").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"sysctl (/etc/sysctl.d/50-limits.conf:3) sets \
            vm.dirty_bytes=201326592; TuneD's profile throughput-performance \
            (/usr/lib/tuned/throughput-performance/tuned.conf:3) sets vm.dirty_ratio=40; the \
            latter has the last word at boot, whoever runs later has it after that");
        insta::assert_snapshot!(one.remedy, @"sed -i '3s/^/#/' /etc/sysctl.d/50-limits.conf");
        // A value that a program chooses is not known to differ.
        let mut machine = Machine::healthy();
        machine.managers.claims.push(Claim { value: None, ..tuned("vm.dirty_bytes", "x") });
        assert_eq!(found(&machine, "FW038"), None);
        let standing = Standing::Uncertain { why: "a condition".into() };
        machine.managers.claims.push(Claim { standing, ..tuned("vm.dirty_bytes", "1") });
        insta::assert_snapshot!(found(&machine, "FW038").unwrap().evidence[0], @"sysctl \
            (/etc/sysctl.d/50-limits.conf:3) sets vm.dirty_bytes=201326592; TuneD's profile \
            throughput-performance (/usr/lib/tuned/throughput-performance/tuned.conf:3) may set \
            vm.dirty_bytes=1; who has the last word can't be told (a condition)");
    }

    #[test]
    fn fw038_says_nothing_where_the_last_value_is_unknown() {
        let mut machine = Machine::healthy();
        machine.managers.claims.push(tuned("vm.dirty_bytes", "1"));
        assert!(found(&machine, "FW038").is_some());
        let by = Kind::Tmpfiles;
        machine.managers.claims.push(Claim { value: None, by, ..tuned("vm.dirty_bytes", "x") });
        assert_eq!(found(&machine, "FW038"), None);
    }

    #[test]
    fn fw039_asks_who_sets_it_at_boot() {
        let mut machine = Machine::healthy();
        assert_eq!(found(&machine, "FW039"), None);
        machine.managers.claims.remove(0);
        let one = found(&machine, "FW039").unwrap();
        insta::assert_snapshot!(one.evidence[0], @"vm.dirty_bytes=201326592 is in force; nothing \
            sets it at boot, the kernel's default is vm.dirty_ratio=20");
        insta::assert_snapshot!(one.remedy, @"floodwall persist vm.dirty_bytes=192MiB");
        machine.managers.unread =
            vec![Missing { what: "/etc/sysctl.d/x.conf".into(), why: "denied".into() }];
        assert!(found(&machine, "FW039").unwrap().evidence[0].contains("not /etc/sysctl.d/x.conf"));
        machine.managers.claims.push(tuned("vm.dirty_ratio", "40"));
        assert!(found(&machine, "FW039").unwrap().evidence[0].contains("sets vm.dirty_ratio=40"));
        machine.managers.claims.push(Claim { value: None, ..tuned("vm.dirty_ratio", "x") });
        assert_eq!(found(&machine, "FW039"), None);
        let mut machine = Machine::healthy();
        machine.managers.claims.clear();
        machine.status.machine.container = Reading::Value("the root is an overlay".into());
        assert_eq!(found(&machine, "FW039"), None);
    }

    #[test]
    fn fw039_remembers_what_floodwall_has_set() {
        let mut machine = Machine::healthy();
        let change = ChangeFacts {
            id: 3,
            state: ChangeState::Standing,
            why: "trial".into(),
            steers: false,
            overdue_s: None,
            for_a_time: false,
            knobs: vec![KnobFacts {
                label: "sda.scheduler".into(),
                knob: "scheduler".into(),
                device: Some(DeviceId { major: 8, minor: 0 }),
                value: "bfq".into(),
                found: Reading::Value("bfq".into()),
                is_ours: Reading::Value(true),
            }],
        };
        machine.journal.changes = vec![change.clone()];
        insta::assert_snapshot!(found(&machine, "FW039").unwrap().evidence[0], @"sda.scheduler=bfq \
            is in force, set by floodwall; nothing sets it at boot");
        machine.journal.changes = vec![ChangeFacts { for_a_time: true, ..change }];
        assert_eq!(found(&machine, "FW039"), None);
    }

    #[test]
    fn fw040_is_about_one_manager() {
        let mut machine = Machine::healthy();
        machine.persist("vm.dirty_ratio", "5");
        insta::assert_snapshot!(found(&machine, "FW040").unwrap().evidence[0], @"sysctl \
            (/etc/sysctl.d/50-limits.conf:3) sets vm.dirty_bytes=201326592; sysctl \
            (/etc/sysctl.d/50-limits.conf:3) sets vm.dirty_ratio=5, which undoes it");
        let mut machine = Machine::healthy();
        machine.persist("vm.dirty_ratio", "0");
        assert_eq!(found(&machine, "FW040"), None);
    }
}
