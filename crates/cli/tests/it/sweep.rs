//! `floodwall sim sweep`: the table does not depend on threads, shards or interruptions, and
//! mistakes say what to do.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

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
const TINY: &str = r#"
name = "tiny"
burst = "1MiB"
[[victim]]
kind = "commit"
block = "4KiB"
size = "1MiB"
[[flood]]
kind = "seq"
size = "32MiB"
[timing]
rounds = 1
measure = "1s"
warmup_max = "1s"
settle = "10ms"
device_cache = "1B"
"#;
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
        stderr(&output)
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.at(name)).unwrap()
    }
}

fn rows(path: &Path) -> Vec<Vec<(String, Field)>> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap().into_columns()).collect()
}

fn field(row: &[(String, Field)], name: &str) -> Field {
    row.iter().find(|(n, _)| n == name).unwrap().1.clone()
}

#[test]
fn the_bytes_do_not_depend_on_threads_or_shards() {
    let place = Place::new(SWEEP);
    place.done(&["small.toml", "--jobs", "1", "-o", "one.parquet"]);
    let whole = place.bytes("one.parquet");
    place.done(&["small.toml", "--jobs", "2", "-o", "two.parquet"]);
    assert!(place.bytes("two.parquet") == whole);
    for (shards, jobs) in [(2, "1"), (7, "2")] {
        let mut merge = vec!["merge".to_owned(), "-o".to_owned(), "merged.parquet".to_owned()];
        // The last first: their order does not matter.
        for k in (1..=shards).rev() {
            let shard = format!("{k}/{shards}");
            place.done(&["small.toml", "--jobs", jobs, "--shard", &shard]);
            merge.push(format!("small-{k}-of-{shards}.parquet"));
        }
        let merge: Vec<&str> = merge.iter().map(String::as_str).collect();
        assert_eq!(place.done(&merge), "small: 24 cells in 'merged.parquet'\n");
        assert!(place.bytes("merged.parquet") == whole, "{shards} shards");
        if shards == 7 {
            let message = place.refused(&merge[..merge.len() - 2]);
            assert!(message.contains("cells are missing: give shard 1/7, 2/7 too"), "{message}");
        }
    }
    assert_eq!(
        fs::read_dir(place.0.path())
            .unwrap()
            .filter(|e| { e.as_ref().unwrap().file_name().to_string_lossy().ends_with(".journal") })
            .count(),
        0
    );
}

#[test]
fn a_table_has_figures_and_the_reasons_of_those_that_can_not_be() {
    let place = Place::new(SWEEP);
    let output = place.sweep(&["small.toml", "-o", "t.parquet"]);
    assert_eq!(stdout(&output), "small: 24 cells in 't.parquet'\n");
    assert!(
        stderr(&output).contains("of 24 cells could not be run (column error), such as: "),
        "{}",
        stderr(&output)
    );
    let rows = rows(&place.at("t.parquet"));
    assert_eq!(rows.len(), 24);
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(field(row, "cell"), Field::Long(i as i64));
        let text = |name| match field(row, name) {
            Field::Str(text) => text,
            other => panic!("{name} is {other:?}"),
        };
        let (kernel, scheduler) = (text("kernel"), text("scheduler"));
        if (kernel.as_str(), scheduler.as_str()) == ("2.6.32", "kyber") {
            assert!(text("error").contains("kyber") && field(row, "victim_kept") == Field::Null);
        } else if field(row, "error") == Field::Null {
            for name in [
                "victim_kept",
                "flood_kept",
                "burst_kept",
                "victim_alone_iops",
                "victim_alone_p50_us",
            ] {
                assert!(
                    matches!(field(row, name), Field::Double(n) if n >= 0.0),
                    "{name}: {:?}",
                    field(row, name)
                );
            }
        }
        let limit = if i % 2 == 0 { Field::Null } else { Field::Long(16 << 20) };
        assert_eq!(field(row, "vm.dirty_bytes"), limit);
    }
    let ran = rows.iter().filter(|row| field(row, "error") == Field::Null).count();
    assert!((8..24).contains(&ran), "{ran}");
}

fn lines(journal: &Path) -> usize {
    fs::read(journal).map_or(0, |bytes| bytes.iter().filter(|b| **b == b'\n').count())
}

