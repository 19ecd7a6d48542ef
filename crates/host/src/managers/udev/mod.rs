//! udev rules that set a disk's queue, elevator or backing device, or a sysctl.
//!
//! ```text
//! rules.d files (by name, masked by directory) → rule::parse
//!   → for every disk and event: device::fits → assignments
//!                               GOTO, LABEL and ENV are followed within a file
//! ```
//!
//! Distributions ship a rule for each kind of disk, and Floodwall's own file has one for each disk.
//! So a rule that certainly does not fit a disk is no claim on it. A rule that may fit *may* set
//! the knob. Rules are applied when a device appears and at each of its "change" events, so they
//! come back without a reboot. Of several rules for one attribute the last one's value stays.

mod device;
mod rule;

use std::collections::BTreeMap;

use floodwall_model::managers::{Claim, Kind, Place, Standing};

use self::device::{Device, Overlay};
use self::rule::{Operator, Rule, Token};
use super::found::{Disk, Found};
use super::reach::{self, Owner};
use super::{drop_ins, glob};

pub(super) const DIRECTORIES: [&str; 5] = [
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/local/lib/udev/rules.d",
    "/usr/lib/udev/rules.d",
    "/lib/udev/rules.d",
];
/// A text without any of these sets no knob of Floodwall's.
const SIGNS: [&str; 4] = ["queue/", "queue_depth", "bdi/", "dirty_"];
/// Programs that distributions' rules run, and the knobs that they set. Manjaro's sets 16 MiB, 50
/// %, strict: the share that is written last is the one that stays.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("udev-usb-sync", &["bdi.max_bytes", "bdi.max_ratio", "bdi.strict_limit"]),
    ("usb-dirty-pages-udev", &["bdi.max_bytes", "bdi.strict_limit"]),
    ("cachyos-kyber-tune", &["iosched.read_lat_nsec", "iosched.write_lat_nsec"]),
];
/// The events at which rules are applied: a device appears (or is there at boot), and something
/// about it changes.
const ACTIONS: [&str; 2] = ["add", "change"];

/// Whether a text may set a knob.
fn has_sign(text: &str) -> bool {
    SIGNS.iter().chain(PROGRAMS.iter().map(|(program, _)| program)).any(|sign| text.contains(sign))
}

/// Collects what the rules set.
pub(super) fn read(found: &mut Found<'_>) {
    let mut devices: Option<Vec<Device<'_>>> = None;
    for file in drop_ins::list(found, &DIRECTORIES, ".rules") {
        let Some(text) = found.text(&file).filter(|text| has_sign(text)) else { continue };
        let (rules, wrong) = rule::parse(&text);
        for (line, _) in wrong.iter().filter(|(_, text)| has_sign(text)) {
            found.unread(&format!("{file}:{line}"), "unreadable: this is no udev rule");
        }
        let of_disk = |disk: &Disk| Device::new(found.root, disk);
        let devices = devices.get_or_insert_with(|| found.disks.iter().map(of_disk).collect());
        let walked: Vec<Vec<Option<bool>>> =
            devices.iter().map(|device| walk(&rules, device)).collect();
        for (index, rule) in rules.iter().enumerate() {
            // The disks that it may fit, and whether it certainly does.
            let fits =
                devices.iter().zip(&walked).map(|(device, fits)| (&device.disk, fits[index]));
            let fitting: Vec<(&Disk, bool)> = fits
                .filter(|(_, fits)| *fits != Some(false))
                .map(|(disk, fits)| (disk, fits == Some(true)))
                .collect();
            for setting in rule.assignments().flat_map(settings) {
                for (place, is_certain) in places(&setting, &fitting) {
                    claim(found, &file, rule.line, &setting, place, is_certain);
                }
            }
        }
    }
}

/// One knob that a rule sets.
struct Setting {
    knob: String,
    /// The disks, as the rule names them; `%k` is the event's own. `None` is the machine.
    disk: Option<String>,
    value: Option<String>,
    written: String,
}

