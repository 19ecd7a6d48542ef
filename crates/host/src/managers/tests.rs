//! Whole machines: each manager's claims, and the winner.

use proptest::prelude::*;

use super::*;
use crate::root::testing::tree;

/// A disk of a tree.
fn disk(name: &str, number: &str, rotational: &str) -> Vec<(String, String)> {
    let below =
        format!("devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/{name}");
    vec![
        (format!("sys/{below}/dev"), number.to_owned()),
        (format!("sys/{below}/uevent"), format!("DEVNAME={name}\nDEVTYPE=disk\n")),
        (format!("sys/{below}/queue/rotational"), rotational.to_owned()),
        (format!("sys/class/block/{name}"), format!("->../../{below}")),
    ]
}

/// A machine with a rotating sda, an SSD sdb and these files.
fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, SysRoot) {
    let disks = [disk("sda", "8:0", "1"), disk("sdb", "8:16", "0")].concat();
    let mut all: Vec<(&str, &str)> =
        disks.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    all.extend_from_slice(files);
    tree(&all)
}

/// One line a claim: what, where, how it fares.
fn shown(files: &[(&str, &str)]) -> String {
    let (_dir, root) = machine(files);
    let managers = read(&root);
    let line = |claim: &Claim| {
        let standing = match &claim.standing {
            Standing::Wins => "wins".to_owned(),
            Standing::Overridden { by } => format!("overridden by {by}"),
            Standing::Uncertain { why } => format!("uncertain: {why}"),
        };
        let value = claim
            .value
            .as_ref()
            .map_or(format!(" ({})", claim.written), |value| format!("={value}"));
        format!("{}{value} {} {standing}", claim.label(), claim.source())
    };
    let mut all: Vec<String> = managers.claims.iter().map(line).collect();
    all.extend(managers.unread.iter().map(|missing| format!("{}: {}", missing.what, missing.why)));
    all.join("\n")
}

#[test]
fn a_machine_without_managers_has_none() {
    assert_eq!(shown(&[("etc/sysctl.d/10-net.conf", "net.ipv4.ip_forward = 1\n")]), "");
}

