//! Commands, each paced by another process.
//!
//! A stop interrupts a read of /dev/zero, as any signal does. dd(1) then counts a short block as a
//! whole one, unless it has `iflag=fullblock`.

mod pacing;
mod rest;
mod strict;
mod terminal;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use floodwall_testing::process::lives;
use floodwall_testing::{Trial, lacks};
use rustix::fs::statfs;
use rustix::process::{Pid, Signal, kill_process};

use pacing::{FAST, Pacing, SLOW, directory, figures, is_stopped, paced, said};
pub(crate) use pacing::{KEEPER, PACED, PACED_STRICTLY, keeper_process, paced_process};
pub(crate) use strict::{WRITER, writer_process};

pub(crate) fn tests() -> Vec<Trial> {
    let anywhere = floodwall_testing::tests![
        the_status_is_the_commands,
        standard_files_and_environment_are_the_callers,
        signals_of_other_processes_are_passed_on,
        only_the_commands_own_end_ends_it,
        files_of_other_programs_make_few_looks_due,
        an_inner_pace_leaves_it_to_the_outer_one,
    ];
    let on_a_disk = floodwall_testing::tests![lacks_a_disk =>
        what_dd_writes_is_counted_and_no_more,
        a_daemon_of_the_command_is_counted,
        small_files_are_found_though_they_are_closed_at_once,
        a_flood_is_held_and_ends_at_the_rate,
        all_processes_are_stopped_and_continued,
        nothing_stays_stopped_when_the_pacing_process_is_killed,
        a_daemon_goes_on_while_the_pacing_process_is_stopped,
    ];
    anywhere.into_iter().chain(on_a_disk).chain(others()).collect()
}

fn others() -> impl Iterator<Item = Trial> {
    [rest::tests(), strict::tests(), terminal::tests()].into_iter().flatten()
}

/// The kernel does not count pages that are dirtied on tmpfs.
pub(crate) fn lacks_a_disk() -> Option<String> {
    const TMPFS: i64 = 0x0102_1994;
    let is_tmpfs = statfs(directory().path()).is_ok_and(|fs| fs.f_type == TMPFS);
    is_tmpfs
        .then(|| "needs a build directory on a disk".to_owned())
        .or_else(|| lacks(&["/proc/self/io"]))
}

fn the_status_is_the_commands() {
    let dir = directory();
    let at = dir.path().to_str().unwrap();
    for (words, status, message) in [
        (vec!["true"], 0, "paced true"),
        (vec!["/bin/sh", "-c", "exit 3"], 3, "paced true"),
        (vec!["/bin/sh", "-c", "kill -TERM $$"], 143, "paced true"),
        (vec!["/bin/sh", "-c", "kill -KILL $$"], 137, "paced true"),
        (vec!["floodwall-no-such-program"], 127, "floodwall-no-such-program: command not found"),
        (vec![at], 126, "Permission denied"),
    ] {
        // A directory in PATH that may not be searched is execvp's "permission denied".
        let output = paced(FAST, dir.path(), &words).env("PATH", "/usr/bin:/bin").output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(message), "{words:?}: {}", said(&output));
    }
}

fn standard_files_and_environment_are_the_callers() {
    let dir = directory();
    let script = "cat; echo $FLOODWALL_TEST; echo said >&2";
    let mut child = paced(FAST, dir.path(), &["/bin/sh", "-c", script])
        .env("FLOODWALL_TEST", "told")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"from stdin\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "from stdin\ntold\n");
    assert!(said(&output).starts_with("said\n"));
}

fn signals_of_other_processes_are_passed_on() {
    let dir = directory();
    let script = "for name in INT QUIT USR1 USR2 TERM; do trap \"echo $name\" $name; done; \
        trap 'echo HUP; exit 7' HUP; echo ready; while :; do sleep 0.02; done";
    let mut pacing = Pacing::start(FAST, dir.path(), script);
    let stdout = pacing.child.stdout.take().unwrap();
    let mut lines = BufReader::new(stdout).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "ready");
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
    ] {
        pacing.signal(signal);
        assert_eq!(lines.next().unwrap(), name);
    }
    assert_eq!(pacing.child.wait().unwrap().code(), Some(7));
}

fn what_dd_writes_is_counted_and_no_more() {
    let dir = directory();
    let script = "dd if=/dev/zero iflag=fullblock of=file bs=1M count=32 2>/dev/null";
    let dirtied = figures(FAST, dir.path(), script).of("dirtied");
    assert!((32 << 20..34 << 20).contains(&dirtied), "{dirtied}");
}

/// An opened file makes a look due, and the next ones come soon.
fn files_of_other_programs_make_few_looks_due() {
    let dir = directory();
    let file = dir.path().join("others");
    let mut sleep = paced(FAST, dir.path(), &["sleep", "0.5"]);
    let mut child = sleep.stderr(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        fs::write(&file, "text").unwrap();
    }
    let figures = pacing::Figures(said(&child.wait_with_output().unwrap()));
    let (looks, most) = (figures.of("looks"), figures.seconds() / 0.003 + 10.0);
    assert!((looks as f64) < most, "{looks}, {most}");
}

