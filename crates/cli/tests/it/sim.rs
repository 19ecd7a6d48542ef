//! `floodwall sim`: the same command gives the same bytes. An impossible machine is refused with
//! the possible ones.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::{floodwall, stderr, stdout};

/// A scenario that is over in a few virtual seconds.
const TINY: &str = r#"
name = "tiny"
burst = "4MiB"
[[victim]]
name = "db"
kind = "commit"
threads = 2
block = "4KiB"
size = "4MiB"
[[flood]]
name = "copy"
kind = "seq"
size = "256MiB"
[timing]
rounds = 1
measure = "2s"
warmup_max = "1s"
settle = "10ms"
device_cache = "1B"
"#;

/// Runs a tiny scenario on a small machine; later arguments win.
fn sim(scenario: &str, args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tiny.toml");
    fs::write(&file, scenario).unwrap();
    let file = file.to_string_lossy().into_owned();
    let mut all = vec!["sim", "--device", "hdd-7200", "--ram", "1GiB", "--scenario", &file];
    all.extend(args);
    floodwall(&all)
}

/// A run that is done or measured without being conclusive, which so short a one may be.
fn ran(args: &[&str]) -> Output {
    let output = sim(TINY, args);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{args:?}: {}", stderr(&output));
    output
}

fn json(args: &[&str]) -> Value {
    let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&stdout(&ran(&all))).unwrap()
}

