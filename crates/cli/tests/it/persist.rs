//! `persist` and `unpersist` on a captured machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use floodwall_model::Setting;
use floodwall_report::keep::Keep;

use crate::knobs::Machine;
use crate::{stderr, stdout};

const SYSCTL: &str = "etc/sysctl.d/99-zz-floodwall.conf";
const RULES: &str = "etc/udev/rules.d/99-zz-floodwall.rules";

/// The captured machine with a udev and a serial number for its disk: captures leave serial numbers
/// out.
fn machine() -> Machine {
    let machine = Machine::new();
    fs::create_dir_all(machine.tree().join("usr/lib/udev/rules.d")).unwrap();
    fs::write(machine.tree().join("sys/class/block/vda/serial"), "S1\n").unwrap();
    machine
}

fn path(machine: &Machine, name: &str) -> PathBuf {
    machine.tree().join(name)
}

fn text(machine: &Machine, name: &str) -> String {
    fs::read_to_string(path(machine, name)).unwrap()
}

#[test]
fn named_settings_are_kept_merged_and_removed() {
    let machine = machine();
    let shown = machine.done("persist vm.dirty_bytes=64MiB vda.nr_requests=32 --yes");
    assert!(shown.contains("vm.dirty_bytes: not kept -> vm.dirty_bytes 67108864"), "{shown}");
    assert!(shown.contains("note: vda is known after a boot by its serial number, S1"), "{shown}");
    assert!(text(&machine, SYSCTL).ends_with("\nvm.dirty_bytes = 67108864\n"));
    assert!(text(&machine, RULES).contains("ATTR{serial}==\"S1\""));
    // Nothing is changed in the kernel.
    assert_eq!(machine.queue("nr_requests"), "256");

    let output = machine.run("persist vm.dirty_ratio=5 --yes");
    assert_eq!(
        stdout(&output).lines().next(),
        Some("vm.dirty_ratio: vm.dirty_bytes 67108864 -> vm.dirty_ratio 5")
    );
    assert!(stderr(&output).contains("floodwall apply does it now"), "{}", stderr(&output));
    assert!(text(&machine, SYSCTL).ends_with("\nvm.dirty_ratio = 5\n"));
    assert!(machine.done("persist vm.dirty_ratio=5 --yes").starts_with("no difference\n"));
    let shown = machine.done("persist vm.dirty_ratio=6 --replace --yes");
    assert!(shown.starts_with("vda.nr_requests: nr_requests 32 -> not kept\n"), "{shown}");
    assert!(!path(&machine, RULES).exists());

    let shown = machine.done("unpersist --dry-run");
    assert!(
        shown.ends_with("99-zz-floodwall.conf would be removed\n")
            && path(&machine, SYSCTL).exists()
    );
    machine.done("unpersist --yes");
    assert!(!path(&machine, SYSCTL).exists());
    assert_eq!(machine.done("unpersist --yes"), "nothing is kept\n");
}

#[test]
fn all_removable_disks_are_kept_beside_the_others_and_removed() {
    let machine = machine();
    machine.done("persist vda.nr_requests=32 --yes");
    let shown = machine.done("persist --removable --yes");
    let limit = "removable disks: bdi.max_bytes: not kept -> bdi.max_bytes 16777216";
    assert!(shown.contains(limit) && shown.contains("plugged in now: none"), "{shown}");
    let rules = text(&machine, RULES);
    assert!(rules.contains("SUBSYSTEMS==\"usb\"") && rules.contains("ATTR{serial}==\"S1\""));
    let shown = machine.done("persist --removable bdi.max_bytes=64MiB scheduler=bfq --dry-run");
    assert!(shown.contains("ATTR{bdi/max_bytes}=\"67108864\""), "{shown}");
    assert_eq!(text(&machine, RULES), rules);
    for (command, message) in [
        ("persist --removable vm.dirty_ratio=5 --yes", "without --removable"),
        ("persist --removable bdi.max_bytes=16 --yes", "16"),
        ("persist --removable --device vda --yes", "--removable can't go with --device"),
    ] {
        let said = machine.refused(command, 2);
        assert!(said.contains(message), "{command}: {said}");
    }
    let shown = machine.done("unpersist --yes");
    assert!(shown.contains("bdi.max_bytes 16777216 -> not kept"), "{shown}");
    assert!(!path(&machine, RULES).exists());
}

#[test]
fn what_is_applied_now_is_kept() {
    let machine = machine();
    let said = machine.refused("persist --yes", 2);
    assert!(said.contains("nothing is applied that could be kept"), "{said}");
    machine.done("apply vda.nr_requests=32 vda.read_ahead_kb=64 --yes");
    machine.done("apply vda.nr_requests=16 --yes");
    machine.done("apply vda.rq_affinity=2 --for 20s --yes");
    // Not Floodwall's file any more.
    fs::write(machine.tree().join("sys/class/block/vda/queue/read_ahead_kb"), "48\n").unwrap();
    let output = machine.run("persist --yes");
    assert!(
        stderr(&output).contains("note: change 3 is for a time and left out"),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("vda.read_ahead_kb is left out: it holds 48"));
    assert_eq!(stdout(&output).lines().next(), Some("vda.nr_requests: not kept -> nr_requests 16"));
    let rules = text(&machine, RULES);
    assert!(
        rules.contains("ATTR{queue/nr_requests}=\"16\"") && !rules.contains("read_ahead_kb"),
        "{rules}"
    );
    machine.done("rollback");
}