fn a_daemon_of_the_command_is_counted() {
    let dir = directory();
    let script = "(setsid /bin/sh -c 'sleep 0.1; \
        dd if=/dev/zero iflag=fullblock of=file bs=1M count=16 \
        2>/dev/null; sleep 0.5; : > done' &); while ! [ -e done ]; do sleep 0.02; done; sleep 1";
    let dirtied = figures(FAST, dir.path(), script).of("dirtied");
    assert!((16 << 20..18 << 20).contains(&dirtied), "{dirtied}");
}

fn only_the_commands_own_end_ends_it() {
    let dir = directory();
    let script = "(setsid /bin/sh -c 'echo $$ > pid; exec sleep 1000' >/dev/null 2>&1 &); \
        while ! [ -s pid ]; do sleep 0.02; done";
    figures(FAST, dir.path(), script);
    let pid: i32 = fs::read_to_string(dir.path().join("pid")).unwrap().trim().parse().unwrap();
    assert!(lives(pid) && !is_stopped(pid));
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

fn small_files_are_found_though_they_are_closed_at_once() {
    let dir = directory();
    let script = "mkdir -p new/deep; for i in $(seq 100); do \
        echo text > file$i; echo text > new/deep/file$i; done; sleep 1";
    let found = figures(FAST, dir.path(), script).of("found");
    assert!(found >= 190, "{found}");
}

fn a_flood_is_held_and_ends_at_the_rate() {
    let dir = directory();
    let script = "for i in 1 2 3; do \
        dd if=/dev/zero iflag=fullblock of=file$i bs=1M count=16 2>/dev/null; sleep 0.3; done";
    let figures = figures("3e7", dir.path(), script);
    assert!(figures.of("held") > 0 && figures.of("found") > 0, "{}", figures.0);
    assert_eq!(fs::metadata(dir.path().join("file3")).unwrap().len(), 16 << 20);
}

/// Twenty children that have written, and a daemon that writes on.
const FOREST: &str = "trap '' HUP; \
    for i in $(seq 20); do \
        (dd if=/dev/zero of=file$i bs=1M count=3 2>/dev/null; exec sleep 1000) & \
    done; \
    (setsid /bin/sh -c 'while :; do dd if=/dev/zero of=more bs=1M count=8 2>/dev/null; done' &); \
    wait";

fn all_are_stopped(pacing: &Pacing) -> bool {
    let processes = pacing.processes();
    processes.len() >= 22 && processes.iter().all(|pid| is_stopped(*pid))
}

fn all_processes_are_stopped_and_continued() {
    let dir = directory();
    let mut pacing = Pacing::start(SLOW, dir.path(), FOREST);
    pacing.waits_for("all are stopped", all_are_stopped);
    // A stop is never long, however much is dirty.
    pacing.waits_for("it runs", |pacing| pacing.log.text().contains("runs"));
    pacing.waits_for("all are stopped again", all_are_stopped);
    pacing.left = pacing.processes();
    pacing.signal(Signal::TERM);
    assert_eq!(pacing.child.wait().unwrap().code(), Some(143));
}

fn nothing_stays_stopped_when_the_pacing_process_is_killed() {
    let dir = directory();
    let mut pacing = Pacing::start(SLOW, dir.path(), FOREST);
    pacing.waits_for("all are stopped", all_are_stopped);
    pacing.left = pacing.processes();
    pacing.signal(Signal::KILL);
    pacing.child.wait().unwrap();
    let left = pacing.left.clone();
    pacing.waits_for("all go on", |_| !left.iter().any(|pid| is_stopped(*pid)));
    let alive = left.iter().filter(|pid| lives(**pid)).count();
    assert!(alive >= 21, "{alive} are left");
}

/// The daemon has its own session. So the signals by which a terminal stops and continues a job
/// don't reach it.
fn a_daemon_goes_on_while_the_pacing_process_is_stopped() {
    let dir = directory();
    let mut pacing = Pacing::start(SLOW, dir.path(), FOREST);
    let own = pacing.child.id().cast_signed();
    for stops in [Signal::TSTP, Signal::TTIN] {
        pacing.waits_for("all are stopped", all_are_stopped);
        pacing.signal(stops);
        pacing.waits_for("the daemon runs", |pacing| {
            is_stopped(own) && pacing.processes().iter().any(|pid| !is_stopped(*pid))
        });
        pacing.signal(Signal::CONT);
        pacing.waits_for("it goes on", |_| !is_stopped(own));
    }
    pacing.waits_for("all are stopped again", all_are_stopped);
    pacing.left = pacing.processes();
    pacing.signal(Signal::TERM);
    assert_eq!(pacing.child.wait().unwrap().code(), Some(143));
}

fn an_inner_pace_leaves_it_to_the_outer_one() {
    let dir = directory();
    let (inner, at) = (std::env::current_exe().unwrap(), dir.path().to_str().unwrap());
    let words = [inner.to_str().unwrap(), PACED, SLOW, at, "/bin/sh", "-c", "exit 5"];
    let output = paced(FAST, dir.path(), &words).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    let lines: Vec<String> = said(&output).lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with("paced false") && lines[1].starts_with("paced true"), "{lines:?}");
}
