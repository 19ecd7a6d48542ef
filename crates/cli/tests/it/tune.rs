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
    assert_eq!(json["trials_run"].as_u64().unwrap() as usize, json["trials"].as_array().unwrap().len());
    assert!(json["recommended"]["why"].as_str().unwrap().len() > 20);
    assert!(!json["frontier"].as_array().unwrap().is_empty());
    assert_eq!(stdout(&search()), stdout(&output));
}

#[test]
fn a_search_goes_on_from_a_stored_result() {
    let dir = tmpfs();
    let path = dir.path().join("out.json").to_string_lossy().into_owned();
    let search = |more: &[&str]| {
        let args =
            ["tune", "--sim", "--device", "sata-ssd-worn", "--time", "2m", "--json", "--progress", "never"];
        let victim = ["--victim", "commit,threads=4,size=64MiB"];
        let output = floodwall(&[&args, victim.as_slice(), more].concat());
        assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
        serde_json::from_str::<Value>(&stdout(&output)).unwrap()["trials_run"].as_u64().unwrap()
    };
    let first = search(&["--out", &path]);
    let all = search(&["--resume", &path]);
    assert!(all > first, "{all} after {first}");
}

#[test]
fn mistakes_say_what_to_do() {
    let dir = tmpfs();
    let bad = dir.path().join("bad.json");
    std::fs::write(&bad, "{\"schema\": \"floodwall/result/1\", \"trials\": NaN}").unwrap();
    let bad = bad.to_string_lossy().into_owned();
    for (args, part) in [
        (&["tune", "--sim", "--device", "hdd-7200", "--time", "5s"][..], "too short to find anything"),
        (&["tune", "--sim", "--device", "hdd-9999"], "--device"),
        (&["tune", "--sim", "--device", "hdd-7200", "--flood", "none"], "needs a victim and a flood"),
        (&["tune", "--sim", "--device", "hdd-7200", "--resume", "/nonexistent"], "--resume '/nonexistent'"),
        (&["tune", "--sim", "--device", "hdd-7200", "--resume", &bad], "can't read the result"),
        (&["tune", "--persist"], "--apply"),
        (&["compare", "/dev/shm"], "--set"),
    ] {
        let output = floodwall(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
}
