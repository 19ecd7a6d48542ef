//! `floodwall status` on this machine and on captured ones.

use std::process::Command;

use floodwall_testing::tree::{host, hosts};
use serde_json::Value;

use crate::{floodwall, stderr, stdout};

#[test]
fn the_state_of_this_machine_is_shown_for_people_and_for_programs() {
    let text = floodwall(&["status", "--seconds", "0.1"]);
    assert!(text.status.success(), "{}", stderr(&text));
    assert!(stdout(&text).contains("dirty"), "{}", stdout(&text));
    let json = floodwall(&["status", "--seconds", "0.1", "--json"]);
    let json: Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(json["schema"], "floodwall/status/1");
}

#[test]
fn every_captured_host_can_be_shown() {
    let mut shown = 0;
    for host in std::fs::read_dir(hosts()).unwrap().flatten().filter(|e| e.path().is_dir()) {
        let root = host.path().to_string_lossy().into_owned();
        let output = floodwall(&["status", "--seconds", "0.1", "--root", &root]);
        assert!(output.status.success(), "{root}: {}", stderr(&output));
        shown += 1;
    }
    assert!(shown >= 3, "{shown} captured hosts");
}

#[test]
fn a_directory_that_holds_no_machine_does_not_pass_for_a_healthy_one() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    for command in ["status", "diff"] {
        let refused = || {
            let output = floodwall(&[command, "--root", root]);
            assert_eq!(output.status.code(), Some(2), "{command}: {}", stdout(&output));
            let said = format!("'{root}' has no proc or sys in it: not a captured tree");
            assert!(stderr(&output).contains(&said), "{command}: {}", stderr(&output));
        };
        refused();
        // As where a system is installed but does not run.
        std::fs::create_dir_all(dir.path().join("proc")).unwrap();
        refused();
    }
    std::fs::write(dir.path().join("proc/meminfo"), "MemTotal: 1024 kB\n").unwrap();
    let output = floodwall(&["status", "--seconds", "0.1", "--root", root]);
    assert_eq!(output.status.code(), Some(0), "a part is enough: {}", stderr(&output));
}

#[test]
fn a_proc_alone_is_no_machine() {
    for command in ["status", "diff"] {
        let output = floodwall(&[command, "--root", "/proc"]);
        assert_eq!(output.status.code(), Some(2), "{command}: {}", stdout(&output));
        let said = "'/proc' is a machine's proc alone; name the directory that holds it";
        assert!(stderr(&output).contains(said), "{command}: {}", stderr(&output));
    }
}

#[test]
fn a_root_that_does_not_exist_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("tree").to_string_lossy().into_owned();
    let output = floodwall(&["status", "--root", &missing]);
    assert_ne!(output.status.code(), Some(0));
    assert!(stderr(&output).contains(&missing), "{}", stderr(&output));
}

#[test]
fn text_is_ascii_where_the_locale_is_not_utf8_and_json_never_changes() {
    let root = host("server-md-crypt-lvm");
    let shown = |locale: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floodwall"));
        command.args(["status", "--seconds", "0.1", "--root"]).arg(&root).args(more);
        command.env("LC_ALL", locale).output().unwrap().stdout
    };
    assert!(!shown("C.UTF-8", &[]).is_ascii());
    let plain = shown("C", &[]);
    assert!(plain.is_ascii(), "{}", String::from_utf8_lossy(&plain));
    assert!(!shown("C", &["--json"]).is_ascii());
    let help = Command::new(env!("CARGO_BIN_EXE_floodwall"))
        .args(["bench", "--help"])
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    assert!(help.status.success() && help.stdout.is_ascii() && !help.stdout.is_empty());
}

#[test]
fn tables_fit_the_columns_that_the_environment_tells() {
    let root = host("server-md-crypt-lvm");
    let widest = |columns: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floodwall"));
        command.args(["status", "--seconds", "0.1", "--root"]).arg(&root).env("LC_ALL", "C.UTF-8");
        match columns {
            Some(columns) => command.env("COLUMNS", columns),
            None => command.env_remove("COLUMNS"),
        };
        let text = stdout(&command.output().unwrap());
        text.lines().map(|line| line.chars().count()).max().unwrap()
    };
    assert!(widest(Some("80")) <= 80);
    assert!((81..=100).contains(&widest(None)));
}
