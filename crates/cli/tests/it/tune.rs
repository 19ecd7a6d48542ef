//! `floodwall compare` and `tune`: what needs neither a disk nor root.

use serde_json::Value;

use crate::{floodwall, stderr, stdout, tmpfs};

#[test]
fn a_search_on_a_simulated_machine_is_the_same_every_time_and_keeps_its_time() {
    let search = || {
        floodwall(&[
            "tune",
            "--sim",
            "--device",
            "sata-ssd-worn",
            "--time",
            "4m",
            "--json",
            "--progress",
            "never",
            "--victim",
            "commit,threads=4,size=64MiB",
        ])
    };
    let output = search();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["schema"], "floodwall/result/1");
    assert_eq!(json["command"], "tune");
    assert!(json["seconds"].as_f64().unwrap() <= 240.0, "{}", json["seconds"]);
    assert_eq!(
        json["trials_run"].as_u64().unwrap() as usize,
        json["trials"].as_array().unwrap().len()
    );
    assert!(json["recommended"]["why"].as_str().unwrap().len() > 20);
    assert!(!json["frontier"].as_array().unwrap().is_empty());
    assert_eq!(stdout(&search()), stdout(&output));
}

#[test]
fn a_search_goes_on_from_a_stored_result() {
    let dir = tmpfs();
    let path = dir.path().join("out.json").to_string_lossy().into_owned();
    let search = |more: &[&str]| {
        let args = [
            "tune",
            "--sim",
            "--device",
            "sata-ssd-worn",
            "--time",
            "2m",
            "--json",
            "--progress",
            "never",
        ];
        let victim = ["--victim", "commit,threads=4,size=64MiB"];
        let output = floodwall(&[&args, victim.as_slice(), more].concat());
        assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
        serde_json::from_str::<Value>(&stdout(&output)).unwrap()["trials_run"].as_u64().unwrap()
    };
    let first = search(&["--out", &path]);
    let all = search(&["--resume", &path]);
    assert!(all > first, "{all} after {first}");
}

/// A short search on a simulated disk, with its result as JSON.
fn stored(dir: &std::path::Path) -> (String, Value) {
    let path = dir.join("stored.json").to_string_lossy().into_owned();
    let output = floodwall(&[&SHORT[..], &["--out", &path]].concat());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
    let json = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    (path, json)
}

const SHORT: [&str; 11] = [
    "tune",
    "--sim",
    "--device",
    "sata-ssd-worn",
    "--time",
    "3m",
    "--json",
    "--progress",
    "never",
    "--victim",
    "commit,threads=4,size=64MiB",
];

#[test]
fn trials_of_another_situation_are_refused_knob_by_knob() {
    let dir = tmpfs();
    let (path, mut json) = stored(dir.path());
    json["trials"][0]["setting"]["nr_requests"] = "7".into();
    json["device"]["name"] = "usb-stick".into();
    std::fs::write(&path, json.to_string()).unwrap();
    let output = floodwall(&[&SHORT[..], &["--resume", &path]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("the device is sata-ssd-worn here and was usb-stick"), "{said}");
    assert!(said.contains("nr_requests is 64 here and was 7"), "{said}");
    assert!(said.contains("begin anew without --resume"), "{said}");
}

#[test]
fn a_stored_result_without_figures_is_no_start() {
    let dir = tmpfs();
    let (path, json) = stored(dir.path());
    let resumed = |json: &Value| {
        std::fs::write(&path, json.to_string()).unwrap();
        let output = floodwall(&[&SHORT[..], &["--resume", &path]].concat());
        (output.status.code(), stderr(&output))
    };
    // JSON has no NaN: a missing number is null, or absent.
    let mut null = json.clone();
    null["trials"][0]["phases"][0]["seconds"] = Value::Null;
    let (code, said) = resumed(&null);
    assert!(code == Some(2) && said.contains("can't read the result"), "{code:?}: {said}");
    let mut empty = json.clone();
    for trial in empty["trials"].as_array_mut().unwrap() {
        trial["phases"] = serde_json::json!([]);
    }
    let (code, said) = resumed(&empty);
    assert!(code == Some(2) && said.contains("no complete trial"), "{code:?}: {said}");
    // One trial of many that says nothing is left out.
    let mut zero = json;
    for phase in zero["trials"][1]["phases"].as_array_mut().unwrap() {
        phase["seconds"] = 0.into();
    }
    let (code, said) = resumed(&zero);
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {said}");
}

#[test]
fn without_a_terminal_a_search_has_a_line_for_each_of_its_parts() {
    let quiet = SHORT.iter().position(|arg| *arg == "--progress").unwrap();
    let output = floodwall(&[&SHORT[..quiet], &SHORT[quiet + 2..]].concat());
    let said = stderr(&output);
    let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with("warning: ")).collect();
    let parts = [
        "measuring what is possible (",
        "trying settings (",
        "comparing the best with the setting in force (",
    ];
    assert!(lines.len() >= 2 && lines.len() <= parts.len(), "{said}");
    for (line, part) in lines.iter().zip(parts) {
        assert!(line.starts_with(part) && line.ends_with(" left)"), "{said}");
    }
}

