//! Settings that outlive a boot: a sysctl.d file for the machine's knobs, udev rules for disks',
//! drop-ins for units'. No program of Floodwall runs at boot.
//!
//! ```text
//! changes (asked for, or applied now: applied) ─▶ settle ─▶ Persisted ─ merge
//!   ─▶ difference, files (text) ─▶ disk: written whole or not at all
//! all files ─▶ read ─▶ Kept { Persisted, whose each file is }
//! identity: what a disk is known by        sysctl, rules, units: the formats, there and back
//! removable: what all removable disks get         others: whose line wins at a boot
//! mark: whose a file is                    export: the same settings in other programs' formats
//! ```
//!
//! Each setting is kept once, in the file that carries it out: what is read back is what a boot
//! does.

mod applied;
mod disk;
mod error;
pub mod export;
mod identity;
mod mark;
mod others;
mod removable;
mod rules;
mod settle;
mod sysctl;
mod told_apart;
mod units;
mod value;

use std::fmt;

use floodwall_host::SysRoot;
use floodwall_model::Reading;

pub use applied::{Applied, applied};
pub use disk::{Etc, Written};
pub use error::PersistError;
pub use identity::{Identity, Key, matches};
pub use others::others;
pub use removable::{LIMIT_BYTES, RemovableError, values as removable_values};
pub use rules::PATH as RULES_PATH;
pub use settle::{Settled, settle, settle_removable};
pub use sysctl::PATH as SYSCTL_PATH;
pub use told_apart::{NoIdentity, identify, identify_all};
pub use units::{Unit, UnitValue};
pub use value::{Disk, Value};

use self::removable::is_removable;
use crate::catalogue::target::{Device, Target};
use crate::catalogue::{Knob, Scope};
use crate::plan::change::Change;

/// The settings kept across boots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Persisted {
    /// The machine's knobs.
    pub machine: Vec<Value>,
    /// All removable disks'.
    pub removable: Vec<Value>,
    /// Disks', in the order in which they were first written.
    pub disks: Vec<Disk>,
    /// Units', in the same order.
    pub units: Vec<Unit>,
}

/// Knobs that are two names of what the kernel keeps once.
const CELLS: [[&str; 2]; 7] = [
    ["vm.dirty_bytes", "vm.dirty_ratio"],
    ["vm.dirty_background_bytes", "vm.dirty_background_ratio"],
    ["bdi.max_bytes", "bdi.max_ratio"],
    ["bdi.max_bytes", "bdi.max_ratio_fine"],
    ["bdi.max_ratio", "bdi.max_ratio_fine"],
    ["bdi.min_ratio", "bdi.min_ratio_fine"],
    ["iosched.slice_idle", "iosched.slice_idle_us"],
];

fn one_cell(a: &Knob, b: &Knob) -> bool {
    a.name == b.name || CELLS.iter().any(|names| names.contains(&a.name) && names.contains(&b.name))
}

/// Puts a value in the place of the one of the same cell.
fn put(values: &mut Vec<Value>, new: &Value) {
    match values.iter_mut().find(|old| one_cell(old.knob, new.knob)) {
        Some(old) => *old = new.clone(),
        None => values.push(new.clone()),
    }
    // Another elevator takes the tunables of the old one with it.
    if new.knob.name == "scheduler" {
        values.retain(|value| match value.knob.scope {
            Scope::Elevator(elevators) => elevators.contains(&new.value.as_str()),
            _ => true,
        });
    }
}