/// Where a setting is set by a rule that may fit these disks, and whether that is certain.
fn places(setting: &Setting, fitting: &[(&Disk, bool)]) -> Vec<(Place, bool)> {
    let Some(name) = &setting.disk else {
        // Every disk that fits sets it.
        let is_certain = fitting.iter().any(|(_, is_certain)| *is_certain);
        return fitting.first().map(|_| (Place::Machine, is_certain)).into_iter().collect();
    };
    let is_own = matches!(name.as_str(), "%k" | "$kernel" | "$name" | "%M:%m" | "$major:$minor");
    let is_named = |disk: &Disk| {
        is_own || glob::matches(name, &disk.name) || glob::matches(name, &disk.id.to_string())
    };
    let named = fitting.iter().filter(|(disk, _)| is_named(disk));
    named.map(|(disk, is_certain)| (disk.place(), *is_certain)).collect()
}

fn claim(
    found: &mut Found<'_>,
    file: &str,
    line: u32,
    setting: &Setting,
    place: Place,
    is_certain: bool,
) {
    let why = "not all of the rule's conditions can be checked here";
    found.claim(Claim {
        by: Kind::Udev,
        who: "a udev rule".to_owned(),
        file: file.to_owned(),
        line,
        knob: setting.knob.clone(),
        place,
        value: setting.value.clone(),
        written: setting.written.clone(),
        when: "when the device appears and at each of its change events".to_owned(),
        standing: if is_certain {
            Standing::Wins
        } else {
            Standing::Uncertain { why: why.to_owned() }
        },
        settle: drop_ins::how_to_settle(
            file,
            line,
            "/etc/udev/rules.d",
            ", then run udevadm control --reload",
        ),
    });
}

/// What an assignment sets.
fn settings(token: &Token) -> Vec<Setting> {
    let of_disk = |knob: String| vec![(knob, Some("%k".to_owned()))];
    let knobs = match token.key.as_str() {
        "ATTR" => reach::of_attribute(&token.attribute).map(of_disk).unwrap_or_default(),
        "SYSCTL" => {
            reach::of_sysctl(&token.attribute).into_iter().map(|knob| (knob, None)).collect()
        }
        "RUN" if token.attribute != "builtin" => run(&token.value),
        _ => Vec::new(),
    };
    // A value with substitutions is put together at the event, and a command's is not looked for.
    let is_plain = token.key != "RUN" && !token.value.contains(['$', '%']);
    let value = is_plain.then(|| token.value.trim().to_owned());
    let setting =
        |(knob, disk)| Setting { knob, disk, value: value.clone(), written: token.value.clone() };
    knobs.into_iter().map(setting).collect()
}

/// The knobs that a command names, or that its program is known to set, and the disk of each.
fn run(command: &str) -> Vec<(String, Option<String>)> {
    let command =
        ["/sys%p/", "/sys/%p/", "/sys$devpath/", "/sys/$devpath/", "%S%p/", "$sys$devpath/"]
            .iter()
            .fold(command.to_owned(), |text, prefix| text.replace(prefix, "/sys/block/%k/"));
    let ends = |c: char| c.is_whitespace() || "\"'\\;&()>=".contains(c);
    let words: Vec<&str> = command.split(ends).filter(|word| !word.is_empty()).collect();
    let mut knobs = Vec::new();
    for word in &words {
        match reach::of_path(word) {
            Some((knob, Owner::Machine)) => knobs.push((knob, None)),
            Some((knob, Owner::Name(name) | Owner::Number(name))) => {
                knobs.push((knob, Some(name.to_owned())));
            }
            // A shell's pattern is one of files.
            None if glob::is_pattern(word) => {}
            None => knobs.extend(reach::of_sysctl(word).into_iter().map(|knob| (knob, None))),
        }
    }
    let program = words.first().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    let known = PROGRAMS.iter().filter(|(name, _)| *name == program).flat_map(|(_, knobs)| *knobs);
    knobs.extend(known.map(|knob| ((*knob).to_owned(), Some("%k".to_owned()))));
    knobs
}

/// Whether each rule of a file is reached and fits at some event; `None` where that is open.
fn walk(rules: &[Rule], device: &Device<'_>) -> Vec<Option<bool>> {
    let [add, change] = ACTIONS.map(|action| walk_once(rules, device, action));
    let either = |(add, change)| match (add, change) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    };
    add.into_iter().zip(change).map(either).collect()
}

