//! GNU dd and ours, each in a directory of its own with the same files.

mod devices;
mod lines;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use floodwall_compat::dd::transfer;
use floodwall_testing::process::{everything, output, text};
use floodwall_testing::{ensure, equal, said};
use rustix::process::{Pid, Signal, kill_process};

pub(crate) use self::devices::{devices, held, rates};
use self::lines::{LINES, PIECES, PIPED, WRONG};

const FLOODWALL: &str = env!("CARGO_BIN_EXE_floodwall");
/// From one piece of a pipe's data to the next: two reads.
const PAUSE: Duration = Duration::from_millis(150);
/// Bytes of the longest copy whose last line is compared.
const LARGEST: u64 = 5_000_000_000;
/// The program, before its words.
#[derive(Clone, Copy)]
enum Dd {
    Ours,
    Theirs,
}

impl Dd {
    fn command(self, line: &str) -> Command {
        let mut command = match self {
            Self::Ours => {
                let mut command = Command::new(FLOODWALL);
                command.args(["compat", "dd"]);
                command
            }
            Self::Theirs => Command::new("dd"),
        };
        command.args(line.split_whitespace()).env("LC_ALL", "C").stdin(Stdio::null());
        command
    }
}

/// What a run left.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    status: i32,
    said: String,
    stdout: Vec<u8>,
    files: BTreeMap<String, Vec<u8>>,
}

/// Bytes that differ from block to block.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at * 7 + at / 251) % 256).unwrap_or_default()).collect()
}

/// Runs one in a new directory.
fn run(dd: Dd, line: &str, pieces: &[&str]) -> Result<Left, String> {
    let directory = tempfile::tempdir().map_err(said("a directory"))?;
    let path = directory.path();
    for (name, length) in [("a", 10_000), ("old", 5000)] {
        fs::write(path.join(name), bytes(length)).map_err(said(name))?;
    }
    let mut command = dd.command(line);
    command.current_dir(path);
    if !pieces.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(said(line))?;
    if let Some(mut pipe) = child.stdin.take() {
        for piece in pieces {
            thread::sleep(PAUSE);
            // It may have ended.
            let _ = pipe.write_all(piece.as_bytes());
        }
    }
    let output = child.wait_with_output().map_err(said(line))?;
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(path).map_err(said("files"))?.flatten() {
        let data = fs::read(entry.path()).map_err(said("a file"))?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), data);
    }
    Ok(left(&output, files))
}

fn left(output: &Output, files: BTreeMap<String, Vec<u8>>) -> Left {
    let status = output.status.code().or_else(|| output.status.signal().map(|s| 128 + s));
    Left {
        status: status.unwrap_or(-1),
        said: masked(&text(&output.stderr)),
        stdout: output.stdout.clone(),
        files,
    }
}

