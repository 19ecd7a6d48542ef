//! A disk's identity after a boot. Never its name: names are given in the order in which disks are
//! found.
//!
//! ```text
//! device ─▶ candidates, best first (sysfs, udev's database in /run/udev/data)
//!        ─▶ the first that no other disk here has (told_apart) ─▶ a match in a udev rule
//! ```
//!
//! | device | known by |
//! |---|---|
//! | loop device | its backing file; a lab's by the lab's name |
//! | device mapper (LVM, crypt, multipath) | `dm/uuid` |
//! | md array | the array's UUID |
//! | any other disk | serial number, WWN, the kernel's own identifiers of these |
//! | any other disk, without these | partition table, filesystem, at last its port |
//!
//! A partition table's or filesystem's UUID is copied along with its contents, and a port
//! identifies any disk plugged into it. Both are used, with a note, only if no better key exists.

use std::fmt;

use floodwall_host::SysRoot;

use crate::catalogue::target::Device;

/// What udev's rules compare to know a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The file that a loop device stands on.
    BackingFile,
    /// Device mapper's UUID, which LVM, cryptsetup and multipath set.
    DmUuid,
    /// The UUID in an md array's superblock.
    MdUuid,
    /// The same from the kernel.
    MdKernelUuid,
    /// Serial number, as udev composes it with the model.
    Serial,
    /// World wide name, with its extension for one of several units.
    WwnExtended,
    /// World wide name.
    Wwn,
    /// An NVMe namespace's identifier, from the kernel.
    NvmeWwid,
    /// A SCSI disk's identifier, from the kernel.
    ScsiWwid,
    /// A virtio disk's serial number, from the kernel.
    VirtioSerial,
    /// The partition table's UUID.
    PartitionTable,
    /// The UUID of a filesystem on the whole disk.
    Filesystem,
    /// The port.
    Port,
}

impl Key {
    /// All of them, best first.
    const ALL: [Self; 13] = [
        Self::BackingFile,
        Self::DmUuid,
        Self::MdUuid,
        Self::MdKernelUuid,
        Self::Serial,
        Self::WwnExtended,
        Self::Wwn,
        Self::NvmeWwid,
        Self::ScsiWwid,
        Self::VirtioSerial,
        Self::PartitionTable,
        Self::Filesystem,
        Self::Port,
    ];

    /// The key of a match in a udev rule.
    #[must_use]
    pub fn rule(self) -> &'static str {
        match self {
            Self::BackingFile => "ATTR{loop/backing_file}",
            Self::DmUuid => "ATTR{dm/uuid}",
            Self::MdUuid => "ENV{MD_UUID}",
            Self::MdKernelUuid => "ATTR{md/uuid}",
            Self::Serial => "ENV{ID_SERIAL}",
            Self::WwnExtended => "ENV{ID_WWN_WITH_EXTENSION}",
            Self::Wwn => "ENV{ID_WWN}",
            Self::NvmeWwid => "ATTR{wwid}",
            Self::ScsiWwid => "ATTR{device/wwid}",
            Self::VirtioSerial => "ATTR{serial}",
            Self::PartitionTable => "ENV{ID_PART_TABLE_UUID}",
            Self::Filesystem => "ENV{ID_FS_UUID}",
            Self::Port => "ENV{ID_PATH}",
        }
    }

    /// The key that a rule names.
    pub(crate) fn of_rule(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.rule() == text)
    }

    /// The file below the disk's directory, or the property in udev's database.
    fn source(self) -> Source {
        let inner = self.rule().split(['{', '}']).nth(1).unwrap_or_default();
        if self.rule().starts_with("ATTR") { Source::File(inner) } else { Source::Property(inner) }
    }

    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BackingFile => "its backing file",
            Self::DmUuid => "its device-mapper UUID",
            Self::MdUuid | Self::MdKernelUuid => "its array's UUID",
            Self::Serial | Self::VirtioSerial => "its serial number",
            Self::WwnExtended | Self::Wwn | Self::NvmeWwid | Self::ScsiWwid => {
                "its world wide name"
            }
            Self::PartitionTable => "its partition table's UUID",
            Self::Filesystem => "its filesystem's UUID",
            Self::Port => "its port",
        }
    }

    /// A note about a disk with this identity.
    #[must_use]
    pub fn caution(self) -> Option<&'static str> {
        match self {
            Self::PartitionTable => {
                Some("a new partition table makes it another disk, and a clone has the same one")
            }
            Self::Filesystem => {
                Some("a new filesystem makes it another disk, and a clone has the same one")
            }
            Self::Port => Some("whatever disk is plugged in there gets the settings"),
            _ => None,
        }
    }
}

