//! Everything that repeats a stored result: command lines, and the scenario as a file to run.

use std::fmt::Write;

pub use floodwall_model::printable::shell_word as quoted;
use floodwall_model::{Scenario, Setting, scenario};
use serde_json::Value;

use crate::keep;
use crate::schema::Run;
use crate::schema::contest::Outcome;
use crate::study::Study;
use crate::words::person;

/// How a stored number is written in a scenario file: its key there, and its unit.
const WITH_UNIT: &[(&str, &str, &str)] = &[
    ("burst_bytes", "burst", "B"),
    ("block_bytes", "block", "B"),
    ("size_bytes", "size", "B"),
    ("file_bytes", "file_size", "B"),
    ("rate_bytes_per_s", "rate", "B/s"),
    ("rate_per_s", "rate", "/s"),
    ("rate_percent", "rate", "%"),
    ("device_cache_bytes", "device_cache", "B"),
    ("measure_s", "measure", "s"),
    ("warmup_max_s", "warmup_max", "s"),
    ("settle_s", "settle", "s"),
];

/// A stored scenario as a scenario file. `None` if the file would not be read as the same scenario:
/// then the stored form is all there is.
#[must_use]
pub fn scenario_toml(stored: &Value) -> Option<String> {
    let object = stored.as_object()?;
    let mut out = String::new();
    let scalars = |v: &&(&String, &Value)| !v.1.is_array() && !v.1.is_object();
    let entries: Vec<(&String, &Value)> = object.iter().collect();
    for (key, value) in entries.iter().filter(scalars) {
        entry(&mut out, key, value);
    }
    for (key, table) in [("victims", "victim"), ("floods", "flood")] {
        for load in object.get(key).and_then(Value::as_array).into_iter().flatten() {
            let _ = writeln!(out, "\n[[{table}]]");
            // Keys that only some kinds know are written only where they say something.
            for (key, value) in load.as_object()? {
                entry(&mut out, key, value);
            }
        }
    }
    if let Some(timing) = object.get("timing").and_then(Value::as_object) {
        out.push_str("\n[timing]\n");
        for (key, value) in timing {
            entry(&mut out, key, value);
        }
    }
    let read: Scenario = scenario::parse(&out).ok()?;
    // A stored scenario may hold keys that a scenario file does not have.
    (serde_json::to_value(&read).ok()? == *stored).then_some(out)
}

fn entry(out: &mut String, key: &str, value: &Value) {
    let name = WITH_UNIT.iter().find(|(stored, ..)| *stored == key);
    let _ = match (value, name) {
        (Value::Null | Value::Array(_) | Value::Object(_), _) => Ok(()),
        (Value::Number(n), Some((_, name, unit))) => writeln!(out, "{name} = \"{n}{unit}\""),
        (other, _) => writeln!(out, "{key} = {}", toml_value(other)),
    };
}

/// JSON's texts, numbers and truth values are TOML's too, but for a few escapes that TOML lacks.
fn toml_value(value: &Value) -> String {
    value.to_string().replace("\\/", "/")
}

/// The command lines that run a result again, as far as it says how it was run.
pub(crate) fn command_lines(study: &Study<'_>, with_scenario: bool) -> String {
    let run = &study.document.run;
    let command = run.command.split_whitespace().find(|w| *w != "floodwall").unwrap_or("bench");
    let scenario = if with_scenario { " --scenario scenario.toml" } else { "" };
    let simulated = simulated_kernel(run);
    let device = run.device.as_ref().map_or("DEVICE", |d| d.name.as_str());
    let ram = run.host.ram_bytes.map_or_else(String::new, |b| format!(" --ram {b}B"));
    let fs = run.filesystem.as_ref().map_or_else(String::new, |f| format!(" --fs {}", f.kind));
    match (command, simulated) {
        ("tune", Some(_)) => {
            format!("floodwall tune --sim --device {device}{scenario} --out result.json")
        }
        (_, Some(kernel)) => {
            format!(
                "floodwall sim --device {device} --kernel {kernel}{ram}{fs}{scenario} --out \
                 result.json"
            )
        }
        ("compare", None) if study.subjects.iter().any(|s| s.setting.get("kernel").is_some()) => {
            let kernels =
                study.subjects.iter().filter_map(|s| Some((&s.name, s.setting.get("kernel")?)));
            let kernels: Vec<String> = kernels
                .map(|(name, file)| {
                    // An unnamed kernel is called as it was given, and a path is no name.
                    let is_name = !name.contains(['/', '=']);
                    let kernel = if is_name { format!("{name}={file}") } else { file.to_owned() };
                    format!(" \\\n  --kernel {}", quoted(&kernel))
                })
                .collect();
            let scheduler = run.device.as_ref().and_then(|d| d.scheduler.as_ref());
            let scheduler =
                scheduler.map_or_else(String::new, |name| format!(" --scheduler {name}"));
            let (kernels, device) = (kernels.concat(), quoted(device));
            format!(
                "floodwall compare{kernels} \\\n  --device {device}{fs}{scheduler}{ram}{scenario} \
                 --out result.json"
            )
        }
        ("compare", None) => {
            let sets: Vec<String> = study
                .subjects
                .iter()
                .map(|s| {
                    format!(" \\\n  --set {}", quoted(&format!("{}={}", s.name, words(&s.setting))))
                })
                .collect();
            format!("floodwall compare{}{scenario} --out result.json DIR", sets.concat())
        }
        ("tune", None) => format!("floodwall tune{scenario} --out result.json DIR"),
        _ => format!("floodwall bench{scenario} --out result.json DIR"),
    }
}