#[test]
fn a_target_that_nothing_meets_is_said_with_the_best_that_can() {
    let output = floodwall(&[&SHORT[..], &["--p99", "1us"]].concat());
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let why = json["recommended"]["why"].as_str().unwrap();
    assert!(why.contains("The target of 1.00 µs can't be met here:"), "{why}");
    assert!(why.contains("is the best that was found"), "{why}");
}

#[test]
fn mistakes_say_what_to_do() {
    let dir = tmpfs();
    let bad = dir.path().join("bad.json");
    std::fs::write(&bad, "{\"schema\": \"floodwall/result/1\", \"trials\": NaN}").unwrap();
    let bad = bad.to_string_lossy().into_owned();
    let missing = dir.path().join("missing").to_string_lossy().into_owned();
    for (args, part) in [
        (
            &["tune", "--sim", "--device", "hdd-7200", "--time", "5s"][..],
            "too short to find anything",
        ),
        (
            &["tune", "--export", "nope", "."],
            "known here: sysctl, udev, tuned, systemd-tmpfiles, systemd-drop-in",
        ),
        (&["tune", "--sim", "--device", "hdd-7200", "--export", "sysctl"], "can't go with"),
        (&["tune", "--sim", "--device", "hdd-7200", "--apply", "--persist"], "can't go with"),
        (&["tune", "--sim", "--device", "hdd-7200", "--persist"], "can't go with"),
        (&["tune", "--sim", "--device", "hdd-9999"], "--device"),
        (
            &["tune", "--sim", "--device", "hdd-7200", "--flood", "none"],
            "needs a victim and a flood",
        ),
        (&["tune", "--sim", "--device", "hdd-7200", "--resume", &missing], missing.as_str()),
        (&["tune", "--sim", "--device", "hdd-7200", "--resume", &bad], "can't read the result"),
        (&["tune", "--persist"], "--apply"),
        (&["compare", "/dev/shm"], "--set"),
    ] {
        let output = floodwall(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_wrong_setting_is_refused_before_room_is_looked_for() {
    let dir = tmpfs();
    let place = dir.path().to_str().unwrap();
    let more = ["--force", "--size", "900TiB", "--set", "vm.dirty_byte=1MB", place];
    for command in [&["compare", "--set", "default"][..], &["tune"]] {
        let output = floodwall(&[command, &more].concat());
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("did you mean vm.dirty_bytes"), "{command:?}: {said}");
    }
}

#[test]
fn a_knob_of_the_floods_group_is_refused_in_one_group_before_anything_is_measured() {
    let dir = tmpfs();
    let (place, journal) = (dir.path().to_str().unwrap(), dir.path().join("journal"));
    let loads = ["--victim", "commit,threads=1,size=1MiB", "--flood", "seq,size=8MiB"];
    let same = ["--force", "--same-group", "--set", "p=flood:memory.high=1GiB", place, "--journal"];
    for command in [&["compare", "--set", "default"][..], &["tune"]] {
        let output = floodwall(&[command, &same, &[journal.to_str().unwrap()], &loads].concat());
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", stderr(&output));
        let refused = "flood:memory.high can't be set: the benchmark has no control group 'flood' \
                       here (--same-group keeps victims and floods in one group); leave \
                       --same-group or the knob out";
        assert!(stderr(&output).contains(refused), "{command:?}: {}", stderr(&output));
    }
}
