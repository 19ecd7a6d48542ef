//! Commands that end, do not end, print, and leave children; real ones.

use std::fs;
use std::path::Path;
use std::sync::mpsc::Sender;

use floodwall_model::stall::{Flood, Victim};
use rustix::process::{test_kill_process, test_kill_process_group};

use super::*;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn stall() -> Stall {
    let victim = Victim { name: "pg\n\0$(false)".into(), ..Victim::default() };
    let workload = Workload { unit: Some("backup.service".into()), ..Workload::default() };
    Stall {
        began_unix_ms: 1_000,
        ended_unix_ms: 4_200,
        disk: "sda".into(),
        victims: vec![victim],
        floods: vec![Flood { name: "cp".into(), workload, ..Flood::default() }],
        ..Stall::default()
    }
}

fn hook(limit: Duration, command: &str) -> (Hook, Receiver<String>) {
    let (lines, logged) = mpsc::channel();
    let log = |lines: Sender<String>| move |line: &str| drop(lines.send(line.to_owned()));
    (Hook::within(limit, command.to_owned(), log(lines)).unwrap(), logged)
}

fn next(logged: &Receiver<String>) -> String {
    logged.recv_timeout(PATIENCE).unwrap()
}

/// The number that a command has written as a line of a file.
fn written(file: &Path) -> Pid {
    let begin = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if text.ends_with('\n') {
            return Pid::from_raw(text.trim().parse().unwrap()).unwrap();
        }
        assert!(begin.elapsed() < PATIENCE, "nothing in {}", file.display());
        thread::sleep(LOOK);
    }
}

#[test]
fn the_command_gets_the_stall_and_its_end_is_logged() {
    let dir = tempfile::tempdir().unwrap();
    let command = format!(
        "cd '{}'; cat > stdin; env | grep ^FLOODWALL_ | sort > env; echo said; echo more; exit 3",
        dir.path().display()
    );
    let (hook, logged) = hook(LIMIT, &command);
    hook.event(Event::Began, &stall());
    assert_eq!(next(&logged), "--exec, began on sda: exit status: 3: said");
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(
        read("env"),
        "FLOODWALL_DISK=sda\nFLOODWALL_EVENT=began\nFLOODWALL_FLOOD=backup.service\n\
         FLOODWALL_SECONDS=3.2\nFLOODWALL_VICTIM=pg\\u{a}\\u{0}$(false)\n"
    );
    assert_eq!(serde_json::from_str::<Stall>(&read("stdin")).unwrap(), stall());
    let ended = Stall { floods: Vec::new(), ..stall() };
    hook.event(Event::Ended, &ended);
    assert_eq!(next(&logged), "--exec, ended on sda: exit status: 3: said");
    assert!(read("env").contains("EVENT=ended\nFLOODWALL_FLOOD=\n"));
}

#[test]
fn a_command_that_reads_nothing_and_prints_much_does_no_harm() {
    let many = Victim { name: "x".repeat(100), ..Victim::default() };
    let stall = Stall { victims: vec![many; 10_000], ..stall() };
    let (hook, logged) = hook(LIMIT, "printf '\\033[2J\\n'; yes | head -c 3000000");
    hook.event(Event::Began, &stall);
    assert_eq!(next(&logged), "--exec, began on sda: exit status: 0: \\u{1b}[2J");
}

#[test]
fn a_command_that_takes_too_long_is_killed_with_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let command = format!("sleep 1000 & echo $$ > '{}'; echo at work; wait", file.display());
    let (hook, logged) = hook(Duration::from_millis(300), &command);
    hook.event(Event::Began, &stall());
    assert_eq!(next(&logged), "--exec, began on sda: killed (too long): at work");
    let shell = written(&file);
    // A zombie would still be there; its child is init's to collect.
    assert!(test_kill_process(shell).is_err());
    let begin = Instant::now();
    while test_kill_process_group(shell).is_ok() {
        assert!(begin.elapsed() < PATIENCE, "its child lives");
        thread::sleep(LOOK);
    }
    // A child with the command's output, in the background, is a part of the command.
    let (hook, logged) = self::hook(Duration::from_millis(300), "sleep 1000 & true");
    hook.event(Event::Began, &stall());
    assert_eq!(next(&logged), "--exec, began on sda: killed (too long)");
}

#[test]
fn a_child_that_closed_its_output_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let command = format!("sleep 1000 > /dev/null 2>&1 & echo $! > '{}'", file.display());
    let (hook, logged) = hook(LIMIT, &command);
    hook.event(Event::Began, &stall());
    assert_eq!(next(&logged), "--exec, began on sda: exit status: 0");
    drop(hook);
    let child = written(&file);
    assert!(test_kill_process(child).is_ok());
    rustix::process::kill_process(child, Signal::KILL).unwrap();
}

#[test]
fn events_while_it_runs_are_dropped_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let command = format!(
        "cd '{}'; echo x >> runs; until [ -e go ]; do sleep 0.05; done",
        dir.path().display()
    );
    let (hook, logged) = hook(LIMIT, &command);
    for _ in 0..3 {
        hook.event(Event::Began, &stall());
    }
    fs::write(dir.path().join("go"), "").unwrap();
    assert_eq!(next(&logged), "--exec, began on sda: exit status: 0");
    assert_eq!(next(&logged), "--exec: 2 events were dropped while it ran");
    hook.event(Event::Ended, &stall());
    assert_eq!(next(&logged), "--exec, ended on sda: exit status: 0");
    assert_eq!(fs::read_to_string(dir.path().join("runs")).unwrap(), "x\nx\n");
}

#[test]
fn a_command_ends_soon_after_the_recorder() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let command = format!("echo $$ > '{}'; exec sleep 1000", file.display());
    let (hook, logged) = hook(LIMIT, &command);
    hook.event(Event::Began, &stall());
    let shell = written(&file);
    drop(hook);
    assert_eq!(next(&logged), "--exec, began on sda: killed (the recorder ends)");
    assert!(test_kill_process(shell).is_err());
}