/// The version of a simulated kernel; `None` if a real one ran.
fn simulated_kernel(run: &Run) -> Option<&str> {
    run.host.kernel.as_deref()?.strip_suffix(" (simulated)")
}

/// What puts a recommendation in force: a command line, or of one that is in part about units what
/// [`keep::Keep`] says. `None` without a recommendation.
pub(crate) fn in_force(study: &Study<'_>) -> Option<String> {
    let recommended = study.document.contest.as_ref()?.recommended.as_ref()?;
    if recommended.outcome != Outcome::Recommended || recommended.setting.is_empty() {
        return None;
    }
    if let Some(keep) = &recommended.keep {
        return Some(keep.lines().join("\n"));
    }
    let run = &study.document.run;
    // A simulated device has the name of its model.
    let device = run.device.as_ref().filter(|_| simulated_kernel(run).is_none());
    let device = device.map_or(keep::DISK, |d| d.name.as_str());
    Some(keep::command("apply", &recommended.setting, Some(device), " \\\n  "))
}

/// A setting as `--set` takes it.
fn words(setting: &Setting) -> String {
    if setting.is_empty() {
        return "default".into();
    }
    let knobs: Vec<String> = setting.0.iter().map(|(k, v)| person(k, v)).collect();
    knobs.join(",")
}

#[cfg(test)]
mod tests {
    use floodwall_model::scenario::{
        builtin, builtin_names, command_flood, command_victim, parse_flood, parse_victim,
    };

    use super::*;

    /// As a result stores it.
    fn stored(scenario: &Scenario) -> Value {
        serde_json::to_value(scenario).unwrap()
    }

    #[test]
    fn every_builtin_scenario_can_be_run_from_what_a_result_stores() {
        for name in builtin_names() {
            let scenario = builtin(name).unwrap().unwrap();
            let toml =
                scenario_toml(&stored(&scenario)).unwrap_or_else(|| panic!("{name} has no file"));
            assert_eq!(stored(&scenario::parse(&toml).unwrap()), stored(&scenario), "{toml}");
        }
    }

    #[test]
    fn every_kind_of_load_can_be_run_again() {
        let mut scenario = builtin("copy-vs-database").unwrap().unwrap();
        scenario.victims = [
            "commit,sync=o_dsync",
            "commit,engine=io_uring,depth=8,sync=fdatasync",
            "wal",
            "read,threads=8,rate=12.5%",
            "scan",
            "mixed,read_percent=70",
        ]
        .map(|v| parse_victim(v).unwrap())
        .into();
        scenario.victims.push(command_victim("sh -c 'echo \"x\"'").unwrap());
        scenario.floods = ["seq,rate=10MB/s", "random", "files", "mmap", "copy"]
            .map(|f| parse_flood(f).unwrap())
            .into();
        scenario.floods.push(command_flood("cp a b").unwrap());
        floodwall_model::scenario::name_apart(&mut scenario);
        let missing: Vec<String> = scenario
            .victims
            .iter()
            .map(|v| Scenario { victims: vec![v.clone()], floods: vec![], ..scenario.clone() })
            .chain(scenario.floods.iter().map(|f| Scenario {
                victims: vec![],
                floods: vec![f.clone()],
                ..scenario.clone()
            }))
            .filter(|s| scenario_toml(&stored(s)).is_none())
            .map(|s| stored(&s).to_string())
            .collect();
        assert!(missing.is_empty(), "{missing:#?}");
    }

    #[test]
    fn what_is_no_scenario_has_no_file() {
        assert_eq!(scenario_toml(&Value::Null), None);
        assert_eq!(scenario_toml(&serde_json::json!({"name": "x", "victims": []})), None);
    }
}