fn walk_once(rules: &[Rule], device: &Device<'_>, action: &str) -> Vec<Option<bool>> {
    let mut overlay = Overlay::new();
    // A jump that is certain, and whether one is open.
    let mut jumping_to: Option<&str> = None;
    let mut may_jump = false;
    let mut walked = Vec::new();
    for rule in rules {
        if jumping_to.is_some() && rule.set("LABEL") == jumping_to {
            jumping_to = None;
        }
        let fits = match jumping_to {
            Some(_) => Some(false),
            None => device.fits(rule, action, &overlay).filter(|fits| !fits || !may_jump),
        };
        walked.push(fits);
        if fits == Some(false) {
            continue;
        }
        for token in rule.assignments().filter(|token| token.key == "ENV") {
            let is_certain = fits.is_some() && !token.value.contains(['$', '%']);
            overlay.insert(token.attribute.clone(), is_certain.then(|| token.value.clone()));
        }
        match (rule.set("GOTO"), fits) {
            (Some(label), Some(_)) => jumping_to = Some(label),
            (Some(_), None) => may_jump = true,
            (None, _) => {}
        }
    }
    walked
}

/// The lines of a file that a captured tree stores: rules that set knobs, and rules that decide
/// whether these are reached. Each is on its first line, without a disk's identity.
pub(super) fn kept(text: &str) -> BTreeMap<u32, String> {
    let rules = if has_sign(text) { rule::parse(text).0 } else { Vec::new() };
    let kept = |rule: &Rule| {
        let is_wanted = |token: &&Token| match token.operator {
            Operator::Is | Operator::IsNot => true,
            Operator::Set => decides(token),
            Operator::Remove => false,
        };
        rule.assignments().any(decides).then(|| {
            rule.tokens.iter().filter(is_wanted).map(stored).collect::<Vec<_>>().join(", ")
        })
    };
    rules.iter().filter_map(|rule| Some((rule.line, kept(rule)?))).collect()
}

/// Whether an assignment sets a knob, or decides which other rules are reached.
fn decides(token: &Token) -> bool {
    matches!(token.key.as_str(), "GOTO" | "LABEL" | "ENV") || !settings(token).is_empty()
}

/// A token without what identifies a disk or its owner.
fn stored(token: &Token) -> String {
    const PRIVATE: [&str; 7] = ["serial", "wwid", "wwn", "uuid", "label", "address", "eui"];
    let Token { attribute, value, text, .. } = token;
    let name = attribute.to_ascii_lowercase();
    if PRIVATE.iter().any(|part| name.contains(part)) || value.contains("/by-") {
        // The value and a quote are its end.
        return format!("{}left-out\"", &text[..text.len() - value.len() - 1]);
    }
    text.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_names() {
        let of = |command: &str| {
            let shown = |(knob, disk): (String, Option<String>)| match disk {
                Some(disk) => format!("{disk}.{knob}"),
                None => knob,
            };
            run(command).into_iter().map(shown).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            of("/usr/bin/bash -c 'echo 1 > /sys/block/%k/bdi/strict_limit; echo 16777216 \
                 >/sys/block/%k/bdi/max_bytes'"),
            "%k.bdi.strict_limit %k.bdi.max_bytes"
        );
        assert_eq!(of("/bin/sh -c \"echo bfq>/sys%p/queue/scheduler\""), "%k.scheduler");
        assert_eq!(of("/usr/sbin/sysctl -w vm.dirty_ratio=5"), "vm.dirty_ratio");
        assert_eq!(of("/bin/sh -c 'echo 5 > /proc/sys/vm/dirty_ratio'"), "vm.dirty_ratio");
        assert_eq!(
            of("/usr/lib/cachyos-kyber-tune %k"),
            "%k.iosched.read_lat_nsec %k.iosched.write_lat_nsec"
        );
        assert_eq!(of("/usr/bin/true /sys/block/sda/queue/add_random"), "");
    }

    #[test]
    fn every_program_sets_known_knobs() {
        let mut knobs = PROGRAMS.iter().flat_map(|(_, knobs)| *knobs);
        assert!(knobs.all(|knob| reach::is_known(knob)));
    }
}
