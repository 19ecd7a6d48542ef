//! The udev(7) rules file: the knobs of disks, set whenever one appears.
//!
//! ```text
//! ENV{ID_SERIAL}=="…", ENV{.FLOODWALL}="1"
//!     a disk by its identity; a property with a dot lives for this event alone
//! ENV{.FLOODWALL}=="1", ATTR{queue/scheduler}="mq-deadline"
//!     one line a write, in the order that the kernel needs
//! ```
//!
//! - **Events.** A disk is set when it is added. At boot the kernel's events are repeated once the
//!   system's rules are there. A disk is also set when the kernel reports a change: a loop device
//!   got its file, an array was started, a mapping was loaded. Synthetic change events are ignored:
//!   `udevadm trigger`, and udev's own after a writer closes the disk. They would undo
//!   `floodwall apply` at random moments.
//! - **A match is positive.** A comparison with a missing file fails, `!=` too. See udev-rules.c
//!   `token_match_attr`. "If not this disk, skip" would set every disk that lacks the file.
//! - **bdi.** Events of the subsystem bdi come with a number and no identity. The disk's directory
//!   links to its bdi: `ATTR{bdi/…}`.
//! - **Order.** An elevator goes before the knobs that it resets and before wbt. Shares go before
//!   the strict limit. A plan has the same order.
//! - **Busy.** Linux 6.18 may answer a write to nr_requests with EBUSY while a disk of the same
//!   adapter changes its elevator. At boot this is likely, so this knob is compared and written
//!   again.

use floodwall_host::SysRoot;

use super::identity::{Identity, Key};
use super::removable::{MATCHES, written};
use super::value::{Disk, Value};
use crate::catalogue::value::{Form, check};
use crate::catalogue::{Knob, Scope, find, knobs};
use crate::plan::order::rank_from_defaults;

/// Where it is.
pub const PATH: &str = "/etc/udev/rules.d/99-zz-floodwall.rules";

/// Before the first disk.
const HEAD: &str = "\
ACTION!=\"add|change\", GOTO=\"floodwall_end\"
SUBSYSTEM!=\"block\", GOTO=\"floodwall_end\"
ENV{DEVTYPE}!=\"disk\", GOTO=\"floodwall_end\"
# Not a change of the disk, but made by udevadm trigger or after a write: what was set since is \
left alone.
ACTION==\"change\", ENV{SYNTH_UUID}==\"?*\", GOTO=\"floodwall_end\"
ENV{DM_UDEV_DISABLE_OTHER_RULES_FLAG}==\"1\", GOTO=\"floodwall_end\"
";
/// After the last one.
const TAIL: &str = "\nLABEL=\"floodwall_end\"\n";
/// The property that says that the disk of this event is the one.
const FLAG: &str = "ENV{.FLOODWALL}";
/// Before the name that a disk had when the file was written.
const KNOWN_AS: &str = "# ";
/// Begins the block of all removable disks; their settings follow. It is the first block: a disk's
/// own one has the last word.
const REMOVABLE: &str = "\n# removable disks: ";
/// What the property says of a removable disk.
const ANY: &str = "removable";

/// The file below its first two lines.
pub(crate) fn body(removable: &[Value], hard_limit_bytes: Option<u64>, disks: &[Disk]) -> String {
    let class = if removable.is_empty() {
        String::new()
    } else {
        let named: Vec<String> =
            removable.iter().map(|value| format!("{}={}", value.knob.name, value.value)).collect();
        let matches = MATCHES.iter().map(|one| format!("{one}, {FLAG}=\"{ANY}\"\n"));
        let values: Vec<Value> =
            removable.iter().map(|value| written(value, hard_limit_bytes)).collect();
        let matches: String = matches.collect();
        format!("{REMOVABLE}{}\n{matches}{}", named.join(" "), assignments(ANY, &values))
    };
    let blocks = disks.iter().enumerate().map(|(index, disk)| block(index + 1, disk));
    format!("{HEAD}{class}{}{TAIL}", blocks.collect::<String>())
}

fn block(number: usize, disk: &Disk) -> String {
    let Identity { key, pattern } = &disk.identity;
    format!(
        "\n{KNOWN_AS}{}\n{}==\"{pattern}\", {FLAG}=\"{number}\"\n{}",
        disk.known_as.escape_debug(),
        key.rule(),
        assignments(&number.to_string(), &disk.values)
    )
}

/// The writes for the disks whose property says `number`.
fn assignments(number: &str, values: &[Value]) -> String {
    let mut text = String::new();
    let mut ordered: Vec<&Value> = values.iter().collect();
    ordered.sort_by_key(|value| rank_from_defaults(value.knob, &value.value));
    for value in ordered {
        let Some(file) = below_disk(value.knob) else { continue };
        for write in writes(value) {
            text.push_str(&format!("{FLAG}==\"{number}\", ATTR{{{file}}}=\"{write}\"\n"));
        }
        if value.knob.name == "nr_requests" {
            let wanted = &value.value;
            text.push_str(&format!(
                "{FLAG}==\"{number}\", ATTR{{{file}}}!=\"{wanted}\", ATTR{{{file}}}=\"{wanted}\"\n"
            ));
        }
    }
    text
}

