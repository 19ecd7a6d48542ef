//! `floodwall why` and `floodwall` alone, on this machine whatever it does; its advice on a
//! captured machine.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use floodwall_host::SysRoot;
use floodwall_host::findings::{About, DiskUser, Look, diagnose};
use floodwall_host::status::{Observation, status};
use floodwall_model::Reading;
use floodwall_model::diagnosis::Verdict;
use floodwall_model::workload::Workload;
use floodwall_testing::process::output;
use floodwall_testing::tree::put;
use serde_json::Value;

use crate::knobs::Machine;
use crate::{floodwall, stderr, stdout, tmpfs};

/// The statuses of an answer: nothing waits long, a process does, it can't be told.
const ANSWERED: [Option<i32>; 3] = [Some(0), Some(1), Some(4)];

#[test]
fn without_a_command_the_machine_is_diagnosed() {
    let narrow = Command::new(env!("CARGO_BIN_EXE_floodwall")).env("COLUMNS", "60").output();
    let alone = narrow.unwrap();
    assert!(ANSWERED.contains(&alone.status.code()), "{alone:?}");
    let text = stdout(&alone);
    assert!(text.contains("waits") || text.contains("waited"), "{text}");
    let too_wide = text.lines().find(|line| line.chars().count() > 60 && line.contains(' '));
    assert_eq!(too_wide, None, "{text}");
}

#[test]
fn programs_get_a_document_and_the_verdict_as_status() {
    let answer = floodwall(&["why", "--json"]);
    let document: Value = serde_json::from_str(&stdout(&answer)).unwrap();
    assert_eq!(document["schema"], "floodwall/why/1");
    let status = match document["verdict"].as_str() {
        Some("quiet" | "flooding") => 0,
        Some("stalling") => 1,
        Some("unknown") => 4,
        other => panic!("{other:?}"),
    };
    assert_eq!(answer.status.code(), Some(status), "{document}");
}

#[test]
fn an_argument_that_names_nothing_is_refused_with_what_may_be_named() {
    let tmpfs = tmpfs();
    let on_tmpfs = tmpfs.path().to_str().unwrap();
    let wrong = [
        ("no-such-thing", "nothing here is called 'no-such-thing'"),
        ("/dev/no-such-disk", "'/dev/no-such-disk' is no block device"),
        ("/no/such/place", "'/no/such/place'"),
        ("4294967295", "there is no process 4294967295"),
        ("4095:4095", "there is no block device 4095:4095"),
        (on_tmpfs, "is on tmpfs, which no disk holds"),
    ];
    for (argument, said) in wrong {
        let refused = floodwall(&["why", argument]);
        assert_eq!(refused.status.code(), Some(2), "{argument}: {}", stdout(&refused));
        assert!(stderr(&refused).contains(said), "{argument}: {}", stderr(&refused));
        assert_eq!(stdout(&refused), "");
    }
    let no_command = floodwall(&["no-such-thing"]);
    assert_eq!(no_command.status.code(), Some(2));
}

