//! Other managers of the same knobs: each manager's claims from its configuration files, and which
//! claim wins.
//!
//! ```text
//! command_line  elevator=                        ┐
//! udev          rules that assign queue/, bdi/   │
//! sysctl        sysctl.d files, /etc/sysctl.conf │ claims, in the order in which they are
//! tmpfiles      `w` lines on /sys and /proc/sys  │ applied at boot: the later one stays
//! laptop_mode   laptop-mode-tools                │
//! tlp           TLP                              │
//! tuned         the active profile               ┘
//!    ↓
//! precedence    of each knob and place the last claim wins, the others are overridden
//!
//! floodwalls    another floodwall that changes settings now, or a guard that runs
//! ```
//!
//! Everything is read through [`SysRoot`], so it runs on a captured tree; nothing is started or
//! asked over a bus. What a program decides at run time (a script, `RUN+=`, a TuneD function) is a
//! claim without a value. Sizes are in the unit of the knob's kernel file.

mod command_line;
mod drop_ins;
mod floodwalls;
mod glob;
mod laptop_mode;
mod precedence;
mod reach;
mod redact;
mod service;
mod shell;
mod shipped;
mod sysctl;
mod tlp;
mod tmpfiles;
mod tuned;
mod udev;

use floodwall_model::managers::{Claim, Kind, Manager, Managers, Place, Standing};
use floodwall_model::status::Missing;
use floodwall_model::{DeviceId, Reading};

use self::reach::Owner;
use crate::root::SysRoot;

pub use floodwalls::{STEERS, floodwalls};
pub use reach::is_known;
pub(crate) use redact::redacted;

/// Why a claim about other devices is not applied.
const NO_DEVICE: &str = "no device that is here now fits";

/// How files begin that floodwall writes, and what removes them.
const OURS: [(&str, &str); 2] = [
    ("# Written by floodwall persist", "floodwall unpersist"),
    ("# Written by floodwall export", "write the file again with floodwall export, or remove it"),
];

/// Finds every manager but a second floodwall, and what each sets.
#[must_use]
pub fn read(root: &SysRoot) -> Managers {
    let mut found = Found::new(root);
    command_line::read(&mut found);
    udev::read(&mut found);
    sysctl::read(&mut found);
    tmpfiles::read(&mut found);
    laptop_mode::read(&mut found);
    tlp::read(&mut found);
    tuned::read(&mut found);
    let mut managers = found.managers;
    precedence::settle(&mut managers.claims);
    managers
}

/// A whole disk that is here.
#[derive(Clone, Debug)]
struct Disk {
    name: String,
    id: DeviceId,
    /// Its path below /sys (`/devices/pci0000:00/…/block/sda`), as udev's DEVPATH has it; `None`
    /// where /sys does not tell.
    path: Option<String>,
}

impl Disk {
    fn place(&self) -> Place {
        Place::Device { name: self.name.clone(), id: self.id }
    }
}

/// The findings so far.
struct Found<'a> {
    root: &'a SysRoot,
    disks: Vec<Disk>,
    /// `ID` of /etc/os-release: a file's name alone does not always tell its distribution.
    distribution: String,
    /// Files that floodwall itself wrote, and the command that removes them.
    ours: Vec<(String, &'static str)>,
    managers: Managers,
}

/// Where a claim is written, and the manager that applies it.
struct Source<'a> {
    by: Kind,
    who: &'a str,
    file: &'a str,
    line: Option<u32>,
    when: &'a str,
    settle: String,
}

/// A knob's value in a claim.
struct Wanted<'a> {
    knob: &'a str,
    /// As the kernel's file takes it, if the line says that.
    value: Option<String>,
    /// As the line says it.
    written: &'a str,
}

impl<'a> Found<'a> {
    fn new(root: &'a SysRoot) -> Self {
        let os_release = root.read("/etc/os-release").into_value().unwrap_or_default();
        let id = os_release.lines().find_map(|line| line.strip_prefix("ID="));
        Self {
            root,
            disks: read_disks(root),
            distribution: id.unwrap_or_default().trim_matches(['"', '\'']).to_owned(),
            ours: Vec::new(),
            managers: Managers::default(),
        }
    }