/// The writes that lead to a value from any earlier one.
fn writes(value: &Value) -> Vec<String> {
    match (value.knob.name, value.value.parse::<i64>()) {
        // A target that is written again does not switch throttling on where an elevator has
        // switched it off.
        ("wbt_lat_usec", Ok(us)) if us > 0 => vec![(us + 1).to_string(), value.value.clone()],
        _ => vec![value.value.clone()],
    }
}

/// A knob's file below its disk's directory in /sys/block.
pub(crate) fn below_disk(knob: &Knob) -> Option<String> {
    let directory = match knob.scope {
        Scope::Queue => "queue",
        Scope::Elevator(_) => "queue/iosched",
        Scope::Bdi => "bdi",
        Scope::Scsi => "device",
        Scope::Global
        | Scope::Cgroup
        | Scope::CgroupValue
        | Scope::RootCgroup
        | Scope::Threads
        | Scope::Journal => return None,
    };
    Some(format!("{directory}/{}", knob.file_name()))
}

/// Parses the output of [`body`]: the values of removable disks, and each disk's own.
///
/// # Errors
/// Text that `body` did not write.
pub(crate) fn parse(body: &str) -> Result<(Vec<Value>, Vec<Disk>), String> {
    let blocks = body.strip_prefix(HEAD).and_then(|rest| rest.strip_suffix(TAIL));
    let blocks = blocks.ok_or("its head or tail is not understood")?;
    let (removable, blocks) = match blocks.strip_prefix(REMOVABLE) {
        Some(rest) => {
            let (class, others) = rest.split_once("\n\n").unwrap_or((rest, ""));
            (parse_removable(class)?, others)
        }
        None => (Vec::new(), blocks),
    };
    Ok((removable, parse_disks(blocks)?))
}

/// The first line names the settings. The writes below it are made from these again.
fn parse_removable(class: &str) -> Result<Vec<Value>, String> {
    let not_understood = |text: &str| format!("'{text}' is not understood");
    let mut lines = class.lines();
    for (line, expected) in lines.clone().skip(1).zip(MATCHES) {
        if line != format!("{expected}, {FLAG}=\"{ANY}\"") {
            return Err(not_understood(line));
        }
    }
    let value = |text: &str| -> Option<Value> {
        let (name, value) = text.split_once('=')?;
        let knob = find(name)?;
        Some(Value { knob, value: check(knob, value, Form::Kernel).ok()? })
    };
    let named = lines.next().unwrap_or_default().split(' ');
    let values = named.map(|text| value(text).ok_or_else(|| not_understood(text))).collect();
    for line in lines.skip(MATCHES.len()) {
        let write = line.strip_prefix(&format!("{FLAG}==\"{ANY}\", "));
        let write = write.and_then(|write| write.strip_suffix('"')?.split_once("=\""));
        write
            .and_then(|(attribute, value)| believe(attribute, value))
            .ok_or_else(|| not_understood(line))?;
    }
    values
}

fn parse_disks(blocks: &str) -> Result<Vec<Disk>, String> {
    let mut disks: Vec<Disk> = Vec::new();
    let mut known_as = String::new();
    for line in blocks.lines().filter(|line| !line.is_empty()) {
        let not_understood = || format!("'{line}' is not understood");
        if let Some(name) = line.strip_prefix(KNOWN_AS) {
            name.clone_into(&mut known_as);
            continue;
        }
        let (first, second) = line.split_once("\", ").ok_or_else(not_understood)?;
        match (first.split_once("==\""), second.split_once("=\"")) {
            (Some((FLAG, _)), Some((attribute, value))) => {
                // The line that writes a busy file again.
                if attribute.ends_with('!') {
                    continue;
                }
                let value = value.strip_suffix('"').ok_or_else(not_understood)?;
                let value = believe(attribute, value).ok_or_else(not_understood)?;
                let disk = disks.last_mut().ok_or_else(not_understood)?;
                // Of several writes to one file the last one counts.
                disk.values.retain(|other| other.knob != value.knob);
                disk.values.push(value);
            }
            (Some((key, pattern)), Some((FLAG, _))) => {
                let key = Key::of_rule(key).ok_or_else(not_understood)?;
                let identity = Identity { key, pattern: pattern.to_owned() };
                disks.push(Disk {
                    identity,
                    known_as: std::mem::take(&mut known_as),
                    values: Vec::new(),
                });
            }
            _ => return Err(not_understood()),
        }
    }
    Ok(disks)
}

fn believe(attribute: &str, value: &str) -> Option<Value> {
    let file = attribute.strip_prefix("ATTR{")?.strip_suffix('}')?;
    let knob = knobs().find(|knob| below_disk(knob).as_deref() == Some(file))?;
    Some(Value { knob, value: check(knob, value, Form::Kernel).ok()? })
}

/// Whether there is a udev that could read the file.
pub(crate) fn has_reader(root: &SysRoot) -> bool {
    ["/run/udev/control", "/usr/lib/udev", "/lib/udev"].iter().any(|path| root.exists(path))
}