#[test]
fn a_dry_run_prints_the_exact_files_and_writes_none() {
    let machine = machine();
    let command = "persist vm.dirty_ratio=5 vda.scheduler=none";
    let shown = machine.done(&format!("{command} --dry-run"));
    assert!(!path(&machine, "etc/sysctl.d").exists() && !path(&machine, "etc/udev").exists());
    machine.done(&format!("{command} --yes"));
    for name in [SYSCTL, RULES] {
        let expected =
            format!("==> {} <==\n{}", path(&machine, name).display(), text(&machine, name));
        assert!(shown.contains(&expected), "{shown}");
    }
}

#[test]
fn nobody_is_asked_without_a_terminal() {
    let machine = machine();
    assert!(machine.refused("persist vm.dirty_ratio=5", 2).contains("give --yes"));
    assert!(!path(&machine, SYSCTL).exists());
    machine.done("persist vm.dirty_ratio=5 --yes");
    assert!(machine.refused("unpersist", 2).contains("give --yes"));
    assert!(path(&machine, SYSCTL).exists());
}

#[test]
fn files_that_are_not_ours_are_left_and_said() {
    let machine = machine();
    machine.done("persist vm.dirty_ratio=5 vda.scheduler=none --yes");
    let edited = format!("{}vm.swappiness = 1\n", text(&machine, SYSCTL));
    fs::write(path(&machine, SYSCTL), &edited).unwrap();
    let said = machine.refused("persist vm.dirty_ratio=6 --yes", 2);
    assert!(
        said.contains("has been changed by hand since floodwall wrote it; move it away"),
        "{said}"
    );
    let said = machine.refused("unpersist --yes", 1);
    assert!(said.contains("changed by hand since floodwall wrote it: left as it is"), "{said}");
    assert_eq!(text(&machine, SYSCTL), edited);
    assert!(!path(&machine, RULES).exists());
    fs::write(path(&machine, SYSCTL), "vm.dirty_ratio = 9\n").unwrap();
    assert!(
        machine
            .refused("persist vm.dirty_ratio=6 --yes", 2)
            .contains("was not written by floodwall")
    );
    // Another file's settings are kept.
    machine.done("persist vda.scheduler=none --yes");
    assert!(path(&machine, RULES).exists());
    machine.refused("unpersist --yes", 1);
    assert_eq!(text(&machine, SYSCTL), "vm.dirty_ratio = 9\n");
}

/// A search prints them for units that only the user knows; here they have the placeholders' names.
#[test]
fn commands_of_a_recommendation_are_taken_as_they_are_printed() {
    let machine = machine();
    for (name, content) in [
        ("cgroup.procs", ""),
        ("FLOOD.service/memory.high", "max"),
        ("FLOOD.service/memory.current", "4096"),
        ("FLOOD.service/memory.stat", "file 0\nshmem 0"),
        ("FLOOD.service/io.max", ""),
        ("FLOOD.service/cgroup.procs", ""),
        ("VICTIM.service/cgroup.procs", ""),
        ("VICTIM.service/ioprio", "none"),
    ] {
        let file = path(&machine, "sys/fs/cgroup/system.slice").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{content}\n")).unwrap();
    }
    let by_id = path(&machine, "dev/disk/by-id");
    fs::create_dir_all(&by_id).unwrap();
    symlink("../../vda", by_id.join("virtio-S1")).unwrap();
    fs::create_dir_all(path(&machine, "usr/lib/systemd")).unwrap();
    fs::write(path(&machine, "usr/lib/systemd/systemd"), "").unwrap();
    let setting: Setting = [
        ("flood:io.max", "wbps=180000000"),
        ("flood:memory.high", "134217728"),
        ("victim.ioprio", "be/0"),
        ("scheduler", "none"),
    ]
    .into_iter()
    .map(|(knob, value)| (knob.to_owned(), value.to_owned()))
    .collect();
    let keep = Keep::of(&setting, Some("vda")).unwrap();
    for command in [&keep.apply, &keep.persist] {
        let shown =
            machine.done(&format!("{} --dry-run", command.strip_prefix("floodwall ").unwrap()));
        assert!(
            shown.contains("180000000") && shown.contains("FLOOD.service"),
            "{command}: {shown}"
        );
    }
    // A limit below a unit's use is refused here too.
    let uses = path(&machine, "sys/fs/cgroup/system.slice/FLOOD.service/memory.current");
    fs::write(uses, "1073741824\n").unwrap();
    let command = keep.persist.strip_prefix("floodwall ").unwrap();
    assert!(machine.refused(&format!("{command} --yes"), 2).contains("memory.high"));
}

