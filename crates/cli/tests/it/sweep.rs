//! `floodwall sim sweep`: rows do not depend on threads, shards or interruptions, and mistakes say
//! what to do.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{floodwall, stderr, stdout};

/// Three elevators, two of them missing in 2.6.32, and a size that both kernels had.
const SWEEP: &str = r#"
name = "small"
[machine]
device = ["sata-ssd", "./disk.toml"]
scenario = "./tiny.toml"
kernel = ["2.6.32", "6.18"]
ram = "1GiB"
[knobs]
scheduler = ["noop", "none", "kyber"]
vm.dirty_bytes = ["default", "16MiB"]
"#;
const TINY: &str = include_str!("../../src/commands/sim_sweep/tiny.toml");
const DISK: &str = include_str!("../../../device/presets/cloud-gp3.toml");

/// A directory with a sweep in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new(sweep: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("small.toml", sweep), ("tiny.toml", TINY), ("disk.toml", DISK)] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        Self(dir)
    }

    /// Of enough cells to be met under way.
    fn long() -> Self {
        Self::new(&SWEEP.replace("kernel =", "seed = [1, 2, 3, 4]\nkernel ="))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floodwall"));
        command.current_dir(self.0.path()).args(["sim", "sweep"]).args(args).stdin(Stdio::null());
        command
    }

    fn sweep(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn done(&self, args: &[&str]) -> String {
        let output = self.sweep(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    fn refused(&self, args: &[&str]) -> String {
        let output = self.sweep(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
        stderr(&output)
    }

    /// The rows of parts in the order of their cells, and in the order in which they were written.
    fn rows(&self, parts: &[&str]) -> Vec<Value> {
        let text: String = parts.iter().map(|p| fs::read_to_string(self.at(p)).unwrap()).collect();
        let mut rows: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        rows.sort_by_key(|row| row["cell"].as_u64());
        rows
    }

    /// Starts a sweep and waits until some rows are on disk.
    fn under_way(&self, rows: usize) -> Child {
        let mut command = self.command(&["small.toml", "--jobs", "1", "-o", "t.jsonl"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while self.lines() < rows && child.try_wait().unwrap().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        child
    }

    /// Whole lines of what [`under_way`](Self::under_way) writes.
    fn lines(&self) -> usize {
        fs::read(self.at("t.jsonl")).map_or(0, |b| b.iter().filter(|b| **b == b'\n').count())
    }
}

#[test]
fn rows_do_not_depend_on_threads_or_shards() {
    let place = Place::new(SWEEP);
    place.done(&["small.toml", "--jobs", "1"]);
    let whole = place.rows(&["small.jsonl"]);
    assert_eq!(whole.len(), 24);
    place.done(&["small.toml", "--jobs", "2", "-o", "two.jsonl"]);
    assert_eq!(place.rows(&["two.jsonl"]), whole);
    for (shards, jobs) in [(2, "1"), (7, "2")] {
        let mut parts = Vec::new();
        for k in 1..=shards {
            let shard = format!("{k}/{shards}");
            let part = format!("small-{k}-of-{shards}.jsonl");
            let said = place.done(&["small.toml", "--jobs", jobs, "--shard", &shard]);
            let cells = place.rows(&[&part]).len();
            assert_eq!(said, format!("small, shard {shard}: {cells} cells in '{part}'\n"));
            parts.push(part);
        }
        let mut rows = place.rows(&parts.iter().map(String::as_str).collect::<Vec<_>>());
        // A row names its shard, and nothing else of it differs.
        for row in &mut rows {
            assert!(row["shard"].as_str().unwrap().ends_with(&format!("/{shards}")));
            row["shard"] = "1/1".into();
        }
        assert_eq!(rows, whole, "{shards} shards");
    }
    // A part of another shard is refused, and stays.
    let message = place.refused(&["small.toml", "--shard", "1/2", "-o", "small-2-of-2.jsonl"]);
    let expected = "'small-2-of-2.jsonl' is of shard 2/2, not 1/2: give that to go on, remove \
                    the part to begin anew, or name another file with -o";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn rows_have_figures_and_the_reasons_of_those_that_can_not_be() {
    let place = Place::new(SWEEP);
    let output = place.sweep(&["small.toml", "-o", "t.jsonl"]);
    assert_eq!(stdout(&output), "small: 24 cells in 't.jsonl'\n");
    let said = stderr(&output);
    assert!(said.contains("of 24 cells could not be run (column error), such as: "), "{said}");
    let rows = place.rows(&["t.jsonl"]);
    for (i, row) in rows.iter().enumerate() {
        assert_eq!((&row["cell"], &row["of_cells"]), (&i.into(), &24.into()));
        if (&row["kernel"], &row["scheduler"]) == (&"2.6.32".into(), &"kyber".into()) {
            assert!(row["error"].as_str().unwrap().contains("kyber"), "{row}");
            assert!(row["victim_kept"].is_null());
        } else if row["error"].is_null() {
            for name in [
                "victim_kept",
                "flood_kept",
                "burst_kept",
                "victim_alone_iops",
                "victim_alone_p50_us",
            ] {
                assert!(row[name].as_f64().is_some_and(|n| n >= 0.0), "{name}: {row}");
            }
        }
        let limit = if i % 2 == 0 { Value::Null } else { (16 << 20).into() };
        assert_eq!(row["vm.dirty_bytes"], limit);
        // All rows have the same columns.
        assert!(row.as_object().unwrap().keys().eq(rows[0].as_object().unwrap().keys()));
    }
    let ran = rows.iter().filter(|row| row["error"].is_null()).count();
    assert!((8..24).contains(&ran), "{ran}");
    let impossible = "baseline = false\n[machine]\ndevice = \"null\"\nkernel = \"2.6.32\"\n\
                      [knobs]\nscheduler = \"kyber\"\n";
    let output = Place::new(impossible).sweep(&["small.toml"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

#[test]
fn a_sweep_that_is_killed_goes_on_and_ends_with_the_same_rows() {
    let place = Place::long();
    place.done(&["small.toml", "-o", "whole.jsonl"]);
    // Killed again and again, each time further on.
    for rows in [1, 7, 20] {
        let mut child = place.under_way(rows);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!((rows..96).contains(&place.lines()), "it was too quick to be killed");
    }
    let kept = place.lines();
    // The last one was met inside a write.
    let mut torn = fs::read(place.at("t.jsonl")).unwrap();
    torn.extend_from_slice(b"{\"cell\":17,\"swe");
    fs::write(place.at("t.jsonl"), torn).unwrap();
    let output = place.sweep(&["small.toml", "-o", "t.jsonl"]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let dropped = format!("line {} was cut short and is dropped: its cell is run again", kept + 1);
    assert!(said.contains(&dropped), "{said}");
    assert!(said.contains(&format!("going on: {kept} of 96 cells are in 't.jsonl'")), "{said}");
    assert_eq!(place.rows(&["t.jsonl"]), place.rows(&["whole.jsonl"]));
    let again = place.sweep(&["small.toml", "-o", "t.jsonl"]);
    assert!(again.status.success() && stderr(&again).contains("nothing to do"));
    assert_eq!(place.lines(), 96);
}

#[test]
fn a_signal_ends_it_and_another_sweep_does_not_go_on() {
    let place = Place::long();
    let child = place.under_way(4);
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let kept = place.lines();
    let said = format!(
        "stopped: {kept} of 96 cells are in 't.jsonl'; give the same command again to go on\n"
    );
    assert!(stderr(&output).ends_with(&said), "{}", stderr(&output));
    // A file that the sweep names has changed meanwhile.
    fs::write(place.at("tiny.toml"), TINY.replace("4KiB", "8KiB")).unwrap();
    let message = place.refused(&["small.toml", "-o", "t.jsonl"]);
    assert!(message.contains("'t.jsonl' has rows of another sweep"), "{message}");
    assert_eq!(place.lines(), kept);
    fs::write(place.at("tiny.toml"), TINY).unwrap();
    // Floodwall has changed: the rows are from another version.
    let part = fs::read_to_string(place.at("t.jsonl")).unwrap();
    let version = concat!("\"", env!("CARGO_PKG_VERSION"), "+");
    fs::write(place.at("old.jsonl"), part.replace(version, "\"0.0.9+")).unwrap();
    let message = place.refused(&["small.toml", "-o", "old.jsonl"]);
    assert!(message.contains("'old.jsonl' has rows of floodwall 0.0.9+"), "{message}");
    place.done(&["small.toml", "-o", "t.jsonl", "--quiet"]);
    assert_eq!(place.rows(&["t.jsonl"]).len(), 96);
}

#[test]
fn cells_are_listed_and_estimated() {
    let place = Place::new(&format!("{SWEEP}[sample]\ncells = 3\nseed = 5\n"));
    let list = place.done(&["small.toml", "--list"]);
    assert_eq!(list.lines().count(), 4);
    assert!(list.starts_with("cell\tdevice\tscenario\tkernel\tram_bytes\tfs\t"), "{list}");
    assert!(list.lines().all(|l| l.split('\t').count() == 15), "{list}");
    assert_eq!(place.done(&["small.toml", "--list"]), list);
    let estimate = place.done(&["small.toml", "--dry-run", "--jobs", "2"]);
    let first = "small: 3 cells, a sample of 24 \
                 (device 2 × kernel 2 × scheduler 3 × vm.dirty_bytes 2)\n";
    assert!(estimate.starts_with(first), "{estimate}");
    assert!(estimate.contains("on 2 threads like this one"), "{estimate}");
    assert!(!place.at("small.jsonl").exists());
}

#[test]
fn wrong_usage_has_status_2_and_says_what_to_do() {
    let place = Place::new(&SWEEP.replace("\"kyber\"", "\"kyber\", \"Kyber\""));
    for (args, part) in [
        (
            &["small.toml"][..],
            "'small.toml': line 9: scheduler: 'Kyber' is not the name of an elevator",
        ),
        (&["nowhere.toml"], "can't read the sweep 'nowhere.toml'"),
        (&["small.toml", "--shard", "0/2"], "for an index that begins at 0, add 1"),
        (&[], "FILE.toml is missing"),
    ] {
        let output = place.sweep(args);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
    let place = Place::new(SWEEP);
    fs::write(place.at("t.jsonl"), "mine").unwrap();
    let message = place.refused(&["small.toml", "-o", "t.jsonl"]);
    assert!(message.contains("'t.jsonl' is there and holds no sweep; remove it, or"), "{message}");
    assert_eq!(fs::read(place.at("t.jsonl")).unwrap(), b"mine");
    let help = stdout(&floodwall(&["sim", "--help"]));
    assert!(help.contains("sweep") && help.contains("--device"), "{help}");
}

#[test]
fn a_sweep_that_can_not_write_stops_and_goes_on_with_more_room() {
    let place = Place::new(SWEEP);
    place.done(&["small.toml", "-o", "whole.jsonl"]);
    let mut kept = 0;
    // In blocks of 512 bytes. With the signal ignored, a write beyond the limit fails after its
    // first part, as on a full disk.
    for blocks in [1, 10, 25] {
        let limited = format!(
            "trap '' XFSZ; ulimit -f {blocks}; exec '{}' sim sweep small.toml -o t.jsonl",
            env!("CARGO_BIN_EXE_floodwall")
        );
        let output =
            Command::new("sh").args(["-c", &limited]).current_dir(place.0.path()).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(place.lines() >= kept, "{kept}");
        kept = place.lines();
        let message = format!(
            "can't write 't.jsonl': File too large; {kept} cells are in it: make \
             room, then give the same command again to go on"
        );
        assert!(said.contains(&message), "{said}");
        assert!(fs::read(place.at("t.jsonl")).unwrap().ends_with(if kept > 0 {
            b"\n"
        } else {
            b""
        }));
    }
    assert!(kept > 2);
    place.done(&["small.toml", "-o", "t.jsonl"]);
    assert_eq!(place.rows(&["t.jsonl"]), place.rows(&["whole.jsonl"]));
}
