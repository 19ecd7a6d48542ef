//! Disks told apart: of what a disk could be known by, the first that no other disk here has.

use std::collections::HashMap;

use floodwall_host::SysRoot;

use super::identity::{Identity, Kind, candidates};
use crate::catalogue::target::Device;

/// A disk has nothing by which a boot would not change it into another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoIdentity {
    /// Nothing was found.
    #[error("{device} has {lacks} by which it could be known after a boot; {remedy}")]
    None {
        /// The device.
        device: String,
        /// The identity that is missing.
        lacks: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// All that was found, another disk has too.
    #[error(
        "{device} and {other} can't be told apart after a boot: both have {identity}; give one of \
         them an identity of its own"
    )]
    Shared {
        /// The device.
        device: String,
        /// The other one.
        other: String,
        /// The key that both have.
        identity: Identity,
    },
}

/// A disk's identity, and the other disks that share it: the paths of one multipath device have one
/// identity.
///
/// # Errors
/// [`NoIdentity`], with what to do.
pub fn identify(root: &SysRoot, device: &Device) -> Result<(Identity, Vec<String>), NoIdentity> {
    identify_among(root, device, &Disks::read(root))
}

/// The identities of several disks. The machine's disks are read once.
pub fn identify_all(root: &SysRoot, devices: &[Device]) -> Vec<Result<Identity, NoIdentity>> {
    let disks = Disks::read(root);
    devices.iter().map(|device| Ok(identify_among(root, device, &disks)?.0)).collect()
}

fn identify_among(
    root: &SysRoot,
    device: &Device,
    disks: &Disks,
) -> Result<(Identity, Vec<String>), NoIdentity> {
    let candidates = candidates(root, &device.number);
    let mut shared = None;
    for identity in candidates {
        let same: Vec<&(String, String)> = disks.others(&identity, &device.number).collect();
        match same.as_slice() {
            [] => return Ok((identity, Vec::new())),
            [first, ..] if shared.is_none() => shared = Some((identity.clone(), first.0.clone())),
            _ => {}
        }
        if same.iter().all(|(_, number)| are_paths_of_one(root, &device.number, number)) {
            return Ok((identity, same.iter().map(|(name, _)| name.clone()).collect()));
        }
    }
    match shared {
        Some((identity, other)) => {
            Err(NoIdentity::Shared { device: device.name.clone(), other, identity })
        }
        None => {
            let (lacks, remedy) =
                Kind::of(root, &format!("/sys/dev/block/{}", device.number)).without();
            Err(NoIdentity::None { device: device.name.clone(), lacks, remedy })
        }
    }
}

/// Name and number of every whole disk, by what it could be known by.
struct Disks(HashMap<Identity, Vec<(String, String)>>);

impl Disks {
    fn read(root: &SysRoot) -> Self {
        let mut disks: HashMap<Identity, Vec<(String, String)>> = HashMap::new();
        for name in root.list("/sys/class/block").into_value().unwrap_or_default() {
            let directory = format!("/sys/class/block/{name}");
            let number = root.read_line(&format!("{directory}/dev")).into_value();
            let Some(number) = number.filter(|_| !root.exists(&format!("{directory}/partition")))
            else {
                continue;
            };
            for identity in candidates(root, &number) {
                disks.entry(identity).or_default().push((name.clone(), number.clone()));
            }
        }
        Self(disks)
    }

    /// The disks besides this number that an identity means, too.
    fn others(&self, identity: &Identity, number: &str) -> impl Iterator<Item = &(String, String)> {
        self.0.get(identity).into_iter().flatten().filter(move |(_, other)| other != number)
    }
}

