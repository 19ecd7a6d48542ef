//! `floodwall pace` as scripts meet it: statuses, standard files, copies. On tmpfs, where no
//! process waits for a disk.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use floodwall_testing::until;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};

use super::{floodwall, stderr, stdout, tmpfs};

/// The longest wait for a copy.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_command_keeps_its_status_its_files_and_its_input() {
    for (words, status) in [
        (&["sh", "-c", "exit 0"][..], 0),
        (&["sh", "-c", "exit 3"], 3),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["floodwall-no-such-program"], 127),
        (&["/etc/passwd"], 126),
    ] {
        let output = floodwall(&[&["pace", "--quiet", "--"], words].concat());
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", stderr(&output));
    }
    let output = floodwall(&["pace", "--quiet", "--strict", "--", "sh", "-c", "echo a; exit 3"]);
    assert_eq!((output.status.code(), &*stdout(&output)), (Some(3), "a\n"), "{}", stderr(&output));
    let output = floodwall(&["pace", "--", "floodwall-no-such-program"]);
    assert_eq!(stderr(&output), "floodwall: pace: floodwall-no-such-program: command not found\n");
    let mut cat = Command::new(env!("CARGO_BIN_EXE_floodwall"));
    cat.args(["pace", "--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut cat = cat.stderr(Stdio::piped()).spawn().unwrap();
    cat.stdin.take().unwrap().write_all(b"all of it").unwrap();
    let output = cat.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "all of it");
    assert!(stderr(&output).starts_with("pace: 0 B written in "), "{}", stderr(&output));
}

#[test]
fn options_of_an_inner_pace_are_said_to_have_no_effect() {
    let program = env!("CARGO_BIN_EXE_floodwall");
    for (option, is_told) in [(None, false), (Some("--max=1MB/s"), true)] {
        let inner = [&[program, "pace"][..], option.as_slice(), &["--", "true"]].concat();
        let output = floodwall(&[&["pace", "--quiet", "--"][..], &inner].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stderr(&output).contains("the options here had no effect"), is_told);
    }
}

#[test]
fn copies_are_equal_and_told_in_a_line() {
    let dir = tmpfs();
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::write(path("a"), vec![7; 3_000_001]).unwrap();
    fs::write(path("b"), "small").unwrap();
    fs::create_dir(path("to")).unwrap();
    let output = floodwall(&["pace", "cp", "--verify", &path("a"), &path("b"), &path("to")]);
    assert!(output.status.success(), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.starts_with("pace: 3.00 MB in 2 files copied and on the disk in "), "{told}");
    assert_eq!(told.lines().count(), 1);
    assert_eq!(fs::read(path("to/a")).unwrap(), vec![7; 3_000_001]);
    assert_eq!(fs::read(path("to/b")).unwrap(), b"small");
    // Nothing is left of the way there.
    assert_eq!(fs::read_dir(path("to")).unwrap().count(), 2);
    let whole = fs::File::create(path("whole")).unwrap();
    let mut cat = Command::new(env!("CARGO_BIN_EXE_floodwall"));
    cat.args(["pace", "--quiet", "cat", &path("b"), &path("b")]).stdout(whole);
    assert!(cat.status().unwrap().success());
    assert_eq!(fs::read(path("whole")).unwrap(), b"smallsmall");
}

#[test]
fn a_file_beyond_the_process_s_limit_is_refused_and_leaves_nothing() {
    let dir = tmpfs();
    fs::write(dir.path().join("a"), vec![7; 3 << 20]).unwrap();
    let script = "ulimit -f 2048; exec \"$0\" pace cp a b";
    let mut limited = Command::new("sh");
    limited.args(["-c", script, env!("CARGO_BIN_EXE_floodwall")]).current_dir(dir.path());
    let output = limited.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("ulimit -f"), "{}", stderr(&output));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_rate_is_kept_where_there_is_no_disk() {
    let dir = tmpfs();
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::write(path("a"), vec![7; 8 << 20]).unwrap();
    let begin = std::time::Instant::now();
    let output = floodwall(&["pace", "--to", "rate=8MiB/s", "cp", &path("a"), &path("b")]);
    assert!(output.status.success(), "{}", stderr(&output));
    // 8 MiB at that rate take a second; the first piece waits for nothing.
    assert!(begin.elapsed().as_secs_f64() > 0.8, "{:?}", begin.elapsed());
}