    /// Notes a claim. `standing` is the claim's state within its manager; the winner among managers
    /// is settled at the end.
    fn claim(&mut self, source: &Source<'_>, place: Place, wanted: Wanted<'_>, standing: Standing) {
        let in_force = match (&place, &wanted.value) {
            (Place::Matching(_), _) => Reading::Absent("no such device is here".to_owned()),
            (_, None) => Reading::Absent("the file does not tell the value".to_owned()),
            (Place::Machine, Some(value)) => reach::holds(self.root, wanted.knob, None, value),
            (Place::Device { id, .. }, Some(value)) => reach::holds(self.root, wanted.knob, Some(*id), value),
        };
        let ours = self.ours.iter().find(|(file, _)| file == source.file).map(|(_, remedy)| *remedy);
        let shipped_by = ours.map(|_| "floodwall").or_else(|| shipped::by(source.file, &self.distribution));
        self.managers.claims.push(Claim {
            by: source.by,
            who: source.who.to_owned(),
            shipped_by: shipped_by.map(str::to_owned),
            file: source.file.to_owned(),
            line: source.line,
            knob: wanted.knob.to_owned(),
            place,
            value: wanted.value,
            written: wanted.written.to_owned(),
            when: source.when.to_owned(),
            in_force,
            standing,
            settle: ours.map_or_else(|| source.settle.clone(), str::to_owned),
        });
    }

    /// The same for a place that may be a pattern which nothing fits: such a claim is not applied.
    fn claim_at(&mut self, source: &Source<'_>, place: Place, wanted: Wanted<'_>, standing: Standing) {
        let standing = match (&place, standing) {
            (Place::Matching(_), Standing::Wins | Standing::Uncertain { .. }) => {
                Standing::NotApplied { why: NO_DEVICE.to_owned() }
            }
            (_, standing) => standing,
        };
        self.claim(source, place, wanted, standing);
    }

    /// The machine, or the disks that an owner's name or number fits.
    fn places(&self, owner: &Owner<'_>) -> Vec<Place> {
        let (pattern, of_number) = match owner {
            Owner::Machine => return vec![Place::Machine],
            Owner::Name(pattern) => (*pattern, false),
            Owner::Number(pattern) => (*pattern, true),
        };
        let text = |disk: &Disk| if of_number { disk.id.to_string() } else { disk.name.clone() };
        let fitting = self.disks.iter().filter(|disk| glob::matches(pattern, &text(disk)));
        let places: Vec<Place> = fitting.map(Disk::place).collect();
        if places.is_empty() {
            return vec![Place::Matching(format!(
                "the {} {pattern}",
                if of_number { "number" } else { "name" }
            ))];
        }
        places
    }

    /// Notes a manager, if it has not been noted yet.
    fn present(&mut self, manager: Manager) {
        if !self.managers.present.iter().any(|other| other.kind == manager.kind) {
            self.managers.present.push(manager);
        }
    }

    /// Notes something that may set knobs and could not be read.
    fn unread(&mut self, what: &str, why: &str) {
        self.managers.unread.push(Missing { what: what.to_owned(), why: why.to_owned() });
    }

    /// A configuration file's text; nothing if it is not there; noted if it can't be read.
    fn text(&mut self, path: &str) -> Option<String> {
        match self.root.read(path) {
            Reading::Value(text) => {
                if let Some((_, remedy)) = OURS.iter().find(|(mark, _)| text.starts_with(mark)) {
                    self.ours.push((path.to_owned(), remedy));
                }
                Some(text)
            }
            Reading::Absent(_) => None,
            Reading::Unreadable(why) => {
                self.unread(path, &format!("unreadable: {why}"));
                None
            }
        }
    }
}

/// The whole disks of /sys/class/block, in the order of their names.
fn read_disks(root: &SysRoot) -> Vec<Disk> {
    let directory = "/sys/class/block";
    let names = root.list(directory).into_value().unwrap_or_default();
    let disk = |name: String| {
        let here = format!("{directory}/{name}");
        if root.exists(&format!("{here}/partition")) {
            return None;
        }
        let id = root.parse::<DeviceId>(&format!("{here}/dev")).into_value()?;
        let path = root.link_target(&here).into_value();
        let path = path.and_then(|target| target.find("/devices/").map(|at| target[at..].to_owned()));
        Some(Disk { name, id, path })
    };
    names.into_iter().filter_map(disk).collect()
}

#[cfg(test)]
mod tests;