/// Whether two disks are paths below one multipath device.
fn are_paths_of_one(root: &SysRoot, one: &str, other: &str) -> bool {
    let holders = |number: &str| {
        root.list(&format!("/sys/dev/block/{number}/holders")).into_value().unwrap_or_default()
    };
    let theirs = holders(other);
    holders(one).iter().any(|holder| {
        let uuid = root.read_line(&format!("/sys/class/block/{holder}/dm/uuid"));
        theirs.contains(holder) && uuid.value().is_some_and(|uuid| uuid.starts_with("mpath-"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Tree, machine, root_of};

    /// The machine with these files more; `sdb` (8:16) beside `sda` (8:0).
    fn with(files: &[(&str, &str)]) -> (tempfile::TempDir, SysRoot) {
        let mut tree: Tree = machine();
        tree.insert("/sys/dev/block/8:16".into(), "->../../devices/sdb".into());
        tree.insert("/sys/class/block/sdb".into(), "->../../devices/sdb".into());
        tree.insert("/sys/devices/sdb/dev".into(), "8:16\n".into());
        tree.insert("/sys/devices/sdb/uevent".into(), "DEVNAME=sdb\n".into());
        for (path, text) in files {
            tree.insert((*path).into(), (*text).into());
        }
        root_of(&tree)
    }

    fn known(files: &[(&str, &str)]) -> Result<String, String> {
        let (_dir, root) = with(files);
        let device = Device::find(&root, "sda").unwrap();
        match identify(&root, &device) {
            Ok((identity, also)) => Ok(format!(
                "{}==\"{}\"{}",
                identity.key.rule(),
                identity.pattern,
                also.iter().map(|name| format!(" also {name}")).collect::<String>()
            )),
            Err(e) => Err(e.to_string()),
        }
    }

    #[test]
    fn the_best_that_is_there_and_nobody_else_has_is_taken() {
        const DB: &str = "/run/udev/data/b8:0";
        let ata = "I:1\nE:ID_BUS=ata\nE:ID_SERIAL=Samsung_SSD_870_S6P\nE:ID_SERIAL_SHORT=S6P\n\
            E:ID_WWN=0x5002\n";
        for (files, expected) in [
            (vec![(DB, ata)], "ENV{ID_SERIAL}==\"Samsung_SSD_870_S6P\""),
            // The other disk has the same serial number.
            (
                vec![(DB, ata), ("/run/udev/data/b8:16", "E:ID_SERIAL=Samsung_SSD_870_S6P\n")],
                "ENV{ID_WWN}==\"0x5002\"",
            ),
            // A serial number that is only the model.
            (
                vec![(DB, "E:ID_BUS=ata\nE:ID_SERIAL=QEMU_HARDDISK\nE:ID_PART_TABLE_UUID=ab-cd\n")],
                "ENV{ID_PART_TABLE_UUID}==\"ab-cd\"",
            ),
            // Virtio has no bus and no short form.
            (vec![(DB, "E:ID_SERIAL=disk1\n")], "ENV{ID_SERIAL}==\"disk1\""),
            // No database of udev's: what the kernel knows.
            (
                vec![("/sys/devices/sda/device/wwid", "naa.5002\n")],
                "ATTR{device/wwid}==\"naa.5002\"",
            ),
            (vec![("/sys/devices/sda/serial", "a[1]*\n")], "ATTR{serial}==\"a[[]1][*]\""),
            (
                vec![("/sys/devices/sda/dm/uuid", "LVM-abc\n"), (DB, ata)],
                "ATTR{dm/uuid}==\"LVM-abc\"",
            ),
            (
                vec![("/sys/devices/sda/loop/backing_file", "/srv/a b.img\n")],
                "ATTR{loop/backing_file}==\"/srv/a b.img\"",
            ),
            (
                vec![(
                    "/sys/devices/sda/loop/backing_file",
                    "/run/floodwall/lab/x_1.b/fuse/x_1.b.0f3a.floodwall-lab\n",
                )],
                "ATTR{loop/backing_file}==\"/run/floodwall/lab/x_1.b/fuse/x_1.b.*.floodwall-lab\"",
            ),
        ] {
            assert_eq!(known(&files).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn a_disk_without_an_identity_is_refused_with_what_to_do() {
        insta::assert_snapshot!(known(&[]).unwrap_err(), @"sda has no serial number, world wide \
            name, UUID or port that udev or the kernel knows of by which it could be known after a \
            boot; give it a serial number (serial= in a virtual machine's configuration), or run \
            floodwall apply from a unit at boot");
        for value in ["", "a\"b\n", "a|b\n", "a\\b\n"] {
            assert!(known(&[("/sys/devices/sda/serial", value)]).is_err(), "{value}");
        }
        let clone = [("/sys/devices/sda/serial", "1\n"), ("/sys/devices/sdb/serial", "1\n")];
        insta::assert_snapshot!(known(&clone).unwrap_err(), @"sda and sdb can't be told apart \
            after a boot: both have its serial number, 1; give one of them an identity of its own");
        let deleted = [("/sys/devices/sda/loop/backing_file", "/srv/a.img (deleted)\n")];
        assert!(known(&deleted).unwrap_err().contains("no backing file"));
    }

    #[test]
    fn paths_of_one_multipath_device_have_one_identity() {
        let files = [
            ("/sys/devices/sda/serial", "1\n"),
            ("/sys/devices/sdb/serial", "1\n"),
            ("/sys/devices/sda/holders/dm-0/dev", "253:0\n"),
            ("/sys/devices/sdb/holders/dm-0/dev", "253:0\n"),
            ("/sys/class/block/dm-0/dm/uuid", "mpath-1\n"),
        ];
        assert_eq!(known(&files).as_deref(), Ok("ATTR{serial}==\"1\" also sdb"));
    }
}
