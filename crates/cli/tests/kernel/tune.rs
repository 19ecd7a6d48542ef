//! What `floodwall compare` and `tune` promise of a real disk: settings in force during their
//! trials, and the machine as before whatever ends the run.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use floodwall_testing::disk::{Disk, read};
use floodwall_testing::ensure;
use floodwall_testing::process::{json, run, told};
use serde_json::Value;

use crate::{FLOODWALL, Test};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "compared settings are in force and gone after",
        needs: &["mkfs.ext4"],
        body: compared,
    },
    Test {
        name: "victims and their journal have the priority of the setting",
        needs: &["mkfs.ext4", "ionice"],
        body: priorities,
    },
    Test {
        name: "every elevator is compared in one line",
        needs: &["mkfs.ext4"],
        body: each_elevator,
    },
    Test {
        name: "a refused setting is kept with its reason",
        needs: &["mkfs.ext4"],
        body: refused,
    },
    Test {
        name: "a signal during compare restores everything",
        needs: &["mkfs.ext4"],
        body: signalled,
    },
    Test { name: "what a killed compare left is put back", needs: &["mkfs.ext4"], body: killed },
    Test {
        name: "tune ends in time and leaves the machine as it was",
        needs: &["mkfs.ext4"],
        body: tuned,
    },
    Test {
        name: "a signal at any moment of tune restores everything",
        needs: &["mkfs.ext4"],
        body: tune_signalled,
    },
    Test { name: "a second tune is told who has the device", needs: &["mkfs.ext4"], body: second },
    Test {
        name: "tune on a nearly full disk says what it needs",
        needs: &["mkfs.ext4"],
        body: nearly_full,
    },
    Test {
        name: "a device that vanishes ends a comparison",
        needs: &["mkfs.ext4", crate::FUSE],
        body: vanished,
    },
    Test {
        name: "a settings file of another machine is checked",
        needs: &["mkfs.ext4"],
        body: foreign_file,
    },
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

/// A mounted loop device, a separate journal, and the former values of its knobs and the machine's
/// limits.
struct Place {
    disk: Disk,
    files: tempfile::TempDir,
    before: Vec<(PathBuf, String)>,
}

impl Place {
    fn new() -> Result<Self, String> {
        let disk = Disk::new("ext4", 1024)?;
        let files = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mut scenario =
            fs::File::create(files.path().join("small.toml")).map_err(|e| e.to_string())?;
        scenario.write_all(SCENARIO.as_bytes()).map_err(|e| e.to_string())?;
        let mut place = Self { disk, files, before: Vec::new() };
        place.before = place.knobs();
        Ok(place)
    }

    fn queue(&self) -> PathBuf {
        PathBuf::from("/sys/block").join(self.disk.device.name()).join("queue")
    }

    /// Every knob that these tests change.
    fn knobs(&self) -> Vec<(PathBuf, String)> {
        let queue = self.queue();
        let mut paths: Vec<PathBuf> =
            ["scheduler", "nr_requests", "max_sectors_kb", "read_ahead_kb", "wbt_lat_usec"]
                .iter()
                .map(|f| queue.join(f))
                .collect();
        for limit in
            ["dirty_bytes", "dirty_ratio", "dirty_background_bytes", "dirty_background_ratio"]
        {
            paths.push(PathBuf::from("/proc/sys/vm").join(limit));
        }
        paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
    }

