//! Settings of all removable disks, on a machine of files.

use super::*;
use crate::apply::kernel_files::KernelFiles;
use crate::testing::{Tree, machine, root_of};

/// `sda` of the machine is a SATA disk. Beside it are a USB stick, a disk in a USB enclosure, an SD
/// card and a soldered eMMC.
fn tree() -> Tree {
    let mut tree = machine();
    tree.insert("/usr/lib/udev/rules.d/60-block.rules".into(), "\n".into());
    let of_usb = "devices/pci0000:00/usb2/2-1/2-1:1.0/host3";
    for (name, number, device, file, text) in [
        ("sdb", "8:16", format!("{of_usb}/sdb"), "removable", "1"),
        ("sdc", "8:32", format!("{of_usb}/sdc"), "removable", "0"),
        ("mmcblk0", "179:0", "devices/mmc0/mmcblk0".to_owned(), "device/type", "SD"),
        ("mmcblk1", "179:8", "devices/mmc1/mmcblk1".to_owned(), "device/type", "MMC"),
    ] {
        let mut put = |path: String, text: String| tree.insert(path, text);
        put(format!("/sys/dev/block/{number}"), format!("->../../{device}"));
        put(format!("/sys/class/block/{name}"), format!("->../../{device}"));
        put(format!("/sys/{device}/dev"), format!("{number}\n"));
        put(format!("/sys/{device}/uevent"), format!("DEVNAME={name}\n"));
        put(format!("/sys/{device}/{file}"), format!("{text}\n"));
        put(format!("/sys/{device}/queue/scheduler"), "none [mq-deadline] bfq\n".to_owned());
        for (file, text) in [("max_ratio_fine", "1000000"), ("max_ratio", "100")] {
            put(format!("/sys/class/bdi/{number}/{file}"), format!("{text}\n"));
        }
        for file in ["min_ratio_fine", "min_ratio", "strict_limit"] {
            put(format!("/sys/class/bdi/{number}/{file}"), "0\n".to_owned());
        }
    }
    tree
}

/// The kept settings with those of removable disks, and what is said of them.
fn keep(tree: &Tree, kept: &Persisted, texts: &[&str]) -> Result<Settled, String> {
    let (_dir, root) = root_of(tree);
    let files = KernelFiles::new(&root).unwrap();
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let values = removable_values(&texts, &kept.removable).map_err(|e| e.to_string())?;
    settle_removable(&root, &files, kept, values).map_err(|e| e.to_string())
}

fn rules_of(settings: &Persisted) -> String {
    settings.files().into_iter().find(|(path, _)| path == RULES_PATH).unwrap().1.unwrap()
}

