//! Other hands on the same knobs, told by `apply` and `diff`; and what `size --device` refuses.

use std::fs;

use floodwall_host::SysRoot;
use floodwall_knobs::journal::{DiskStore, boot_id};
use floodwall_knobs::{Change, KernelFiles, Session, SystemClock, Who};
use serde_json::Value;

use crate::knobs::Machine;
use crate::{floodwall, stderr, stdout, tmpfs};

const TUNED: [(&str, &str); 4] = [
    ("etc/tuned/active_profile", "throughput-performance\n"),
    ("run/tuned/tuned.pid", "4711\n"),
    ("proc/4711/comm", "tuned\n"),
    ("usr/lib/tuned/throughput-performance/tuned.conf", "[sysctl]\nvm.dirty_ratio = 40\n"),
];
const RULE: (&str, &str) =
    ("etc/udev/rules.d/60-x.rules", "KERNEL==\"vd*\", ATTR{queue/scheduler}=\"mq-deadline\"\n");

#[test]
fn who_will_fight_a_change_is_told_under_the_difference() {
    let machine = Machine::with(&[TUNED.as_slice(), &[RULE]].concat());
    let shown =
        machine.done("apply vm.dirty_bytes=64MiB vm.dirty_background_bytes=16MiB --dry-run");
    let shown: Vec<&str> = shown.lines().filter(|line| !line.starts_with("note")).collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    vm.dirty_bytes: dirty_ratio 20 -> dirty_bytes 67108864
    vm.dirty_background_bytes: dirty_background_ratio 10 -> dirty_background_bytes 16777216
    vm.dirty_bytes is set by others too: TuneD's profile throughput-performance \
    (/usr/lib/tuned/throughput-performance/tuned.conf:2) sets vm.dirty_ratio=40 when it starts and \
    when the profile changes
      to settle it: tuned-adm off, or set vm.dirty_ratio in a profile of yours with \
      include=throughput-performance
    echo 16777216 > /proc/sys/vm/dirty_background_bytes
    # in steps of at most 10 % each 200 ms while more than 64 MiB is dirty, then:
    echo 67108864 > /proc/sys/vm/dirty_bytes
    ");
    let shown = machine.done("apply vda.scheduler=none --yes");
    assert!(
        shown.contains(
            "vda.scheduler is set by others too: a udev rule (/etc/udev/rules.d/60-x.rules:1)"
        ),
        "{shown}"
    );
    // … and as long as it stands.
    let difference = machine.done("diff");
    assert!(
        difference
            .contains("vda.scheduler: mq-deadline -> none\nvda.scheduler is set by others too"),
        "{difference}"
    );
    // Whether a disk is below a PCI device is not looked into.
    let rule = "SUBSYSTEMS==\"pci\", ATTR{queue/read_ahead_kb}=\"1024\"\n";
    let shown = Machine::with(&[("etc/udev/rules.d/60-pci.rules", rule)])
        .done("diff vda.read_ahead_kb=512");
    assert!(
        shown.contains(
            "\nvda.read_ahead_kb may be set by others too: a udev rule \
            (/etc/udev/rules.d/60-pci.rules:1) may set vda.read_ahead_kb=1024 when the device \
            appears and at each of its change events (not all of the rule's conditions can be \
            checked here)\n  to settle it: edit line 1 of /etc/udev/rules.d/60-pci.rules, then run \
            udevadm control --reload\n"
        ),
        "{shown}"
    );
    // A knob that no other manager sets needs no remark.
    let shown = machine.done("apply vda.nr_requests=32 --yes");
    assert!(!shown.contains("others"), "{shown}");
}