#[test]
fn help_names_kernels_filesystems_and_examples() {
    let output = floodwall(&["sim", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = stdout(&output);
    for part in [
        "--device <PRESET|FILE.toml>",
        "--kernel <RELEASE>",
        "--ram <SIZE>",
        "--set <KNOB=VALUE[,KNOB=VALUE…]>",
        "--explain",
        "2.6.18, 2.6.32, 3.2, 6.18",
        "taken as the nearest of them",
        "xfs, ext4, ext3, ext3-writeback, btrfs, raw, nfs, nfs-async",
        "floodwall sim --device raid10-bbwc-2010",
        "sweep",
    ] {
        assert!(help.contains(part), "{part} is not in {help}");
    }
    let output = floodwall(&["sim"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("--device PRESET|FILE.toml is missing"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_groups_of_victims_and_floods_take_what_people_write_and_read_back_as_the_kernel_prints_it() {
    let document =
        json(&["--set", "flood:io.max=wbps=20MB,wiops=max", "--set", "flood:memory.high=64MiB"]);
    let setting = &document["trials"][0]["setting"];
    assert_eq!(setting["flood:io.max"], "rbps=max wbps=20000000 riops=max wiops=max");
    assert_eq!(setting["flood:memory.high"], "67108864");
    for (set, kernel, part) in [
        ("flood:io.max=wbps=20", "6.18", "needs a unit"),
        ("flood:io.max=wbps=0B", "6.18", "wbps=0B is out of range; give at least 2 a second"),
        ("flood:io.max=bps=20MB", "6.18", "'bps=20MB' is not understood"),
        ("flood:io.weight=100", "6.18", "the model does not have flood:io.weight"),
        ("flood:io.maxx=wbps=20MB", "6.18", "there is no knob 'flood:io.maxx'"),
        ("flood:io.max=wbps=20MB", "3.2", "Linux 3.2 has no flood:io.max"),
    ] {
        let output = sim(TINY, &["--set", set, "--kernel", kernel]);
        assert!(stderr(&output).contains(part), "{set}: {}", stderr(&output));
    }
}

#[test]
fn a_list_of_settings_is_taken_as_compare_takes_it() {
    let set = "vm.dirty_bytes=64MiB,vm.dirty_background_bytes=16MiB,flood:io.max=wbps=20MB,\
               wiops=max";
    let setting = &json(&["--set", set])["trials"][0]["setting"];
    assert_eq!(setting["vm.dirty_bytes"], "67108864");
    assert_eq!(setting["vm.dirty_background_bytes"], "16777216");
    assert_eq!(setting["flood:io.max"], "rbps=max wbps=20000000 riops=max wiops=max");
}

#[test]
fn what_no_simulated_machine_has_is_in_the_document_alone() {
    let shown = stdout(&ran(&[]));
    assert!(!shown.contains("not measured: host.distribution"), "{shown}");
    let missing = json(&[])["missing"].to_string();
    assert!(missing.contains("host.distribution"), "{missing}");
}

#[test]
fn no_flood_has_to_fill_a_larger_cache_than_the_device_has() {
    let asked = TINY.replace("device_cache = \"1B\"", "device_cache = \"1GiB\"");
    let document: Value = serde_json::from_str(&stdout(&sim(&asked, &["--json"]))).unwrap();
    assert_eq!(document["scenario"]["timing"]["device_cache_bytes"], 32 << 20, "of hdd-7200");
}

#[test]
fn what_was_not_conclusive_is_in_the_document_and_on_stderr() {
    let output =
        sim(TINY, &["--flood", "seq,rate=1MB/s,size=64MiB", "--device", "cloud-gp3", "--json"]);
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let verdict = &document["verdict"];
    assert_eq!(verdict["outcome"], "inconclusive", "{verdict}");
    assert_eq!(output.status.code(), Some(3));
    let sentence = verdict["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("Not conclusive: "), "{sentence}");
    assert!(stderr(&output).contains(sentence), "{}", stderr(&output));
}

#[test]
fn a_kernel_that_stands_for_another_is_said() {
    for (args, said) in [
        (["--kernel", "5.15"], "Linux 5.15 is not modelled: it is taken as 6.18"),
        (["--kernel", "2.6.33"], "Linux 2.6.33 is not modelled: it is taken as 2.6.32"),
        (["--hz", "300"], "300 timer ticks a second are not modelled: 250 are taken"),
    ] {
        let output = ran(&args);
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
    let taken = "Linux 6.12 is not modelled: it is taken as 6.18";
    assert!(stderr(&ran(&["--kernel", "6.12"])).contains(taken));
    assert_eq!(json(&["--kernel", "6.12"])["warnings"], serde_json::json!([taken]));
    for kernel in ["6.18", "6.18.5", "3.2.55"] {
        assert!(!stderr(&ran(&["--kernel", kernel])).contains("is taken as"), "{kernel}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_in_every_format() {
    for format in [&[][..], &["--json"], &["--markdown"], &["--explain"]] {
        let with = |seed: &str| {
            let args: Vec<&str> = format.iter().copied().chain(["--seed", seed]).collect();
            let output = ran(&args);
            (output.stdout, output.stderr)
        };
        let first = with("7");
        assert!(!first.0.is_empty());
        assert_eq!(first, with("7"), "{format:?}");
        if format == ["--json"] {
            assert_ne!(first.0, with("8").0, "another seed gives other offsets");
        }
    }
}

#[test]
fn a_document_has_the_names_that_scripts_rely_on_and_the_settings_in_force() {
    let document = json(&[
        "--set",
        "vm.dirty_bytes=64MiB",
        "--set",
        "scheduler=bfq",
        "--kernel",
        "6.1",
        "--rounds",
        "2",
    ]);
    assert_eq!(document["schema"], "floodwall/result/1");
    assert_eq!(document["command"], "sim");
    assert_eq!(document["host"]["kernel"], "6.18 (simulated)");
    assert_eq!(document["host"]["ram_bytes"], 1u64 << 30);
    assert_eq!(document["device"]["name"], "hdd-7200");
    let trial = &document["trials"][0];
    let setting = &trial["setting"];
    assert_eq!(setting["vm.dirty_bytes"], "67108864");
    assert_eq!(
        setting["vm.dirty_ratio"], "0",
        "the other half of the pair, as the kernel reads it"
    );
    assert_eq!(setting["scheduler"], "bfq");
    assert_eq!(setting["wbt_lat_usec"], "0", "wbt gives way to bfq");
    let names: Vec<&str> =
        trial["phases"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    for phase in trial["phases"].as_array().unwrap() {
        match phase["name"].as_str().unwrap() {
            "victim" | "both" => {
                let victim = &phase["victim"];
                assert!(victim["iops"].as_f64().unwrap() > 0.0, "{phase}");
                let commit = &victim["commit_us"];
                let (median, slowest) =
                    (commit["p50"].as_f64().unwrap(), commit["max"].as_f64().unwrap());
                assert!(median > 0.0 && slowest >= median, "{commit}");
            }
            "flood" => assert!(phase["flood"]["bytes_per_s"].as_f64().unwrap() > 1e6, "{phase}"),
            _ => {}
        }
    }
    for figure in ["victim_kept", "flood_kept", "burst_kept", "dead_seconds"] {
        assert!(
            document["summary"][figure]["value"].is_number(),
            "{figure}: {}",
            document["summary"]
        );
    }
}

#[test]
fn a_setting_changes_what_is_measured() {
    let victim = |args: &[&str]| {
        let document = json(args);
        let phases = document["trials"][0]["phases"].as_array().unwrap();
        let both = phases.iter().find(|p| p["name"] == "both").unwrap();
        both["intervals"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|i| i["host"]["dirty_bytes"].as_f64())
            .fold(0.0, f64::max)
    };
    let (default, limited) = (victim(&[]), victim(&["--set", "vm.dirty_bytes=16MiB"]));
    assert!(
        limited <= (17 << 20) as f64 && default > 4.0 * limited,
        "{default} and {limited} B dirty"
    );
}

#[test]
fn explain_says_where_the_time_of_three_operations_of_each_phase_went() {
    // Beside a document for programs it goes to stderr.
    let beside = ran(&["--explain", "--json"]);
    serde_json::from_str::<Value>(&stdout(&beside)).unwrap();
    assert!(stderr(&beside).contains("where the time of one operation"), "{}", stderr(&beside));
    let output = ran(&["--explain"]);
    assert!(!stderr(&output).contains("where the time"), "{}", stderr(&output));
    let said = stdout(&output);
    for phase in ["victim: ", "both: "] {
        let at = said
            .find(&format!("{phase}where the time of one operation of "))
            .unwrap_or_else(|| panic!("{said}"));
        let lines: Vec<&str> = said[at..].lines().skip(1).take(3).collect();
        for (line, name) in lines.iter().zip(["median", "p99", "slowest"]) {
            assert!(line.trim_start().starts_with(name), "{line}");
            // Every part is a share of the whole, and together they are the whole.
            let percents: Vec<f64> = line
                .split('(')
                .skip(1)
                .map(|part| part.split(' ').next().unwrap().parse().unwrap())
                .collect();
            let sum: f64 = percents.iter().sum();
            assert!((90.0..=104.0).contains(&sum), "{sum} % in {line}");
        }
        assert!(
            lines.iter().any(|line| line.contains("device") || line.contains("flush")),
            "{lines:?}"
        );
    }
}

#[test]
fn what_can_not_be_simulated_is_refused_with_what_can() {
    for (args, part) in [
        (
            &["--kernel", "2.6.32", "--set", "scheduler=kyber"][..],
            "kernel 2.6.32 has no elevator 'kyber': it has noop, anticipatory, deadline, cfq",
        ),
        (
            &["--kernel", "2.6.18", "--set", "vm.dirty_bytes=15MB"],
            "Linux 2.6.18 has no vm.dirty_bytes; it has vm.dirty_ratio",
        ),
        (&["--kernel", "3.2", "--set", "bdi.strict_limit=1"], "Linux 3.2 has no bdi.strict_limit"),
        (
            &["--kernel", "2.4"],
            "'2.4' is no kernel that the model has; use 2.6.18, 2.6.32, 3.2 or 6.18",
        ),
        (
            &["--set", "vm.dirty_bytes=2GiB"],
            "RAM of 1 GiB is smaller than what may be dirty in it (2 GiB)",
        ),
        (&["--ram", "1MiB"], "RAM of 1 MiB is too little"),
        (&["--set", "vm.dirty_bytes=100"], "needs a unit"),
        (&["--set", "vm.dirty_bytes"], "write KNOB=VALUE"),
        (&["--set", "shceduler=none"], "did you mean scheduler"),
        (&["--set", "nr_requests=3000"], "nr_requests can't be '3000': it takes 4 to 2048"),
        (&["--fs", "nfs", "--set", "scheduler=none"], "an NFS mount has no request queue"),
        (
            &["--victim-cmd", "pgbench"],
            "a command can't run in virtual time; describe it by a kind such as commit or read",
        ),
        (
            &["--flood-cmd", "cp a b"],
            "a command can't run in virtual time; describe it by a kind such as seq or files",
        ),
        (&["--victim", "commit,size=10TiB"], "needs"),
        (
            &["--capacity", "100MiB"],
            "the device has 100 MiB; make its files smaller or the device larger",
        ),
        (&["--device", "hdd-7201"], "did you mean 'hdd-7200'"),
        (&["--device", "./nowhere.toml"], "can't read the device file './nowhere.toml'"),
        (&["--fs", "reiserfs"], "'reiserfs' is no filesystem that the model has"),
        (&["--hz", "0"], "'0' is out of range: give 1 to "),
        (&["--set", "vm.dirty_bytes=64MiB,schedular=none"], "did you mean scheduler"),
    ] {
        let output = sim(TINY, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{args:?}: {}", stdout(&output));
    }
}

#[test]
fn a_scenario_file_that_asks_for_too_much_says_which_part() {
    let command = TINY.replace(
        "name = \"copy\"\nkind = \"seq\"\nsize = \"256MiB\"",
        "name = \"copy\"\nkind = \"command\"\ncommand = \"cp a b\"",
    );
    let output = sim(&command, &[]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("flood 'copy': a command can't run in virtual time"),
        "{}",
        stderr(&output)
    );
    let output = sim(&TINY.replace("threads = 2", "threds = 2"), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("threds"), "{}", stderr(&output));
}

#[test]
fn results_go_where_they_are_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    let (out, csv) = (dir.path().join("out.json"), dir.path().join("out.csv"));
    let output =
        ran(&["--json", "--out", &out.to_string_lossy(), "--timeline", &csv.to_string_lossy()]);
    assert_eq!(fs::read(&out).unwrap(), output.stdout);
    assert!(fs::read_to_string(&csv).unwrap().lines().count() > 4);
    // Told before anything is simulated.
    let nowhere = dir.path().join("no/such/place.json");
    let output = sim(TINY, &["--out", &nowhere.to_string_lossy()]);
    assert!(
        !output.status.success() && stderr(&output).contains("place.json"),
        "{}",
        stderr(&output)
    );
}
