//! Floods in a separate process.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use floodwall_load::{Apart, PreparedFlood, Running};
use floodwall_testing::{Trial, tests};

use crate::child;
use crate::support::*;

/// First argument of this binary when it is a flood's process.
pub(crate) const FLOOD: &str = "flood-process";

pub(crate) fn tests() -> Vec<Trial> {
    tests![
        a_flood_apart_does_what_threads_do,
        a_flood_apart_is_counted_as_the_kernel_counts_it,
        a_flood_that_is_cut_writes_on,
        a_flood_whose_process_is_killed_has_failed,
        a_flood_that_can_not_write_says_why,
        a_flood_ends_with_the_process_that_ordered_it,
    ]
}

/// The last argument tells the floods of tests that run at once apart.
fn apart(flood: &PreparedFlood) -> Apart {
    Apart {
        command: vec![std::env::current_exe().unwrap(), FLOOD.into(), flood.dir().into()],
        group: None,
    }
}

fn start(flood: &PreparedFlood, seed: u64) -> Running {
    flood.start_apart(seed, proc_root(), &apart(flood)).unwrap()
}

/// The processes of floods below a directory.
fn floods_below(dir: &Path) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
    let is_one = |pid: &u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut arguments = command.split(|byte| *byte == 0).skip(1);
        arguments.next() == Some(FLOOD.as_bytes())
            && arguments
                .next()
                .is_some_and(|below| Path::new(OsStr::from_bytes(below)).starts_with(dir))
    };
    pids.filter(is_one).collect()
}

fn a_flood_apart_does_what_threads_do() {
    for kind in ["seq", "random", "files,file_size=16KiB", "mmap", "copy"] {
        let dir = tempfile::tempdir().unwrap();
        let spec = format!("{kind},streams=2,size=2MiB,block=64KiB");
        let flood = flood(dir.path(), &spec);
        let (total, finished) = run_until(start(&flood, 1), |t| t.bytes >= 5 << 20);
        let each = if kind.starts_with("files") { 16 << 10 } else { 64 << 10 };
        assert_eq!(total.bytes, total.ops * each, "{spec}");
        assert_eq!(finished.total_ops, total.ops, "{spec}");
        assert!(finished.cpu_us.unwrap() > 0, "{spec}");
        assert!((1 << 20..=2 << 20).contains(&space_taken(dir.path())), "{spec}");
        flood.discard().unwrap();
        run_until(start(&flood, 2), |t| t.ops >= 3);
    }
}

fn a_flood_apart_is_counted_as_the_kernel_counts_it() {
    let dir = tempfile::tempdir().unwrap();
    let flood = flood(dir.path(), "seq,size=8MiB,block=64KiB,rate=20MB/s");
    let mut running = start(&flood, 1);
    let pid = floods_below(dir.path())[0];
    let mut bytes = 0;
    wait_for("bytes", || {
        bytes += running.sample().bytes;
        bytes > 4 << 20
    });
    let io = text(Path::new(&format!("/proc/{pid}/io")));
    let written: u64 =
        io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap();
    // Its counters and its words are some kilobytes; between the two looks it may write on.
    assert!(written >= bytes && written - bytes < 2 << 20, "{written} and {bytes}");
    assert_eq!(running.finish().failure, None);
}

fn a_flood_that_is_cut_writes_on() {
    for kind in ["seq", "random", "files,file_size=16KiB", "mmap", "copy"] {
        let dir = tempfile::tempdir().unwrap();
        let flood = flood(dir.path(), &format!("{kind},streams=2,size=2MiB,block=64KiB"));
        let (_, finished) = run_until(start(&flood, 1), |total| {
            flood.cut().unwrap();
            total.bytes >= 8 << 20
        });
        assert_eq!(finished.failure, None, "{kind}");
    }
}

fn a_flood_whose_process_is_killed_has_failed() {
    let dir = tempfile::tempdir().unwrap();
    let flood = flood(dir.path(), "seq,size=2MiB,block=64KiB");
    let running = start(&flood, 1);
    for pid in floods_below(dir.path()) {
        assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
    }
    wait_for("the failure", || running.failure().is_some());
    for failure in [running.failure(), running.finish().failure] {
        let failure = failure.map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(failure, "a flood's process: it exited early (signal: 9)");
    }
}

fn a_flood_that_can_not_write_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let flood = flood(dir.path(), "files,file_size=16KiB,size=2MiB");
    // The files to write into are gone.
    flood.discard().unwrap();
    std::fs::remove_dir_all(flood.dir()).unwrap();
    let error = match flood.start_apart(1, proc_root(), &apart(&flood)) {
        Err(error) => error,
        Ok(running) => {
            wait_for("the failure", || running.failure().is_some());
            running.finish().failure.unwrap()
        }
    };
    assert!(error.to_string().contains("No such file"), "{error}");
}

fn a_flood_ends_with_the_process_that_ordered_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut orders = child::spawn("flood apart", dir.path(), "seq,size=2MiB,block=64KiB");
    let mut floods = Vec::new();
    wait_for("the flood's process", || {
        floods = floods_below(dir.path());
        !floods.is_empty()
    });
    orders.kill().unwrap();
    orders.wait().unwrap();
    wait_for("its end", || floods.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
}

/// What the ordering process of the last test does.
pub(crate) fn order(dir: &Path, spec: &str) {
    let flood = flood(dir, spec);
    let _running = start(&flood, 1);
    std::thread::sleep(PATIENCE);
}

/// What a flood's process does.
pub(crate) fn flood_process() {
    let input = std::io::BufReader::new(std::io::stdin());
    // The process that ordered it may have been killed.
    let _ = floodwall_load::apart::serve(input, std::io::stdout());
}