    fn command(&self, command: &str, more: &[&str]) -> Command {
        let journal = self.files.path().canonicalize().unwrap_or_default().join("journal");
        let mut floodwall = Command::new(FLOODWALL);
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
            .command(
                "compare",
                &["--rounds", "9", "--set", "read_ahead_kb=32", "--set", "read_ahead_kb=64"],
            )
            .spawn()
            .map_err(|e| e.to_string())?;
        let begin = Instant::now();
        while self.knobs() == self.before {
            if child.try_wait().map_err(|e| e.to_string())?.is_some() {
                return Err(told(&child.wait_with_output().map_err(|e| e.to_string())?));
            }
            ensure(begin.elapsed() < Duration::from_secs(60), || {
                "no setting came into force within 60 s".into()
            })?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(child)
    }

    fn is_as_before(&self) -> Result<(), String> {
        let now = self.knobs();
        ensure(now == self.before, || format!("{now:?}, not {:?}", self.before))?;
        ensure(self.disk.names().is_empty(), || format!("left behind: {:?}", self.disk.names()))
    }
}

fn done(mut command: Command) -> Result<(Output, Value), String> {
    let output = command.output().map_err(|e| e.to_string())?;
    ensure(matches!(output.status.code(), Some(0 | 3)), || told(&output))?;
    let json = json(&output)?;
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
    ensure(contenders.len() == 3, || json["contenders"].to_string())?;
    for (i, knob, value) in [
        (0, "vm.dirty_ratio", "20"),
        (1, "vm.dirty_bytes", "67108864"),
        (1, "read_ahead_kb", "32"),
        (2, "scheduler", "none"),
    ] {
        for index in contenders[i]["trials"].as_array().into_iter().flatten() {
            let setting = &json["trials"][index.as_u64().unwrap_or(99) as usize]["setting"];
            ensure(setting[knob] == value, || format!("{knob} read back as {}", setting[knob]))?;
        }
        ensure(contenders[i]["trials"].as_array().is_some_and(|t| t.len() == 2), || {
            contenders[i]["trials"].to_string()
        })?;
    }
    let compared = contenders[1]["versus"].as_array().into_iter().flatten();
    // With fewer than 100 operations the slowest stands beside the p99 that there is not.
    let figures: Vec<&str> = compared
        .filter_map(|c| c["figure"].as_str())
        .filter(|f| *f != "victim_slowest_us")
        .collect();
    let all =
        ["victim_iops", "victim_p99_us", "flood_bytes_per_s", "burst_bytes_per_s", "dead_share"];
    ensure(figures == all, || contenders[1]["versus"].to_string())
}

/// A victim that is a command notes what ionice(1) says of itself and of the thread that commits
/// its journal.
fn priorities() -> Result<(), String> {
    let place = Place::new()?;
    let task = format!("/sys/fs/ext4/{}/journal_task", place.disk.device.name());
    let priority = || run("ionice", &["-p", &read(task.as_ref())]);
    let before = priority()?;
    let notes = place.files.path().join("notes");
    let notes = notes.display();
    let victim = format!(
        "echo $(ionice -p $$), $(ionice -p $(cat {task})) >> {notes}; \
         while :; do dd if=/dev/zero of=x bs=4k count=1 conv=fsync 2> /dev/null; done"
    );
    let sets = ["--set", "default", "--set", "first=victim.ioprio=be/0,journal.ioprio=be/1"];
    let more = ["--flood", "none", "--no-burst", "--rounds", "2", "--victim-cmd", &victim];
    let (_, json) = done(place.command("compare", &[&sets[..], &more[..]].concat()))?;
    place.is_as_before()?;
    let setting = &json["trials"]
        [json["contenders"][1]["trials"][0].as_u64().unwrap_or(99) as usize]["setting"];
    ensure(setting["victim.ioprio"] == "be/0" && setting["journal.ioprio"] == "be/1", || {
        setting.to_string()
    })?;
    let seen = fs::read_to_string(place.files.path().join("notes")).map_err(|e| e.to_string())?;
    let default = format!("none: prio 0, {before}");
    let noted: Vec<bool> = seen
        .lines()
        .map(|line| match line {
            "best-effort: prio 0, best-effort: prio 1" => Ok(true),
            line if line == default => Ok(false),
            _ => Err(seen.clone()),
        })
        .collect::<Result<_, _>>()?;
    // A trial that others disturbed is measured again, and is stored too.
    let trials = json["trials"].as_array().ok_or("no trials")?;
    let raised = trials.iter().filter(|trial| trial["setting"]["victim.ioprio"] == "be/0").count();
    let noted = (noted.iter().filter(|raised| **raised).count(), noted.len());
    ensure(noted == (raised, trials.len()) && raised > 1, || {
        format!("{raised} of {} trials had the priority: {seen}", trials.len())
    })?;
    let after = priority()?;
    ensure(after == before, || format!("the journal's thread has {after}, not {before}"))
}

fn each_elevator() -> Result<(), String> {
    let place = Place::new()?;
    let victim = "read,threads=2,size=16MiB";
    let (_, json) = done(place.command(
        "compare",
        &[
            "--each",
            "scheduler",
            "--victim",
            victim,
            "--flood",
            "none",
            "--no-burst",
            "--rounds",
            "2",
        ],
    ))?;
    place.is_as_before()?;
    let contenders = json["contenders"].as_array().ok_or("no contenders")?;
    let offered = read(&place.queue().join("scheduler"));
    ensure(contenders.len() == offered.split_whitespace().count(), || {
        format!("{} of {offered}", contenders.len())
    })?;
    for contender in contenders {
        for index in contender["trials"].as_array().into_iter().flatten() {
            let trial = &json["trials"][index.as_u64().unwrap_or(99) as usize];
            ensure(trial["setting"]["scheduler"] == contender["name"], || {
                trial["setting"].to_string()
            })?;
        }
    }
    Ok(())
}

fn refused() -> Result<(), String> {
    let place = Place::new()?;
    // A tunable that the elevator in use does not have.
    let sets = [
        "--set",
        "default",
        "--set",
        "scheduler=none,iosched.fifo_batch=1",
        "--set",
        "read_ahead_kb=64",
    ];
    let (_, json) = done(place.command("compare", &sets))?;
    place.is_as_before()?;
    let why = json["contenders"][1]["failure"].as_str().unwrap_or_default().to_owned();
    ensure(why.contains("fifo_batch"), || format!("'{why}'"))?;
    ensure(json["contenders"][2]["trials"].as_array().is_some_and(|t| t.len() == 2), || {
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
        ensure(output.status.code() == Some(1), || format!("SIG{name}: {}", told(&output)))?;
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
        ensure(place.knobs() != place.before, || "there was nothing to put back".into())?;
        run(FLOODWALL, &["bench", "--clean", &place.disk.path().to_string_lossy()])?;
        if by_hand {
            let output = place.command("rollback", &[]).output().map_err(|e| e.to_string())?;
            ensure(output.status.success(), || told(&output))?;
        } else {
            let (output, _) = done(place.command("compare", &["--set", "read_ahead_kb=64"]))?;
            ensure(told(&output).contains("of a run that was killed was put back"), || {
                told(&output)
            })?;
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
    ensure(json["recommended"]["why"].as_str().is_some_and(|w| !w.is_empty()), || told(&output))?;
    ensure(json["trials_run"].as_u64().is_some_and(|n| n >= 5), || json["trials_run"].to_string())?;
    // The files are written before the time begins; the device is a file on whatever disk this
    // machine has.
    ensure(seconds < 150.0, || format!("{seconds} s for --time 60s"))
}

fn tune_signalled() -> Result<(), String> {
    // In the files' writing, in the reference, in the race.
    for (name, delay_ms) in [("INT", 100), ("HUP", 2_000), ("TERM", 9_000), ("INT", 25_000)] {
        let place = Place::new()?;
        let child = place.command("tune", &["--time", "60s"]).spawn().map_err(|e| e.to_string())?;
        std::thread::sleep(Duration::from_millis(delay_ms));
        run("kill", &["-s", name, &child.id().to_string()])?;
        let output = child.wait_with_output().map_err(|e| e.to_string())?;
        ensure(matches!(output.status.code(), Some(1) | None), || {
            format!("SIG{name}: {}", told(&output))
        })?;
        place.is_as_before().map_err(|e| format!("SIG{name} after {delay_ms} ms: {e}"))?;
    }
    Ok(())
}

fn second() -> Result<(), String> {
    let place = Place::new()?;
    let mut child = place.start()?;
    let output = place.command("tune", &["--time", "60s"]).output().map_err(|e| e.to_string());
    run("kill", &["-s", "INT", &child.id().to_string()])?;
    let pid = child.id().to_string();
    child.wait().map_err(|e| e.to_string())?;
    let output = output?;
    let said = told(&output);
    ensure(output.status.code() == Some(1) && said.contains(&pid), || {
        format!("not a word of {pid}: {said}")
    })?;
    place.is_as_before()
}

fn nearly_full() -> Result<(), String> {
    let place = Place::new()?;
    let filler = place.disk.path().join("filler");
    let free = run("df", &["--output=avail", "-B1M", &place.disk.path().to_string_lossy()])?;
    let free: u64 =
        free.lines().last().and_then(|l| l.trim().parse().ok()).ok_or("df said nothing")?;
    run(
        "fallocate",
        &["-l", &format!("{}MiB", free.saturating_sub(24)), &filler.to_string_lossy()],
    )?;
    let output = place.command("tune", &["--time", "60s"]).output().map_err(|e| e.to_string());
    fs::remove_file(&filler).map_err(|e| e.to_string())?;
    let output = output?;
    let said = told(&output);
    ensure(matches!(output.status.code(), Some(1 | 2)) && said.contains("that are free"), || {
        said.clone()
    })?;
    place.is_as_before()
}

/// A lab device loses power in the middle: the measurements are kept, the limits are put back.
fn vanished() -> Result<(), String> {
    let place = Place::new()?;
    let name = format!("vanish-{}", std::process::id());
    run(
        FLOODWALL,
        &[
            "lab", "up", "null", "--size", "2GiB", "--memory", "1GiB", "--fs", "ext4", "--name",
            &name,
        ],
    )?;
    let outcome = (|| {
        let mount = format!("/run/floodwall/lab/{name}/mnt");
        let out = place.files.path().join("out.json");
        let mut command = Command::new(FLOODWALL);
        command
            .args([
                "compare",
                "--rounds",
                "9",
                "--size",
                "400MiB",
                "--progress",
                "never",
                "--journal",
            ])
            .arg(place.files.path().canonicalize().map_err(|e| e.to_string())?.join("journal"))
            .args(["--set", "vm.dirty_bytes=64MiB", "--set", "vm.dirty_bytes=32MiB", "--scenario"])
            .arg(place.files.path().join("small.toml"))
            .arg("--out")
            .arg(&out)
            .arg(&mount)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().map_err(|e| e.to_string())?;
        let begin = Instant::now();
        while place.knobs() == place.before && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_secs(12));
        run(FLOODWALL, &["lab", "powercut", &name])?;
        let output = child.wait_with_output().map_err(|e| e.to_string())?;
        ensure(output.status.code() == Some(1), || told(&output))?;
        ensure(out.exists(), || format!("nothing was kept: {}", told(&output)))
    })();
    run(FLOODWALL, &["lab", "down", &name])?;
    outcome?;
    place.is_as_before()
}

fn foreign_file() -> Result<(), String> {
    let place = Place::new()?;
    let file = place.files.path().join("theirs.toml");
    let theirs = "device = \"nvme7n1\"\n[settings]\nread_ahead_kb = 64\niosched.low_latency = 1\n\
        vm.dirty_byte = \"1MiB\"\n";
    fs::write(&file, theirs).map_err(|e| e.to_string())?;
    let (output, json) =
        done(place.command("compare", &["--set", "default", "--set", &file.to_string_lossy()]))?;
    place.is_as_before()?;
    let said = told(&output);
    for part in
        ["was written for nvme7n1", "vm.dirty_byte is left out", "iosched.low_latency is left out"]
    {
        ensure(said.contains(part), || format!("'{part}' is not in: {said}"))?;
    }
    ensure(json["contenders"][1]["setting"] == serde_json::json!({"read_ahead_kb": "64"}), || {
        json["contenders"][1]["setting"].to_string()
    })
}
