//! The reported costs of other programs, and the files left behind after an interruption.

#![expect(clippy::unwrap_used, reason = "a test's own functions fail with it")]

use std::fs;
use std::process::{Command, Stdio};

use floodwall_testing::process::script;
use rustix::process::{Pid, Signal, kill_process};

/// CPU time in µs and peak memory in KiB of a command.
fn cost_of(command: &[&str]) -> (u64, u64) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_agree")).arg("--cost-of").args(command).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    let line = stderr
        .lines()
        .last()
        .and_then(|line| line.strip_prefix("agree-cost: "))
        .unwrap()
        .to_owned();
    let (cpu_us, peak_kib) = line.split_once(' ').unwrap();
    (cpu_us.parse().unwrap(), peak_kib.parse().unwrap())
}

#[test]
fn the_peak_of_the_last_moment_is_seen_and_cpu_time_is_finer_than_a_tick() {
    // One buffer of 64 MiB, filled, copied and gone within some hundredths of a second.
    let (_, peak_kib) =
        cost_of(&["dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=1", "status=none"]);
    assert!((64 << 10..96 << 10).contains(&peak_kib), "{peak_kib} KiB");
    // One that does nothing: neither our own size nor nothing at all.
    let (cpu_us, peak_kib) = cost_of(&["true"]);
    assert!(cpu_us > 0);
    assert!((256..8 << 10).contains(&peak_kib), "{peak_kib} KiB");
}

#[test]
fn a_commands_status_and_words_are_passed_on() {
    let script = ["--cost-of", "sh", "-c", "echo out; echo err >&2; exit 7"];
    let output = Command::new(env!("CARGO_BIN_EXE_agree")).args(script).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"out\n");
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("err\n"));
}

#[test]
fn an_interrupted_comparison_leaves_nothing() {
    let (tools, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Stands in for floodwall, which is measured first: says that it runs, and runs until it is
    // told to stop.
    let tool = tools.path().join("floodwall");
    script(&tool, "#!/bin/sh\ntouch \"$STARTED\"\nexec /bin/sleep 600\n").unwrap();
    let started = tools.path().join("started");
    for signal in [Signal::INT, Signal::TERM] {
        let mut agree = Command::new(env!("CARGO_BIN_EXE_agree"))
            .arg("--floodwall")
            .arg(&tool)
            .arg("--disk")
            .arg(place.path())
            .env("STARTED", &started)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while !started.exists() {
            assert!(agree.try_wait().unwrap().is_none(), "it ended before it was interrupted");
            std::thread::yield_now();
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        kill_process(Pid::from_child(&agree), signal).unwrap();
        let output = agree.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && stderr.contains("interrupted"), "{stderr}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        fs::remove_file(&started).unwrap();
    }
}
