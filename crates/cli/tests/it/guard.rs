//! The daemon as its users meet it, over a simulated machine that lives in real time: no privilege,
//! no device, no kernel file.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use floodwall_testing::process::{Log, Process, install, lives, script};
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::{floodwall, stderr, stdout, tmpfs};

/// How long something that takes a moment may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A guard in a separate directory; killed if a test fails.
struct Guard {
    dir: tempfile::TempDir,
    child: Process,
    log: Log,
}

impl Guard {
    fn start(config: &str, arguments: &[&str]) -> Self {
        Self::start_in(tmpfs(), config, arguments)
    }

    fn start_in(dir: tempfile::TempDir, config: &str, arguments: &[&str]) -> Self {
        Self::start_with(dir, config, arguments, &[])
    }

    fn start_with(
        dir: tempfile::TempDir,
        config: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        Self::start_program(
            Path::new(env!("CARGO_BIN_EXE_floodwall")),
            dir,
            config,
            arguments,
            variables,
        )
    }

    fn start_program(
        program: &Path,
        dir: tempfile::TempDir,
        config: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        fs::write(dir.path().join("guard.toml"), config).unwrap();
        let mut child = Command::new(program)
            .args(["guard", "--sim", "hdd-7200", "--config"])
            .arg(dir.path().join("guard.toml"))
            .arg("--socket")
            .arg(dir.path().join("guard.sock"))
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Log::of(child.stderr.take());
        Self { dir, child: Process(child), log }
    }

    fn running(config: &str, arguments: &[&str]) -> Self {
        let guard = Self::start(config, arguments);
        guard.until("it answers", || guard.ask(&["status"]).status.success());
        guard
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("guard.sock")
    }

    /// `floodwall guard …` of it.
    fn ask(&self, arguments: &[&str]) -> Output {
        let socket = self.socket();
        floodwall(&[&["guard"], arguments, &["--socket", socket.to_str().unwrap()]].concat())
    }

    fn status(&self) -> Value {
        serde_json::from_str(&stdout(&self.ask(&["status", "--json"]))).unwrap_or(Value::Null)
    }

    fn log(&self) -> String {
        self.log.text()
    }

    fn until(&self, what: &str, is: impl Fn() -> bool) {
        let reached = floodwall_testing::until(PATIENCE, what, is);
        assert!(reached.is_ok(), "{reached:?}\n{}", self.log());
    }

