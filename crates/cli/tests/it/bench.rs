//! `floodwall bench`: the paths that do not need a disk.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{floodwall, stderr, stdout, tmpfs};

/// A scenario that is over in two seconds.
const TINY: &str = r#"
name = "tiny"
burst = "1MiB"
[[victim]]
kind = "commit"
threads = 2
block = "4KiB"
size = "1MiB"
[[flood]]
kind = "seq"
size = "8MiB"
[timing]
rounds = 1
measure = "1s"
warmup_max = "1s"
settle = "10ms"
device_cache = "1B"
"#;

fn tiny(dir: &Path) -> String {
    let path = dir.join("tiny.toml");
    fs::write(&path, TINY).unwrap();
    path.to_string_lossy().into_owned()
}

/// Names in a directory, the scenario file aside.
fn left(dir: &Path) -> Vec<String> {
    let names =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|n| !n.ends_with(".toml") && !n.starts_with("out.")).collect()
}

#[test]
fn a_run_writes_every_format_and_leaves_nothing_else() {
    let dir = tmpfs();
    let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let (json, hlog, csv) = (at("out.json"), at("out.hlog"), at("out.csv"));
    let output = floodwall(&[
        "bench",
        "--force",
        "--scenario",
        &tiny(dir.path()),
        "--json",
        "--out",
        &json,
        "--hlog",
        &hlog,
        "--timeline",
        &csv,
        &dir.path().to_string_lossy(),
    ]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
    let printed: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(printed["schema"], "floodwall/result/1");
    assert_eq!(printed["command"], "bench");
    let stored: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(printed, stored);
    for phase in printed["trials"][0]["phases"].as_array().unwrap() {
        if phase["name"] == "victim" || phase["name"] == "both" {
            let ops = phase["victim"]["ops"].as_u64().unwrap();
            assert!(ops > 0, "{phase}");
            let counted: u64 = phase["intervals"]
                .as_array()
                .unwrap()
                .iter()
                .map(|i| i["victim"]["ops"].as_u64().unwrap())
                .sum();
            assert_eq!(ops, counted);
        }
    }
    assert!(fs::read_to_string(hlog).unwrap().contains("Tag=commit"));
    assert!(fs::read_to_string(csv).unwrap().lines().count() >= 3);
    assert_eq!(left(dir.path()), Vec::<String>::new());
}

#[test]
fn a_filesystem_without_writeback_is_refused_with_the_reason() {
    let dir = tmpfs();
    let output =
        floodwall(&["bench", "--scenario", &tiny(dir.path()), &dir.path().to_string_lossy()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("tmpfs") && stderr(&output).contains("--force"),
        "{}",
        stderr(&output)
    );
    assert_eq!(left(dir.path()), Vec::<String>::new());
}

#[test]
fn wrong_usage_has_status_2_and_says_what_to_do() {
    let dir = tmpfs();
    let here = dir.path().to_string_lossy().into_owned();
    let missing = dir.path().join("missing/x.json").to_string_lossy().into_owned();
    let wrong_key = dir.path().join("wrong.toml");
    fs::write(&wrong_key, "name = \"x\"\n[[victim]]\nkind = \"commit\"\nthread = 1\n").unwrap();
    let wrong_key = wrong_key.to_string_lossy().into_owned();
    for (args, part) in [
        (&[missing.as_str()][..], missing.as_str()),
        (&["--force", "--victim", "commit,threads=0", &here], "threads = 0"),
        (&["--force", "--victim", "commit,block=4MiB,size=1MiB", &here], "larger than a file"),
        (&["--force", "--victim", "read,block=1000B,size=1MiB", &here], "not a multiple of 512"),
        (
            &["--force", "--scenario", &wrong_key, &here],
            "line 4: unknown key 'thread'; did you mean 'threads'?",
        ),
        (&["--force", "--scenario", "copy-vs-databse", &here], "did you mean 'copy-vs-database'"),
        (&["--force", "--size", "400", &here], "needs a unit"),
        (&["--force", "--out", &missing, &here], &missing),
        (&["--force", "--size", "1MiB", &here], "smallest useful size"),
    ] {
        let args: Vec<&str> = std::iter::once("bench").chain(args.iter().copied()).collect();
        let output = floodwall(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
        assert_eq!(
            stderr(&output)
                .trim_end()
                .lines()
                .filter(|l| l.starts_with("floodwall:"))
                .count()
                .max(1),
            1
        );
    }
    assert_eq!(left(dir.path()), Vec::<String>::new());
}

#[test]
fn a_file_that_can_not_be_written_is_refused_before_anything_is_measured() {
    let dir = tmpfs();
    let there = dir.path().to_string_lossy().into_owned();
    for option in ["--out", "--hlog", "--timeline"] {
        let output = floodwall(&["bench", &there, "--measure", "1h", option, "/proc/x.json"]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let said = stderr(&output);
        assert!(
            said.contains("can't write '/proc/x.json': no file can be made in its directory"),
            "{said}"
        );
    }
    assert_eq!(left(dir.path()), Vec::<String>::new());
}

#[test]
fn a_command_that_fails_or_is_missing_is_reported_with_its_words() {
    let dir = tmpfs();
    let here = dir.path().to_string_lossy().into_owned();
    let scenario = tiny(dir.path());
    for (command, part) in [
        ("echo no such table >&2; exit 3", "no such table"),
        ("surely-not-installed-x", "not found"),
    ] {
        let output = floodwall(&[
            "bench",
            "--force",
            "--scenario",
            &scenario,
            "--victim-cmd",
            command,
            &here,
        ]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    assert_eq!(left(dir.path()), Vec::<String>::new());
}

#[test]
fn commands_can_be_victim_and_flood() {
    let dir = tmpfs();
    let output = floodwall(&[
        "bench",
        "--force",
        "--json",
        "--rounds",
        "1",
        "--measure",
        "1s",
        "--no-burst",
        "--scenario",
        &tiny(dir.path()),
        "--victim-cmd",
        "while :; do echo x >> log; done",
        "--flood-cmd",
        "while :; do head -c 100000 /dev/zero > big; done",
        &dir.path().to_string_lossy(),
    ]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let both = json["trials"][0]["phases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["name"] == "both")
        .unwrap()
        .clone();
    assert!(both["victim"]["ops"].as_u64().unwrap() > 10, "{}", both["victim"]);
    assert!(both["flood"]["bytes"].as_u64().unwrap() > 100_000, "{}", both["flood"]);
}

#[test]
fn scenarios_are_listed_and_shown() {
    let list = stdout(&floodwall(&["bench", "--list-scenarios"]));
    assert!(list.lines().any(|l| l.starts_with("copy-vs-database-2010 ")), "{list}");
    let shown = stdout(&floodwall(&["bench", "--show-scenario", "copy-vs-database-2010"]));
    assert!(shown.contains("threads = 10"), "{shown}");
    let wrong = floodwall(&["bench", "--show-scenario", "copy"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn a_baseline_is_read_before_anything_is_written() {
    let dir = tmpfs();
    let path = dir.path().join("out.json");
    fs::write(&path, "{\"schema\": \"something/else\"}").unwrap();
    let output = floodwall(&[
        "bench",
        "--force",
        "--baseline",
        &path.to_string_lossy(),
        &dir.path().to_string_lossy(),
    ]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("floodwall/result/1"), "{}", stderr(&output));
}