#[test]
fn what_can_not_be_kept_is_told_with_what_to_use() {
    let machine = machine();
    for (command, status, message) in [
        ("persist a.slice:vda.io.max=wbps=5MB --yes", 2, "nothing in /dev/disk/by-id leads to vda"),
        ("persist vm.dirty_byte=1MB --yes", 2, "did you mean vm.dirty_bytes"),
        ("persist vda.bdi.max_bytes=16MiB --yes", 2, "persist vm.dirty_bytes with it"),
        ("persist vda.scheduler=cfq --yes", 2, "has no scheduler 'cfq'"),
        ("persist vda.iosched.slice_idle=0 --yes", 2, "belongs to bfq"),
        ("persist vm.dirty_ratio=0 --yes", 2, "stops every writer"),
    ] {
        let said = machine.refused(command, status);
        assert!(said.contains(message), "{command}: {said}");
    }
    fs::remove_file(machine.tree().join("sys/class/block/vda/serial")).unwrap();
    assert!(
        machine.refused("persist vda.scheduler=none --yes", 2).contains("vda has no serial number")
    );
    fs::write(machine.tree().join("sys/class/block/vda/serial"), "S1\n").unwrap();
    fs::remove_dir_all(machine.tree().join("usr/lib/udev")).unwrap();
    assert!(
        machine.refused("persist vda.scheduler=none --yes", 4).contains("there is no udev here")
    );
    assert!(!path(&machine, "etc/sysctl.d").exists());
}

#[test]
fn a_killed_persist_leaves_whole_files_and_nobody_is_kept_out() {
    let machine = machine();
    let settings = [
        "persist vm.dirty_ratio=5 vda.nr_requests=32 --yes",
        "persist vm.dirty_ratio=6 vda.nr_requests=16 --yes",
    ];
    let whole = settings.map(|command| {
        machine.done(command);
        [SYSCTL, RULES].map(|name| text(&machine, name))
    });
    for delay_us in (0..20_000).step_by(250) {
        // Persists the one of the two settings that is not persisted now.
        let now = usize::from(text(&machine, SYSCTL) == whole[1][0]);
        let mut persist = machine.start(settings[1 - now]);
        std::thread::sleep(std::time::Duration::from_micros(delay_us));
        persist.kill().unwrap();
        persist.wait().unwrap();
        for (index, name) in [SYSCTL, RULES].into_iter().enumerate() {
            let found = text(&machine, name);
            assert!(
                whole.iter().any(|files| files[index] == found),
                "{delay_us} µs: {name}: {found}"
            );
        }
    }
    machine.done(settings[0]);
    machine.done("unpersist --yes");
    let left = |name: &str| fs::read_dir(path(&machine, name)).unwrap().count();
    assert_eq!((left("etc/sysctl.d"), left("etc/udev/rules.d")), (0, 0));
}

#[test]
fn who_has_the_last_word_is_told() {
    let machine = machine();
    let file = |name: &str, text: &str| {
        let path = path(&machine, name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    file("usr/lib/systemd/systemd-sysctl", "");
    file("run/udev/data/b254:0", "E:ID_SERIAL=S1\n");
    file("usr/lib/sysctl.d/10-distribution.conf", "vm.dirty_ratio = 40\n");
    file("etc/sysctl.d/99-sysctl.conf", "vm.dirty_ratio = 10\n");
    file(
        "usr/lib/udev/rules.d/60-scheduler.rules",
        "ACTION==\"add\", ATTR{queue/scheduler}=\"none\"\n",
    );
    let said = |command: &str| stderr(&machine.run(command));
    let first = said("persist vm.dirty_bytes=64MiB vda.scheduler=none vda.wbt_lat_usec=3ms --yes");
    assert!(
        first.contains(
            "note: overrules sysctl (/etc/sysctl.d/99-sysctl.conf:1) sets vm.dirty_ratio=10"
        ),
        "{first}"
    );
    assert!(
        first.contains("note: overrules a udev rule (/usr/lib/udev/rules.d/60-scheduler.rules:1"),
        "{first}"
    );
    assert!(!first.contains("warning"), "{first}");
    // A program that looks at the power supply may have the last word.
    file("usr/sbin/tlp", "");
    file("etc/tlp.conf", "MAX_LOST_WORK_SECS_ON_BAT=60\n");
    let power = said("persist vm.dirty_expire_centisecs=500 --yes");
    assert!(
        power.contains(
            "warning: vm.dirty_expire_centisecs may not stay: TLP (/etc/tlp.conf:1) may \
            set vm.dirty_expire_centisecs (MAX_LOST_WORK_SECS_ON_BAT=60) at boot"
        ),
        "{power}"
    );
    file("etc/sysctl.d/zz-late.conf", "vm.dirty_ratio = 30\n");
    let second = said("persist vm.dirty_bytes=32MiB --yes");
    assert!(
        second.contains(
            "warning: vm.dirty_bytes will not stay: sysctl (/etc/sysctl.d/zz-late.conf:1)"
        ),
        "{second}"
    );
}
