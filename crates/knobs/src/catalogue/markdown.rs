//! The catalogue as a document: docs/knobs.md.

use std::fmt::Write;

use super::{Knob, Scope, Unit, knobs};

const HEAD: &str = "\
# Knobs

Generated from `crates/knobs/src/catalogue/table`; a test keeps it true. To write it again:
`cargo run -p floodwall-knobs --example knobs-md > docs/knobs.md`.

A *cell* is what the kernel keeps; two knobs of one cell (`vm.dirty_bytes` and `vm.dirty_ratio`) \
can't be set together. Sizes in bytes need a unit
(`15MB`, `64MiB`); a bare number is refused. Knobs of a device are written `sda.scheduler=bfq`, \
those of a group
`system.slice/backup.service:sda.io.max=wbps=50MB`.
";

/// The whole document.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    let mut title = "";
    for knob in knobs() {
        let next = section(knob.scope);
        if next != title {
            title = next;
            let _ = write!(text, "\n## {title}\n");
        }
        entry(&mut text, knob);
    }
    text
}

/// One knob's part of it.
#[must_use]
pub fn page(knob: &Knob) -> String {
    let mut text = String::new();
    entry(&mut text, knob);
    text.trim_start().to_owned()
}

fn section(scope: Scope) -> &'static str {
    match scope {
        Scope::Global => "The machine: /proc/sys/vm",
        Scope::Queue => "A disk's request queue: /sys/block/NAME/queue",
        Scope::Elevator(_) => "An elevator's tunables: /sys/block/NAME/queue/iosched",
        Scope::Bdi => "A device's share of the limits: /sys/class/bdi/MAJ:MIN",
        Scope::Scsi => "A SCSI disk: /sys/block/NAME/device",
        Scope::Threads | Scope::Journal => "I/O priorities of threads",
        Scope::Cgroup | Scope::CgroupValue | Scope::RootCgroup => {
            "A control group: /sys/fs/cgroup/GROUP"
        }
    }
}

fn entry(text: &mut String, knob: &Knob) {
    let _ = write!(text, "\n### {}\n\n{}\n\n", knob.name, knob.does);
    let _ = writeln!(text, "- value: {}", values(knob));
    let _ = writeln!(text, "- default: {}", knob.default);
    if let Scope::Elevator(elevators) = knob.scope {
        let _ = writeln!(text, "- elevator: {}", elevators.join(", "));
    }
    if !knob.needs.is_empty() {
        let _ = writeln!(text, "- needs: {}", knob.needs);
    }
    if let Some(why) = knob.adjusts {
        let _ = writeln!(text, "- adjusted by the kernel: {why}");
    }
    for reset in knob.resets {
        let kept = if reset.keep { "put back at once" } else { "saved with it" };
        let _ = writeln!(text, "- also changes: {} ({kept})", reset.knob);
    }
    for quirk in knob.quirks {
        let _ = writeln!(text, "- {quirk}");
    }
    let _ = writeln!(text, "- source: {}", knob.source);
}

/// Unit and range in words.
fn values(knob: &Knob) -> String {
    match knob.unit {
        Unit::Flag => "0 or 1".to_owned(),
        Unit::IoPriority => {
            "`none`, `be/0` to `be/7`, `rt/0` to `rt/7` or `idle`; 0 goes first".to_owned()
        }
        Unit::Word(words) => {
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
        }
        Unit::Elevator => "one of those that the file lists".to_owned(),
        Unit::Keys(keys) => keys.iter().map(|key| format!("{key}=…")).collect::<Vec<_>>().join(" "),
        unit if knob.max == i64::MAX => format!("{} from {}", unit.name(), knob.min),
        unit => format!("{} from {} to {}", unit.name(), knob.min, knob.max),
    }
}
