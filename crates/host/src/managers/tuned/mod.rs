//! TuneD: what its active profile sets.
//!
//! ```text
//! /etc/tuned/active_profile, post_loaded_profile → profile::load (includes, merged units) → units
//!   [vm] [sysctl] [disk] [sysfs] → claims
//! ```
//!
//! TuneD sets its values when it starts and when the profile changes, and puts the earlier ones
//! back when it stops. After the `[sysctl]` units it applies /run/sysctl.d, /etc/sysctl.d and
//! /etc/sysctl.conf over them, unless `reapply_sysctl` is off in tuned-main.conf
//! (tuned/plugins/plugin_sysctl.py `_apply_system_sysctl`).

mod profile;

use floodwall_model::Reading;
use floodwall_model::managers::{Kind, Manager, Place, Standing, cell};

use self::profile::{Entry, Unit};
use super::{Found, Source, Wanted, glob, reach, redact, service};

const ACTIVE: &str = "/etc/tuned/active_profile";
const POST_LOADED: &str = "/etc/tuned/post_loaded_profile";
const MAIN: &str = "/etc/tuned/tuned-main.conf";
pub(super) const PID: &str = "/run/tuned/tuned.pid";
const UNIT: &str = "tuned.service";
const PROGRAMS: [&str; 2] = ["/usr/sbin/tuned", "/usr/bin/tuned"];
/// Options that are read besides knobs: of units, of `[disk]`, of tuned-main.conf.
const OPTIONS: [&str; 9] = [
    "include",
    "enabled",
    "type",
    "replace",
    "devices",
    "elevator",
    "readahead",
    "readahead_multiply",
    "reapply_sysctl",
];
/// What sysctl.d files TuneD applies over its own, by the beginning of their paths.
const REAPPLIED: [&str; 3] = ["/run/sysctl.d/", "/etc/sysctl.d/", "/etc/sysctl.conf"];

/// Collects what the active profile sets.
pub(super) fn read(found: &mut Found<'_>) {
    let active = found.text(ACTIVE);
    let running = service::runs(found.root, PID, &["tuned", "python", "platform-python"]);
    let installed = PROGRAMS.iter().any(|path| found.root.exists(path));
    if active.is_none() && !installed && running != Reading::Value(true) {
        return;
    }
    let mut names: Vec<String> = active.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    if let Some(text) = found.text(POST_LOADED) {
        names.extend(text.split_whitespace().map(str::to_owned));
    }
    let shown = match names.as_slice() {
        [] => "TuneD, no profile".to_owned(),
        [one] => format!("TuneD, profile {one}"),
        many => format!("TuneD, profiles {}", many.join(" ")),
    };
    let at_boot = service::at_boot(found.root, UNIT);
    let standing = standing(&running, &at_boot);
    found.present(Manager { kind: Kind::Tuned, name: shown, running, at_boot });
    if names.is_empty() {
        return;
    }
    let reapplies = found.text(MAIN).is_none_or(|text| profile::is_on(&text, "reapply_sysctl", true));
    for unit in profile::load(found, &names) {
        let who = format!("TuneD's profile {}", names.join(" "));
        let claims =
            Claims { who: &who, profile: names.first().map_or("", String::as_str), standing: &standing };
        claims.of_unit(found, &unit, reapplies);
    }
}

/// Whether a line of one of its files is read.
pub(super) fn is_read(path: &str, line: &str) -> bool {
    if path == ACTIVE || path == POST_LOADED {
        return true;
    }
    let line = line.trim();
    if line.starts_with('[') {
        return true;
    }
    let Some((key, value)) = line.split_once('=') else { return false };
    let key = key.trim();
    // A variable may hold a knob's value: a number, or another variable.
    let number = value.trim().trim_end_matches(['%', 'k', 'K', 'm', 'M', 'g', 'G']);
    let is_value = number.starts_with("${") || number.chars().all(|c| c.is_ascii_digit());
    OPTIONS.contains(&key) || redact::is_knob(key) || is_value
}

/// Whether its values are applied at all.
fn standing(running: &Reading<bool>, at_boot: &Reading<bool>) -> Standing {
    match (running.value(), at_boot.value()) {
        (Some(true), _) | (_, Some(true)) => Standing::Wins,
        (_, Some(false)) => {
            Standing::NotApplied { why: "TuneD does not run and is not started at boot".to_owned() }
        }
        (_, None) => Standing::Uncertain {
            why: format!(
                "TuneD does not run; whether it is started at boot can't be told ({})",
                at_boot.reason().unwrap_or_default()
            ),
        },
    }
}

/// What the claims of one profile have in common.
struct Claims<'a> {
    who: &'a str,
    profile: &'a str,
    standing: &'a Standing,
}