/// Without times and rates: `copied, # s, # B/s`. All other figures have to be equal.
fn masked(text: &str) -> String {
    let line = |line: &str| match line.split_once(" copied, ") {
        Some((before, after)) if after.ends_with("B/s") => format!("{before} copied, # s, # B/s\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

pub(crate) fn files() -> Result<(), String> {
    for line in LINES {
        alike(line, &[])?;
    }
    for line in PIPED {
        alike(line, &PIECES)?;
    }
    let (files, piped) = (LINES.len(), PIPED.len());
    writeln!(io::stdout(), "dd: {files} lines on files and {piped} on pipes are alike")
        .map_err(said("stdout"))
}

fn alike(line: &str, pieces: &[&str]) -> Result<(), String> {
    let (own, original) = (run(Dd::Ours, line, pieces)?, run(Dd::Theirs, line, pieces)?);
    ensure(own == original, || {
        let differs = own.files != original.files || own.stdout != original.stdout;
        let (a, b) = (&own.said, &original.said);
        format!(
            "dd {line}: {} and {}, data differ: {differs}\nours:\n{a}theirs:\n{b}",
            own.status, original.status
        )
    })
}

/// The last line of the original, and ours of the same bytes and seconds.
/// Half of the sixth digit, by the number that it belongs to, at most.
const SIXTH_DIGIT: f64 = 5e-6;

pub(crate) fn rounding() -> Result<(), String> {
    for power in 0..9 {
        for digits in ["1", "999499", "9995", "99949999", "995", "9949999", "125", "1485", "265"] {
            let bytes: u64 = digits.parse().map_err(said(digits))?;
            let bytes = bytes * 10_u64.pow(power);
            if bytes > LARGEST {
                continue;
            }
            let line = format!("if=/dev/zero of=/dev/null bs=1M count={bytes}B");
            let theirs = text(&output(&mut Dd::Theirs.command(&line))?.stderr);
            let last = theirs.lines().last().unwrap_or_default();
            // The rate is of the whole time, of which six digits are printed.
            let seconds = seconds(last)?;
            let times = [1.0, 1.0 - SIXTH_DIGIT, 1.0 + SIXTH_DIGIT].map(|by| seconds * by);
            let rates = times.map(|seconds| rate(&transfer(bytes, seconds)).to_owned());
            ensure(rates.contains(&rate(last).to_owned()), || format!("{rates:?}: {last}"))?;
            let own = transfer(bytes, seconds);
            equal(own.trim_end_matches(&rates[0]), last.trim_end_matches(rate(last)))?;
        }
    }
    Ok(())
}

/// What stands behind the last comma.
fn rate(line: &str) -> &str {
    line.rsplit(", ").next().unwrap_or_default()
}

/// From the last line.
fn seconds(line: &str) -> Result<f64, String> {
    let after = line.split_once("copied, ").and_then(|(_, rest)| rest.split(' ').next());
    after.and_then(|word| word.parse().ok()).ok_or_else(|| line.to_owned())
}

pub(crate) fn wrong() -> Result<(), String> {
    for (line, nearest) in WRONG {
        let (own, original) = (run(Dd::Ours, line, &[])?, run(Dd::Theirs, line, &[])?);
        equal(own.said.lines().next(), original.said.lines().next())?;
        ensure(own.status == original.status && own.said.contains(nearest), || own.said.clone())?;
    }
    for (line, nearest) in [
        ("cbs=80", "operand 'cbs' is not supported here; nearest: bs, ibs and obs"),
        ("conv=swab", "conversion 'swab' is not supported here; nearest: "),
        ("oflag=nocache", "output flag 'nocache' is not supported here; nearest: direct"),
    ] {
        let own = run(Dd::Ours, line, &[])?;
        ensure(own.status == 1 && own.said.contains(nearest), || own.said.clone())?;
    }
    Ok(())
}

pub(crate) fn signals() -> Result<(), String> {
    for line in ["if=/dev/zero of=/dev/null bs=64k", "of=/dev/null"] {
        let both = [Dd::Ours, Dd::Theirs].map(|dd| signalled(dd, line));
        let [own, original] = both;
        equal(own?, original?)?;
    }
    // A reader that goes away ends it as a signal does.
    let mut ends = Vec::new();
    for dd in [Dd::Ours, Dd::Theirs] {
        let mut child = spawned(&mut dd.command("if=/dev/zero bs=64k"))?;
        drop(child.stdout.take());
        let output = child.wait_with_output().map_err(said("dd"))?;
        ends.push((output.status.signal(), text(&output.stderr)));
    }
    equal(ends.pop(), ends.pop())
}

fn spawned(command: &mut Command) -> Result<Child, String> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(said("dd"))
}

/// What it says of SIGUSR1 and SIGINT, without figures, and the signal that ended it.
fn signalled(dd: Dd, line: &str) -> Result<(Option<i32>, String), String> {
    let mut child = spawned(dd.command(line).stdin(Stdio::piped()))?;
    let stdin = child.stdin.take();
    for signal in [Signal::USR1, Signal::INT] {
        thread::sleep(Duration::from_millis(400));
        kill_process(Pid::from_child(&child), signal).map_err(said("kill"))?;
    }
    let output = child.wait_with_output().map_err(said("dd"))?;
    drop(stdin);
    let said = text(&output.stderr);
    let no_figures = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let end = words.iter().position(|word| word.starts_with('(')).unwrap_or(words.len());
        words[..end].join(" ").replace(|c: char| c.is_ascii_digit(), "")
    };
    let lines: Vec<String> = masked(&said).lines().map(no_figures).collect();
    Ok((output.status.signal(), lines.join("\n")))
}

pub(crate) fn links() -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(said("a directory"))?;
    let path = directory.path();
    for name in ["dd", "iostat", "compat", "vmstat"] {
        symlink(FLOODWALL, path.join(name)).map_err(said(name))?;
    }
    fs::write(path.join("a"), bytes(1000)).map_err(said("a"))?;
    // In the only directory of PATH: whatever would start `dd` again would find the link.
    let run = |name: &str, line: &str| {
        let mut command = Command::new(path.join(name));
        command.args(line.split_whitespace()).current_dir(path).env("PATH", path);
        output(command.env("LC_ALL", "C"))
    };
    let copied = run("dd", "if=a of=b bs=1000")?;
    ensure(
        text(&copied.stderr).starts_with("1+0 records in\n1+0 records out\n1000 bytes"),
        || everything(&copied),
    )?;
    ensure(same(&path.join("a"), &path.join("b")), "the copy differs")?;
    for (tool, word, version) in
        [("dd", "--version", "dd (coreutils) 9.1\n"), ("iostat", "-V", "sysstat version 12.6.1\n")]
    {
        equal(text(&run(tool, word)?.stdout), version.to_owned())?;
    }
    let iostat = run("iostat", "-c")?;
    ensure(text(&iostat.stdout).contains("avg-cpu"), || everything(&iostat))?;
    for (name, line, wanted) in [
        ("dd", "dd if=a", "dd: unrecognized operand 'dd'"),
        ("dd", "compat dd if=a", "dd: unrecognized operand 'compat'"),
        ("iostat", "-h", "option '-h' is not supported here"),
        ("vmstat", "1", "there is no command '1'"),
    ] {
        let output = run(name, line)?;
        ensure(text(&output.stderr).contains(wanted), || everything(&output))?;
    }
    // No tool has this name.
    let plain = run("compat", "--version")?;
    ensure(text(&plain.stdout).starts_with("floodwall "), || everything(&plain))
}

fn same(one: &Path, other: &Path) -> bool {
    fs::read(one).ok() == fs::read(other).ok()
}
