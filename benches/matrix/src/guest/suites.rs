//! The crates' own tests for real kernels, in this guest.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::line::Line;
use crate::said::{Outcome, Said};

/// A file that the tests write to, since Linux 6.2.
pub(crate) const FINE: &str = "/sys/block/vda/bdi/max_ratio_fine";

/// Runs a test binary, and stops it after so many seconds.
pub(crate) fn run(line: &Line, name: &str, args: &[&str], seconds: u64) -> anyhow::Result<Outcome> {
    let mut command = Command::new(format!("/tests/{name}"));
    command.args(args).args(["--color", "never"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("can't start the tests of {name}"))?;
    let output = BufReader::new(child.stdout.take().context("no stdout")?);
    let (tell, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)).ok();
    });
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut seen = Seen::default();
    loop {
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(text) => {
                if let Some(test) = seen.take(&text) {
                    line.say(&Said::Begun(format!("{name}: {test}")));
                }
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                let _ = child.wait();
                bail!("it did not end within {seconds} s; {}", seen.summary());
            }
        }
    }
    let status = child.wait()?;
    if !status.success() || !seen.failed.is_empty() {
        bail!("{status}; {}; {}", seen.summary(), seen.details.join(" "));
    }
    if seen.passed == 0 {
        return Ok(Outcome::LeftOut(seen.summary()));
    }
    Ok(Outcome::Passed(seen.summary()))
}

/// What a test binary printed.
#[derive(Default)]
struct Seen {
    passed: usize,
    failed: Vec<String>,
    left_out: Vec<String>,
    /// What the failed tests said.
    details: Vec<String>,
    in_details: bool,
}

impl Seen {
    /// Takes a line; the test's result if it is one.
    fn take(&mut self, text: &str) -> Option<String> {
        let result = text.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
        match result {
            Some((test, "ok")) => {
                self.passed += 1;
                Some(format!("{} ok", test.trim()))
            }
            Some((test, outcome)) if outcome.starts_with("ignored") => {
                let why = outcome.trim_start_matches("ignored").trim_matches([' ', ',', '(', ')']);
                self.left_out.push(format!("{} ({why})", test.trim()));
                Some(format!("{} left out", test.trim()))
            }
            Some((test, _)) => {
                self.failed.push(test.trim().to_owned());
                Some(format!("{} FAILED", test.trim()))
            }
            None => {
                self.in_details = match text.trim() {
                    "failures:" => !self.in_details,
                    _ => self.in_details && !text.starts_with("test result:"),
                };
                if self.in_details && !text.trim().is_empty() && text.trim() != "failures:" {
                    self.details.push(text.trim().to_owned());
                }
                None
            }
        }
    }

    fn summary(&self) -> String {
        let mut parts = vec![format!("{} tests passed", self.passed)];
        if !self.failed.is_empty() {
            parts.push(format!("{} failed: {}", self.failed.len(), self.failed.join(", ")));
        }
        if !self.left_out.is_empty() {
            parts.push(format!("{} left out: {}", self.left_out.len(), self.left_out.join(", ")));
        }
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_both_harnesses_are_counted_and_failures_keep_their_words() {
        let mut seen = Seen::default();
        let printed = "running 4 tests\ntest a ... ok\ntest b ... ignored (needs root)\n\
            test c   ... FAILED\ntest d ... ignored, needs fio\n\nfailures:\n\n---- c ----\n\
            nr_requests is 8\n\nfailures:\n    c\n\n\
            test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out\n";
        let results: Vec<String> = printed.lines().filter_map(|line| seen.take(line)).collect();
        assert_eq!(results, ["a ok", "b left out", "c FAILED", "d left out"]);
        assert_eq!(
            seen.summary(),
            "1 tests passed; 1 failed: c; 2 left out: b (needs root), d (needs fio)"
        );
        assert_eq!(seen.details, ["---- c ----", "nr_requests is 8"]);
    }
}