impl Claims<'_> {
    fn of_unit(&self, found: &mut Found<'_>, unit: &Unit, reapplies: bool) {
        if unit.get("enabled").is_some_and(|entry| profile::is_off(&entry.value)) {
            return;
        }
        for entry in &unit.entries {
            match unit.plugin() {
                "vm" => self.vm(found, entry),
                "sysctl" => self.sysctl(found, entry, reapplies),
                "disk" => self.disk(found, unit, entry),
                "sysfs" => self.sysfs(found, entry),
                _ => {}
            }
        }
    }

    /// `dirty_bytes=40%` is dirty_ratio (plugin_vm.py).
    fn vm(&self, found: &mut Found<'_>, entry: &Entry) {
        let percent = entry.value.strip_suffix('%').map(str::trim_end);
        let (key, value) = match (entry.key.as_str(), percent) {
            ("dirty_bytes", Some(percent)) => ("dirty_ratio", percent),
            ("dirty_background_bytes", Some(percent)) => ("dirty_background_ratio", percent),
            (key, _) => (key, entry.value.as_str()),
        };
        if let Some(knob) = reach::of_sysctl(&format!("vm.{key}")) {
            self.claim(found, Place::Machine, knob, value, entry, self.standing.clone());
        }
    }

    fn sysctl(&self, found: &mut Found<'_>, entry: &Entry, reapplies: bool) {
        let Some(knob) = reach::of_sysctl(&entry.key) else { return };
        let reapplied = found.managers.claims.iter().rev().find(|claim| {
            claim.by == Kind::Sysctl
                && claim.standing == Standing::Wins
                && cell(&claim.knob) == cell(knob)
                && REAPPLIED.iter().any(|path| claim.file.starts_with(path))
        });
        let standing = match (reapplied, self.standing) {
            (Some(over), Standing::Wins) if reapplies => Standing::Overridden { by: over.source() },
            (_, standing) => standing.clone(),
        };
        self.claim(found, Place::Machine, knob, &entry.value, entry, standing);
    }

    /// Every disk that is not removable, or those that `devices` names (plugin_disk.py).
    fn disk(&self, found: &mut Found<'_>, unit: &Unit, entry: &Entry) {
        let (knob, value) = match entry.key.as_str() {
            "elevator" => ("scheduler", Some(entry.value.clone())),
            // In KiB, or in sectors of 512 bytes with an `s` behind it.
            "readahead" => ("read_ahead_kb", read_ahead(&entry.value)),
            "readahead_multiply" => ("read_ahead_kb", None),
            _ => return,
        };
        let patterns = unit.get("devices").map_or("*", |entry| entry.value.as_str());
        let is_fixed = |name: &str| {
            let removable = found.root.read_line(&format!("/sys/class/block/{name}/removable"));
            removable.value().is_none_or(|text| text != "1")
        };
        let mut places: Vec<Place> = found
            .disks
            .iter()
            .filter(|disk| is_listed(patterns, &disk.name) && is_fixed(&disk.name))
            .map(super::Disk::place)
            .collect();
        if places.is_empty() {
            places.push(Place::Matching(format!("the names {patterns}")));
        }
        for place in places {
            match &value {
                Some(value) => self.claim(found, place, knob, value, entry, self.standing.clone()),
                None => self.claim_unknown(found, place, knob, entry),
            }
        }
    }

    fn sysfs(&self, found: &mut Found<'_>, entry: &Entry) {
        let Some((knob, owner)) = reach::of_path(&entry.key) else { return };
        for place in found.places(&owner) {
            self.claim(found, place, &knob, &entry.value, entry, self.standing.clone());
        }
    }

    /// A value with `>` or `<` before it is only set if it is larger or smaller than the present
    /// one. TuneD works out a value with `${…}`.
    fn claim(
        &self,
        found: &mut Found<'_>,
        place: Place,
        knob: &str,
        value: &str,
        entry: &Entry,
        standing: Standing,
    ) {
        let plain = value.trim_start_matches(['>', '<']).trim().trim_matches(['"', '\'']);
        let value = (!plain.contains("${")).then(|| plain.to_owned());
        found.claim_at(
            &self.source(entry, knob),
            place,
            Wanted { knob, value, written: &entry.value },
            standing,
        );
    }

    fn claim_unknown(&self, found: &mut Found<'_>, place: Place, knob: &str, entry: &Entry) {
        let written = format!("{}={}", entry.key, entry.value);
        let wanted = Wanted { knob, value: None, written: &written };
        found.claim_at(&self.source(entry, knob), place, wanted, self.standing.clone());
    }

    fn source<'a>(&'a self, entry: &'a Entry, knob: &str) -> Source<'a> {
        Source {
            by: Kind::Tuned,
            who: self.who,
            file: &entry.file,
            line: Some(entry.line),
            when: "when it starts and when the profile changes",
            settle: format!(
                "tuned-adm off, or set {knob} in a profile of yours with include={}",
                self.profile
            ),
        }
    }
}

/// `sd*,!sda`: what fits one pattern and no negated one.
fn is_listed(patterns: &str, name: &str) -> bool {
    let mut listed = false;
    for pattern in patterns.split([',', ' ']).map(str::trim).filter(|pattern| !pattern.is_empty()) {
        match pattern.strip_prefix('!') {
            Some(pattern) if glob::matches(pattern, name) => return false,
            Some(_) => {}
            None => listed |= glob::matches(pattern, name),
        }
    }
    listed
}

/// A read-ahead in KiB.
fn read_ahead(text: &str) -> Option<String> {
    let mut words = text.trim_start_matches(['>', '<']).split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let sectors = words.next().is_some_and(|unit| unit.starts_with('s'));
    Some((if sectors { number / 2 } else { number }).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_listed_and_excluded() {
        assert!(is_listed("*", "sda"));
        assert!(is_listed("sd*,nvme*", "nvme0n1"));
        assert!(!is_listed("sd*, !sda", "sda") && is_listed("sd*, !sda", "sdb"));
        assert!(!is_listed("!sda", "sdb"));
    }

    #[test]
    fn read_ahead_is_in_kibibytes_or_sectors() {
        assert_eq!(read_ahead("4096").as_deref(), Some("4096"));
        assert_eq!(read_ahead(">4096").as_deref(), Some("4096"));
        assert_eq!(read_ahead("8192 s").as_deref(), Some("4096"));
        assert_eq!(read_ahead("much"), None);
    }
}
