//! Whole machines: each manager's claims, and the winner.

use proptest::prelude::*;

use super::*;
use crate::root::testing::tree;

/// A disk of a tree, with a queue.
fn disk(name: &str, number: &str, rotational: &str, scheduler: &str) -> Vec<(String, String)> {
    let directory =
        format!("sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/{name}");
    let mut files = vec![
        (format!("{directory}/dev"), number.to_owned()),
        (format!("{directory}/uevent"), format!("DEVNAME={name}\nDEVTYPE=disk\n")),
        (format!("{directory}/queue/rotational"), rotational.to_owned()),
        (format!("{directory}/queue/scheduler"), scheduler.to_owned()),
        (format!("{directory}/queue/read_ahead_kb"), "128".to_owned()),
    ];
    let below = directory.trim_start_matches("sys/");
    files.push((format!("sys/class/block/{name}"), format!("->../../{below}")));
    files.push((format!("sys/dev/block/{number}"), format!("->../../{below}")));
    files
}

/// A machine with a rotating sda, an SSD sdb and the limits that every kernel boots with, and these
/// files.
fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, SysRoot) {
    let mut all = disk("sda", "8:0", "1", "none [mq-deadline] bfq");
    all.extend(disk("sdb", "8:16", "0", "none mq-deadline [bfq]"));
    for (name, value) in [
        ("dirty_ratio", "20"),
        ("dirty_bytes", "0"),
        ("dirty_background_ratio", "10"),
        ("dirty_background_bytes", "0"),
        ("dirty_expire_centisecs", "3000"),
        ("dirty_writeback_centisecs", "500"),
    ] {
        all.push((format!("proc/sys/vm/{name}"), value.to_owned()));
    }
    let mut all: Vec<(&str, &str)> = all.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    all.extend_from_slice(files);
    tree(&all)
}

/// One line a claim: what, where, how it fares, whether it is in force.
fn shown(files: &[(&str, &str)]) -> String {
    let (_dir, root) = machine(files);
    lines(&read(&root))
}

fn lines(managers: &Managers) -> String {
    let line = |claim: &Claim| {
        let standing = match &claim.standing {
            Standing::Wins => "wins".to_owned(),
            Standing::Overridden { by } => format!("overridden by {by}"),
            Standing::Uncertain { why } => format!("uncertain: {why}"),
            Standing::NotApplied { why } => format!("not applied: {why}"),
        };
        let in_force = match claim.in_force {
            Reading::Value(true) => "in force",
            Reading::Value(false) => "not in force",
            Reading::Absent(_) | Reading::Unreadable(_) => "unknown",
        };
        let value = claim.value.as_deref().unwrap_or("?");
        format!("{}={value} {} {standing}; {in_force}", claim.label(), claim.source())
    };
    let mut all: Vec<String> = managers.claims.iter().map(line).collect();
    all.extend(managers.unread.iter().map(|missing| format!("{}: {}", missing.what, missing.why)));
    all.join("\n")
}

#[test]
fn a_machine_without_managers_has_none() {
    let (_dir, root) = machine(&[("etc/sysctl.d/10-net.conf", "net.ipv4.ip_forward = 1\n")]);
    assert!(read(&root).is_empty());
}