#[test]
fn sysctl_files_by_name_directory_and_both_names_of_a_limit() {
    insta::assert_snapshot!(shown(&[
        ("usr/lib/sysctl.d/10-pop-default-settings.conf", "vm.swappiness = 10\n\
            vm.dirty_bytes = 268435456\n"),
        ("usr/lib/sysctl.d/50-x.conf", "vm.dirty_background_ratio=5\n"),
        ("etc/sysctl.d/50-x.conf", "# ours\n-vm/dirty_background_ratio = 3\n; vm.dirty_ratio=1\n"),
        ("run/sysctl.d/60-y.conf", "vm.dirty_ratio = 20\nvm.dirty_bytes = 0\n"),
        ("etc/sysctl.conf", "vm.dirty_background_ratio = 10\n"),
    ]), @"
    vm.dirty_bytes=268435456 /usr/lib/sysctl.d/10-pop-default-settings.conf:2 overridden by \
    /run/sysctl.d/60-y.conf:1
    vm.dirty_background_ratio=3 /etc/sysctl.d/50-x.conf:2 overridden by /etc/sysctl.conf:1
    vm.dirty_ratio=20 /run/sysctl.d/60-y.conf:1 wins
    vm.dirty_background_ratio=10 /etc/sysctl.conf:1 wins
    ");
}

#[test]
fn systemd_reads_sysctl_conf_through_a_link_alone() {
    let conf = ("etc/sysctl.conf", "vm.dirty_ratio=5\n");
    let systemd = ("usr/lib/systemd/systemd-sysctl", "");
    assert_eq!(shown(&[conf]), "vm.dirty_ratio=5 /etc/sysctl.conf:1 wins");
    assert_eq!(shown(&[conf, systemd]), "");
    let link = ("etc/sysctl.d/99-sysctl.conf", "->../sysctl.conf");
    assert_eq!(shown(&[conf, systemd, link]), "vm.dirty_ratio=5 /etc/sysctl.conf:1 wins");
    // procps would read it twice.
    assert_eq!(shown(&[conf, link]), "vm.dirty_ratio=5 /etc/sysctl.conf:1 wins");
}

#[test]
fn a_vendors_file_is_masked_by_a_link_to_null() {
    let file = ("usr/lib/sysctl.d/70-cachyos-settings.conf", "vm.dirty_bytes = 268435456\n");
    assert!(shown(&[file]).ends_with("70-cachyos-settings.conf:1 wins"));
    assert_eq!(shown(&[file, ("etc/sysctl.d/70-cachyos-settings.conf", "->/dev/null")]), "");
}

#[test]
fn patterns_leave_out_what_is_named() {
    insta::assert_snapshot!(shown(&[(
        "etc/sysctl.d/10-a.conf",
        "vm.dirty_*_centisecs = 100\nvm.dirty_expire_centisecs = 200\n-vm.dirty_ratio\n\
         vm.dirty_r* = 7\n",
    )]), @"
    vm.dirty_writeback_centisecs=100 /etc/sysctl.d/10-a.conf:1 wins
    vm.dirty_expire_centisecs=200 /etc/sysctl.d/10-a.conf:2 wins
    ");
}

#[test]
fn udev_rules_for_the_disks_that_fit() {
    insta::assert_snapshot!(shown(&[
        (
            "usr/lib/udev/rules.d/60-ioschedulers.rules",
            "# HDD\nACTION==\"add|change\", KERNEL==\"sd[a-z]*\", ATTR{queue/rotational}==\"1\", \
             \\\n    ATTR{queue/scheduler}=\"bfq\"\n\
             ACTION==\"add|change\", KERNEL==\"sd[a-z]*|mmcblk[0-9]*\", \
             ATTR{queue/rotational}==\"0\", \\\n    ATTR{queue/scheduler}=\"mq-deadline\"\n\
             ACTION==\"add|change\", KERNEL==\"nvme[0-9]*\", ATTR{queue/scheduler}=\"none\"\n",
        ),
        ("etc/udev/rules.d/99-mine.rules", "SUBSYSTEM==\"block\", KERNEL==\"sdb\", \
            ATTR{queue/scheduler}=\"bfq\", SYSCTL{vm/dirty_ratio}=\"20\"\n"),
        ("etc/udev/rules.d/98-broken.rules", "KERNEL==\"sda\" ATTR{queue/nr_requests}=8\n"),
        ("etc/udev/rules.d/10-other.rules", "KERNEL==sda, this is not a rule\n"),
    ]), @"
sda.scheduler=bfq /usr/lib/udev/rules.d/60-ioschedulers.rules:2 wins
sdb.scheduler=mq-deadline /usr/lib/udev/rules.d/60-ioschedulers.rules:4 overridden by \
/etc/udev/rules.d/99-mine.rules:1
sdb.scheduler=bfq /etc/udev/rules.d/99-mine.rules:1 wins
vm.dirty_ratio=20 /etc/udev/rules.d/99-mine.rules:1 wins
/etc/udev/rules.d/98-broken.rules:1: unreadable: this is no udev rule
    ");
}

#[test]
fn rules_jump_set_properties_and_ask_what_can_not_be_told() {
    insta::assert_snapshot!(shown(&[
        ("run/udev/data/b8:0", "S:disk/by-id/ata-x\nE:ID_BUS=ata\nE:ID_TYPE=disk\n"),
        (
            "etc/udev/rules.d/60-x.rules",
            "SUBSYSTEM!=\"block\", GOTO=\"end\"\nENV{DEVTYPE}!=\"disk\", GOTO=\"end\"\n\
             ENV{ID_BUS}==\"ata\", ENV{MINE}=\"1\"\n\
             ENV{MINE}==\"1\", ATTR{queue/nr_requests}=\"8\"\nENV{ID_BUS}==\"ata\", GOTO=\"end\"\n\
             ATTR{queue/nomerges}=\"2\"\nPROGRAM==\"/bin/is-slow %k\", \
             ATTR{queue/read_ahead_kb}=\"64\"\nLABEL=\"end\"\n\
             KERNEL==\"sd*\", RUN+=\"/bin/sh -c 'echo 1 > /sys/block/%k/bdi/strict_limit'\"\n",
        ),
    ]), @"
sda.nr_requests=8 /etc/udev/rules.d/60-x.rules:4 wins
sdb.nr_requests=8 /etc/udev/rules.d/60-x.rules:4 uncertain: not all of the rule's conditions can \
be checked here
sdb.nomerges=2 /etc/udev/rules.d/60-x.rules:6 uncertain: not all of the rule's conditions can be \
checked here
sdb.read_ahead_kb=64 /etc/udev/rules.d/60-x.rules:7 uncertain: not all of the rule's conditions \
can be checked here
sda.bdi.strict_limit (/bin/sh -c 'echo 1 > /sys/block/%k/bdi/strict_limit') \
/etc/udev/rules.d/60-x.rules:9 wins
sdb.bdi.strict_limit (/bin/sh -c 'echo 1 > /sys/block/%k/bdi/strict_limit') \
/etc/udev/rules.d/60-x.rules:9 uncertain: not all of the rule's conditions can be checked here
    ");
}

#[test]
fn an_uncertain_rule_counts_unless_a_later_one_is_certain() {
    let usb = "SUBSYSTEMS==\"scsi\", KERNEL==\"sda\", ATTR{bdi/max_ratio}=\"1\"\n";
    let mine = "KERNEL==\"sda\", ATTR{bdi/max_bytes}=\"1000\"\n";
    insta::assert_snapshot!(
        shown(&[
            ("usr/lib/udev/rules.d/60-usb.rules", usb),
            ("etc/udev/rules.d/99-mine.rules", mine),
            ("etc/udev/rules.d/99-usb.rules", usb),
        ]),
        @"
sda.bdi.max_bytes=1000 /etc/udev/rules.d/99-mine.rules:1 wins
sda.bdi.max_ratio=1 /etc/udev/rules.d/99-usb.rules:1 uncertain: not all of the rule's conditions \
can be checked here
    "
    );
}

/// The disk itself is one of the devices that `SUBSYSTEMS!=` is compared with, and it is on no bus.
#[test]
fn a_stick_fits_another_bus_too() {
    let below = "devices/pci0000:00/usb1/1-1/1-1:1.0/host2/target2:0:0/2:0:0:0/block/sdc";
    let (link, dev) = (format!("->../../{below}"), format!("sys/{below}/dev"));
    let uevent = format!("sys/{below}/uevent");
    let rules = "KERNEL==\"sdc\", SUBSYSTEMS!=\"usb\", ATTR{bdi/max_ratio}=\"1\"\n\
        KERNEL==\"sdc\", SUBSYSTEMS==\"usb\", ATTR{bdi/min_ratio}=\"2\"\n\
        KERNEL==\"sda\", SUBSYSTEMS==\"usb\", ATTR{bdi/min_ratio}=\"3\"\n";
    insta::assert_snapshot!(
        shown(&[
            (&dev, "8:32"),
            (&uevent, "DEVNAME=sdc\nDEVTYPE=disk\n"),
            ("sys/class/block/sdc", &link),
            ("etc/udev/rules.d/99-x.rules", rules),
        ]),
        @"
    sdc.bdi.max_ratio=1 /etc/udev/rules.d/99-x.rules:1 wins
    sdc.bdi.min_ratio=2 /etc/udev/rules.d/99-x.rules:2 wins
    "
    );
}

/// A server with throughput-performance, as TuneD ships it today.
const TUNED: [(&str, &str); 5] = [
    ("etc/tuned/active_profile", "mine\n"),
    ("run/tuned/tuned.pid", "812\n"),
    ("proc/812/comm", "tuned\n"),
    (
        "usr/lib/tuned/profiles/throughput-performance/tuned.conf",
        "[vm]\ndirty_bytes = 40%\ndirty_background_bytes = 10%\n[sysctl]\n\
         vm.dirty_expire_centisecs=500\n[disk]\nreadahead=>4096\n",
    ),
    (
        "etc/tuned/mine/tuned.conf",
        "[main]\ninclude=throughput-performance\n[fast]\ntype=disk\ndevices=sd*,!sda\n\
         elevator=none\n[sysfs]\n/sys/block/sd*/queue/nr_requests=64\n",
    ),
];

#[test]
fn tuned_sets_what_its_profile_says_and_sysctl_d_is_applied_over_its_sysctls() {
    let mut files = TUNED.to_vec();
    files.push(("etc/sysctl.d/9.conf", "vm.dirty_ratio = 10\nvm.dirty_expire_centisecs = 3000\n"));
    insta::assert_snapshot!(shown(&files), @"
vm.dirty_ratio=10 /etc/sysctl.d/9.conf:1 overridden by \
/usr/lib/tuned/profiles/throughput-performance/tuned.conf:2
vm.dirty_expire_centisecs=3000 /etc/sysctl.d/9.conf:2 wins
vm.dirty_ratio=40 /usr/lib/tuned/profiles/throughput-performance/tuned.conf:2 wins
vm.dirty_background_ratio=10 /usr/lib/tuned/profiles/throughput-performance/tuned.conf:3 wins
sda.read_ahead_kb=4096 /usr/lib/tuned/profiles/throughput-performance/tuned.conf:7 wins
sdb.read_ahead_kb=4096 /usr/lib/tuned/profiles/throughput-performance/tuned.conf:7 wins
sda.scheduler=none /etc/tuned/mine/tuned.conf:6 uncertain: it depends on devices=sd*,!sda in [fast]
sdb.scheduler=none /etc/tuned/mine/tuned.conf:6 uncertain: it depends on devices=sd*,!sda in [fast]
sda.nr_requests=64 /etc/tuned/mine/tuned.conf:8 wins
sdb.nr_requests=64 /etc/tuned/mine/tuned.conf:8 wins
    ");
    files.push(("etc/tuned/tuned-main.conf", "reapply_sysctl = 0\n"));
    assert!(shown(&files).contains(
        "vm.dirty_expire_centisecs=500 /usr/lib/tuned/profiles/throughput-performance/tuned.conf:5 \
         wins"
    ));
}

#[test]
fn what_tuned_does_is_told_with_a_remedy() {
    let (_dir, root) = machine(&TUNED);
    let managers = read(&root);
    let claim = managers.about("vm.dirty_bytes", None).last().unwrap();
    assert_eq!(
        claim.to_string(),
        "TuneD's profile mine (/usr/lib/tuned/profiles/throughput-performance/tuned.conf:2) sets \
         vm.dirty_ratio=40 when it starts and when the profile changes"
    );
    assert_eq!(
        claim.settle,
        "tuned-adm off, or set vm.dirty_ratio in a profile of yours with include=mine"
    );
}

#[test]
fn a_tuned_that_neither_runs_nor_starts_sets_nothing() {
    let stopped: Vec<_> = TUNED.into_iter().filter(|(path, _)| !path.starts_with("run/")).collect();
    assert!(
        shown(&stopped)
            .contains("uncertain: TuneD does not run; whether it is started at boot can't be told")
    );
    let mut disabled = stopped.clone();
    disabled.push(("etc/systemd/system/multi-user.target.wants/sshd.service", "->/usr/lib/x"));
    assert_eq!(shown(&disabled), "");
    let mut enabled = stopped;
    enabled.push(("etc/systemd/system/multi-user.target.wants/tuned.service", "->/usr/lib/x"));
    assert!(shown(&enabled).contains("tuned.conf:2 wins"));
}

/// A profile that includes its own namesake, another one and, in a circle, itself again.
#[test]
fn included_profiles_come_first_and_doubts_are_told() {
    insta::assert_snapshot!(shown(&[
        ("etc/tuned/active_profile", "a\n"),
        ("run/tuned/tuned.pid", "812\n"),
        ("proc/812/comm", "tuned\n"),
        (
            "etc/tuned/profiles/a/tuned.conf",
            "[main]\ninclude=a, none\n[variables]\ndirty_ratio=9\n[vm]\ndirty_ratio=1 # percent\n\
             [disk]\nreplace=1\nelevator=bfq\n[sysctl]\nvm.dirty_expire_centisecs=${x}\n",
        ),
        ("usr/lib/tuned/profiles/a/tuned.conf", "[main]\ninclude=b\n[vm]\ndirty_ratio=2\n"),
        (
            "usr/lib/tuned/b/tuned.conf",
            "[main]\ninclude=a\n[sysctl]\n#vm.dirty_bytes=1\nvm.dirty_writeback_centisecs=4\n\
             [disk]\nreadahead=8192 s\n",
        ),
    ]), @"
vm.dirty_writeback_centisecs=4 /usr/lib/tuned/b/tuned.conf:5 wins
vm.dirty_expire_centisecs (vm.dirty_expire_centisecs=${x}) /etc/tuned/profiles/a/tuned.conf:11 wins
sda.read_ahead_kb (readahead=8192 s) /usr/lib/tuned/b/tuned.conf:7 uncertain: it depends on \
replace=1 in [disk]
sdb.read_ahead_kb (readahead=8192 s) /usr/lib/tuned/b/tuned.conf:7 uncertain: it depends on \
replace=1 in [disk]
sda.scheduler=bfq /etc/tuned/profiles/a/tuned.conf:9 wins
sdb.scheduler=bfq /etc/tuned/profiles/a/tuned.conf:9 wins
vm.dirty_ratio=2 /usr/lib/tuned/profiles/a/tuned.conf:4 overridden by \
/etc/tuned/profiles/a/tuned.conf:6
vm.dirty_ratio=1 /etc/tuned/profiles/a/tuned.conf:6 wins
TuneD's profile none: absent: no tuned.conf of this name is there
    ");
}

#[test]
fn tlp_and_laptop_mode_may_set_what_their_files_assign() {
    let files = [
        ("usr/sbin/tlp", ""),
        ("etc/systemd/system/multi-user.target.wants/tlp.service", "->/usr/lib/x"),
        (
            "usr/share/tlp/defaults.conf",
            "MAX_LOST_WORK_SECS_ON_AC=15\nMAX_LOST_WORK_SECS_ON_BAT=60\n\
             DISK_IOSCHED=\"keep keep\"\n",
        ),
        ("etc/tlp.d/10-disks.conf", "DISK_DEVICES=\"ata-x sda\"\nDISK_IOSCHED=\"bfq keep\"\n"),
        ("etc/tlp.conf", "#DISK_IOSCHED=\"none\"\nMAX_LOST_WORK_SECS_ON_AC=5\n"),
        ("usr/sbin/laptop_mode", ""),
        ("etc/systemd/system/multi-user.target.wants/laptop-mode.service", "->/usr/lib/x"),
        (
            "etc/laptop-mode/laptop-mode.conf",
            "LM_DIRTY_RATIO=60\nNOLM_READAHEAD=128\nHD=\"/dev/sda\"\n",
        ),
    ];
    insta::assert_snapshot!(shown(&files), @"
    vm.dirty_ratio (LM_DIRTY_RATIO=60) /etc/laptop-mode/laptop-mode.conf:1 uncertain: it may \
    depend on the power supply and on other settings
    sda.read_ahead_kb (NOLM_READAHEAD=128) /etc/laptop-mode/laptop-mode.conf:2 uncertain: it may \
    depend on the power supply and on other settings
    sdb.read_ahead_kb (NOLM_READAHEAD=128) /etc/laptop-mode/laptop-mode.conf:2 uncertain: it may \
    depend on the power supply and on other settings
    vm.dirty_writeback_centisecs (MAX_LOST_WORK_SECS_ON_BAT=60) /usr/share/tlp/defaults.conf:2 \
    uncertain: it may depend on the power supply and on other settings
    vm.dirty_expire_centisecs (MAX_LOST_WORK_SECS_ON_BAT=60) /usr/share/tlp/defaults.conf:2 \
    uncertain: it may depend on the power supply and on other settings
    vm.dirty_writeback_centisecs (MAX_LOST_WORK_SECS_ON_AC=5) /etc/tlp.conf:2 uncertain: it may \
    depend on the power supply and on other settings
    vm.dirty_expire_centisecs (MAX_LOST_WORK_SECS_ON_AC=5) /etc/tlp.conf:2 uncertain: it may \
    depend on the power supply and on other settings
    sda.scheduler (DISK_IOSCHED=bfq keep) /etc/tlp.d/10-disks.conf:2 uncertain: it may depend on \
    the power supply and on other settings
    sdb.scheduler (DISK_IOSCHED=bfq keep) /etc/tlp.d/10-disks.conf:2 uncertain: it may depend on \
    the power supply and on other settings
    ");
    // Not without the program, and not if it is not started at boot.
    for left_out in &files[..2] {
        let others: Vec<_> = files.iter().filter(|file| *file != left_out).copied().collect();
        assert!(
            shown(&others).contains("laptop-mode.conf") && !shown(&others).contains("tlp"),
            "{left_out:?}"
        );
    }
}

#[test]
fn of_tmpfiles_lines_for_one_path_the_first_counts() {
    insta::assert_snapshot!(shown(&[
        ("usr/lib/tmpfiles.d/a.conf", "w /sys/block/sda/queue/scheduler - - - - bfq\n\
            d /run/x 0755 root root -\n"),
        ("etc/tmpfiles.d/b.conf", "w /sys/block/sda/queue/scheduler - - - - none\n\
            w /sys/block/sd*/queue/read_ahead_kb - - - - 128\n\
            w! /proc/sys/vm/dirty_ratio - - - - 5\n"),
    ]), @"
    sda.scheduler=bfq /usr/lib/tmpfiles.d/a.conf:1 wins
    vm.dirty_ratio=5 /etc/tmpfiles.d/b.conf:3 wins
    sda.read_ahead_kb=128 /etc/tmpfiles.d/b.conf:2 wins
    sdb.read_ahead_kb=128 /etc/tmpfiles.d/b.conf:2 wins
    ");
}

#[test]
fn what_is_ours_is_taken_back_by_floodwall() {
    let (_dir, root) = machine(&[
        ("etc/sysctl.d/10-site.conf", "vm.dirty_bytes = 268435456\n"),
        (
            "etc/sysctl.d/99-mine.conf",
            "# Written by floodwall persist; …\nvm.dirty_bytes = 67108864\n",
        ),
    ]);
    let settle: Vec<String> = read(&root).claims.into_iter().map(|claim| claim.settle).collect();
    assert!(
        settle[0].starts_with("edit line 1 of /etc/sysctl.d/10-site.conf, or keep"),
        "{settle:?}"
    );
    assert_eq!(settle[1], "floodwall unpersist");
}

#[test]
fn what_can_not_be_read_is_told() {
    let (_dir, root) = machine(&[
        ("etc/sysctl.d/9.conf/is/a/directory", ""),
        ("etc/tuned/active_profile", "none\n"),
    ]);
    let managers = read(&root);
    let what: Vec<_> = managers.unread.iter().map(|missing| missing.what.as_str()).collect();
    assert_eq!(what, ["/etc/sysctl.d/9.conf", "TuneD's profile none"]);
}

/// Every file that is read, for garbage.
const FILES: [&str; 10] = [
    "etc/sysctl.conf",
    "etc/sysctl.d/1.conf",
    "etc/udev/rules.d/1.rules",
    "etc/tmpfiles.d/1.conf",
    "etc/tlp.conf",
    "etc/laptop-mode/laptop-mode.conf",
    "etc/tuned/active_profile",
    "etc/tuned/tuned-main.conf",
    "etc/tuned/a/tuned.conf",
    "run/udev/data/b8:0",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    /// With any content of the files, reading them ends and every claim is whole.
    #[test]
    fn garbage_is_survived(
        pieces in proptest::collection::vec("[a-z]{0,4}(vm[./]dirty_ratio ?= \
            ?|ATTR\\{queue/scheduler\\}=+\"|w /sys/block/sd*/queue/nomerges - - - - |\\[vm\\]\n\
            include=a\n|\\$\\{a\\}|elevator=|KERNEL==\"|DISK_IOSCHED=|GOTO=\"|LABEL=\"|\\\\|\"|\n\
            |[ -~]){0,12}", FILES.len())
    ) {
        let pieces = pieces.iter().map(String::as_str);
        let mut files: Vec<(&str, &str)> = FILES.iter().copied().zip(pieces).collect();
        // A text that begins with an arrow makes a link in these trees.
        files.retain(|(_, text)| !text.starts_with("->"));
        files.extend([("usr/sbin/tlp", ""), ("usr/sbin/laptop_mode", "")]);
        let (_dir, root) = machine(&files);
        for claim in read(&root).claims {
            prop_assert!(is_known(&claim.knob));
            prop_assert!(!claim.file.is_empty() && !claim.settle.is_empty());
        }
    }
}
