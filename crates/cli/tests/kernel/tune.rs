//! What `floodwall compare` and `tune` promise of a real disk: settings in force during their trials, and the machine as before whatever ends the run.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Test;
use crate::disk::{Disk, run};

pub(crate) const TESTS: &[Test] = &[
    Test { name: "compared settings are in force and gone after", needs: &["mkfs.ext4"], body: compared },
    Test { name: "a refused setting is kept with its reason", needs: &["mkfs.ext4"], body: refused },
    Test { name: "a signal during compare restores everything", needs: &["mkfs.ext4"], body: signalled },
    Test { name: "what a killed compare left is put back", needs: &["mkfs.ext4"], body: killed },
    Test { name: "tune ends in time and leaves the machine as it was", needs: &["mkfs.ext4"], body: tuned },
];

const SCENARIO: &str = r#"
name = "small"
burst = "16MiB"
[[victim]]
kind = "commit"
threads = 2
size = "16MiB"
[[flood]]
kind = "seq"
[timing]
rounds = 2
measure = "1s"
warmup_max = "1s"
settle = "100ms"
device_cache = "1MiB"
"#;

/// A mounted loop device, a journal of its own, and what its knobs and the machine's limits were.
struct Place {
    disk: Disk,
    files: tempfile::TempDir,
    before: Vec<(PathBuf, String)>,
}

impl Place {
    fn new() -> Result<Self, String> {
        let disk = Disk::make("ext4", 1024)?;
        let files = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mut scenario = fs::File::create(files.path().join("small.toml")).map_err(|e| e.to_string())?;
        scenario.write_all(SCENARIO.as_bytes()).map_err(|e| e.to_string())?;
        let mut place = Self { disk, files, before: Vec::new() };
        place.before = place.knobs()?;
        Ok(place)
    }

    /// Every knob that these tests change.
    fn knobs(&self) -> Result<Vec<(PathBuf, String)>, String> {
        let source = run("findmnt", &["-no", "SOURCE", &self.disk.path().to_string_lossy()])?;
        let queue = PathBuf::from("/sys/block").join(source.trim().trim_start_matches("/dev/")).join("queue");
        let mut paths: Vec<PathBuf> =
            ["scheduler", "nr_requests", "max_sectors_kb", "read_ahead_kb", "wbt_lat_usec"]
                .iter()
                .map(|f| queue.join(f))
                .collect();
        for limit in ["dirty_bytes", "dirty_ratio", "dirty_background_bytes", "dirty_background_ratio"] {
            paths.push(PathBuf::from("/proc/sys/vm").join(limit));
        }
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
            (path, text)
        };
        Ok(paths.into_iter().map(read).collect())
    }

    fn command(&self, command: &str, more: &[&str]) -> Command {
        let journal = self.files.path().canonicalize().unwrap_or_default().join("journal");
        let mut floodwall = Command::new(env!("CARGO_BIN_EXE_floodwall"));
        floodwall.arg(command).args(more).arg("--journal").arg(journal);
        if command != "rollback" {
            floodwall
                .args(["--size", "400MiB", "--json", "--scenario"])
                .arg(self.files.path().join("small.toml"));
            floodwall.arg(self.disk.path());
        }
        floodwall.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        floodwall
    }

    /// Starts a comparison and waits until its second setting is in force.
    fn start(&self) -> Result<Child, String> {
        let mut child = self
            .command("compare", &["--rounds", "9", "--set", "read_ahead_kb=32", "--set", "read_ahead_kb=64"])
            .spawn()
            .map_err(|e| e.to_string())?;
        let begin = Instant::now();
        while self.knobs()? == self.before {
            if child.try_wait().map_err(|e| e.to_string())?.is_some() {
                return Err(text(&child.wait_with_output().map_err(|e| e.to_string())?));
            }
            check(begin.elapsed() < Duration::from_secs(60), || {
                "no setting came into force within 60 s".into()
            })?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(child)
    }

    fn is_as_before(&self) -> Result<(), String> {
        let now = self.knobs()?;
        check(now == self.before, || format!("{now:?}, not {:?}", self.before))?;
        check(self.disk.names().is_empty(), || format!("left behind: {:?}", self.disk.names()))
    }
}

fn check(condition: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message()) }
}

fn text(output: &Output) -> String {
    format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))
}