#[test]
fn sysctl_files_by_name_directory_and_both_names_of_a_limit() {
    insta::assert_snapshot!(shown(&[
        ("usr/lib/sysctl.d/10-pop-default-settings.conf", "vm.swappiness = 10\nvm.dirty_bytes = 268435456\n"),
        ("usr/lib/sysctl.d/50-x.conf", "vm.dirty_background_ratio=5\n"),
        ("etc/sysctl.d/50-x.conf", "# ours\n-vm/dirty_background_ratio = 3\n; vm.dirty_ratio=1\n"),
        ("run/sysctl.d/60-y.conf", "vm.dirty_ratio = 20\nvm.dirty_bytes = 0\n"),
        ("etc/sysctl.conf", "vm.dirty_background_ratio = 10\n"),
    ]), @"
    vm.dirty_bytes=268435456 /usr/lib/sysctl.d/10-pop-default-settings.conf:2 overridden by /run/sysctl.d/60-y.conf:1; not in force
    vm.dirty_background_ratio=3 /etc/sysctl.d/50-x.conf:2 overridden by /etc/sysctl.conf:1; not in force
    vm.dirty_background_ratio=5 /usr/lib/sysctl.d/50-x.conf:1 not applied: /etc/sysctl.d/50-x.conf is read in its place; not in force
    vm.dirty_ratio=20 /run/sysctl.d/60-y.conf:1 wins; in force
    vm.dirty_bytes=0 /run/sysctl.d/60-y.conf:2 not applied: 0 is what the kernel shows while the other name is in force, and sets nothing; in force
    vm.dirty_background_ratio=10 /etc/sysctl.conf:1 wins; in force
    ");
}

#[test]
fn systemd_reads_sysctl_conf_through_a_link_alone() {
    let conf = ("etc/sysctl.conf", "vm.dirty_ratio=5\n");
    let systemd = ("usr/lib/systemd/systemd-sysctl", "");
    assert!(
        shown(&[conf, systemd]).contains("not applied: systemd-sysctl reads /etc/sysctl.conf only through")
    );
    let link = ("etc/sysctl.d/99-sysctl.conf", "->../sysctl.conf");
    assert_eq!(shown(&[conf, systemd, link]), "vm.dirty_ratio=5 /etc/sysctl.conf:1 wins; not in force");
    // procps would read it twice.
    assert_eq!(shown(&[conf, link]), "vm.dirty_ratio=5 /etc/sysctl.conf:1 wins; not in force");
}

#[test]
fn a_vendors_file_is_masked_by_a_link_to_null() {
    insta::assert_snapshot!(shown(&[
        ("usr/lib/sysctl.d/70-cachyos-settings.conf", "vm.dirty_bytes = 268435456\n"),
        ("etc/sysctl.d/70-cachyos-settings.conf", "->/dev/null"),
    ]), @"vm.dirty_bytes=268435456 /usr/lib/sysctl.d/70-cachyos-settings.conf:1 not applied: /etc/sysctl.d/70-cachyos-settings.conf is read in its place; not in force");
}

#[test]
fn patterns_leave_out_what_is_named() {
    insta::assert_snapshot!(shown(&[(
        "etc/sysctl.d/10-a.conf",
        "vm.dirty_*_centisecs = 100\nvm.dirty_expire_centisecs = 200\n-vm.dirty_ratio\nvm.dirty_r* = 7\n",
    )]), @"
    vm.dirty_writeback_centisecs=100 /etc/sysctl.d/10-a.conf:1 wins; not in force
    vm.dirty_expire_centisecs=200 /etc/sysctl.d/10-a.conf:2 wins; not in force
    ");
}

#[test]
fn udev_rules_for_the_disks_that_fit() {
    insta::assert_snapshot!(shown(&[
        (
            "usr/lib/udev/rules.d/60-ioschedulers.rules",
            "# HDD\nACTION==\"add|change\", KERNEL==\"sd[a-z]*\", ATTR{queue/rotational}==\"1\", \\\n    ATTR{queue/scheduler}=\"bfq\"\nACTION==\"add|change\", KERNEL==\"sd[a-z]*|mmcblk[0-9]*\", ATTR{queue/rotational}==\"0\", \\\n    ATTR{queue/scheduler}=\"mq-deadline\"\nACTION==\"add|change\", KERNEL==\"nvme[0-9]*\", ATTR{queue/scheduler}=\"none\"\n",
        ),
        ("etc/udev/rules.d/99-mine.rules", "SUBSYSTEM==\"block\", KERNEL==\"sdb\", ATTR{queue/scheduler}=\"bfq\", SYSCTL{vm/dirty_ratio}=\"20\"\n"),
        ("etc/udev/rules.d/98-broken.rules", "KERNEL==\"sda\", DEVTYPE==\"disk\", ATTR{queue/nr_requests}=\"8\"\n"),
        ("etc/udev/rules.d/10-other.rules", "KERNEL==sda, this is not a rule\n"),
    ]), @r#"
    sda.scheduler=bfq /usr/lib/udev/rules.d/60-ioschedulers.rules:2 wins; not in force
    sdb.scheduler=mq-deadline /usr/lib/udev/rules.d/60-ioschedulers.rules:4 overridden by /etc/udev/rules.d/99-mine.rules:1; not in force
    scheduler=none /usr/lib/udev/rules.d/60-ioschedulers.rules:6 not applied: no device that is here now fits; unknown
    sdb.scheduler=bfq /etc/udev/rules.d/99-mine.rules:1 wins; in force
    vm.dirty_ratio=20 /etc/udev/rules.d/99-mine.rules:1 wins; in force
    /etc/udev/rules.d/98-broken.rules:1: unreadable: udev ignores the rule: 'DEVTYPE' is not a key
    "#);
}

#[test]
fn rules_jump_set_properties_and_ask_what_can_not_be_told() {
    insta::assert_snapshot!(shown(&[
        ("run/udev/data/b8:0", "S:disk/by-id/ata-x\nE:ID_BUS=ata\nE:ID_TYPE=disk\n"),
        (
            "etc/udev/rules.d/60-x.rules",
            "SUBSYSTEM!=\"block\", GOTO=\"end\"\nENV{DEVTYPE}!=\"disk\", GOTO=\"end\"\nENV{ID_BUS}==\"ata\", ENV{MINE}=\"1\"\nENV{MINE}==\"1\", ATTR{queue/nr_requests}=\"8\"\nENV{ID_BUS}==\"ata\", GOTO=\"end\"\nATTR{queue/nomerges}=\"2\"\nPROGRAM==\"/bin/is-slow %k\", ATTR{queue/read_ahead_kb}=\"64\"\nLABEL=\"end\"\nKERNEL==\"sd*\", RUN+=\"/bin/sh -c 'echo 1 > /sys/block/%k/bdi/strict_limit'\"\n",
        ),
    ]), @r#"
    sda.nr_requests=8 /etc/udev/rules.d/60-x.rules:4 wins; unknown
    sda.bdi.strict_limit=1 /etc/udev/rules.d/60-x.rules:9 wins; unknown
    sdb.nr_requests=8 /etc/udev/rules.d/60-x.rules:4 uncertain: whether ENV{MINE}=="1" holds for sdb can't be told; unknown
    sdb.nomerges=2 /etc/udev/rules.d/60-x.rules:6 uncertain: whether ENV{ID_BUS}=="ata" holds for sdb can't be told; unknown
    sdb.read_ahead_kb=64 /etc/udev/rules.d/60-x.rules:7 uncertain: whether PROGRAM=="/bin/is-slow %k" holds for sdb can't be told; not in force
    sdb.bdi.strict_limit=1 /etc/udev/rules.d/60-x.rules:9 wins; unknown
    "#);
}

#[test]
fn parents_are_asked_together() {
    let model = "sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/model";
    let subsystem = "sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/subsystem";
    let shown = shown(&[
        (model, "PERC H755N     \n"),
        (subsystem, "->../../../../../../../../bus/scsi"),
        (
            "etc/udev/rules.d/9.rules",
            "ATTRS{model}==\"PERC*\", SUBSYSTEMS==\"scsi\", ATTR{queue/nomerges}=\"2\"\nATTRS{model}==\"PERC*\", KERNELS==\"host0\", ATTR{queue/nomerges}=\"1\"\n",
        ),
    ]);
    assert!(shown.contains("sda.nomerges=2 /etc/udev/rules.d/9.rules:1 wins"), "{shown}");
    // Not one device has both; a captured tree may lack the attribute, so it is not ruled out.
    assert!(!shown.contains("rules:2 wins"), "{shown}");
}

/// A server with throughput-performance, as TuneD ships it today.
const TUNED: [(&str, &str); 5] = [
    ("etc/tuned/active_profile", "mine\n"),
    ("run/tuned/tuned.pid", "812\n"),
    ("proc/812/comm", "tuned\n"),
    (
        "usr/lib/tuned/profiles/throughput-performance/tuned.conf",
        "[vm]\ndirty_bytes = 40%\ndirty_background_bytes = 10%\n[sysctl]\nvm.dirty_expire_centisecs=500\n[disk]\nreadahead=>4096\n",
    ),
    (
        "etc/tuned/mine/tuned.conf",
        "[main]\ninclude=throughput-performance\n[fast]\ntype=disk\ndevices=sd*,!sda\nelevator=none\n[sysfs]\n/sys/block/sd*/queue/nr_requests=64\n",
    ),
];

#[test]
fn tuned_sets_what_its_profile_says_and_sysctl_d_is_applied_over_its_sysctls() {
    let mut files = TUNED.to_vec();
    files.push(("etc/sysctl.d/9.conf", "vm.dirty_ratio = 10\nvm.dirty_expire_centisecs = 3000\n"));
    insta::assert_snapshot!(shown(&files), @"
    vm.dirty_ratio=10 /etc/sysctl.d/9.conf:1 overridden by /usr/lib/tuned/profiles/throughput-performance/tuned.conf:2; not in force
    vm.dirty_expire_centisecs=3000 /etc/sysctl.d/9.conf:2 wins; in force
    vm.dirty_ratio=40 /usr/lib/tuned/profiles/throughput-performance/tuned.conf:2 wins; not in force
    vm.dirty_background_ratio=10 /usr/lib/tuned/profiles/throughput-performance/tuned.conf:3 wins; in force
    vm.dirty_expire_centisecs=500 /usr/lib/tuned/profiles/throughput-performance/tuned.conf:5 overridden by /etc/sysctl.d/9.conf:2; not in force
    sda.read_ahead_kb=4096 /usr/lib/tuned/profiles/throughput-performance/tuned.conf:7 wins; not in force
    sdb.read_ahead_kb=4096 /usr/lib/tuned/profiles/throughput-performance/tuned.conf:7 wins; not in force
    sdb.scheduler=none /etc/tuned/mine/tuned.conf:6 wins; not in force
    sda.nr_requests=64 /etc/tuned/mine/tuned.conf:8 wins; unknown
    sdb.nr_requests=64 /etc/tuned/mine/tuned.conf:8 wins; unknown
    ");
    files.push(("etc/tuned/tuned-main.conf", "reapply_sysctl = 0\n"));
    assert!(shown(&files).contains("tuned.conf:5 wins"));
}

#[test]
fn what_tuned_does_is_told_with_a_remedy() {
    let (_dir, root) = machine(&TUNED);
    let managers = read(&root);
    let [tuned] = managers.present.as_slice() else { panic!("{:?}", managers.present) };
    assert_eq!((tuned.name.as_str(), &tuned.running), ("TuneD, profile mine", &Reading::Value(true)));
    let claim = managers.about("vm.dirty_bytes", None).last().unwrap();
    assert_eq!(
        claim.to_string(),
        "TuneD's profile mine (/usr/lib/tuned/profiles/throughput-performance/tuned.conf:2) sets vm.dirty_ratio=40 when it starts and when the profile changes"
    );
    assert_eq!(claim.settle, "tuned-adm off, or set vm.dirty_ratio in a profile of yours with include=mine");
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
    let shown_disabled = shown(&disabled);
    assert!(
        shown_disabled.lines().all(|line| line.contains("not applied: TuneD does not run")),
        "{shown_disabled}"
    );
    let mut enabled = stopped;
    enabled.push(("etc/systemd/system/multi-user.target.wants/tuned.service", "->/usr/lib/x"));
    assert!(shown(&enabled).contains("tuned.conf:2 wins"));
}

#[test]
fn tlp_on_mains_and_on_battery() {
    let files = [
        ("usr/sbin/tlp", ""),
        ("etc/systemd/system/multi-user.target.wants/tlp.service", "->/usr/lib/x"),
        ("sys/class/power_supply/AC/type", "Mains"),
        ("sys/class/power_supply/AC/online", "1"),
        (
            "usr/share/tlp/defaults.conf",
            "MAX_LOST_WORK_SECS_ON_AC=15\nMAX_LOST_WORK_SECS_ON_BAT=60\nDISK_IOSCHED=\"keep keep\"\n",
        ),
        ("etc/tlp.d/10-disks.conf", "DISK_DEVICES=\"ata-x sda sdq\"\nDISK_IOSCHED=\"bfq keep none\"\n"),
        ("etc/tlp.conf", "#DISK_IOSCHED=\"none\"\nMAX_LOST_WORK_SECS_ON_AC=5\n"),
        ("dev/disk/by-id/ata-x", "->../../sdb"),
    ];
    insta::assert_snapshot!(shown(&files), @"
    sdb.scheduler=bfq /etc/tlp.d/10-disks.conf:2 wins; in force
    scheduler=none /etc/tlp.d/10-disks.conf:2 not applied: no device that is here now fits; unknown
    vm.dirty_writeback_centisecs=6000 /usr/share/tlp/defaults.conf:2 uncertain: MAX_LOST_WORK_SECS_ON_BAT does not count for the power supply of this moment; not in force
    vm.dirty_expire_centisecs=6000 /usr/share/tlp/defaults.conf:2 uncertain: MAX_LOST_WORK_SECS_ON_BAT does not count for the power supply of this moment; not in force
    vm.dirty_writeback_centisecs=500 /etc/tlp.conf:2 wins; in force
    vm.dirty_expire_centisecs=500 /etc/tlp.conf:2 wins; not in force
    ");
    let mut off = files.to_vec();
    off.push(("etc/tlp.d/99-off.conf", "TLP_ENABLE=0\n"));
    assert!(shown(&off).lines().all(|line| line.contains("not applied")), "{}", shown(&off));
}

#[test]
fn laptop_mode_has_values_for_every_mode() {
    let files = [
        ("usr/sbin/laptop_mode", ""),
        ("etc/systemd/system/multi-user.target.wants/laptop-mode.service", "->/usr/lib/x"),
        (
            "etc/laptop-mode/laptop-mode.conf",
            "ENABLE_LAPTOP_MODE_ON_BATTERY=1\nENABLE_LAPTOP_MODE_ON_AC=0\nLM_DIRTY_RATIO=60\nNOLM_DIRTY_RATIO=40\nLM_BATT_MAX_LOST_WORK_SECONDS=600\nCONTROL_READAHEAD=1\nLM_READAHEAD=3072\nNOLM_READAHEAD=128\n",
        ),
    ];
    insta::assert_snapshot!(shown(&files), @"
    vm.dirty_writeback_centisecs=60000 /etc/laptop-mode/laptop-mode.conf:5 uncertain: it counts in another mode than this moment's; not in force
    vm.dirty_expire_centisecs=60000 /etc/laptop-mode/laptop-mode.conf:5 uncertain: it counts in another mode than this moment's; not in force
    vm.dirty_ratio=60 /etc/laptop-mode/laptop-mode.conf:3 uncertain: it counts in another mode than this moment's; not in force
    sda.read_ahead_kb=3072 /etc/laptop-mode/laptop-mode.conf:7 uncertain: it counts in another mode than this moment's; not in force
    vm.dirty_ratio=40 /etc/laptop-mode/laptop-mode.conf:4 wins; not in force
    sda.read_ahead_kb=128 /etc/laptop-mode/laptop-mode.conf:8 wins; in force
    ");
}

#[test]
fn of_tmpfiles_lines_for_one_path_the_first_counts() {
    insta::assert_snapshot!(shown(&[
        ("usr/lib/tmpfiles.d/a.conf", "w /sys/block/sda/queue/scheduler - - - - bfq\nd /run/x 0755 root root -\n"),
        ("etc/tmpfiles.d/b.conf", "w /sys/block/sda/queue/scheduler - - - - none\nw /sys/block/sd*/queue/read_ahead_kb - - - - 128\nw! /proc/sys/vm/dirty_ratio - - - - 5\n"),
    ]), @"
    sda.scheduler=bfq /usr/lib/tmpfiles.d/a.conf:1 wins; not in force
    sda.scheduler=none /etc/tmpfiles.d/b.conf:1 overridden by /usr/lib/tmpfiles.d/a.conf:1; not in force
    vm.dirty_ratio=5 /etc/tmpfiles.d/b.conf:3 wins; not in force
    sda.read_ahead_kb=128 /etc/tmpfiles.d/b.conf:2 wins; in force
    sdb.read_ahead_kb=128 /etc/tmpfiles.d/b.conf:2 wins; in force
    ");
}

#[test]
fn the_command_line_counts_on_old_kernels_alone() {
    let line = ("proc/cmdline", "root=/dev/sda1 elevator=noop elevator=deadline quiet\n");
    let new = shown(&[line, ("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n")]);
    assert_eq!(
        new,
        "scheduler=deadline /proc/cmdline not applied: kernels since 5.0 take no notice of elevator=; unknown"
    );
    let old = shown(&[line, ("proc/sys/kernel/osrelease", "4.18.0-553.el8.x86_64\n")]);
    assert!(old.starts_with("sda.scheduler=deadline /proc/cmdline uncertain: only devices with"), "{old}");
}

#[test]
fn who_ships_a_file_and_what_is_ours_is_told() {
    let (_dir, root) = machine(&[
        ("etc/sysctl.d/10-pop-default-settings.conf", "vm.dirty_bytes = 268435456\n"),
        ("etc/sysctl.d/99-mine.conf", "# Written by floodwall persist; …\nvm.dirty_bytes = 67108864\n"),
    ]);
    let managers = read(&root);
    let shipped: Vec<_> = managers.claims.iter().map(|claim| claim.shipped_by.as_deref()).collect();
    assert_eq!(shipped, [Some("Pop!_OS (pop-default-settings)"), Some("floodwall")]);
    assert_eq!(managers.claims[1].settle, "floodwall unpersist");
}

#[test]
fn what_can_not_be_read_is_told() {
    let (_dir, root) =
        machine(&[("etc/sysctl.d/9.conf/is/a/directory", ""), ("etc/tuned/active_profile", "none\n")]);
    let managers = read(&root);
    let what: Vec<_> = managers.unread.iter().map(|missing| missing.what.as_str()).collect();
    assert_eq!(what, ["/etc/sysctl.d/9.conf", "TuneD's profile none"]);
}

/// Every file that is read, for garbage.
const FILES: [&str; 12] = [
    "etc/sysctl.conf",
    "etc/sysctl.d/1.conf",
    "etc/udev/rules.d/1.rules",
    "etc/tmpfiles.d/1.conf",
    "etc/tlp.conf",
    "etc/laptop-mode/laptop-mode.conf",
    "etc/tuned/active_profile",
    "etc/tuned/tuned-main.conf",
    "etc/tuned/a/tuned.conf",
    "proc/cmdline",
    "run/udev/data/b8:0",
    "etc/os-release",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    /// With any content of the files, reading them ends and every claim is whole.
    #[test]
    fn garbage_is_survived(
        pieces in proptest::collection::vec("[a-z]{0,4}(vm[./]dirty_ratio ?= ?|ATTR\\{queue/scheduler\\}=+\"|w /sys/block/sd*/queue/nomerges - - - - |\\[vm\\]\ninclude=a\n|\\$\\{a\\}|elevator=|KERNEL==\"|DISK_IOSCHED=|GOTO=\"|LABEL=\"|\\\\|\"|\n|[ -~]){0,12}", FILES.len())
    ) {
        let mut files: Vec<(&str, &str)> = FILES.iter().copied().zip(pieces.iter().map(String::as_str)).collect();
        // A text that begins with an arrow makes a link in these trees.
        files.retain(|(_, text)| !text.starts_with("->"));
        let (_dir, root) = machine(&files);
        for claim in read(&root).claims {
            prop_assert!(is_known(&claim.knob) && !claim.file.is_empty() && !claim.settle.is_empty());
        }
    }
}