/// Starts a sweep and waits until some runs are in its journal.
fn under_way(place: &Place, out: &str) -> Child {
    let mut child = place
        .command(&["small.toml", "--jobs", "1", "-o", out])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let journal = place.at(&format!("{out}.journal"));
    let until = Instant::now() + Duration::from_secs(60);
    while lines(&journal) < 4 && child.try_wait().unwrap().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

#[test]
fn a_sweep_that_is_killed_goes_on_and_ends_with_the_same_bytes() {
    // Long enough to be met under way.
    let place = Place::new(&SWEEP.replace("kernel =", "seed = [1, 2, 3, 4]\nkernel ="));
    place.done(&["small.toml", "-o", "whole.parquet"]);
    let mut child = under_way(&place, "t.parquet");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!place.at("t.parquet").exists(), "it was too quick to be killed");
    let kept = lines(&place.at("t.parquet.journal"));
    let output = place.sweep(&["small.toml", "-o", "t.parquet"]);
    assert!(
        output.status.success() && stderr(&output).contains("going on: "),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains(&format!("{} of ", kept - 1)), "{}", stderr(&output));
    assert!(place.bytes("t.parquet") == place.bytes("whole.parquet"));
    assert!(!place.at("t.parquet.journal").exists());
    let again = place.sweep(&["small.toml", "-o", "t.parquet"]);
    assert!(
        again.status.success() && stderr(&again).contains("nothing to do"),
        "{}",
        stderr(&again)
    );
}

#[test]
fn a_signal_ends_it_with_what_is_kept() {
    let place = Place::new(&SWEEP.replace("kernel =", "seed = [1, 2, 3, 4]\nkernel ="));
    let child = under_way(&place, "t.parquet");
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("runs are kept in 't.parquet.journal'; give the same command again to go on"),
        "{said}"
    );
    // A sweep that is another one meanwhile does not go on.
    fs::write(place.at("tiny.toml"), TINY.replace("4KiB", "8KiB")).unwrap();
    let message = place.refused(&["small.toml", "-o", "t.parquet"]);
    assert!(
        message.contains("'t.parquet.journal'") && message.contains("undo that to go on"),
        "{message}"
    );
    fs::write(place.at("tiny.toml"), TINY).unwrap();
    place.done(&["small.toml", "-o", "t.parquet"]);
}

#[test]
fn a_table_of_another_sweep_is_not_overwritten() {
    let place = Place::new(SWEEP);
    fs::write(place.at("t.parquet"), "mine").unwrap();
    let message = place.refused(&["small.toml", "-o", "t.parquet"]);
    assert!(message.contains("remove it, or name another file with -o"), "{message}");
    assert_eq!(place.bytes("t.parquet"), b"mine");
}

#[test]
fn cells_are_listed_and_estimated() {
    let place = Place::new(&format!("{SWEEP}[sample]\ncells = 3\nseed = 5\n"));
    let list = place.done(&["small.toml", "--list"]);
    assert_eq!(list.lines().count(), 4);
    assert!(list.starts_with("cell\tkey\tdevice\tscenario\tkernel\tram_bytes\tfs\t"), "{list}");
    assert_eq!(place.done(&["small.toml", "--list"]), list);
    let estimate = place.done(&["small.toml", "--dry-run", "--jobs", "2"]);
    assert!(
        estimate.starts_with(
            "small: 3 cells, a sample of 24 (device 2 × kernel 2 × scheduler 3 × vm.dirty_bytes 2)\n"
        ),
        "{estimate}"
    );
    assert!(estimate.contains("on 2 threads like this one"), "{estimate}");
    assert!(!place.at("small.parquet").exists() && !place.at("small.parquet.journal").exists());
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
        (&[], "name a sweep's file"),
        (&["merge", "-o", "x.parquet", "tiny.toml"], "'tiny.toml' is no sweep's table"),
    ] {
        let output = place.sweep(args);
        assert_ne!(output.status.code(), Some(0));
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
    let help = stdout(&floodwall(&["sim", "--help"]));
    assert!(help.contains("sweep") && help.contains("--device"), "{help}");
}
