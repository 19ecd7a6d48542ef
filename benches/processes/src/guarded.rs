//! `floodwall guard` on one device while something is measured.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::child::{end, said, tied, until};

/// The time until the guard answers, and until it has put everything back. It waits for a slow
/// queue to run dry for 45 s, and then the guard's parent tries for a minute.
const PATIENCE: Duration = Duration::from_secs(120);

/// A guard that runs; ended when dropped.
pub struct Guarded {
    program: PathBuf,
    guard: Option<Child>,
    socket: PathBuf,
}

impl Guarded {
    /// Starts one and waits until it answers. `log`: where its decisions go.
    ///
    /// # Errors
    /// A guard that can't be started or does not answer.
    pub fn start(program: &Path, device: &Path, log: &Path) -> anyhow::Result<Self> {
        let socket =
            std::env::temp_dir().join(format!("floodwall-guard-{}.sock", std::process::id()));
        let mut guard = tied("TERM", program);
        guard.arg("guard").arg("--device").arg(device).arg("--socket").arg(&socket);
        guard
            .stdout(Stdio::null())
            .stderr(File::create(log).context("can't make the guard's log")?);
        let child = guard.spawn().context("can't start the guard")?;
        let mut guarded = Self { program: program.to_owned(), guard: Some(child), socket };
        let mut status = guarded.ask("status");
        status.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(child) = &mut guarded.guard {
            until(child, "the guard", PATIENCE, || status.status().is_ok_and(|s| s.success()))
                .with_context(|| format!("'{}' says why", log.display()))?;
        }
        Ok(guarded)
    }

    /// What `floodwall guard WHAT --json` says.
    ///
    /// # Errors
    /// A guard that does not answer.
    pub fn says(&self, what: &str) -> anyhow::Result<String> {
        said(self.ask(what).stdin(Stdio::null()))
    }

    fn ask(&self, what: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["guard", what, "--json", "--socket"]).arg(&self.socket);
        command
    }

    /// Ends it; everything is put back then.
    ///
    /// # Errors
    /// A guard that does not end well.
    pub fn end(&mut self) -> anyhow::Result<()> {
        let Some(mut guard) = self.guard.take() else { return Ok(()) };
        let ended = end(&mut guard, "TERM", PATIENCE);
        let _ = std::fs::remove_file(&self.socket);
        let status = ended?;
        if !status.success() {
            bail!("the guard ended with {status}: floodwall guard restore puts back what it left");
        }
        Ok(())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("{error:#}");
        }
    }
}