#[test]
fn differences_and_rivals_as_json() {
    let machine = Machine::with(&TUNED);
    let document: Value =
        serde_json::from_str(&machine.done("diff vm.dirty_bytes=64MiB --json")).unwrap();
    assert_eq!(document["schema"], "floodwall/diff/1");
    assert_eq!(document["settings"][0]["knob"], "vm.dirty_bytes");
    assert_eq!(document["settings"][0]["now"]["value"], "20");
    assert_eq!(document["settings"][0]["wanted"]["value"], "67108864");
    let claim = &document["others"]["claims"][0]["claim"];
    assert_eq!(
        (&claim["by"], &claim["value"], &claim["line"]),
        (&"tuned".into(), &"40".into(), &2.into())
    );
    assert_eq!(claim["standing"], "wins");

    machine.done("apply vda.nr_requests=32 --yes");
    let document: Value = serde_json::from_str(&machine.done("diff --json")).unwrap();
    let setting = &document["changes"][0]["settings"][0];
    assert_eq!(
        (&setting["knob"], &setting["by_this_change"]),
        (&"vda.nr_requests".into(), &true.into())
    );
    assert_eq!(
        (&setting["before"]["value"], &setting["now"]["value"]),
        (&"256".into(), &"32".into())
    );
    assert_eq!(document["others"]["claims"], Value::Array(Vec::new()));
    machine.done("rollback");
    let document: Value = serde_json::from_str(&machine.done("diff --json")).unwrap();
    assert_eq!(document["changes"], Value::Array(Vec::new()));
}

#[test]
fn a_guard_that_runs_is_named() {
    let machine = Machine::with(&[
        ("proc/4712/comm", "floodwall\n"),
        ("proc/4712/cmdline", "floodwall\0guard\0"),
    ]);
    let shown = machine.done("apply vda.nr_requests=32 --dry-run");
    assert!(
        shown.contains("floodwall guard (process 4712) steers settings: stop it first"),
        "{shown}"
    );

    // One that holds the knob and has a socket is asked for it.
    let root = SysRoot::new(&machine.tree().canonicalize().unwrap()).unwrap();
    let files = KernelFiles::new(&root).unwrap();
    let who = Who {
        pid: 4713,
        pid_start_ticks: 1,
        socket: Some("/no/socket".into()),
        uid: 0,
        command: "floodwall guard".into(),
    };
    let store =
        DiskStore::open(&root.path().join("var/lib/floodwall/journal"), &who.describe()).unwrap();
    let boot_id = boot_id(&files);
    let session = Session { files: &files, store: &store, clock: &SystemClock, who, boot_id };
    let (mut hold, _) = session.hold("floodwall guard").unwrap();
    let change = Change::parse(&root, None, "vda.nr_requests=8").unwrap();
    session.write(&mut hold, &change).unwrap();
    drop(store);
    let output = machine.run("apply vda.nr_requests=32 --dry-run");
    let (shown, said) = (stdout(&output), stderr(&output));
    assert!(shown.contains("vda.nr_requests") && !shown.contains("steers settings"), "{shown}");
    assert!(said.contains("which would be asked to put that back and leave it alone"), "{said}");
}

#[test]
fn what_size_works_out_goes_straight_into_apply() {
    let machine = Machine::with(&[]);
    let shown = machine.done("size --link 1Gibit/s --apply --yes");
    assert!(shown.contains("vm.dirty_bytes: dirty_ratio 20 -> dirty_bytes 201326592"), "{shown}");
    let vm =
        |name: &str| fs::read_to_string(machine.tree().join("proc/sys/vm").join(name)).unwrap();
    assert_eq!(
        (vm("dirty_bytes").trim(), vm("dirty_background_bytes").trim()),
        ("201326592", "33554432")
    );
    assert!(machine.done("log").contains("why: sized for link"));
    machine.done("rollback");
    assert_eq!(vm("dirty_ratio").trim(), "20");
}

#[test]
fn what_can_not_be_measured_is_refused_before_anything_is_written() {
    let here = tmpfs();
    let directory = here.path().to_str().unwrap();
    let machine = Machine::with(&[]);
    let tree = machine.tree();
    for (arguments, message) in [
        (vec!["size", "--device", directory], "name a directory on a disk"),
        (vec!["size", "--device", "sdzz"], "no device is called 'sdzz'"),
        (vec!["size", "--device", directory, "--device", directory], "are both on"),
        (vec!["size", "--device", "vda", "--root", tree.to_str().unwrap()], "captured tree"),
        (vec!["size", "--device", "vda", "--rate", "66MB/s"], "the others need names"),
        (vec!["size", "--rate", "66MB/s", "--yes"], "go with --apply"),
        (vec!["size", "--device", "vda", "--sample", "100"], "needs a unit"),
    ] {
        let output = floodwall(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{arguments:?}: {}", stderr(&output));
    }
    assert!(fs::read_dir(here.path()).unwrap().next().is_none());
}