impl Persisted {
    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.machine.is_empty()
            && self.removable.is_empty()
            && self.disks.is_empty()
            && self.units.is_empty()
    }

    /// This with another one's settings, which come first where both speak of one cell.
    #[must_use]
    pub fn with(&self, new: &Self) -> Self {
        let mut all = self.clone();
        for value in &new.machine {
            put(&mut all.machine, value);
        }
        new.removable.iter().for_each(|value| put(&mut all.removable, value));
        for disk in &new.disks {
            let index = all.disks.iter().position(|old| old.identity == disk.identity);
            let index = index.unwrap_or_else(|| {
                all.disks.push(Disk { values: Vec::new(), ..disk.clone() });
                all.disks.len() - 1
            });
            let Some(old) = all.disks.get_mut(index) else { continue };
            old.known_as.clone_from(&disk.known_as);
            // An elevator first: it would drop tunables that come with it.
            let (elevator, rest): (Vec<&Value>, Vec<&Value>) =
                disk.values.iter().partition(|value| value.knob.name == "scheduler");
            elevator.into_iter().chain(rest).for_each(|value| put(&mut old.values, value));
        }
        for unit in &new.units {
            let index =
                all.units.iter().position(|old| old.name == unit.name).unwrap_or_else(|| {
                    all.units.push(Unit { values: Vec::new(), ..unit.clone() });
                    all.units.len() - 1
                });
            let Some(old) = all.units.get_mut(index) else { continue };
            unit.values.iter().for_each(|value| old.put(value));
        }
        all
    }

    /// One line for each setting that differs: `sda.scheduler: not kept -> bfq`.
    #[must_use]
    pub fn difference(&self, to: &Self) -> Vec<String> {
        let (before, after) = (self.cells(), to.cells());
        let shown = |value: Option<&Value>| match value {
            Some(value) => format!("{} {}", value.knob.name, value.value),
            None => "not kept".to_owned(),
        };
        let of = |cells: &[Cell<'_>], wanted: &Cell<'_>| {
            cells.iter().find(|cell| cell.is(wanted)).map(|cell| cell.value.clone())
        };
        let mut lines = Vec::new();
        for cell in before.iter().filter(|cell| of(&after, cell).is_none()) {
            lines.push(format!("{}: {} -> not kept", cell.label(), shown(Some(cell.value))));
        }
        for cell in &after {
            let old = of(&before, cell);
            if old.as_ref() != Some(cell.value) {
                lines.push(format!(
                    "{}: {} -> {}",
                    cell.label(),
                    shown(old.as_ref()),
                    shown(Some(cell.value))
                ));
            }
        }
        lines
    }

    fn cells(&self) -> Vec<Cell<'_>> {
        let machine = self.machine.iter().map(|value| Cell { owner: Owner::Machine, value });
        let removable = self.removable.iter().map(|value| Cell { owner: Owner::Removable, value });
        let disks = self.disks.iter().flat_map(|disk| {
            disk.values.iter().map(move |value| Cell { owner: Owner::Disk(disk), value })
        });
        let units = self.units.iter().flat_map(|unit| {
            unit.values
                .iter()
                .map(move |one| Cell { owner: Owner::Unit(unit, &one.node), value: &one.value })
        });
        machine.chain(removable).chain(disks).chain(units).collect()
    }

    /// The settings of the machine and of these devices as changes, for a plan.
    #[must_use]
    pub fn changes(&self, root: &SysRoot, devices: &[Device]) -> Vec<Change> {
        let change = |target: Target, value: &Value| Change {
            knob: value.knob,
            target,
            value: value.value.clone(),
        };
        let mut changes: Vec<Change> =
            self.machine.iter().map(|value| change(Target::Machine, value)).collect();
        for device in devices {
            let known = self.disks.iter().filter(|disk| matches(root, device, &disk.identity));
            let own: Vec<&Value> = known.flat_map(|disk| &disk.values).collect();
            let is_own = |value: &Value| own.iter().any(|other| one_cell(other.knob, value.knob));
            let of_class = self.removable.iter().filter(|value| !is_own(value));
            let of_class = of_class.filter(|_| is_removable(root, device));
            changes.extend(
                of_class
                    .chain(own.iter().copied())
                    .map(|value| change(Target::Device(device.clone()), value)),
            );
        }
        changes
    }

    /// The machine's limit, if it is kept in bytes.
    fn hard_limit_bytes(&self) -> Option<u64> {
        let limit = self.machine.iter().find(|value| value.knob.name == "vm.dirty_bytes");
        limit.and_then(|value| value.value.parse().ok())
    }

    /// The files: path and whole text; `None` for one that there is nothing to say in.
    #[must_use]
    pub fn files(&self) -> Vec<(String, Option<String>)> {
        let signed =
            |body: String, is_empty: bool| if is_empty { None } else { Some(mark::sign(&body)) };
        let rules = rules::body(&self.removable, self.hard_limit_bytes(), &self.disks);
        let mut files = vec![
            (SYSCTL_PATH.to_owned(), signed(sysctl::body(&self.machine), self.machine.is_empty())),
            (
                RULES_PATH.to_owned(),
                signed(rules, self.removable.is_empty() && self.disks.is_empty()),
            ),
        ];
        files.extend(self.units.iter().map(|unit| (unit.path(), signed(unit.body(), false))));
        files
    }
}

/// The owner of a setting.
enum Owner<'a> {
    Machine,
    Removable,
    Disk(&'a Disk),
    /// A unit, and the device's path.
    Unit(&'a Unit, &'a Option<String>),
}

/// One setting of one disk, of a unit or of the machine.
struct Cell<'a> {
    owner: Owner<'a>,
    value: &'a Value,
}