#[test]
fn what_can_not_be_copied_is_said_before_anything_is_written() {
    let dir = tmpfs();
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::write(path("a"), "a").unwrap();
    fs::create_dir(path("folder")).unwrap();
    for (words, told) in [
        (vec!["cp".to_owned(), path("none"), path("x")], "none"),
        (vec!["cp".to_owned(), path("folder"), path("x")], "-r"),
        (vec!["cp".to_owned(), path("a"), path("folder"), path("a")], "a"),
        (vec!["cp".to_owned(), path("a"), path("a")], "a"),
        (vec!["cp".to_owned(), path("a")], "2 values required"),
        (vec!["--to".to_owned(), "rate=50".to_owned(), "--".to_owned(), "true".to_owned()], "50"),
        (vec!["--max".to_owned(), "fast".to_owned(), "--".to_owned(), "true".to_owned()], "fast"),
        (vec!["--strict".to_owned(), "cp".to_owned(), path("a"), path("x")], "--strict"),
        (vec![], "COMMAND"),
    ] {
        let words: Vec<&str> = std::iter::once("pace").chain(words.iter().map(|w| &**w)).collect();
        let output = floodwall(&words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{words:?}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{words:?}: {}", stderr(&output));
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// A copy of two seconds, after these words of a shell, that gets a signal once it writes.
fn signalled(dir: &Path, before: &str, signal: Signal) -> Output {
    let binary = env!("CARGO_BIN_EXE_floodwall");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{before} exec {binary} pace --to rate=2MiB/s cp a b")]);
    shell.current_dir(dir).stderr(Stdio::piped());
    let copy = shell.spawn().unwrap();
    until(LONG, "a part file", || dir.join("b.floodwall-part").exists()).unwrap();
    kill_process(Pid::from_child(&copy), signal).unwrap();
    copy.wait_with_output().unwrap()
}

#[test]
fn a_signal_that_was_ignored_at_the_start_does_not_end_a_copy() {
    let dir = tmpfs();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    fs::write(&a, vec![7; 4 << 20]).unwrap();
    for signal in [Signal::HUP, Signal::INT] {
        let ended = signalled(dir.path(), "trap - HUP INT;", signal);
        assert_eq!(ended.status.code(), Some(1), "{}", stderr(&ended));
        assert!(stderr(&ended).contains("interrupted") && !b.exists(), "{}", stderr(&ended));
        let ended = signalled(dir.path(), "trap '' HUP INT;", signal);
        assert!(ended.status.success(), "{}", stderr(&ended));
        assert_eq!(fs::read(&b).unwrap().len(), 4 << 20);
        fs::remove_file(&b).unwrap();
    }
}

#[test]
fn standard_input_is_a_source() {
    let dir = tmpfs();
    let binary = env!("CARGO_BIN_EXE_floodwall");
    for (n, source) in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].into_iter().enumerate() {
        let to = dir.path().join(n.to_string());
        let script = format!("echo hi | {binary} pace --quiet cp {source} {}", to.display());
        let status = Command::new("sh").args(["-c", &script]).status().unwrap();
        assert!(status.success(), "{source}");
        assert_eq!(fs::read_to_string(to).unwrap(), "hi\n");
    }
}

#[test]
fn each_entry_that_could_not_be_copied_is_named_and_the_rest_is_told() {
    let dir = tmpfs();
    let path = |name: &str| dir.path().join(name).display().to_string();
    for n in 0..103 {
        fs::create_dir_all(path(&format!("to/from/{n}"))).unwrap();
        fs::create_dir_all(path("from")).unwrap();
        fs::write(path(&format!("from/{n}")), "x").unwrap();
    }
    fs::write(path("from/a"), "copied").unwrap();
    let output = floodwall(&["pace", "cp", "-R", &path("from"), &path("to")]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = stderr(&output);
    let lines: Vec<&str> = told.lines().collect();
    let first = format!("floodwall: can't replace {}/from/", path("to"));
    assert_eq!(lines.iter().filter(|line| line.starts_with(&first)).count(), 100, "{told}");
    assert_eq!(lines[100], "floodwall: and 3 more");
    assert!(lines[101].starts_with("pace: 6 B in 1 file copied and on the disk"), "{told}");
    assert_eq!(lines[102..], ["floodwall: 103 of the sources' entries could not be copied"]);
    assert_eq!(fs::read_to_string(path("to/from/a")).unwrap(), "copied");
}

#[test]
fn a_summary_is_true_of_pipes_and_of_finished_files() {
    let dir = tmpfs();
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::write(path("a"), "0123456789").unwrap();
    let (a, b) = (&*path("a"), &*path("b"));
    for (words, begins) in [
        (&["cat", a][..], "pace: 10 B in 1 file copied in "),
        (&["cp", a, "/dev/null"], "pace: 10 B in 1 file copied in "),
        (&["cp", a, b], "pace: 10 B in 1 file copied and on the disk in "),
        (
            &["cp", "--resume", "--verify", a, b],
            "pace: 1 file was there already; 1 file verified; in ",
        ),
    ] {
        let output = floodwall(&[&["pace"], words].concat());
        assert!(stderr(&output).starts_with(begins), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn a_reader_that_goes_away_ends_cat_as_it_ends_other_programs() {
    let zeros = Stdio::from(File::open("/dev/zero").unwrap());
    let mut cat = Command::new(env!("CARGO_BIN_EXE_floodwall"));
    cat.args(["pace", "cat"]).stdin(zeros).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut cat = cat.spawn().unwrap();
    drop(cat.stdout.take());
    let output = cat.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(Signal::PIPE.as_raw()), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_terminal_gets_the_data_of_cat_without_a_bar() {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let ours = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&ours).unwrap();
    rustix::pty::unlockpt(&ours).unwrap();
    let name = rustix::pty::ptsname(&ours, Vec::new()).unwrap();
    let open = || {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::open(&*name, flags, rustix::fs::Mode::empty()).unwrap()
    };
    let mut cat = Command::new(env!("CARGO_BIN_EXE_floodwall"));
    cat.args(["pace", "cat"]).stdin(Stdio::piped()).stdout(open()).stderr(open());
    let mut child = cat.spawn().unwrap();
    // It would keep the terminal open.
    drop(cat);
    let mut input = child.stdin.take().unwrap();
    for line in ["one\n", "two\n"] {
        input.write_all(line.as_bytes()).unwrap();
        // A bar is drawn four times a second.
        std::thread::sleep(Duration::from_millis(400));
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    let mut shown = Vec::new();
    // The end is an error (EIO): no process has the other side open.
    let _ = File::from(ours).read_to_end(&mut shown);
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.starts_with("one\r\ntwo\r\npace: 8 B in 1 file copied in "), "{shown:?}");
}