enum Source {
    File(&'static str),
    Property(&'static str),
}

/// A disk's identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The compared key.
    pub key: Key,
    /// A pattern of udev(7); literal `*`, `?` and `[` are escaped.
    pub pattern: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.key.name(), self.pattern)
    }
}

/// The properties that udev has stored for a device.
struct Database(Vec<(String, String)>);

impl Database {
    fn read(root: &SysRoot, number: &str) -> Self {
        let text = root.read(&format!("/run/udev/data/b{number}")).into_value().unwrap_or_default();
        let properties = text.lines().filter_map(|line| line.strip_prefix("E:")?.split_once('='));
        Self(properties.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// Everything that a disk could be known by, best first.
pub(crate) fn candidates(root: &SysRoot, number: &str) -> Vec<Identity> {
    let directory = format!("/sys/dev/block/{number}");
    let database = Database::read(root, number);
    let kind = Kind::of(root, &directory);
    Key::ALL
        .into_iter()
        .filter(|key| kind.may_be_known_by(*key))
        .filter_map(|key| {
            let value = match key.source() {
                Source::File(file) => {
                    root.read_line(&format!("{directory}/{file}")).into_value()?
                }
                Source::Property(name) => database.get(name)?.to_owned(),
            };
            // Without a serial number udev makes do with the model (ata_id, usb_id), which every
            // disk of that model has. Virtio and MMC have no bus and no short form.
            let is_model = key == Key::Serial
                && database.get("ID_BUS").is_some()
                && database.get("ID_SERIAL_SHORT").is_none_or(str::is_empty);
            if is_model { None } else { Some(Identity { key, pattern: pattern(key, &value)? }) }
        })
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Loop,
    Mapped,
    Array,
    Disk,
}

impl Kind {
    pub(super) fn of(root: &SysRoot, directory: &str) -> Self {
        let has = |name: &str| root.exists(&format!("{directory}/{name}"));
        let is_loop =
            root.link_name(directory).value().is_some_and(|name| name.starts_with("loop"));
        if has("loop") || is_loop {
            Self::Loop
        } else if has("dm") {
            Self::Mapped
        } else if has("md") {
            Self::Array
        } else {
            Self::Disk
        }
    }

    fn may_be_known_by(self, key: Key) -> bool {
        match key {
            Key::BackingFile => self == Self::Loop,
            Key::DmUuid => self == Self::Mapped,
            Key::MdUuid | Key::MdKernelUuid => self == Self::Array,
            _ => self == Self::Disk,
        }
    }

    /// The missing identity, and what to do instead.
    pub(super) fn without(self) -> (&'static str, &'static str) {
        match self {
            Self::Loop => (
                "no backing file",
                "attach one, or run floodwall apply from whatever sets the device up",
            ),
            Self::Mapped => (
                "no UUID",
                "give it one (dmsetup create --uuid), or run floodwall apply after it is made",
            ),
            Self::Array => {
                ("no UUID", "run floodwall apply from a unit that starts after it is assembled")
            }
            Self::Disk => (
                "no serial number, world wide name, UUID or port that udev or the kernel knows of",
                "give it a serial number (serial= in a virtual machine's configuration), or run \
                 floodwall apply from a unit at boot",
            ),
        }
    }
}

/// A value as a pattern; `None` if a rule can't hold it.
fn pattern(key: Key, value: &str) -> Option<String> {
    // `|` separates alternatives, `\` and `"` mean something to some versions of udev and nothing
    // to others.
    let unfit = |c: char| c.is_control() || matches!(c, '"' | '\\' | '|');
    if value.is_empty()
        || value.len() > 400
        || value.contains(unfit)
        || value.ends_with(" (deleted)")
    {
        return None;
    }
    let literal = |text: &str| -> String {
        text.chars()
            .map(|c| if matches!(c, '*' | '?' | '[') { format!("[{c}]") } else { c.into() })
            .collect()
    };
    if key == Key::BackingFile
        && let Some((path, _token)) =
            value.strip_suffix(LAB_FILE).and_then(|path| path.rsplit_once(LAB_SEPARATOR))
    {
        return Some(format!("{}{LAB_SEPARATOR}*{LAB_FILE}", literal(path)));
    }
    Some(literal(value))
}

/// A lab's file is `NAME.TOKEN.floodwall-lab`, the token another one each time that the lab comes
/// up.
const LAB_FILE: &str = ".floodwall-lab";
const LAB_SEPARATOR: char = '.';

/// Whether a disk is the one that an identity means.
#[must_use]
pub fn matches(root: &SysRoot, device: &Device, identity: &Identity) -> bool {
    candidates(root, &device.number).contains(identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_by_its_rule() {
        for key in Key::ALL {
            assert_eq!(Key::of_rule(key.rule()), Some(key));
        }
    }
}
