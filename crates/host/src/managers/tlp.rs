//! TLP: the elevators of disks, and the flusher's times.
//!
//! Parameters come from /usr/share/tlp/defaults.conf, /etc/tlp.d/*.conf in the order of their
//! names, and /etc/tlp.conf; a later one replaces an earlier one (linrunner.de/tlp/settings).
//! `DISK_IOSCHED` goes with `DISK_DEVICES` word by word; `keep` and `_` leave a disk alone.
//! `MAX_LOST_WORK_SECS_ON_AC` and `…_ON_BAT` become `vm.dirty_writeback_centisecs` and
//! `vm.dirty_expire_centisecs`; 0 leaves those alone (func.d/15-tlp-func-disk, `set_disk_iosched`,
//! `set_dirty_parms`).

use floodwall_model::Reading;
use floodwall_model::managers::{Kind, Manager, Place, Standing};

use super::shell::{Variable, Variables};
use super::{Found, Source, Wanted, drop_ins, service};

const DEFAULTS: &str = "/usr/share/tlp/defaults.conf";
pub(super) const DIRECTORY: &str = "/etc/tlp.d";
const MAIN: &str = "/etc/tlp.conf";
/// Before TLP 1.3.
const OLD: &str = "/etc/default/tlp";
/// Every file but those of [`DIRECTORY`].
pub(super) const FILES: [&str; 3] = [DEFAULTS, MAIN, OLD];
/// The variables that are read.
pub(super) const VARIABLES: [&str; 5] =
    ["TLP_ENABLE", "DISK_IOSCHED", "DISK_DEVICES", "MAX_LOST_WORK_SECS_ON_AC", "MAX_LOST_WORK_SECS_ON_BAT"];
const PROGRAMS: [&str; 2] = ["/usr/bin/tlp", "/usr/sbin/tlp"];
const UNIT: &str = "tlp.service";
/// Words of `DISK_IOSCHED` that change nothing.
const KEEP: [&str; 2] = ["keep", "_"];
/// What TLP takes where `DISK_DEVICES` is not set.
const DISKS: &str = "nvme0n1 sda";

/// Collects what TLP sets.
pub(super) fn read(found: &mut Found<'_>) {
    let mut variables = Variables::default();
    let mut configured = false;
    let drop_ins = drop_ins::list(found, &[DIRECTORY], ".conf").into_iter().map(|file| file.path);
    let files: Vec<String> =
        [OLD.to_owned(), DEFAULTS.to_owned()].into_iter().chain(drop_ins).chain([MAIN.to_owned()]).collect();
    for file in &files {
        if let Some(text) = found.text(file) {
            configured = true;
            variables.add(file, &text);
        }
    }
    let installed = PROGRAMS.iter().any(|path| found.root.exists(path));
    if !configured && !installed {
        return;
    }
    let at_boot = service::at_boot(found.root, UNIT);
    let standing = standing(installed, &variables, &at_boot);
    found.present(Manager {
        kind: Kind::Tlp,
        name: "TLP".to_owned(),
        running: Reading::Absent("it runs at boot and when mains power comes or goes".to_owned()),
        at_boot,
    });
    elevators(found, &variables, &standing);
    times(found, &variables, &standing);
}

fn standing(installed: bool, variables: &Variables, at_boot: &Reading<bool>) -> Standing {
    let not_applied = |why: &str| Standing::NotApplied { why: why.to_owned() };
    match at_boot {
        _ if !installed => not_applied("TLP is configured, but not installed"),
        _ if variables.value("TLP_ENABLE", "1") == "0" => not_applied("TLP_ENABLE is 0"),
        Reading::Value(false) => not_applied("tlp.service is not started at boot"),
        Reading::Value(true) => Standing::Wins,
        Reading::Absent(why) | Reading::Unreadable(why) => Standing::Uncertain { why: why.clone() },
    }
}

fn source<'a>(variable: &'a Variable, when: &'a str, remedy: &str) -> Source<'a> {
    Source {
        by: Kind::Tlp,
        who: "TLP",
        file: &variable.file,
        line: Some(variable.line),
        when,
        settle: format!("set {remedy} in {MAIN}, then run tlp start"),
    }
}

fn elevators(found: &mut Found<'_>, variables: &Variables, standing: &Standing) {
    let Some(schedulers) = variables.get("DISK_IOSCHED") else { return };
    let disks = variables.value("DISK_DEVICES", DISKS);
    // A list that is too short leaves the rest alone.
    for (disk, scheduler) in disks.split_whitespace().zip(schedulers.value.split_whitespace()) {
        if KEEP.contains(&scheduler) {
            continue;
        }
        // A name of /dev/disk/by-id, or the kernel's.
        let by_id = found.root.link_name(&format!("/dev/disk/by-id/{disk}")).into_value();
        let name = by_id.unwrap_or_else(|| disk.to_owned());
        let place = match found.disks.iter().find(|here| here.name == name) {
            Some(here) => here.place(),
            None => Place::Matching(format!("the name {disk}")),
        };
        let when = "at boot and when mains power comes or goes";
        let source = source(schedulers, when, "DISK_IOSCHED=\"keep keep\"");
        let wanted =
            Wanted { knob: "scheduler", value: Some(scheduler.to_owned()), written: &schedulers.value };
        found.claim_at(&source, place, wanted, standing.clone());
    }
}

fn times(found: &mut Found<'_>, variables: &Variables, standing: &Standing) {
    let on_mains = service::on_mains(found.root);
    for (name, when, applies) in [
        (
            "MAX_LOST_WORK_SECS_ON_BAT",
            "whenever the machine goes on battery",
            on_mains.value() == Some(&false),
        ),
        // A machine that does not tell is one that is plugged in.
        ("MAX_LOST_WORK_SECS_ON_AC", "at boot and when mains power comes", on_mains.value() != Some(&false)),
    ] {
        let Some(variable) = variables.get(name) else { continue };
        let seconds = variable.value.parse::<u64>().unwrap_or(0);
        if seconds == 0 {
            continue;
        }
        let standing = match standing {
            Standing::Wins if !applies => {
                let why = format!("{name} does not count for the power supply of this moment");
                Standing::Uncertain { why }
            }
            other => other.clone(),
        };
        let source = source(variable, when, &format!("{name}=0"));
        for knob in ["vm.dirty_writeback_centisecs", "vm.dirty_expire_centisecs"] {
            let value = Some(seconds.saturating_mul(100).to_string());
            let wanted = Wanted { knob, value, written: &variable.value };
            found.claim(&source, Place::Machine, wanted, standing.clone());
        }
    }
}
