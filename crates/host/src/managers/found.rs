//! The claims so far, and what every manager's reader needs: the tree, its disks, texts of files.

use floodwall_model::managers::{Claim, Managers, Place};
use floodwall_model::status::Missing;
use floodwall_model::{DeviceId, Reading};

use super::glob;
use super::reach::Owner;
use crate::root::SysRoot;

/// First words of files that floodwall writes, and how to remove such a file.
const OURS: [(&str, &str); 2] = [
    ("# Written by floodwall persist", "floodwall unpersist"),
    ("# Written by floodwall export", "write the file again with floodwall export, or remove it"),
];

/// The remedy for a file that floodwall wrote, by its text or first line.
pub(super) fn ours(text: &str) -> Option<&'static str> {
    OURS.iter().find(|(mark, _)| text.starts_with(mark)).map(|(_, remedy)| *remedy)
}

/// A whole disk that is here.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) name: String,
    pub(super) id: DeviceId,
}

impl Disk {
    pub(super) fn place(&self) -> Place {
        Place::Device { name: self.name.clone(), id: self.id }
    }
}

/// The findings so far.
pub(super) struct Found<'a> {
    pub(super) root: &'a SysRoot,
    pub(super) disks: Vec<Disk>,
    pub(super) managers: Managers,
    /// Files that floodwall wrote, and the command that removes them.
    ours: Vec<(String, &'static str)>,
}

impl<'a> Found<'a> {
    pub(super) fn new(root: &'a SysRoot) -> Self {
        Self { root, disks: read_disks(root), managers: Managers::default(), ours: Vec::new() }
    }

    /// Notes a claim.
    pub(super) fn claim(&mut self, mut claim: Claim) {
        if let Some((_, remedy)) = self.ours.iter().find(|(file, _)| *file == claim.file) {
            (*remedy).clone_into(&mut claim.settle);
        }
        self.managers.claims.push(claim);
    }

    /// The machine, or the disks that an owner's name or number fits.
    pub(super) fn places(&self, owner: &Owner<'_>) -> Vec<Place> {
        let fitting = |fits: &dyn Fn(&Disk) -> bool| {
            self.disks.iter().filter(|disk| fits(disk)).map(Disk::place).collect()
        };
        match owner {
            Owner::Machine => vec![Place::Machine],
            Owner::Name(pattern) => fitting(&|disk| glob::matches(pattern, &disk.name)),
            Owner::Number(pattern) => fitting(&|disk| glob::matches(pattern, &disk.id.to_string())),
        }
    }

    /// Notes something that may set knobs and could not be read.
    pub(super) fn unread(&mut self, what: &str, why: &str) {
        self.managers.unread.push(Missing { what: what.to_owned(), why: why.to_owned() });
    }

    /// A configuration file's text; nothing if it is not there; noted if it can't be read.
    pub(super) fn text(&mut self, path: &str) -> Option<String> {
        match self.root.read(path) {
            Reading::Value(text) => {
                self.ours.extend(ours(&text).map(|remedy| (path.to_owned(), remedy)));
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
        if root.exists(&format!("{directory}/{name}/partition")) {
            return None;
        }
        let id = root.parse::<DeviceId>(&format!("{directory}/{name}/dev")).into_value()?;
        Some(Disk { name, id })
    };
    names.into_iter().filter_map(disk).collect()
}