    fn worker(&self) -> i32 {
        self.status()["pid"].as_i64().unwrap() as i32
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child.0), signal).unwrap();
    }

    /// Its exit status, once it has ended.
    fn ended(&mut self) -> Option<i32> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn kill(pid: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn a_guard_protects_tells_what_it_did_and_ends_with_everything_put_back() {
    let mut guard = Guard::running("", &[]);
    guard.until("a victim meets a flood", || {
        guard.status()["devices"][0]["held"].as_array().is_some_and(|h| !h.is_empty())
    });
    let status = guard.status();
    assert_eq!(status["schema"], "floodwall/guard/1");
    let device = &status["devices"][0];
    assert!(["protect", "probe"].contains(&device["state"].as_str().unwrap()), "{device}");
    assert!(
        device["victims"].as_array().unwrap().iter().any(|v| v.as_str().unwrap().contains("db")),
        "{device}"
    );
    assert!(
        device["floods"].as_array().unwrap().iter().any(|v| v.as_str().unwrap().contains("copy")),
        "{device}"
    );
    let page = stdout(&guard.ask(&["status"]));
    for words in ["DEVICE", "hdd-7200", "waits:", "floods:", "holds:", "(yours: ", "last:"] {
        assert!(page.contains(words), "'{words}' is not in\n{page}");
    }
    let history = stdout(&guard.ask(&["history"]));
    assert!(history.contains("watch → protect") || history.contains("free → protect"), "{history}");
    let lines = stdout(&guard.ask(&["history", "--json", "--last", "1"]));
    assert_eq!(lines.lines().count(), 1);
    serde_json::from_str::<Value>(&lines).unwrap();
    let log = guard.log();
    assert!(
        log.contains("hdd-7200: ")
            && log.contains("wrote ")
            && log.contains(" UTC floodwall guard: "),
        "{log}"
    );
    let socket = guard.socket();
    guard.signal(Signal::TERM);
    assert_eq!(guard.ended(), Some(0));
    assert!(!socket.exists() && !socket.with_extension("lock").exists());
    let log = guard.log();
    assert!(
        !log.contains("can't set"),
        "the simulated kernel takes back every value that it has shown\n{log}"
    );
    assert!(log.lines().last().unwrap().contains("stopped"), "{log}");
}

#[test]
fn a_pause_holds_until_it_is_ended_and_outlives_its_worker() {
    let guard = Guard::running("", &[]);
    let said = stdout(&guard.ask(&["pause", "--for", "10m"]));
    assert!(said.contains("it resumes by itself in 10 min 0 s"), "{said}");
    let left = guard.status()["paused"]["left_s"].as_f64().unwrap();
    assert!(left > 500.0 && left < 600.0, "{left}");
    assert!(stdout(&guard.ask(&["status"])).contains("PAUSED"));
    let worker = guard.worker();
    kill(worker, Signal::KILL);
    guard.until("another worker", || {
        guard.status()["pid"].as_i64().is_some_and(|pid| pid != i64::from(worker))
    });
    let status = guard.status();
    assert!(status["paused"]["left_s"].as_f64().unwrap() < left, "{status}");
    assert_eq!(status["restarts"], 1);
    assert_eq!(stdout(&guard.ask(&["resume"])), "resumed\n");
    assert_eq!(stdout(&guard.ask(&["resume"])), "it was not paused\n");
    assert_eq!(guard.status()["paused"], Value::Null);
    let log = guard.log();
    assert!(
        log.contains("the worker died (signal: 9 (SIGKILL))")
            && log.contains("starting it again in 1 s"),
        "{log}"
    );
}

#[test]
fn a_worker_that_hangs_is_killed_and_another_started() {
    let guard = Guard::running("", &[]);
    let worker = guard.worker();
    kill(worker, Signal::STOP);
    guard.until("another worker", || {
        guard.status()["pid"].as_i64().is_some_and(|pid| pid != i64::from(worker))
    });
    assert!(!lives(worker));
    assert!(guard.log().contains("gave no sign for 5 s and was killed"), "{}", guard.log());
}

#[test]
fn a_worker_that_dies_again_and_again_is_given_up() {
    let mut guard = Guard::running("", &[]);
    for _ in 0..5 {
        let worker = guard.worker();
        kill(worker, Signal::KILL);
        guard.until("it is gone", || !lives(worker));
        guard.until("another worker, or none any more", || {
            guard.status()["pid"].is_i64() || guard.log().contains("given up after 5 deaths")
        });
    }
    assert_eq!(guard.ended(), Some(1));
    assert!(guard.log().contains("starting it again in 8 s"), "{}", guard.log());
}

#[test]
fn a_worker_does_not_outlive_its_parent() {
    let mut guard = Guard::running("", &[]);
    let worker = guard.worker();
    guard.signal(Signal::KILL);
    guard.ended();
    guard.until("the worker is gone", || !lives(worker));
    // Nothing of it stands in the way of the next one.
    let guard = Guard::start_in(std::mem::replace(&mut guard.dir, tmpfs()), "", &[]);
    guard.until("it answers", || guard.ask(&["status"]).status.success());
}

#[test]
fn a_configuration_is_read_again_and_a_wrong_one_changes_nothing() {
    let guard = Guard::running("p99 = \"30ms\"\n", &[]);
    assert_eq!(guard.status()["p99_us"], 30_000.0);
    let file = guard.dir.path().join("guard.toml");
    fs::write(&file, "# a goal\np99 = \"40\"\n").unwrap();
    guard.signal(Signal::HUP);
    guard.until("it is said", || guard.log().contains("the old one stays in force"));
    let log = guard.log();
    assert!(log.contains("guard.toml', line 2: p99: "), "{log}");
    assert_eq!(guard.status()["p99_us"], 30_000.0);
    fs::write(&file, "p99 = \"40ms\"\nmetrics = \"127.0.0.1:1\"\n").unwrap();
    guard.signal(Signal::HUP);
    guard.until("it is taken", || guard.status()["p99_us"] == 40_000.0);
    // The parent says it once the worker has the rest.
    guard.until("it is said", || guard.log().contains("metrics is taken at the next start"));
    // One that is started after a death has it, too.
    let worker = guard.worker();
    kill(worker, Signal::KILL);
    guard.until("another worker", || guard.status()["restarts"] == 1);
    assert_eq!(guard.status()["p99_us"], 40_000.0);
}

#[test]
fn a_second_guard_is_told_who_is_first_and_leaves_it_alone() {
    let guard = Guard::running("", &[]);
    let socket = guard.socket();
    let second = floodwall(&["guard", "--sim", "hdd-7200", "--socket", socket.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    let said = stderr(&second);
    assert!(
        said.contains(&format!("another guard (process {}) runs here", guard.child.0.id())),
        "{said}"
    );
    let ask = format!("floodwall guard status --socket '{}'", socket.display());
    assert!(said.contains(&ask), "{said}");
    assert!(guard.ask(&["status"]).status.success());
}

#[test]
fn a_program_that_was_replaced_meanwhile_starts_its_worker_again() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("floodwall");
    install(env!("CARGO_BIN_EXE_floodwall"), &program).unwrap();
    let guard = Guard::start_program(&program, tmpfs(), "", &[], &[]);
    guard.until("it answers", || guard.ask(&["status"]).status.success());
    // As a package's upgrade does it.
    let new = dir.path().join("new");
    script(&new, "#!/bin/sh\nexit 1\n").unwrap();
    fs::rename(&new, &program).unwrap();
    let worker = guard.worker();
    assert_eq!(fs::read_to_string(format!("/proc/{worker}/comm")).unwrap(), "floodwall\n");
    kill(worker, Signal::KILL);
    guard.until("another worker", || {
        guard.status()["pid"].as_i64().is_some_and(|pid| pid != i64::from(worker))
    });
}

#[test]
fn a_worker_that_can_not_begin_is_not_started_again() {
    let dir = tmpfs();
    let socket = dir.path().join("guard.sock");
    fs::write(&socket, "mine").unwrap();
    let mut guard = Guard::start_in(dir, "", &[]);
    assert_eq!(guard.ended(), Some(1));
    let log = guard.log();
    assert!(
        log.contains("is there and is no socket; remove it") && !log.contains("starting it again"),
        "{log}"
    );
    assert_eq!(fs::read_to_string(&socket).unwrap(), "mine");
    let said = floodwall(&[
        "guard",
        "--sim",
        "no-such",
        "--socket",
        guard.dir.path().join("x.sock").to_str().unwrap(),
    ]);
    assert_eq!(said.status.code(), Some(2));
    assert!(stderr(&said).contains("there is no device 'no-such'"), "{}", stderr(&said));
}

#[test]
fn a_directory_that_is_not_there_is_not_made() {
    let dir = tmpfs();
    let missing = dir.path().join("missing");
    let socket = missing.join("x.sock");
    let file = dir.path().join("guard.toml");
    fs::write(&file, format!("metrics = \"unix:{}\"\n", socket.display())).unwrap();
    for arguments in [["--socket", socket.to_str().unwrap()], ["--config", file.to_str().unwrap()]]
    {
        for sim in [&["--sim", "hdd-7200"][..], &[]] {
            let output = floodwall(&[&["guard"], sim, &arguments].concat());
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{said}");
            let why =
                format!("there is no directory '{}' for '{}'", missing.display(), socket.display());
            assert!(
                said.contains(&why) && said.contains("make it first, or name a socket elsewhere"),
                "{said}"
            );
        }
    }
    let left: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["guard.toml"]);
}

#[test]
fn wrong_configurations_end_with_2_and_say_where_and_what_to_do() {
    let dir = tmpfs();
    let file = dir.path().join("guard.toml");
    fs::write(&file, "dry_run = true\n\ngoal = \"20ms\"\n").unwrap();
    let output = floodwall(&["guard", "--config", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("guard.toml', line 3: unknown key 'goal'; known here: p99"), "{said}");
    let missing = dir.path().join("missing.toml").to_string_lossy().into_owned();
    let unread = format!("can't read '{missing}'");
    for (arguments, words) in [
        (&["--p99", "1us"][..], "--p99 = 1us is less than queue lengths can steer"),
        (&["--metrics", "0.0.0.0:80"], "could be reached from elsewhere"),
        (&["--config", &missing], &unread),
        (&["--device", "sda", "--exclude", "sda"], "is both to be steered and to be left alone"),
    ] {
        let output = floodwall(&[&["guard"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

#[test]
fn the_last_none_of_the_history_are_refused_before_anybody_is_asked() {
    for number in ["0", "-1", "ten"] {
        let output = floodwall(&["guard", "history", &format!("--last={number}")]);
        assert_eq!(output.status.code(), Some(2), "{number}");
        let said = stderr(&output);
        assert!(said.contains("write how many decisions to show, 1 or more"), "{said}");
    }
}

#[test]
fn who_asks_where_no_guard_runs_is_told_so() {
    let dir = tmpfs();
    let socket = dir.path().join("guard.sock");
    for command in ["status", "history", "pause", "resume"] {
        let output = floodwall(&["guard", command, "--socket", socket.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        // The machine's own may run.
        assert!(
            said.contains("no guard runs here") || said.contains("does not listen at"),
            "{said}"
        );
    }
}

#[test]
fn a_client_that_sends_nonsense_or_nothing_holds_nobody_up() {
    let guard = Guard::running("", &[]);
    let silent: Vec<UnixStream> =
        (0..8).map(|_| UnixStream::connect(guard.socket()).unwrap()).collect();
    let mut bad = UnixStream::connect(guard.socket()).unwrap();
    bad.write_all(b"\xff\xfe\n").unwrap();
    let mut line = String::new();
    BufReader::new(&bad).read_line(&mut line).unwrap();
    assert!(line.contains("\"error\":\"no JSON"), "{line}");
    assert!(guard.ask(&["status"]).status.success());
    drop(silent);
}

#[test]
fn metrics_are_there_if_they_are_asked_for() {
    let dir = tmpfs();
    let metrics = dir.path().join("metrics.sock");
    let guard = Guard::start_in(dir, "", &["--metrics", &format!("unix:{}", metrics.display())]);
    guard.until("it answers", || guard.ask(&["status"]).status.success());
    let mut stream = UnixStream::connect(&metrics).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("floodwall_guard_info{version=") && text.ends_with("# EOF\n"), "{text}");
    assert!(text.contains("floodwall_guard_state{device=\"hdd-7200\",state=\"free\"} "), "{text}");
}

#[test]
fn systemd_is_told_when_it_is_ready_that_it_lives_and_what_it_does() {
    let dir = tmpfs();
    let path = dir.path().join("notify.sock");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let notify = path.to_str().unwrap().to_owned();
    let mut guard = Guard::start_with(
        dir,
        "",
        &[],
        &[("NOTIFY_SOCKET", &notify), ("WATCHDOG_USEC", "2000000")],
    );
    // Until something is told; what else was told meanwhile.
    let told = |what: &str| -> Vec<String> {
        let mut all = Vec::new();
        let mut buffer = [0; 4096];
        while !all.iter().any(|line: &String| line.starts_with(what)) {
            let n = socket
                .recv(&mut buffer)
                .map_err(|e| format!("{what}: {e}; told was {all:?}"))
                .unwrap();
            all.extend(String::from_utf8_lossy(&buffer[..n]).lines().map(str::to_owned));
        }
        all
    };
    told("READY=1");
    told("WATCHDOG=1");
    told("WATCHDOG=1");
    assert!(told("STATUS=").last().unwrap().contains("1 devices"));
    guard.signal(Signal::HUP);
    let reload = told("RELOADING=1");
    assert!(reload.last().unwrap().starts_with("MONOTONIC_USEC="), "{reload:?}");
    told("READY=1");
    // One that hangs is no reason to be silent: systemd would end the parent, too.
    let worker = guard.worker();
    kill(worker, Signal::STOP);
    told("STATUS=the worker died");
    assert!(told("READY=1").contains(&"WATCHDOG=1".to_owned()));
    guard.signal(Signal::TERM);
    told("STOPPING=1");
    assert_eq!(guard.ended(), Some(0));
}
