//! Children of a test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::{ensure, said};

/// A child. It is killed at the latest when dropped.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// Starts this binary, and waits until it says a line.
    pub(crate) fn start(arguments: &[&str], line: &str) -> Result<Self, String> {
        let child = Command::new(std::env::current_exe().map_err(said("this binary"))?)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(said(arguments[0]))?;
        let mut process = Self(child);
        let stdout = process.0.stdout.take().ok_or("no stdout")?;
        let mut told = String::new();
        BufReader::new(stdout).read_line(&mut told).map_err(said(arguments[0]))?;
        ensure(told == line, || format!("{} says {told:?}", arguments[0]))?;
        Ok(process)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