impl Cell<'_> {
    fn is(&self, other: &Cell<'_>) -> bool {
        let one_owner = match (&self.owner, &other.owner) {
            (Owner::Machine, Owner::Machine) | (Owner::Removable, Owner::Removable) => true,
            (Owner::Disk(a), Owner::Disk(b)) => a.identity == b.identity,
            (Owner::Unit(a, at), Owner::Unit(b, there)) => a.name == b.name && at == there,
            _ => false,
        };
        one_owner && one_cell(self.value.knob, other.value.knob)
    }

    fn label(&self) -> String {
        let knob = self.value.knob.name;
        match &self.owner {
            Owner::Machine => knob.to_owned(),
            Owner::Removable => format!("removable disks: {knob}"),
            Owner::Disk(disk) => format!("{}.{knob}", disk.known_as),
            Owner::Unit(unit, None) => format!("unit:{}:{knob}", unit.name),
            Owner::Unit(unit, Some(node)) => format!("unit:{}:{node}.{knob}", unit.name),
        }
    }
}

/// The origin of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// It is not there.
    Absent,
    /// Floodwall's, unchanged.
    Ours,
    /// Floodwall's, but changed by hand since.
    Edited,
    /// Another program's; why.
    Foreign(String),
    /// It can't be read; why.
    Unreadable(String),
}

impl FileState {
    /// Whether it may be replaced.
    #[must_use]
    pub fn may_be_replaced(&self) -> bool {
        matches!(self, Self::Absent | Self::Ours)
    }
}

impl fmt::Display for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("is not there"),
            Self::Ours => f.write_str("is floodwall's"),
            Self::Edited => f.write_str("has been changed by hand since floodwall wrote it"),
            Self::Foreign(why) => write!(f, "was not written by floodwall persist ({why})"),
            Self::Unreadable(why) => write!(f, "can't be read ({why})"),
        }
    }
}

/// The settings kept now, and the origin of their files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The sysctl.d file.
    pub sysctl: FileState,
    /// The udev rules.
    pub rules: FileState,
    /// The units' drop-ins that are there: path and whose.
    pub drop_ins: Vec<(String, FileState)>,
    /// The settings of Floodwall's own files. Files changed by hand contribute nothing.
    pub settings: Persisted,
}

/// Reads the kept settings. Never fails: a file that can't be read is one of the [`FileState`]s.
#[must_use]
pub fn read(root: &SysRoot) -> Kept {
    let (sysctl, machine) = read_file(root, SYSCTL_PATH, sysctl::parse);
    let (rules, (removable, disks)) = read_file(root, RULES_PATH, rules::parse);
    let (mut drop_ins, mut units) = (Vec::new(), Vec::new());
    for (unit, path) in units::all(root) {
        let (state, settings) =
            read_file(root, &path, |body| units::parse(&unit, body).map(|unit| vec![unit]));
        drop_ins.push((path, state));
        units.extend(settings);
    }
    Kept { sysctl, rules, drop_ins, settings: Persisted { machine, removable, disks, units } }
}

fn read_file<T: Default>(
    root: &SysRoot,
    path: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> (FileState, T) {
    if root.link_target(path).value().is_some() {
        return (FileState::Foreign("it is a symbolic link".to_owned()), T::default());
    }
    let text = match root.read(path) {
        Reading::Value(text) => text,
        Reading::Absent(_) => return (FileState::Absent, T::default()),
        Reading::Unreadable(why) => return (FileState::Unreadable(why), T::default()),
    };
    match mark::inspect(&text) {
        mark::Content::Foreign => {
            (FileState::Foreign("its first line is not ours".to_owned()), T::default())
        }
        mark::Content::Edited => (FileState::Edited, T::default()),
        mark::Content::Ours(body) => match parse(body) {
            Ok(values) => (FileState::Ours, values),
            // The checksum is right: a later version's.
            Err(why) => (FileState::Foreign(format!("{why}; another version's?")), T::default()),
        },
    }
}

impl Kept {
    /// Every file and whose it is; one of the first two may be absent.
    pub fn files(&self) -> impl Iterator<Item = (&str, &FileState)> {
        let drop_ins = self.drop_ins.iter().map(|(path, state)| (path.as_str(), state));
        [(SYSCTL_PATH, &self.sysctl), (RULES_PATH, &self.rules)].into_iter().chain(drop_ins)
    }

    /// The origin of a file.
    #[must_use]
    pub fn state_of(&self, path: &str) -> &FileState {
        self.files()
            .find(|(other, _)| *other == path)
            .map_or(&FileState::Absent, |(_, state)| state)
    }
}

#[cfg(test)]
mod removable_tests;
#[cfg(test)]
mod tests;