fn done(mut command: Command) -> Result<(Output, Value), String> {
    let output = command.output().map_err(|e| e.to_string())?;
    check(matches!(output.status.code(), Some(0 | 3)), || text(&output))?;
    let json = serde_json::from_slice(&output.stdout).map_err(|e| format!("{e}: {}", text(&output)))?;
    Ok((output, json))
}

fn compared() -> Result<(), String> {
    let place = Place::new()?;
    let sets = [
        "--set",
        "default",
        "--set",
        "small=vm.dirty_bytes=64MiB,read_ahead_kb=32",
        "--set",
        "scheduler=none",
    ];
    let (_, json) = done(place.command("compare", &sets))?;
    place.is_as_before()?;
    let contenders = json["contenders"].as_array().ok_or("no contenders")?;
    check(contenders.len() == 3, || json["contenders"].to_string())?;
    for (i, knob, value) in [
        (0, "vm.dirty_ratio", "20"),
        (1, "vm.dirty_bytes", "67108864"),
        (1, "read_ahead_kb", "32"),
        (2, "scheduler", "none"),
    ] {
        for index in contenders[i]["trials"].as_array().into_iter().flatten() {
            let setting = &json["trials"][index.as_u64().unwrap_or(99) as usize]["setting"];
            check(setting[knob] == value, || format!("{knob} read back as {}", setting[knob]))?;
        }
        check(contenders[i]["trials"].as_array().is_some_and(|t| t.len() == 2), || {
            contenders[i]["trials"].to_string()
        })?;
    }
    check(contenders[1]["versus"].as_array().is_some_and(|v| v.len() == 5), || {
        contenders[1]["versus"].to_string()
    })
}

fn refused() -> Result<(), String> {
    let place = Place::new()?;
    // A tunable that the elevator in use does not have.
    let sets =
        ["--set", "default", "--set", "scheduler=none,iosched.fifo_batch=1", "--set", "read_ahead_kb=64"];
    let (_, json) = done(place.command("compare", &sets))?;
    place.is_as_before()?;
    let why = json["contenders"][1]["failure"].as_str().unwrap_or_default().to_owned();
    check(why.contains("fifo_batch"), || format!("'{why}'"))?;
    check(json["contenders"][2]["trials"].as_array().is_some_and(|t| t.len() == 2), || {
        "the others went on".into()
    })
}

fn signalled() -> Result<(), String> {
    for (name, delay_ms) in [("INT", 0), ("TERM", 700), ("HUP", 2_500)] {
        let place = Place::new()?;
        let child = place.start()?;
        std::thread::sleep(Duration::from_millis(delay_ms));
        run("kill", &["-s", name, &child.id().to_string()])?;
        let output = child.wait_with_output().map_err(|e| e.to_string())?;
        check(output.status.code() == Some(1), || format!("SIG{name}: {}", text(&output)))?;
        place.is_as_before().map_err(|e| format!("SIG{name} after {delay_ms} ms: {e}"))?;
    }
    Ok(())
}

fn killed() -> Result<(), String> {
    let place = Place::new()?;
    for by_hand in [true, false] {
        let mut child = place.start()?;
        run("kill", &["-s", "KILL", &child.id().to_string()])?;
        child.wait().map_err(|e| e.to_string())?;
        check(place.knobs()? != place.before, || "there was nothing to put back".into())?;
        run(env!("CARGO_BIN_EXE_floodwall"), &["bench", "--clean", &place.disk.path().to_string_lossy()])?;
        if by_hand {
            let output = place.command("rollback", &[]).output().map_err(|e| e.to_string())?;
            check(output.status.success(), || text(&output))?;
        } else {
            let (output, _) = done(place.command("compare", &["--set", "read_ahead_kb=64"]))?;
            check(text(&output).contains("of a run that was killed was put back"), || text(&output))?;
        }
        place.is_as_before()?;
    }
    Ok(())
}

fn tuned() -> Result<(), String> {
    let place = Place::new()?;
    let begin = Instant::now();
    let (output, json) = done(place.command("tune", &["--time", "60s"]))?;
    let seconds = begin.elapsed().as_secs_f64();
    place.is_as_before()?;
    check(json["recommended"]["why"].as_str().is_some_and(|w| !w.is_empty()), || text(&output))?;
    check(json["trials_run"].as_u64().is_some_and(|n| n >= 5), || json["trials_run"].to_string())?;
    // The files are written before the time begins; the device is a file on whatever disk this machine has.
    check(seconds < 150.0, || format!("{seconds} s for --time 60s"))
}