#[test]
fn a_fix_changes_nothing_where_nothing_is_named_or_wrong() {
    let wrong = floodwall(&["fix", "no-such-thing", "--dry-run"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(stderr(&wrong).contains("nothing here is called 'no-such-thing'"), "{wrong:?}");
    let refused = floodwall(&["fix", "--time", "30m"]);
    assert_eq!(refused.status.code(), Some(2), "a search's time without a search: {refused:?}");
    // Without a stall there is nothing to fix, whatever else the machine does.
    let answer = floodwall(&["fix", "--dry-run"]);
    assert!(ANSWERED.contains(&answer.status.code()), "{answer:?}");
    let told = stdout(&answer);
    let quiet = "There is nothing to fix now.";
    assert!(!told.contains("no process waited long") || told.contains(quiet), "{told}");
}

#[test]
fn help_lists_why_first() {
    let help = output(Command::new(env!("CARGO_BIN_EXE_floodwall")).arg("--help")).unwrap();
    let text = stdout(&help);
    let first = text.lines().skip_while(|line| *line != "Commands:").nth(1).unwrap();
    assert!(first.trim_start().starts_with("why "), "{text}");
    assert!(text.contains("Without a command: why."), "{text}");
}

#[test]
fn what_is_advised_is_taken_as_it_is_printed() {
    let group = "sys/fs/cgroup/system.slice/backup.service";
    let machine = Machine::new();
    for (file, text) in [
        ("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n"),
        ("sys/fs/cgroup/system.slice/cgroup.procs", ""),
        (&format!("{group}/memory.high"), "max\n"),
        (&format!("{group}/memory.current"), "8192\n"),
        (&format!("{group}/memory.stat"), "file 4096\nshmem 0\n"),
        (&format!("{group}/io.max"), ""),
        (&format!("{group}/cgroup.procs"), ""),
    ] {
        put(&machine.tree().join(file), text);
    }
    // Where it was captured a tmpfs is there, with version 2 below it.
    let mounts = machine.tree().join("proc/self/mountinfo");
    let text = std::fs::read_to_string(&mounts).unwrap();
    let lines = text.lines().filter(|line| !line.contains("/sys/fs/cgroup rw"));
    let lines: Vec<&str> = lines.collect();
    put(&mounts, &(lines.join("\n").replace("/cgroup/unified", "/cgroup") + "\n"));
    let advised = advice(&machine);
    assert!(advised.contains("unit:backup.service:vda.io.max"), "{advised}");
    assert!(advised.contains("vda.bdi.max_bytes"), "{advised}");
    // A kernel that has no good limit of one disk.
    put(&machine.tree().join("proc/sys/kernel/osrelease"), "6.1.0-25-amd64\n");
    assert!(advice(&machine).contains("vm.dirty_bytes"));
    // Below a small limit a group needs more memory for its page cache.
    put(&machine.tree().join("proc/sys/vm/dirty_bytes"), "268435456\n");
    let vmstat = machine.tree().join("proc/vmstat");
    let text = std::fs::read_to_string(&vmstat).unwrap();
    let lines = text.lines().map(|line| match line.strip_prefix("nr_dirty_threshold ") {
        Some(_) => "nr_dirty_threshold 65536".to_owned(),
        None => line.to_owned(),
    });
    put(&vmstat, &lines.collect::<Vec<_>>().join("\n"));
    assert!(advice(&machine).contains("unit:backup.service:memory.high"));
}

/// What is advised where a copy in `backup.service` floods the disk; each change is rehearsed.
fn advice(machine: &Machine) -> String {
    let root = SysRoot::new(&machine.tree()).unwrap();
    let moment = Observation::read(&root);
    let status = status(&root, &moment, &moment, 1.0, true);
    let copy = DiskUser {
        pid: 4810,
        name: "cp".to_owned(),
        disk: status.devices[0].id,
        waited_s: 0.0,
        committing_s: 0.0,
        commits: 0,
        waits_for_commits: true,
        median_s: None,
        oldest_s: 0.0,
        dirtied_bytes: 400_000_000,
        earlier_bytes: 0,
        group: Reading::Value("/system.slice/backup.service".to_owned()),
        workload: Workload::default(),
    };
    let look = Look {
        status: &status,
        users: &[copy],
        own: &[],
        group_memory: &BTreeMap::new(),
        limited_groups: &BTreeSet::new(),
        guarded: &[],
        source: "bpf",
        is_root: true,
        sees_waits: true,
        waited_percent: &Reading::Value(0.0),
        unseen: &[],
    };
    let diagnosis = diagnose(look, &About::Machine);
    assert_eq!(diagnosis.verdict, Verdict::Flooding);
    let commands = diagnosis.actions.iter().filter_map(|action| action.command.as_deref());
    let changes: Vec<&str> =
        commands.filter_map(|command| command.strip_prefix("floodwall apply ")).collect();
    for change in &changes {
        let shown = machine.done(&format!("apply --dry-run {change}"));
        assert!(shown.contains("after 10 min"), "{change}: {shown}");
    }
    changes.join("\n")
}