#[test]
fn one_block_of_rules_is_for_all_of_them() {
    let settled = keep(&tree(), &Persisted::default(), &["scheduler=bfq"]).unwrap();
    assert_eq!(
        settled.notes[0], "removable disks that are plugged in now: mmcblk0, sdb, sdc",
        "a stick, an enclosure and a card are, a SATA disk and an eMMC are not"
    );
    assert!(settled.not_in_force.contains(&"sdc.bdi.strict_limit: 0 -> 1".to_owned()));
    assert!(!settled.not_in_force.iter().any(|line| line.starts_with("sda.")));
    let rules = rules_of(&settled.settings);
    let block: Vec<&str> = rules.split("\n\n").nth(1).unwrap().lines().collect();
    insta::assert_snapshot!(block.join("\n"), @r#"
    # removable disks: scheduler=bfq bdi.max_bytes=16777216 bdi.strict_limit=1
    KERNEL=="sd*", SUBSYSTEMS=="usb", ENV{.FLOODWALL}="removable"
    KERNEL=="sd*", ATTR{removable}=="1", ENV{.FLOODWALL}="removable"
    KERNEL=="mmcblk*", ATTR{device/type}=="SD", ENV{.FLOODWALL}="removable"
    ENV{.FLOODWALL}=="removable", ATTR{queue/scheduler}="bfq"
    ENV{.FLOODWALL}=="removable", ATTR{bdi/max_bytes}="16777216"
    ENV{.FLOODWALL}=="removable", ATTR{bdi/strict_limit}="1"
    "#);
}

#[test]
fn they_are_read_back_beside_a_disks_own_which_come_last() {
    let mut tree = tree();
    tree.insert("/run/udev/data/b8:16".into(), "E:ID_SERIAL=Stick_1\nE:ID_SERIAL_SHORT=1\n".into());
    let class = keep(&tree, &Persisted::default(), &[]).unwrap().settings;
    let settle_with = |kept: &Persisted, texts: &[&str]| {
        let (_dir, root) = root_of(&tree);
        let files = KernelFiles::new(&root).unwrap();
        let changes: Vec<Change> =
            texts.iter().map(|text| Change::parse(&root, None, text).unwrap()).collect();
        settle(&root, &files, kept, &changes).map_err(|e| e.to_string())
    };
    // A size needs no machine's limit in bytes: the disk is removable.
    let own = settle_with(&class, &["sdb.bdi.max_bytes=64MiB"]).unwrap();
    assert!(own.not_in_force.contains(&"sdb.bdi.strict_limit: 0 -> 1".to_owned()), "{own:?}");
    let all = own.settings;
    let rules = rules_of(&all);
    let at = |text: &str| rules.find(text).unwrap_or_else(|| panic!("{text}: {rules}"));
    assert!(at("bdi/max_bytes}=\"16777216\"") < at("bdi/max_bytes}=\"67108864\""));
    let (state, (removable, disks)) = read_file(
        &root_of(&Tree::from([(RULES_PATH.to_owned(), rules)])).1,
        RULES_PATH,
        rules::parse,
    );
    assert_eq!(state, FileState::Ours);
    assert_eq!(Persisted { removable, disks, ..Persisted::default() }, all);
    // With a limit of the machine in bytes, the size becomes a share of it.
    let limited = rules_of(&settle_with(&all, &["vm.dirty_bytes=256MiB"]).unwrap().settings);
    assert!(limited.contains("bdi/max_ratio_fine}=\"250000\""), "{limited}");
    assert!(!limited.contains("bdi/max_bytes}"), "{limited}");
    assert_eq!(
        all.difference(&Persisted { removable: Vec::new(), ..all.clone() }),
        [
            "removable disks: bdi.max_bytes: bdi.max_bytes 16777216 -> not kept",
            "removable disks: bdi.strict_limit: bdi.strict_limit 1 -> not kept"
        ]
    );
}

#[test]
fn a_limit_of_the_machine_in_bytes_makes_it_a_share() {
    let (_dir, root) = root_of(&tree());
    let files = KernelFiles::new(&root).unwrap();
    let class = keep(&tree(), &Persisted::default(), &[]).unwrap().settings;
    let limit = Change::parse(&root, None, "vm.dirty_bytes=64MiB").unwrap();
    let both = settle(&root, &files, &class, &[limit]).unwrap().settings;
    let rules = rules_of(&both);
    assert!(rules.contains("ATTR{bdi/max_ratio_fine}=\"250000\""), "{rules}");
    assert!(!rules.contains("ATTR{bdi/max_bytes}"), "{rules}");
    // Kept is the size: without the machine's limit it is one again.
    let body = rules.split_once("\n").unwrap().1.split_once("\n").unwrap().1;
    assert_eq!(rules::parse(body).unwrap().0, class.removable);
}

#[test]
fn a_machine_that_can_not_keep_them_says_what_to_do() {
    let mut old = tree();
    old.retain(|path, _| !path.ends_with("strict_limit"));
    let error = keep(&old, &Persisted::default(), &[]).unwrap_err();
    assert!(error.contains("lower the machine's limits instead: floodwall persist vm."), "{error}");
    let mut bare = tree();
    bare.remove("/usr/lib/udev/rules.d/60-block.rules");
    let error = keep(&bare, &Persisted::default(), &[]).unwrap_err();
    assert!(error.contains("there is no udev here"), "{error}");
    let error = keep(&tree(), &Persisted::default(), &["scheduler=cfq"]).unwrap_err();
    assert!(error.contains("has no scheduler 'cfq'"), "{error}");
}

#[test]
fn rules_of_a_class_that_we_did_not_write_are_not_believed() {
    let good = rules::body(&removable_values(&[], &[]).unwrap(), None, &[]);
    assert!(rules::parse(&good).is_ok());
    for (from, to) in [
        ("SUBSYSTEMS==\"usb\"", "SUBSYSTEMS==\"scsi\""),
        ("bdi.max_bytes=", "bdi.most="),
        ("ATTR{bdi/strict_limit}=\"1\"", "RUN+=\"/bin/sh\""),
    ] {
        assert!(rules::parse(&good.replace(from, to)).is_err(), "{to}");
    }
}
